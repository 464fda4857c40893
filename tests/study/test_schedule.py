"""The order of runs and the time left, with a clock that only finished runs advance."""

import heapq
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from xsim_py.study import load_study, plan_runs
from xsim_py.study.plan import PlannedRun
from xsim_py.study.schedule import RunQueue

SWEEP = {"ranks": [1, 4, 16, 64], "steps": [1, 10, 100], "machine": ["gige", "torus3d"]}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def cost_s(run: PlannedRun) -> float:
    """The steps count, ranks less, and a torus is dear."""
    columns: dict[str, Any] = run.columns
    return 0.01 * columns["ranks"] ** 0.5 * columns["steps"] * (3 if columns["machine"] == "torus3d" else 1)


def scheduled(
    cost_s: Callable[[PlannedRun], float] = cost_s, *, workers: int = 2, known: int = 0, lost: int = -1
) -> tuple[list[PlannedRun], list[tuple[float, float | None]]]:
    """Return runs in the order of their start, and after each end the time and the estimate of what is left."""
    spec = load_study({"program": "apps/ring.py", "args": ["{steps}"], "sweep": SWEEP})
    runs = plan_runs(spec)
    before = [(run, cost_s(run)) for run in runs[:known]]
    clock = Clock()
    schedule = RunQueue(spec, runs[known:], before, workers=workers, clock=clock)
    busy: list[tuple[float, int]] = []
    told = []
    for run in itertools.chain(schedule, [None]):
        if run is not None:
            heapq.heappush(busy, (clock.now_s + cost_s(run), len(schedule.begun) - 1))
        while busy and (run is None or len(busy) == workers):
            clock.now_s, place = heapq.heappop(busy)
            schedule.finished(place, None if place == lost else cost_s(schedule.todo[schedule.begun[place]]))
            told.append((clock.now_s, schedule.left_s()))
    return [schedule.todo[number] for number in schedule.begun], told


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("lost", [-1, 0, 5])
def test_the_time_left_is_nearer_than_by_counting_runs(workers: int, lost: int):
    _, told = scheduled(workers=workers, lost=lost)
    end_s = told[-1][0]
    by_cost, by_count = 0.0, 0.0
    for done, (now_s, left_s) in enumerate(told, 1):
        if left_s is not None:
            by_cost += abs(left_s - (end_s - now_s))
            by_count += abs(now_s * (len(told) - done) / done - (end_s - now_s))
    assert by_cost < by_count / 2
    assert told[-1][1] == pytest.approx(0, abs=1e-9)


def test_what_is_learned_decides_which_run_is_next():
    begun, _ = scheduled()
    costs = [cost_s(run) for run in begun]
    assert sum(costs[:8]) > 0.85 * sum(costs)  # 0.54 in the order of ranks, 0.92 in that of costs
    assert max(costs[12:]) < max(costs) / 10


def test_finished_runs_of_an_earlier_call_count():
    begun, told = scheduled(known=18)  # up to 16 ranks; 64 are left
    assert [cost_s(run) for run in begun] == sorted(map(cost_s, begun), reverse=True)
    assert told[0][1] == pytest.approx(told[-1][0] - told[0][0], rel=0.2)


def test_a_run_begins_once_and_equal_ones_in_the_order_of_the_study():
    begun, _ = scheduled(lambda run: 1.0)
    assert len({run.key for run in begun}) == len(begun) == 24
    assert [run.columns["machine"] for run in begun[:2]] == SWEEP["machine"]


def test_nothing_is_said_before_a_run_has_ended():
    spec = load_study({"program": "apps/ring.py", "ranks": 2})
    assert RunQueue(spec, plan_runs(spec), workers=1).left_s() is None
