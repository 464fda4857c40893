"""Programs of apps/ print in the simulator what they printed under a real Open MPI, failures and all."""

import pytest

from tests.apps.helpers import simulated
from tests.apps.real import EXPECTED, RUNS, RealRun, lines_of
from tests.campaign import CAMPAIGN

# The last run of each program, with failures; in a campaign all.
SHOWN = RUNS if CAMPAIGN else list({run.app: run for run in RUNS}.values())


@pytest.mark.parametrize("run", SHOWN, ids=str)
def test_it_prints_what_the_real_one_printed(run: RealRun):
    printed = simulated(f"{run.app}.py", *run.args, ranks=run.ranks, ft=True)
    assert lines_of([printed.out]) == run.record.read_text(encoding="utf-8").splitlines()


def test_every_record_belongs_to_a_run():
    assert {path.stem for path in EXPECTED.iterdir()} == {str(run) for run in RUNS}
