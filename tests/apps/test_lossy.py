"""Solvers that go on without a rank: as wrong as a serial twin with the same hole, and no more."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from tests.apps.helpers import simulated
from tests.campaign import CAMPAIGN, dealt

LOSSY = {"mpi.collectives": "ftco", "mpi.ftco.missing": "zero"}
N, RANKS, VICTIM = 16, 4, 1
HOLE = slice(N * VICTIM // RANKS, N * (VICTIM + 1) // RANKS)


def error_of(*args: object, **told: object) -> float:
    run = simulated("lossy.py", "--n", N, *args, ranks=RANKS, ft=True, set=LOSSY, **told)
    assert (run.status, run.err) == (0, "")
    return float(re.search(r"error ([^\s,]+)", run.out)[1])


def laplacian(field: np.ndarray) -> np.ndarray:
    padded = np.pad(field, 1)
    return 4 * field - padded[:-2, 1:-1] - padded[2:, 1:-1] - padded[1:-1, :-2] - padded[1:-1, 2:]


def what_stands(given: list[np.ndarray], missed: int, fill: str) -> np.ndarray | float:
    """For a rank that has given these before it missed so many steps."""
    if fill == "zero" or not given:
        return 0.0
    slope = given[-1] - given[-2] if fill == "linear" and len(given) > 1 else 0.0
    return given[-1] + missed * slope


def heat_with_a_hole(steps: int, death: int, fill: str) -> float:
    points = np.arange(1, N + 1) / (N + 1)
    mode = np.outer(np.sin(math.pi * points), np.sin(math.pi * points))
    field, given = mode.copy(), []
    for step in range(steps):
        if step >= death:
            field[HOLE] = what_stands(given, step - death + 1, fill)
        else:
            given.append(field[HOLE].copy())
        field = field - 0.1 * laplacian(field)
    decay = (1 - 0.8 * math.sin(math.pi / (2 * (N + 1))) ** 2) ** steps
    wrong = np.abs(field - decay * mode)
    return float(np.delete(wrong, np.r_[HOLE] if death < steps else [], axis=0).max() / decay)


@pytest.mark.sampled
@pytest.mark.parametrize("fill", ["zero", "last", "linear"])
@pytest.mark.parametrize("death", [0, 1, 2, 7, 29])
def test_heat_is_as_wrong_as_its_serial_twin(fill: str, death: int):
    found = error_of("--fill", fill, "--steps", 30, "--die", f"{VICTIM}@{death}")
    assert found == pytest.approx(heat_with_a_hole(30, death, fill), rel=1e-3)


def test_a_straight_line_is_better_than_the_last_value_and_that_than_none():
    zero, last, linear = (
        error_of("--fill", fill, "--steps", 40, "--die", "1@20") for fill in ("zero", "last", "linear")
    )
    assert linear < last / 4 < zero / 8


@pytest.mark.sampled
@pytest.mark.parametrize("death", [0, 5, 12])
def test_cg_solves_for_the_rest_what_is_left_of_the_system(death: int):
    """Who lives solves A_ss x_s = b_s - A_sh x_h, in which x_h is what a serial CG had there when the rank died."""
    points = np.arange(1, N + 1) / (N + 1)
    exact = np.outer(points * (1 - points) * np.exp(points), np.sin(2 * points) * (1 - points))
    matrix = np.array([laplacian(unit.reshape(N, N)).ravel() for unit in np.eye(N * N)])
    right, x = matrix @ exact.ravel(), np.zeros(N * N)
    residual = direction = right
    for _ in range(death):
        alpha = residual @ residual / (direction @ matrix @ direction)
        x, after = x + alpha * direction, residual - alpha * matrix @ direction
        direction, residual = after + after @ after / (residual @ residual) * direction, after
    lost = np.zeros((N, N), bool)
    lost[HOLE] = True
    hole, rest = lost.ravel(), ~lost.ravel()
    left = np.linalg.solve(matrix[np.ix_(rest, rest)], right[rest] - matrix[np.ix_(rest, hole)] @ x[hole])
    expected = np.abs(left - exact.ravel()[rest]).max() / exact.max()
    assert error_of("--solver", "cg", "--die", f"{VICTIM}@{death}") == pytest.approx(expected, rel=1e-3)


def test_without_losses_both_are_exact():
    assert error_of("--steps", 30) < 1e-13
    assert error_of("--solver", "cg") < 1e-11


@pytest.mark.parametrize(("time_us", "solver"), dealt([[30], [333], [2000]], ["heat", "cg"]))
def test_a_death_at_any_time_ends_nothing(solver: str, time_us: int):
    assert 0 < error_of("--solver", solver, "--steps", 60, fail=f"rank=0@{time_us}us") < 1.5


def test_what_stands_for_a_missing_block_makes_no_difference():
    for missing in ("zero", "nan"):
        run = simulated(
            "lossy.py", "--steps", 9, ranks=4, ft=True, set=LOSSY | {"mpi.ftco.missing": missing}, fail="rank=1@5us"
        )
        assert run.out.strip().endswith("lost: [1]")


VARIANCES = (4.0e-2, 4.25e-4, 2.212824e-4, 1.128404e-4)  # of X_l - X_(l-1), mu = 0.05 and sigma = 0.2, as published
SAMPLES = (8, 4, 2, 1)
EXACT = (1 + 0.05 / 8) ** 8


def squared_error(fill: str, steps: int, death: int) -> float:
    """The expected one of an estimate that misses one of the ranks from a step on."""
    more, whole = steps - death, RANKS * steps
    of_one = sum(variance / count for variance, count in zip(VARIANCES, SAMPLES, strict=True))
    line = more * (more + 1) / 2
    if fill in ("last", "linear"):  # which are what is known of a rank that has given less than two
        fill = "zero" if death == 0 else "last" if death == 1 else fill
    there = whole - more
    bias, squares = {
        "zero": (EXACT, there),
        "default": (EXACT - 1, there),
        "last": (0, there - 1 + (1 + more) ** 2),
        "linear": (0, there - 2 + (1 + more + line) ** 2 + (1 - line) ** 2),
        "weight": (0, there * (whole / there) ** 2),
    }[fill]
    return (bias * more / whole) ** 2 + squares * of_one / whole**2


@pytest.mark.sampled
@pytest.mark.parametrize("death", [0, 1, 2, 12, 20])
@pytest.mark.parametrize("fill", ["zero", "default", "last", "linear", "weight"])
def test_a_mean_of_samples_is_as_wrong_as_a_closed_form_says(fill: str, death: int):
    """A root mean square of n errors has a standard error of 0.72 / sqrt(n) or less: 3.6 % of 400, 1.6 % of 2000."""
    estimates, tolerance = (2000, 0.06) if CAMPAIGN else (400, 0.13)
    words = "--solver", "mlmc", "--steps", 20, "--estimates", estimates, "--fill", fill, "--die", f"{VICTIM}@{death}"
    run = simulated("lossy.py", *words, ranks=RANKS, ft=True, set=LOSSY)
    error, expected = map(float, re.search(r"error (\S+), expected (\S+),", run.out).groups())
    assert expected == pytest.approx(math.sqrt(squared_error(fill, 20, death)), rel=1e-3)
    assert error == pytest.approx(expected, rel=tolerance)


def test_estimates_are_means_of_all_samples_that_are_there():
    """The same samples by one process, without what a dead rank would have given."""
    steps, death, count = 6, 3, 5
    whole = np.zeros((4, count))
    for rank in range(RANKS):
        for step in range(death if rank == VICTIM else steps):
            drawn = np.random.default_rng([7, rank, step])
            for level, samples in enumerate(SAMPLES):
                for row, estimate in enumerate(drawn.normal(size=(count, samples, 2**level))):
                    whole[level, row] += sum(difference(level, walk) for walk in estimate)
    there = RANKS * steps - (steps - death)
    estimates = sum(each / (there * samples) for each, samples in zip(whole, SAMPLES, strict=True))
    error = float(np.sqrt(np.mean((estimates - EXACT) ** 2)))
    words = "--steps", steps, "--estimates", count, "--seed", 7, "--fill", "weight", "--die", f"{VICTIM}@{death}"
    assert error_of("--solver", "mlmc", *words) == pytest.approx(error, rel=1e-3)


def difference(level: int, walk: np.ndarray) -> float:
    """One sample: Euler's steps, and half as many with the same walk."""
    fine, coarse, h = 1.0, 1.0, 1 / 2**level
    for step, move in enumerate(walk):
        fine *= 1 + 0.05 * h + 0.2 * math.sqrt(h) * move
        if step % 2:
            coarse *= 1 + 0.05 * 2 * h + 0.2 * math.sqrt(h) * (walk[step - 1] + move)
    return fine - coarse if level else fine


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--solver cg --fill last", "--fill last is not for --solver cg, but zero"),
        ("--fill weight", "--fill weight is not for --solver heat, but zero, last, linear"),
        ("--solver mlmc --steps 0", "--steps 0: the mean needs at least one step"),
        ("--n 1", "--n 1: fewer than one row for each of 2 ranks"),
        ("--die 1@201", "--die 1@201: there are 200 steps, from 0 on"),
    ],
)
def test_what_makes_no_sense_is_refused_once(words: str, said: str):
    run = simulated("lossy.py", *words.split(), ranks=2)
    assert (run.status, run.err.count("error: ")) == (2, 1)
    assert run.err.endswith(f"lossy: error: {said}\n")


def test_a_rank_dies_once():
    first, both = (
        simulated("lossy.py", "--steps", 9, *die, ranks=2, ft=True, set=LOSSY).out
        for die in (["--die", "1@5"], ["--die", "1@5", "--die", "1@7"])
    )
    assert both == first
    assert both.endswith("lost: [1]\n")


@pytest.mark.parametrize("die", ["x", "1", "@3", "1@-2", "1@2@3"])
def test_a_death_that_is_none_is_refused(die: str):
    run = simulated("lossy.py", "--die", die, ranks=2)
    assert run.status == 2
    assert run.err.endswith(f"argument --die: '{die}' is not RANK@STEP, as in 2@20\n")
