"""Programs of collectives that know nothing of failures, in which anybody may die at any time."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.campaign import CAMPAIGN
from tests.mpi.ftco.programs import Scenario, check, run, scenarios

EXAMPLES = 250 if CAMPAIGN else 30
PARTS, CASES = (25, 4000) if CAMPAIGN else (1, 4)


@settings(max_examples=EXAMPLES)
@given(scenarios())
def test_all_who_live_get_through_with_one_result(scenario: Scenario) -> None:
    check(scenario, run(scenario))


@pytest.mark.parametrize("part", range(PARTS))
def test_they_do_so_in_many_more_cases(part: int) -> None:
    command = [sys.executable, "-m", "tests.mpi.ftco.campaign", str(part), str(CASES)]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@settings(max_examples=EXAMPLES // 10)
@given(scenarios(most=24))
def test_shards_change_nothing(scenario: Scenario) -> None:
    whole = run(scenario)
    for shards in (2, 3):
        parts = run(scenario, shards=shards)
        assert parts.values == whole.values
        assert (parts.ended, parts.report) == (whole.ended, whole.report)
        assert (parts.digest, parts.events, parts.messages) == (whole.digest, whole.events, whole.messages)
        assert parts.tables["learned"].columns == whole.tables["learned"].columns
