"""Programs in the process of the simulator: the same digest as in processes of their own, and what they refuse."""

import io
import subprocess
from pathlib import Path

import pytest

from xsim_py import simulate
from xsim_py.cli import main
from xsim_py.cli.cc import command_line
from xsim_py.report import Result

PROGRAMS = Path(__file__).parent / "programs"


def compiled(source: Path, folder: Path, *words: str) -> Path:
    """Compile a program, and return it."""
    program = folder / source.stem
    language = "c++" if source.suffix == ".cpp" else "cc"
    subprocess.run(command_line(language, ["-g", "-w", *words, str(source), "-o", str(program)]), check=True)
    return program


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return a program for a separate process, and one for that of the simulator, of the same name."""
    source = PROGRAMS / "more" / "private.cpp"
    made = [tmp_path_factory.mktemp("process"), tmp_path_factory.mktemp("fast")]
    return [compiled(source, folder, *words) for folder, words in zip(made, ([], ["--fast"]), strict=True)]


def simulated(program: Path, **settings: object) -> tuple[Result, list[str]]:
    output = io.StringIO()
    result = simulate(program, **{"ranks": 3, "stdout": output, "stderr": output, **settings})  # type: ignore[arg-type]
    return result, output.getvalue().splitlines()


def compare(one: Path, other: Path, **settings: object) -> Result:
    """Assert that the runs of two programs are equal, and return the result of the first."""
    (result, lines), (second, lines_of_second) = (simulated(program, **settings) for program in (one, other))
    assert lines == lines_of_second
    assert (result.digest, result.ended) == (second.digest, second.ended), f"{result.report}\n{second.report}"
    assert str(result.tables["ranks"]) == str(second.tables["ranks"])
    return result


IN_PROCESSES = {"sockets", "stored"}
"""Programs that wait for sockets, or use the simulated storage."""


@pytest.mark.parametrize("name", sorted({path.stem for path in PROGRAMS.glob("*.py")} - IN_PROCESSES))
def test_a_program_and_its_twin_in_python_have_one_digest(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    program = compiled(PROGRAMS / f"{name}.c", tmp_path, "--fast")
    for shards in (1, 3):
        result = compare(program, PROGRAMS / f"{name}.py", ranks=7, shards=shards, ft=name == "ulfm" or None)
        assert result.ended == "finished", result.report


@pytest.mark.parametrize("how", ["", "assert", "throw", "crash", "overflow", "exit", "_exit", "kill"])
def test_each_rank_has_the_state_of_a_process(state: list[Path], how: str):
    result = compare(*state, args=["-ab", "5", *([how] if how else [])])
    assert result.ended == ("aborted" if how else "finished")


REFUSED = {
    "threads": "#include <pthread.h>\nint main() { return pthread_create(0, 0, 0, 0); }",
    "other processes": "#include <unistd.h>\nint main() { return fork(); }",
    "signal handlers": "#include <signal.h>\nint main() { signal(2, SIG_IGN); }",
    "the current directory": '#include <unistd.h>\nint main() { return chdir("."); }',
    "redirection of standard streams": "#include <unistd.h>\nint main() { return dup2(1, 2); }",
    "sockets": "#include <sys/socket.h>\nint main() { return socket(AF_UNIX, SOCK_STREAM, 0); }",
    "dynamic loading": "#include <dlfcn.h>\nint main() { return !dlopen(0, 1); }",
    "the variable __fpu_control": "#include <fpu_control.h>\nint main() { return __fpu_control; }",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_needs_a_process_is_refused(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    Path("a.c").write_text(REFUSED[reason])
    compiled(Path("a.c"), tmp_path, "--fast")
    assert main(["run", "-n", "1", "./a"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("xsim: ./a: uses ")
    assert reason in said
    assert said.endswith(": compile it without --fast\n")
