"""Several programs in one job, each for some of the ranks."""

import io
import pickle
from pathlib import Path
from typing import Any

import pytest

from xsim_py import App, simulate
from xsim_py.errors import ConfigError
from xsim_py.process.programs.command_line import program_of

SAYS = "from mpi4py import MPI; c = MPI.COMM_WORLD; print(NAME, c.rank, c.Get_attr(MPI.APPNUM), c.allreduce(c.rank))"


def run(apps: list[App], ranks: int, **told: Any) -> tuple[list[str], str]:
    out = io.StringIO()
    result = simulate(apps, ranks=ranks, stdout=out, **told)
    assert result.exit_status == 0
    return sorted(out.getvalue().splitlines()), result.digest


def test_ranks_of_one_world_run_programs_of_their_own(tmp_path: Path):
    (tmp_path / "b.py").write_text(SAYS.replace("NAME", "*__import__('sys').argv[1:]"))
    apps = [App(SAYS.replace("NAME", "'a'"), 2, kind="code"), App(tmp_path / "b.py", 3, ["b"])]
    done = [run(apps, 5, shards=shards) for shards in (1, 3)]
    done.append(run(apps, 5, isolation="process:2"))
    assert done[0][0] == ["a 0 0 10", "a 1 0 10", "b 2 1 10", "b 3 1 10", "b 4 1 10"]
    assert done[1:] == done[:1] * 2


def test_each_has_its_folder_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    says = "import os; print(os.path.basename(os.getcwd()), os.environ.get('ONLY_HERE'))"
    inside = program_of("python", ["-c", says], start=str(tmp_path / "sub"))
    apps = [App(inside, 1, env={"ONLY_HERE": "1"}), App(says, 1, kind="code")]
    assert run(apps, 2)[0] == sorted(["sub 1", f"{tmp_path.name} None"])


def test_the_result_names_them_all_and_has_the_values_of_functions():
    result = simulate([App("pass", 1, kind="code"), App(lambda: 3, 1)], ranks=2)
    assert result.program.startswith("-c : ")
    assert result.values == [None, 3]


def test_another_interpreter_finds_the_same_program_again(tmp_path: Path):
    program = program_of("python", ["-O", "-c", "print(__debug__)", "x"], start=str(tmp_path))
    again = pickle.loads(pickle.dumps(program))
    assert (again.code, list(again.argv), again.flags) == (program.code, list(program.argv), program.flags)
    assert again.start == str(tmp_path)


def test_only_the_first_rank_has_the_program_on_standard_input(tmp_path: Path):
    program = program_of("python", ["-", "x"], start=str(tmp_path), stdin=b"import sys; print(sys.argv)")
    assert run([App(program, 3)], 3)[0] == ["['-', 'x']"]


@pytest.mark.parametrize(
    ("apps", "complaint"),
    [
        ([App("pass", 1, kind="code")], "ranks: the programs have 1, not 2"),
        ([App("pass", "1", kind="code")], "ranks: expected a positive integer for an App, got '1'"),
        ([App(5, 2)], "program: expected a path, a function or a list of App, got 5"),
        ([], r"program: expected a path, a function or a list of App, got \[\]"),
        (["a.py"], r"program: expected a path, a function or a list of App, got \['a\.py'\]"),
        ([App("gone.py", 2)], "gone.py: cannot read the program"),
    ],
)
def test_what_is_no_job_is_refused(apps: Any, complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        simulate(apps, ranks=2)
