"""The sparse grid combination: its mathematics against exact figures, and what becomes of lost grids."""

import importlib.util
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from tests.apps.helpers import APPS, Run, simulated, spoilt
from tests.campaign import dealt

SPEC = importlib.util.spec_from_file_location("sparse_combination", APPS / "sparse_combination.py")
assert SPEC is not None
assert SPEC.loader is not None
combination = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(combination)

STATE = "state 37e19dea\n"
ROOM = {"spawn.universe": 32}  # so that processes can be named before they are started


def sparse_grid(*args: object, ranks: int = 8, **told: object) -> Run:
    return simulated("sparse_grid.py", *args, ranks=ranks, ft=True, **told)


def said(run: Run, word: str) -> list[str]:
    return re.findall(rf"^{word}:? (.*)$", run.out, re.MULTILINE)


def written(coefficients: dict[tuple[int, int], int]) -> str:
    words = (f"{'+' if c > 0 else '-'}({i},{j})" for (i, j), c in coefficients.items() if abs(c) == 1)
    return "".join(sorted(words, key=lambda word: (word[0] == "-", word)))


# --------------------------------------------------------------------------------------------------------- coefficients


@pytest.mark.parametrize(
    ("level", "lost", "expected"),
    [
        (5, [], "+(1,5)+(2,4)+(3,3)+(4,2)+(5,1)-(1,4)-(2,3)-(3,2)-(4,1)"),
        (5, [(3, 3)], "+(1,5)+(2,4)+(4,2)+(5,1)-(1,4)-(2,2)-(4,1)"),
        (5, [(2, 3)], "+(1,5)+(3,3)+(4,2)+(5,1)-(1,3)-(3,2)-(4,1)"),
        (5, [(3, 3), (2, 4)], "+(1,5)+(2,3)+(4,2)+(5,1)-(1,3)-(2,2)-(4,1)"),
        (4, [(2, 3)], "+(1,4)+(3,2)+(4,1)-(1,2)-(3,1)"),
        (4, [(1, 4)], "+(2,3)+(3,2)+(4,1)-(2,2)-(3,1)"),
        (4, [(2, 3), (3, 2)], "+(1,4)+(2,2)+(4,1)-(1,2)-(2,1)"),
        (4, [(1, 4), (2, 3)], "+(1,3)+(3,2)+(4,1)-(1,2)-(3,1)"),
        (4, [(2, 3), (3, 2), (2, 2)], "+(1,4)+(4,1)-(1,1)"),
    ],
)
def test_what_is_combined_without_lost_grids(level: int, lost: list[tuple[int, int]], expected: str):
    found = combination.recombined(lost, level)
    assert written(found) == expected
    assert sum(found.values()) == 1


def test_no_staircase_is_better_than_the_one_that_is_found():
    """The reference walks all products of heights, and sums fractions."""
    for lost in itertools.combinations(sorted(combination.triangle(3)), 2):
        best = []
        for heights in itertools.product(range(4), range(3), range(2)):
            kept = {(i, j) for i, height in enumerate(heights, 1) for j in range(1, height + 1)}
            if kept and list(heights) == sorted(heights, reverse=True):
                found = {grid: c for grid, c in combination.coefficients(kept).items() if c}
                dropped = sorted(combination.triangle(3) - kept)
                if not found.keys() & set(lost):
                    best.append((-sum(0.25 ** (i + j) for i, j in kept), dropped, found))
        expected = min(best, key=lambda each: each[:2])[2] if best else {}
        assert combination.recombined(lost, 3) == expected


def test_with_four_diagonals_any_three_grids_can_be_done_without():
    for level in (4, 5):
        there = {grid for grid in combination.triangle(level) if sum(grid) >= level - 2}
        absent = combination.triangle(level) - there
        for lost in itertools.combinations(sorted(there), 3 if level == 4 else 2):
            assert combination.recombined({*lost, *absent}, level) or (level == 4 and (1, 1) in lost)


def errors(problem: str, lost: list[tuple[int, int]], level: int, finest: int, to: int) -> tuple[float, float]:
    """The mean and the largest error where the function stands still, or has not moved yet."""
    found = combination.recombined(lost, level)
    grids = [(c, (i + finest - level, j + finest - level)) for (i, j), c in found.items()]
    sources = [(c, grid, grid) for c, grid in grids]
    total = combination.combined(combination.PROBLEMS[problem], sources, finest, 0, to)
    error = np.abs(total - combination.exact(combination.PROBLEMS[problem], finest, 0, to))
    return round(float(error.mean()), 6), round(float(error.max()), 6)


