"""Programs of collectives that know nothing of failures, in which anybody may die at any time."""

from hypothesis import given, settings

from tests.mpi.ftco.programs import Scenario, check, run, scenarios

CAMPAIGN = settings().max_examples > 1000
EXAMPLES = 100_000 if CAMPAIGN else 250


@settings(max_examples=EXAMPLES)
@given(scenarios())
def test_all_who_live_get_through_with_one_result(scenario: Scenario) -> None:
    check(scenario, run(scenario))


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
