"""Executables as programs: on the command line, next to Python programs, refused, and gone after their end."""

import ctypes
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.compiled import test_system
from xsim_py import simulate
from xsim_py.cli import main
from xsim_py.cli.cc import command_line
from xsim_py.compiled import page
from xsim_py.compiled.build import SOURCES as LIBRARY
from xsim_py.report import Result

OUTSIDE = """
#include <mpi.h>
#include <stdio.h>
int main(void) {
  FILE *file = fopen("conftest.out", "w");
  int begun = 1, ended = 1;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return begun || ended || !file || fclose(file);
}
"""
SOURCES = [
    *test_system.SOURCES,
    *(test_system.SOURCES[0].parents[1] / name for name in ("stored.c", "computes.c", "meet.c")),
]


def simulated(program: object, *args: str, **settings: object) -> tuple[Result, list[str]]:
    output = io.StringIO()
    result = simulate(program, **{"ranks": 2, "args": args, "stdout": output, "stderr": output, **settings})  # type: ignore[arg-type]
    return result, output.getvalue().splitlines()


def test_executables_run_beside_python(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "twin.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD.barrier()\nprint('Python')\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input").write_text("first\nsecond\n")
    line = [sys.executable, "-m", "xsim_py", "mpiexec", "-n", "2", "-wdir", "sub", "-env", "GIVEN", "a", built / "ends"]
    with open("input") as words:
        done = subprocess.run(
            [*line, "read", ":", "twin.py", ":", built / "ends"],
            stdin=words,
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout.splitlines() == [
        "0 of 4 in sub, a, first",
        "1 of 4 in sub, a, nothing",
        f"3 of 4 in {tmp_path.name}, (null), nothing",
        "Python",
    ]


def test_executables_start_outside_a_simulation_as_configure_scripts_need(built: Path, tmp_path: Path):
    source = tmp_path / "conftest.c"
    source.write_text(OUTSIDE)
    subprocess.run(command_line("cc", [str(source), "-o", str(tmp_path / "conftest")]), check=True)
    subprocess.run([tmp_path / "conftest"], cwd=tmp_path, check=True)
    assert (tmp_path / "conftest.out").exists()
    done = subprocess.run([built / "ends"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "this program calls MPI: run it with xsim run -n N PROGRAM\n")


def test_isolation_and_shards_change_nothing(built: Path):
    plain = simulated(built / "ends")
    for settings in ({"isolation": "process"}, {"isolation": "process:2"}, {"shards": 2}):
        other = simulated(built / "ends", **settings)
        assert (other[0].digest, other[1]) == (plain[0].digest, plain[1])


def test_programs_in_different_shards_compute_at_the_same_time(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    result, lines = simulated(built / "meet", shards=2)
    assert (result.ended, lines) == ("finished", ["met"])


def test_ranks_that_continue_in_one_event_compute_in_their_order(built: Path):
    spawned = [simulated(built / "computes", "spawn", shards=shards) for shards in (1, 2)]
    machine = {
        "machine": {"nodes": 2, "cores_per_node": 1, "oversubscribe": True},
        "network": {"latency": "1us", "bandwidth": "25Gbps"},
        "compute": {"flops": 1e10},
    }
    sharing = [simulated(built / "computes", ranks=4, machine=machine, shards=shards) for shards in (1, 2)]
    for plain, other in (spawned, sharing):
        assert (other[0].ended, other[0].digest, other[1]) == ("finished", plain[0].digest, plain[1])


def test_python_spawns_executables(built: Path, tmp_path: Path):
    program = tmp_path / "parent.py"
    program.write_text(
        f"from mpi4py import MPI\nprint(MPI.COMM_SELF.Spawn({str(built / 'ends')!r}, maxprocs=2).remote_size)\n"
    )
    _, lines = simulated(program, ranks=1)
    assert sorted(line.partition(" in")[0] for line in lines) == ["0 of 2", "1 of 2", "2"]


def test_interpreters_are_executables_where_that_is_asked_for(tmp_path: Path):
    program = tmp_path / "parent.py"
    program.write_text(
        "import sys\nfrom mpi4py import MPI\n"
        "code = 'import ctypes, sys; mpi = ctypes.CDLL(None)\\n'\n"
        "code += 'mpi.MPI_Init(None, None); print(len(sys.argv)); mpi.MPI_Finalize()'\n"
        "words = ['-c', code, 'word']\n"
        "MPI.COMM_SELF.Spawn(sys.executable, words, 2, MPI.Info.Create({'xsim_executable': 'true'}))\n"
    )
    result, lines = simulated(program, ranks=1)
    assert (result.ended, lines) == ("finished", ["2", "2"])


def test_a_failure_leaves_the_bytes_that_a_file_has_received(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    storage = {"storage.latency": "1ms", "storage.bandwidth": "1GB/s"}
    result, _ = simulated(built / "stored", set=storage, fail=["rank=1@2.5ms"], ft=False)
    assert result.ended == "aborted"
    assert 'in descriptors: say("wrote", write(file, data, SIZE));' in result.report
    assert [Path(f"state.{rank}").stat().st_size for rank in range(2)] == [1_000_000, 500_000]


# ------------------------------------------------------------------------------------------------------------- refusals


def test_what_cannot_run_is_refused_with_a_remedy(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    for name in ("unmarked", "foreign"):
        shutil.copy(built / "ends", name)
    os.chmod("unmarked", 0o644)
    head = bytearray((built / "ends").read_bytes())
    head[18] ^= 0x55  # e_machine
    Path("foreign").write_bytes(head)
    Path("plain.c").write_text("int main(void) { return 0; }")
    Path("empty.c").write_text("")
    for words in (
        ["-c", "plain.c"],
        ["-static", "plain.c", "-o", "static"],
        ["-shared", "-Wl,-soname,libmpi.so.12", "empty.c", "-o", "libmpi.so.12"],
        ["-Wl,--no-as-needed", "plain.c", "-L.", "-l:libmpi.so.12", "-o", "old"],
    ):
        subprocess.run(["cc", *words], check=True)
    for name, reason in {
        "unmarked": "permission denied (chmod +x)",
        "foreign": "another kind of processor",
        "plain.o": "not an executable but another ELF file",
        "static": "statically linked: link it dynamically",
        "old": "uses libmpi.so.12, the own interface of one MPI library: compile it for the standard ABI",
    }.items():
        assert main(["run", "-n", "1", name]) == 2
        assert f"xsim: {name}: " in (said := capsys.readouterr().err)
        assert reason in said


@pytest.mark.parametrize("language", ["cc", "c++", "fc"])
def test_compilers(language: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    variable = {"cc": "CC", "c++": "CXX", "fc": "FC"}[language]
    monkeypatch.setenv(variable, "true -O")  # any command
    assert main([language, "-c", "a.c", "--show"]) == 0
    words = capsys.readouterr().out.split()
    assert words[:2] == ["true", "-O"]
    assert all(word.startswith("-I") for word in words[2:-2])
    assert words[-2:] == ["-c", "a.c"]
    monkeypatch.setenv(variable, "no-such-compiler")
    assert main([language, "a.c"]) == 2
    assert f"no-such-compiler (from the variable {variable})" in capsys.readouterr().err
    if language == "cc":
        monkeypatch.setenv(variable, "xsim cc")  # as make CC="xsim cc" does
        assert command_line("cc", ["a.c"])[0] in ("cc", "gcc", "clang")


# -------------------------------------------------------------------------------------------------------- after the end


def _held() -> tuple[set[str], int]:
    """Return the descriptors of this process with their files, and the number of shared pages."""
    places = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    open_files = {f"{place.name} {place.readlink()}" for place in places if place.is_symlink()}
    with open("/proc/self/maps") as lines:
        return open_files, sum("memfd:xsim" in line for line in lines)


def _processes(of: Path) -> list[str]:
    """Return the processes that execute a file."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/exe") == str(of):
                found.append(name)
        except OSError:
            continue
    return found


def test_nothing_is_left_after_a_run(built: Path):
    simulated(built / "ends")
    before = _held()
    for how, status in {"": 0, "abort": 134, "exit": 5, "recv": 3, "loop": 4}.items():
        result, _ = simulated(built / "ends", how, wall_limit=2)
        assert (result.exit_status, _held(), _processes(built / "ends")) == (status, before, []), how
    result, _ = simulated(built / "ends", fail="rank=1@0s", ft=False)
    assert (result.ended, _held(), _processes(built / "ends")) == ("aborted", before, [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_after_the_end_of_the_simulator(built: Path, number: int):
    line = [sys.executable, "-m", "xsim_py", "run", "-n", "2", "--quiet", built / "ends", "loop"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        assert run.stdout is not None
        while len(_processes(built / "ends")) < 2:
            time.sleep(0.05)
        time.sleep(0.2)
        run.send_signal(number)
        run.wait()
        until_s = time.monotonic() + 20
        while _processes(built / "ends"):
            assert time.monotonic() < until_s
            time.sleep(0.05)


def test_the_page_has_the_layout_of_its_description_in_c(tmp_path: Path):
    lines = [
        f'_Static_assert(offsetof(struct xsim_page, {name}) == {page.offset(name)}, "{name}");'
        for name, _ in page.Page._fields_
    ]
    sizes = {"struct xsim_page": ctypes.sizeof(page.Page), "struct xsim_queued": page.QUEUED.size}
    lines += [f'_Static_assert(sizeof({name}) == {size}, "{name}");' for name, size in sizes.items()]
    source = tmp_path / "layout.c"
    source.write_text("\n".join(["#include <stddef.h>", f'#include "{LIBRARY / "page.h"}"', *lines]))
    subprocess.run(command_line("cc", ["-c", str(source), "-o", os.devnull]), check=True)
