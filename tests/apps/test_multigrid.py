"""Multigrid: the solution of the system, in as many iterations on any number of ranks, and few for any size."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.apps.helpers import Run, simulated, spoilt, within
from tests.campaign import CAMPAIGN, SHARDS

PROGRAM = "multigrid.py"


def solved(ranks: int, *args: object, **told: object) -> Run:
    run = simulated(PROGRAM, *args, ranks=ranks, **told)
    assert (run.err, run.status) == ("", 0)
    assert run.out.endswith("\nright: True\n")
    return run


def iterations(run: Run) -> int:
    return int(re.search(r"(\d+) iterations", run.out)[1])


def rows_of(app: Any, rows: int, columns: int) -> list[np.ndarray]:
    return [app.couplings(row, rows, columns) for row in range(rows)]


@pytest.mark.parametrize(("rows", "columns"), [(2, 1), (2, 8), (8, 4), (16, 1), (4, 16)])
def test_the_judge_has_the_solution_of_the_matrix(rows: int, columns: int):
    """Point by point: each coupling has the same weight both ways, and what is outside is zero."""
    given, found = within("multigrid", lambda app: (rows_of(app, rows, columns), app.eliminated(rows, columns)))
    matrix = np.zeros((rows * columns, rows * columns))
    for row in range(rows):
        right, below, outside = given[row]
        for column in range(columns):
            here = row * columns + column
            matrix[here, here] += outside[column]
            for weight, there in ((right[column], here + 1), (below[column], here + columns)):
                if weight:
                    matrix[[here, there], [here, there]] += weight
                    matrix[[here, there], [there, here]] -= weight
    solution = np.linalg.solve(matrix, np.ones(len(matrix))).reshape(rows, columns)
    assert found == pytest.approx(solution, rel=1e-10)


@pytest.mark.parametrize(
    ("rows", "columns"), [(64, 16), (32, 1), (16, 64), (32, 32)] if CAMPAIGN else [(32, 1), (16, 16)]
)
def test_any_number_of_ranks_takes_as_many_iterations(rows: int, columns: int):
    runs = [
        solved(ranks, "--rows", rows, "--columns", columns) for ranks in (1, 2, 4, 8, rows // 2) if 2 * ranks <= rows
    ]
    assert len({iterations(run) for run in runs}) == 1


def test_more_points_take_hardly_more_iterations():
    """Without multigrid the number doubles with each doubling of the sides."""
    found = [iterations(solved(4, "--rows", side, "--columns", side)) for side in (8, 16, 32, 64)]
    assert found == sorted(found)
    assert found[-1] < 2.5 * found[0]


def test_shards_make_no_difference():
    runs = [solved(8, shards=shards) for shards in SHARDS]
    assert [run.out for run in runs] == [runs[0].out] * len(SHARDS)


@pytest.mark.parametrize(
    ("mended", "wrong"),
    [
        ("comm.Send(correction[1:], dest", "comm.Send(correction[:1], dest"),
        ("below[1::2]", "below[::2]"),
        ("product -= self.above", "product -= 1.001 * self.above"),
    ],
)
def test_what_is_wrong_shows(tmp_path: Path, mended: str, wrong: str):
    """In the result, or in iterations where it is the preconditioner only."""
    run = simulated(spoilt(tmp_path, PROGRAM, mended, wrong), "--rows", 32, ranks=4)
    assert "right: False" in run.out or iterations(run) > iterations(solved(4, "--rows", 32))


@pytest.mark.parametrize("words", [["--rows", 12], ["--columns", 3], ["--rows", 2], ["--rows", -4], ["--rows", 0]])
def test_sizes_without_sense_are_refused_once(words: list[object]):
    run = simulated(PROGRAM, *words, ranks=4)
    assert (run.status, run.out) == (1, "")
    assert run.err.count("multigrid: ranks, rows and columns must be powers of two") == 1


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--max-iterations", "-1", "-1: below 0"),
        ("--tolerance", "nan", "nan: not above 0 and below 1"),
        ("--tolerance", "0", "0.0: not above 0 and below 1"),
        ("--tolerance", "1", "1.0: not above 0 and below 1"),
    ],
)
def test_an_end_without_sense_is_refused_once(option: str, value: str, said: str):
    run = simulated(PROGRAM, option, value, ranks=4)
    assert (run.status, run.out, run.err) == (1, "", f"multigrid: {option} {said}\n")
