"""What a command does when a real launcher has started several of it together; the environment says so."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.real_mpi import MPIEXEC, mpiexec
from xsim_py.cli import main

RANKS = {"MPICH": "PMI_RANK", "Open MPI": "OMPI_COMM_WORLD_RANK", "srun --mpi=pmix": "PMIX_RANK"}
SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS")
FUTURES = "mpiexec -n N python -m mpi4py.futures -m xsim_py study ..., or "
LINES = (
    "study x.yaml",
    "study",
    "compare --machines gige -n 2 x.py",
    "compare-recovery -n 8",
    "ftco --nodes 8",
    "failures -n 8",
    "models",
)


@pytest.fixture(autouse=True)
def _started_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*RANKS.values(), *SIZES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "mpi4py.futures", raising=False)


@pytest.mark.parametrize("variable", RANKS.values(), ids=list(RANKS))
def test_the_first_process_says_what_is_wrong_and_the_others_are_silent(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for rank in range(3):
        monkeypatch.setenv(variable, str(rank))
        assert main(["run", "-n", "0", "x.py"]) == 2
        said.append(capsys.readouterr().err)
    assert "0 is out of range (at least 1)" in said[0]
    assert said[1:] == ["", ""]


def refusal(command: str, before: str = "") -> str:
    said = f"xsim: {command}: cannot run under mpiexec, it starts processes itself; type "
    return f"{said}{before}xsim {command} ... without mpiexec\n"


@pytest.mark.parametrize("line", LINES)
def test_a_command_that_is_not_spread_says_what_to_type(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PMI_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("PMI_RANK", str(rank))
        assert main(line.split()) == 2
    command = line.split()[0]
    assert capsys.readouterr() == ("", refusal(command, FUTURES if command == "study" else ""))


def test_a_study_is_spread_over_futures_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py.futures", ModuleType("mpi4py.futures"))
    assert main(["study"]) == 0
    assert main(["compare-recovery", "-n", "8"]) == 2
    assert "without mpiexec" in capsys.readouterr().err


def test_one_process_of_a_launcher_may_do_anything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PMI_SIZE", "1")
    assert main(["models"]) == 0
    assert "gige" in capsys.readouterr().out


if MPIEXEC.exists():

    def test_two_real_processes_of_a_launcher_say_it_once(tmp_path: Path) -> None:
        done = mpiexec(2, "-m", "xsim_py", "compare-recovery", "-n", "8", "--out", tmp_path / "made")
        assert (done.returncode, done.stdout, done.stderr) == (2, "", refusal("compare-recovery"))
        assert not (tmp_path / "made").exists()
