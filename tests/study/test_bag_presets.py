"""The studies of a bag of tasks and of the propagation of failures, on few ranks."""

import pytest

from tests.campaign import CAMPAIGN
from tests.study.test_presets import by, results_of

pytestmark = pytest.mark.usefixtures("in_this_process")


def test_workers_share_the_tasks_of_the_dead(tmp_path):
    """A tenth of the workers dies in the second of four rounds of 10 ms, and a fifth does what they have not done."""
    hundreds = [1, 2] if CAMPAIGN else [1]
    results = results_of("bag-of-tasks", tmp_path, only=[f"ranks<={hundreds[-1]}01"])
    none, tenth = (by(results, "all_us", dying=dying) for dying in ("no failure", "one in ten fails"))
    assert none == pytest.approx([40_000] * len(hundreds), rel=0.02)
    assert tenth == pytest.approx([50_000] * len(hundreds), rel=0.02)
    assert by(results, "again", dying="one in ten fails") == [10 * each for each in hundreds]


def test_all_know_after_the_rounds_of_the_broadcast(tmp_path):
    results = results_of("propagation", tmp_path, only=["ranks=8,16,32"])
    assert by(results, "woken_us", **{"mpi.ulfm.revoke": "reliable_broadcast"}) == [40, 40, 60]
    assert by(results, "woken_us", **{"mpi.ulfm.revoke": "direct"}) == [20, 20, 20]


def test_the_chance_of_no_loss_is_within_three_standard_errors_of_the_formula(tmp_path):
    repetitions = 50 if CAMPAIGN else 6
    results = results_of("falanx-loss", tmp_path, only=["dead=2"], repetitions=repetitions)
    for placement, chance in (("ring", 7 / 9), ("pairs", 8 / 9)):
        (kept,) = by(results, "kept", placement=placement)
        assert abs(kept - chance) < 3 * (chance * (1 - chance) / repetitions) ** 0.5