@pytest.mark.parametrize(
    ("lost", "mean", "largest", "mean_257"),
    [
        ([], 0.001349, 0.004279, 0.001389),
        ([(3, 3)], 0.001957, 0.007251, 0.002003),
        ([(2, 3)], 0.001976, 0.006056, 0.002022),
        ([(3, 3), (2, 4)], 0.002585, 0.008249, 0.002635),
    ],
)
def test_the_errors_of_the_combination_are_exact(
    lost: list[tuple[int, int]], mean: float, largest: float, mean_257: float
):
    assert errors("sine", lost, 5, 5, 7) == (mean, largest)
    assert errors("sine", lost, 5, 5, 8)[0] == mean_257


@pytest.mark.parametrize(("problem", "finest", "most"), [("sine", 4, 1.8), ("sine", 6, 2.9), ("advection", 6, 2.5)])
def test_one_lost_grid_costs_less_than_a_factor_of_ten(problem: str, finest: int, most: float):
    classical = errors(problem, [], 4, finest, 7)
    for lost in combination.triangle(4):
        without = errors(problem, [lost], 4, finest, 7)
        assert max(bad / good for bad, good in zip(without, classical, strict=True)) < most


def test_on_a_smooth_function_it_may_cost_more():
    combination.PROBLEMS["smooth"] = combination.Problem(lambda x: (1 - np.cos(2 * np.pi * x)) / 2, (0.0, 0.0))
    grids = ({}, {(4, 1)})
    means = []
    for lost in grids:
        found = combination.recombined(lost, 4)
        sources = [(c, (i + 3, j + 3), (i + 3, j + 3)) for (i, j), c in found.items()]
        total = combination.combined(combination.PROBLEMS["smooth"], sources, 7, 0, 7)
        means.append(np.abs(total - combination.exact(combination.PROBLEMS["smooth"], 7, 0, 7)).max())
    assert means[1] / means[0] == pytest.approx(52, abs=0.5)


# -------------------------------------------------------------------------------------------------------------- program


@pytest.mark.parametrize(("ranks", "scheme"), dealt([[ranks] for ranks in (1, 3, *range(8, 14))], ["rc", "ac", "cr"]))
def test_without_failures_all_schemes_have_the_same_state_on_any_number_of_ranks(
    scheme: str, ranks: int, tmp_path: Path
):
    run = sparse_grid("--recovery", scheme, "--checkpoint", tmp_path / "grid", ranks=ranks)
    assert STATE in run.out
    assert run.out.endswith("right: True\n")
    assert not [*tmp_path.iterdir()]


def test_the_groups_of_the_published_runs_come_out():
    """Twice as many cells have twice as many processes: 49 for alternate combination."""
    sizes = {
        (scheme, ranks): said(sparse_grid("--recovery", scheme, "--steps", 0, "--nodes", 1, ranks=ranks), "groups")
        for scheme, ranks in (("cr", 44), ("rc", 76), ("ac", 49))
    }
    assert sizes == {
        ("cr", 44): ["8 8 8 8 4 4 4"],
        ("rc", 76): ["8 8 8 8 4 4 4 8 8 8 8"],
        ("ac", 49): ["8 8 8 8 4 4 4 2 2 1"],
    }


def test_the_program_prints_the_exact_errors():
    words = ("--problem", "sine", "--level", 5, "--finest", 5, "--steps", 3)
    assert said(sparse_grid(*words), "error") == ["mean 0.001349, max 0.004279"]
    lost = sparse_grid(*words, "--recovery", "ac", "--die", "2@1", ranks=14)
    assert said(lost, "omitted") == ["(3, 3)"]
    assert said(lost, "error") == ["mean 0.001957, max 0.007251"]


