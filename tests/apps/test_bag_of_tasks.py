"""A master that hands the tasks of the dead to others, and repairs nothing."""

import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.apps.helpers import APPS, simulated, spoilt
from tests.campaign import CAMPAIGN, dealt
from xsim_py import simulate

APP = "bag_of_tasks.py"
LAST = "bag_of_tasks: 96 tasks, pi 3.141592653598836\nright: True\n"
LATENCY_US, TASK_US = 20, 1000
LATENCY_ONLY = {"network.bandwidth": "unlimited"}


def numbers(out: str) -> tuple[int, int]:
    """Return how many workers died, and how many tasks reassigned."""
    dead, again = re.findall(r"^# (\d+) of \d+ workers died, (\d+) tasks", out, re.MULTILINE)[0]
    return int(dead), int(again)


def makespan_us(tasks: int, workers: int, **told: Any) -> float:
    run = simulated(APP, "--tasks", tasks, "--work", TASK_US / 1e6, ranks=workers + 1, ft=True, **told)
    assert run.status == 0
    return float(re.findall(r"^# time: all answers after ([\d.]+) us", run.out, re.MULTILINE)[0])


@pytest.mark.parametrize(
    ("failures", "expected", "shards"),
    dealt(
        [
            ([], (0, 0)),
            (["rank=3@100us"], (1, 1)),
            (["rank=3 before its 1st Recv"], (1, 1)),
            (["rank=3 before its 2nd Send", "rank=5@100us", "rank=6@101us"], (3, 3)),
            ([f"rank={rank}@{100 + rank}us" for rank in range(1, 7)], (6, 6)),
        ],
        [1, 2, 3, 7],
    ),
)
def test_any_workers_but_one_may_die(failures: list[str], expected: tuple[int, int], shards: int):
    run = simulated(APP, ranks=8, fail=failures, ft=True, shards=shards)
    assert numbers(run.out) == expected
    assert run.out.endswith(LAST)
    assert run.status == 0


@pytest.mark.parametrize("ranks", [2, *range(8, 14)])
def test_the_sum_is_the_same_on_any_number_of_ranks(ranks: int):
    run = simulated(APP, ranks=ranks)
    assert run.out.endswith(LAST)


def test_an_answer_that_was_sent_before_its_worker_died_counts_once():
    run = simulated(APP, ranks=8, ft=True, fail="rank=3 after its 2nd Send")
    assert numbers(run.out) == (1, 1)  # it has been given its third, and that is given again
    assert run.out.endswith(LAST)


def test_it_repairs_nothing():
    result = simulate(APPS / APP, ranks=8, fail="rank=3@100us", trace=True, stdout=io.StringIO())
    names = {span.name for span in result.trace.spans}
    assert {"Wait", "Ack_failed"} <= names
    assert not names & {"Revoke", "Shrink", "Agree", "Spawn", "Create_group", "Dup", "Split"}


@pytest.mark.parametrize(("tasks", "workers"), [(20, 4), (21, 4), (3, 7), (64, 1)])
def test_equal_tasks_take_so_many_rounds(tasks: int, workers: int):
    rounds = -(-tasks // workers)
    assert makespan_us(tasks, workers, set=LATENCY_ONLY) == rounds * (TASK_US + 2 * LATENCY_US)


def closed_form_us(tasks: int, workers: int, turn: int, at: float, timeout: float) -> float:
    """Return the makespan of equal tasks when one worker dies in its task number `turn`, counted from 1.

    All others work in rounds.  The master learns of the death when a round after it lasts longer than the timeout, or
    when there is nothing left to wait for; then the lost task takes a round of its own, or is done with the others.
    """
    one = TASK_US + 2 * LATENCY_US
    rest = tasks - workers * (turn - 1)
    full, rounds = (rest - 1) // (workers - 1), -(-(rest - 1) // (workers - 1))
    wait = turn - 1
    while max(wait * one, at) + timeout > (wait + 1) * one and wait < turn - 1 + rounds:
        wait += 1
    return max(max(wait * one, at) + timeout, (turn - 1 + full) * one) + one


@pytest.mark.parametrize("timeout_us", [200, 1500])
@pytest.mark.parametrize(
    ("tasks", "workers", "turn", "at_us"),
    [(20, 4, 2, 1500), (22, 4, 2, 2000), (23, 4, 2, 1500), (24, 4, 6, 5900), (24, 4, 6, 6200), (12, 4, 3, 2100)],
)
def test_one_death_costs_to_the_picosecond_what_the_schedule_says(
    tasks: int, workers: int, turn: int, at_us: int, timeout_us: int
):
    told = LATENCY_ONLY | {"mpi.detector.timeout": f"{timeout_us}us"}
    took = makespan_us(tasks, workers, set=told, fail=f"rank=2@{at_us}us")
    assert took == closed_form_us(tasks, workers, turn, at_us, timeout_us)


def test_the_master_can_hand_out_no_more_than_its_overheads_allow():
    """With LogGOPSim's figures a task takes the master 1.5 us to send and 1.5 us to receive."""
    ranks, tasks, work_s = (1001, 3000, 1e-3) if CAMPAIGN else (501, 1500, 5e-4)
    run = simulated(APP, "--tasks", tasks, "--points", 1, "--work", work_s, ranks=ranks, machine="loggops")
    assert f"# time: all answers after {3 * tasks}.000000 us, 333333 a second\n" in run.out


@pytest.mark.parametrize("at_us", [0, 50, 333])
def test_the_death_of_the_master_is_told_once(at_us: int):
    run = simulated(APP, ranks=8, fail=f"rank=0@{at_us}us")
    assert (run.out, run.status) == ("lost: the master, rank 0, and the bag with it\n", 1)


def test_somebody_else_tells_it_if_the_first_worker_is_dead():
    run = simulated(APP, ranks=8, fail=["rank=1@40us", "rank=0@333us", "rank=2@400us"])
    assert (run.out, run.status) == ("lost: the master, rank 0, and the bag with it\n", 1)


def test_without_workers_the_master_says_what_is_undone():
    deaths = [word for death in ("1@1", "2@0", "3@5") for word in ("--die", death)]
    run = simulated(APP, *deaths, ranks=4, ft=True)
    assert (run.out, run.status) == ("lost: all workers, with 90 tasks undone\n", 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.done[task] = value", "self.done[task] = value * (1 + 1e-15)"),
        ("points) + 0.5)", "points) + 0.4)"),
    ],
)
def test_a_wrong_sum_is_called_wrong(tmp_path: Path, old: str, new: str):
    run = simulated(spoilt(tmp_path, APP, old, new), ranks=4)
    assert (run.out.endswith("right: False\n"), run.status) == (True, 1)
