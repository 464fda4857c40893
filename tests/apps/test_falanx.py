"""Falanx: workers that are groups, a replicated store, tasks that are done again."""

import random
import re
from math import comb
from pathlib import Path

import pytest

from tests.apps.helpers import simulated, spoilt
from tests.campaign import dealt

APP = "falanx.py"
LAST = "falanx: 6 fragments, 21 tasks, energy -15608320\nright: True\n"
SEEDS = [0, 1, 2, 3, 4, 12, 15, 16]  # neighbours and pairs among them, and neither
SMALL = ("--fragments", 3, "--points", 8)


def counts(out: str) -> tuple[int, ...]:
    """Return how many tasks and copies were made again, and how often workers were made up."""
    found = re.findall(r"; (\d+) tasks and (\d+) copies recomputed, workers rebuilt data (\d+) times", out)
    return tuple(int(number) for number in found[0])


def serial(fragments: int, points: int) -> int:
    """Compute the two-body expansion as it is defined, one point after the other."""
    one = [sum((i + 1) * (k + 1) for k in range(points)) for i in range(fragments)]
    pairs = 0
    for i in range(fragments):
        for j in range(i):
            pairs += one[i] + one[j] - sum((i + 1) * (j + 1) * (k + 1) ** 2 for k in range(points))
    return pairs - (fragments - 2) * sum(one)


@pytest.mark.parametrize(
    ("failures", "expected", "shards"),
    dealt(
        [
            ([], (0, 0, 0)),
            (["rank=5@300us"], (1, 0, 0)),
            (["rank=5 before its 3rd bcast", "rank=6@700us"], (2, 0, 1)),
            (["rank=2@700us"], (0, 6, 0)),
        ],
        [1, 2, 3, 7],
    ),
)
def test_workers_and_storage_ranks_may_die(failures: list[str], expected: tuple[int, ...], shards: int):
    run = simulated(APP, ranks=8, fail=failures, ft=True, shards=shards)
    assert run.out.endswith(LAST)
    assert (counts(run.out), run.status) == (expected, 0)


def test_of_six_computing_ranks_one_is_enough():
    failures = [f"rank={rank}@{300 + 400 * rank}us" for rank in range(4, 9)]
    run = simulated(APP, ranks=10, fail=failures, ft=True)
    assert run.out.endswith(LAST)


@pytest.mark.parametrize("ranks", [5, *range(8, 14)])
def test_the_energy_is_the_same_on_any_number_of_ranks(ranks: int):
    assert simulated(APP, ranks=ranks).out.endswith(LAST)


@pytest.mark.parametrize(("fragments", "points", "workers"), [(2, 1, 1), (5, 7, 3), (7, 10, 4)])
def test_the_energy_is_that_of_a_serial_loop(fragments: int, points: int, workers: int):
    run = simulated(APP, "--fragments", fragments, "--points", points, "--task-ranks", workers, ranks=9)
    assert f"energy {serial(fragments, points)}\nright: True\n" in run.out


@pytest.mark.parametrize("placement", ["ring", "pairs"])
def test_data_are_lost_if_and_only_if_all_copies_die(placement: str):
    """Each position of the store has a result; two storage ranks die together, and their sets follow the formula."""
    size, lost = 6, 0
    for seed in SEEDS:
        one, other = (store - 1 for store in random.Random(seed).sample(range(1, size + 1), 2))
        gone = one ^ 1 == other if placement == "pairs" else (one - other) % size in {1, size - 1}
        lost += gone
        args = (*SMALL, "--storage", size, "--placement", placement, "--task-ranks", 1, "--kill", 2, "--seed", seed)
        run = simulated(APP, *args, ranks=8, ft=True)
        assert ("lost: " in run.out, run.status) == (gone, int(gone))
        assert gone != run.out.endswith("right: True\n")
    assert 0 < lost < len(SEEDS)


def test_the_formulas_for_no_loss_count_the_sets():
    table = (Path(__file__).parents[2] / "models/studies/falanx-loss.csv").read_text(encoding="utf-8")
    for placement, dead, kept in re.findall(r"^(\w+),(\d),([\d.]+)$", table, re.MULTILINE):
        n, f = 10, int(dead)
        ways = comb(n // 2, f) * 2**f if placement == "pairs" else n / (n - f) * comb(n - f, f)
        assert float(kept) == pytest.approx(ways / comb(n, f), abs=1e-6)


def test_a_second_storage_rank_may_die_when_the_copies_of_the_first_are_made_again():
    failures = ["rank=1@500us", "rank=2@1500us", "rank=3@2900us"]
    run = simulated(APP, "--storage", 4, ranks=9, fail=failures, ft=True)
    assert run.out.endswith(LAST)
    assert counts(run.out)[1] > 5


def test_equal_tasks_take_so_many_rounds():
    """Six monomers and fifteen dimers of 1 s on three workers: two rounds and five, and the time to hand them out."""
    run = simulated(APP, "--work", 1, "--task-ranks", 1, ranks=7)
    assert 7 < float(re.findall(r"all results after ([\d.]+) s", run.out)[0]) < 7.01


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        (["rank=0@500us"], "lost: the master, rank 0, and its data\n"),
        (["rank=1@500us", "rank=2@501us"], "lost: 2 results with all copies, the first of task (0,)\n"),
        ([f"rank={rank}@{500 + rank}us" for rank in (4, 5, 6, 7)], "lost: all workers\n"),
        ([f"rank={rank}@0us" for rank in (1, 2, 3)], "lost: the store\n"),
    ],
)
def test_what_is_lost_is_said(failures: list[str], said: str):
    run = simulated(APP, ranks=8, fail=failures, ft=True)
    assert (run.out, run.status) == (said, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(one * other).sum()", "(one * other).sum() + 1"),
        ("for j in range(i))", "for j in range(i + 1) if j < i - 1)"),
        ("return (task[0] + 1) * points", "return (task[0] + 2) * points"),
    ],
)
def test_a_wrong_energy_is_called_wrong(tmp_path: Path, old: str, new: str):
    run = simulated(spoilt(tmp_path, APP, old, new), *SMALL, ranks=8)
    assert (run.out.endswith("right: False\n"), run.status) == (True, 1)
