"""A program gives the same values under a real MPI and under xsim."""

import os

import pytest

from tests.cases import EXPECTED, Case, Outcome, all_cases, largest_cases
from tests.real_mpi import MPIEXEC, run_real
from tests.simulated import run_simulated

CASES = all_cases()
# The real MPI, whose version is pinned, runs each program on as many ranks as it can have, and in a campaign on all.
CHECKED = CASES if os.environ.get("HYPOTHESIS_PROFILE") == "campaign" else largest_cases(CASES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_simulation_gives_what_the_real_mpi_gave(case: Case):
    outcome, _ = run_simulated(case)
    assert outcome == Outcome.recorded(case)


def test_every_record_belongs_to_a_program():
    assert {path.stem for path in EXPECTED.iterdir()} == {str(case) for case in CASES}


def test_there_are_as_many_programs_as_promised():
    assert len({case.path for case in CASES}) >= 40


if MPIEXEC.exists():  # without a real MPI the records must do

    def test_the_real_mpi_still_gives_what_is_recorded():
        differing = {
            str(case): (outcome, Outcome.recorded(case))
            for case, outcome in run_real(CHECKED).items()
            if outcome != Outcome.recorded(case)
        }
        assert differing == {}