@pytest.mark.parametrize(
    ("scheme", "failures", "expected", "shards"),
    dealt(
        [
            ("rc", ["rank=2 before its 20th Sendrecv"], STATE),
            ("rc", ["rank=0 before its 20th Sendrecv", "rank=8@0"], STATE),
            ("rc", ["rank=11 before its 1st Barrier"], "resampled: (2, 2)\n"),
            ("cr", ["rank=0 before its 20th Sendrecv", "rank=9 before its 1st bcast"], STATE),
            ("ac", ["rank=1 before its 20th Sendrecv"], "omitted: (1, 4)\n"),
            ("ac", ["rank=20 before its 1st Barrier"], STATE),  # a grid that is not needed
        ],
        [1, 2, 3, 7],
    ),
)
def test_lost_grids_are_made_up_for(scheme: str, failures: list[str], expected: str, shards: int, tmp_path: Path):
    run = sparse_grid(
        *("--recovery", scheme, "--checkpoint", tmp_path / "grid"), ranks=21, fail=failures, shards=shards, set=ROOM
    )
    assert sum(cause.startswith("injected") for cause in run.causes) == len(failures)
    assert expected in run.out
    assert run.out.endswith("right: True\n")


@pytest.mark.sampled
@pytest.mark.parametrize(
    "second",
    [
        *(f"rank=4 before its 1st {call}" for call in ("Shrink", "Spawn", "Merge", "Split", "bcast", "Send")),
        *(f"rank=8 before its 1st {call}" for call in ("Merge", "bcast", "Split", "Agree", "Allreduce", "Recv")),
        "rank=8 before its 1st Barrier",
    ],
)
def test_a_second_failure_during_the_recovery_is_survived(second: str):
    failures = ["rank=2 before its 1st Barrier", second]
    run = sparse_grid(fail=failures, set=ROOM)
    assert {f"injected: {failure}" for failure in failures} <= {*run.causes}
    assert run.out.endswith("right: True\n")


def test_a_grid_that_is_lost_with_its_copy_is_named():
    run = sparse_grid("--die", "2@3", "--die", "6@3")
    assert (run.out, run.err, run.status) == ("lost: grids [(3, 2)], with their copies\n", "", 1)


def test_where_no_combination_is_left_it_says_so():
    deaths = [word for rank in range(1, 8) for word in ("--die", f"{rank}@3")]
    run = sparse_grid("--recovery", "ac", "--level", 2, *deaths)
    assert run.out == "lost: grids [(1, 2), (2, 1), (1, 1)], which every combination needs\n"
    assert (run.err, run.status) == ("", 1)


def test_checkpoints_of_different_age_are_not_mixed(tmp_path: Path):
    """Rank 0 has a newer one than its neighbour when that dies."""
    words = ("--recovery", "cr", "--checkpoint", tmp_path / "grid")
    run = sparse_grid(*words, ranks=21, fail=["rank=1 before its 21st Sendrecv", "rank=2@0"], set=ROOM)
    assert STATE in run.out


@pytest.mark.parametrize(
    ("within", "old", "new"),
    [
        ("sparse_grid.py", "total + coefficient", "total + abs(coefficient)"),
        ("sparse_grid.py", "c * c / 2 *", "c * c *"),
        ("sparse_combination.py", "candidate = (-weight,", "candidate = (weight,"),  # the worst one there is
        ("sparse_combination.py", "if kept and not found.keys() & set(lost):", "if kept:"),
    ],
)
def test_the_judge_finds_what_is_wrong(tmp_path: Path, within: str, old: str, new: str):
    program = spoilt(tmp_path, "sparse_grid.py", old, new, within=within)
    run = simulated(program, "--recovery", "ac", "--die", "2@1", ranks=14, ft=True)
    assert run.out.endswith("right: False\n"), run
    assert run.status == 1


def test_the_judge_finds_the_combination_by_columns_that_the_program_finds_among_all():
    for level in range(1, 5):
        grids = sorted(combination.triangle(level))
        for lost in itertools.chain.from_iterable(itertools.combinations(grids, few) for few in range(4)):
            assert combination.judged_best(lost, level) == combination.recombined(lost, level)


@pytest.mark.parametrize("words", [("--level", 9), ("--finest", 3), ("--recovery", "none"), ("--die", "x")])
def test_bad_input_is_refused(words: tuple[object, ...]):
    assert sparse_grid(*words).status == 2


def test_gene_stands_beside_the_published_figures():
    run = sparse_grid("--problem", "gene", "--recovery", "ac", "--finest", 7, "--steps", 100, ranks=49)
    assert 1e-4 <= float(said(run, "relative error")[0]) < 1e-3
    assert "published:   196  63.2  11.5   19.9   98.7\n" in run.out
