"""Recorded programs do what they did under a real MPI, on machines that have little in common."""

import json

import pytest

from tests.fuzz.real import RealMPI
from tests.fuzz.recorded import Recorded, recorded
from tests.fuzz.simulated import MACHINES, simulated
from tests.real_mpi import MPIEXEC

RECORDED = recorded()


@pytest.mark.sampled
@pytest.mark.parametrize("program", RECORDED, ids=str)
def test_the_simulation_logs_what_the_real_mpi_logged(program: Recorded) -> None:
    for number, machine in enumerate(sorted(MACHINES)):
        logs = simulated(program.ranks, program.steps, machine, 1 + number % 2)
        assert json.loads(json.dumps(logs)) == program.logs, machine


def test_there_are_enough_of_them_to_see_most_steps() -> None:
    from tests.fuzz.steps import STEPS

    assert len({step["do"] for program in RECORDED for step in program.steps}) > 0.8 * len(STEPS)


if MPIEXEC.exists():  # without a real MPI the records must do

    def test_the_real_mpi_still_logs_what_is_recorded() -> None:
        with RealMPI() as real:
            logs = {str(program): real.walk(program.ranks, program.steps) for program in RECORDED}
        assert {str(program) for program in RECORDED if logs[str(program)] != program.logs} == set()
