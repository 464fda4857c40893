"""Errors that are not those of failures, but have the class that Open MPI gives to some of these."""

from pathlib import Path

import pytest

from tests.apps.helpers import APPS, simulated

PROGRAM = """
import sys
import recovery
from mpi4py import MPI

tries = 0

def work(comm):
    global tries
    tries += 1
    comm.Barrier()
    if comm.rank == 1 and tries <= {errors}:
        raise MPI.Exception(MPI.ERR_OTHER)
    return comm.allgather(tries)

def restore(comm):
    return comm.Barrier()

found, comm = {call}
recovery.conclude(comm, [f"tries {{found}}"], True)
"""
CALLS = [
    "recovery.until_agreed(recovery.joined(), work)",
    "recovery.until_agreed(recovery.joined(), work, recovery.shrink)",
    "recovery.roll_back_until_agreed(recovery.joined(), work, restore)",
]


@pytest.fixture
def program(tmp_path: Path, call: str, errors: int) -> Path:
    (tmp_path / "recovery.py").write_bytes((APPS / "recovery.py").read_bytes())
    made = tmp_path / "program.py"
    made.write_text(PROGRAM.format(call=call, errors=errors), encoding="utf-8")
    return made


@pytest.mark.parametrize("errors", [99])
@pytest.mark.parametrize("call", CALLS)
def test_an_error_that_lasts_ends_the_job_and_is_told(program: Path):
    run = simulated(program, ranks=4, ft=True)
    said = "program.py: 3 attempts failed without a process failure: MPI_ERR_OTHER"
    assert (run.err.startswith(said), run.status, run.out) == (True, 1, "")


@pytest.mark.parametrize("errors", [2])
@pytest.mark.parametrize("call", CALLS)
def test_one_that_passes_is_forgiven(program: Path):
    assert simulated(program, ranks=4, ft=True).out == "tries [3, 3, 3, 3]\nright: True\n"


@pytest.mark.parametrize("errors", [4])
@pytest.mark.parametrize("call", CALLS[1:2])
def test_deaths_explain_it(program: Path):
    """A rank dies in the third attempt."""
    run = simulated(program, ranks=4, ft=True, fail=["rank=3 before its 3rd Barrier"])
    assert run.out == "tries [5, 5, 5]\nright: True\n"
