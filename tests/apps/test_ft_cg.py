"""Iterative solvers that lose a part of their vectors, and go on."""

import re
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from tests.apps.helpers import APPS, Run, simulated
from tests.campaign import SHARDS

SMALL = ("--rows", 2, "--columns", 4, "--tolerance", 1e-10, "--every", 4)
RESULTS = {"cg": "solution of 48 unknowns", "power": "eigenvalue 12.50731", "lanczos": "eigenvalue 12.50731"}


@pytest.fixture
def ft_cg(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(APPS))
    import ft_cg

    yield ft_cg
    for name in ("ft_cg", "cg", "recovery"):
        sys.modules.pop(name, None)


def problem(ft_cg, recovery: str = "li", solver: str = "cg", ranks: int = 8):
    told = Namespace(recovery=recovery, solver=solver, rows=2, columns=4, tolerance=1e-10, max_iterations=1000)
    return ft_cg.Problem(told, ranks)


def iterations(run: Run) -> int:
    return int(re.search(r"^# (\d+) iterations", run.out, re.MULTILINE)[1])


def results(run: Run) -> list[str]:
    return [line for line in run.out.splitlines() if not line.startswith("#")][-2:]


# -------------------------------------------------------------------------------------------------------- mathematics


def test_blocks_are_those_of_the_product_and_the_right_side_belongs_to_the_solution(ft_cg):
    for solver in ("cg", "power"):
        grid = problem(ft_cg, solver=solver).grid
        size = 16 * 4
        matrix = np.array([ft_cg.Whole(grid).product(e.reshape(16, 4)).ravel() for e in np.eye(size)])
        np.testing.assert_array_equal(matrix, ft_cg.block(grid, 0, 16))
        np.testing.assert_array_equal(matrix[24:40, 24:40], ft_cg.block(grid, 6, 4))
        np.testing.assert_allclose(
            np.linalg.eigvalsh(matrix)[-1],
            grid.largest_eigenvalue() if grid.peak else 7.584,
            rtol=1e-13 if grid.peak else 1e-3,
        )
        if not grid.peak:
            every = grid.rows_of(0, 8)
            np.testing.assert_allclose(
                matrix @ grid.solution(every).ravel(), grid.right_side(every).ravel(), atol=1e-13
            )
            parts = [grid.right_side(grid.rows_of(rank)) for rank in range(8)]
            np.testing.assert_array_equal(np.concatenate(parts), grid.right_side(every))


@pytest.mark.parametrize("lost", [(0,), (3,), (3, 4), (2, 4, 5, 6), (0, 1, 7)])
def test_interpolation_is_the_best_of_all_changes_of_what_is_lost(ft_cg, lost: tuple[int, ...]):
    """In the A-norm of the error: the residual is zero where something was lost."""
    this = problem(ft_cg)
    grid = this.grid
    every = grid.rows_of(0, 8)
    x = grid.solution(every) + np.cos(np.arange(64)).reshape(16, 4)
    parts = np.split(x.copy(), 8)
    for first, count in ft_cg.Loss(0, lost, 0.0).groups(True):
        edges = {}
        if first:
            edges[first - 1] = parts[first - 1][-1]
        if first + count < 8:
            edges[first + count] = parts[first + count][0]
        x[grid.rows_of(first, count)] = ft_cg.interpolated(this, first, count, 0.0, edges)
    residual = grid.right_side(every) - ft_cg.Whole(grid).product(x)
    for rank in range(8):
        assert (np.abs(residual[grid.rows_of(rank)]).max() < 1e-13) == (rank in lost)


@pytest.mark.parametrize("rank", [0, 3, 4])
def test_what_an_eigenvector_has_lost_is_found_again(ft_cg, rank: int):
    """Exactly, where the rest and the eigenvalue are exact; rank 4 has the peak."""
    this = problem(ft_cg, solver="power")
    values, vectors = np.linalg.eigh(ft_cg.block(this.grid, 0, 16))
    parts = np.split(vectors[:, -1].reshape(16, 4), 8)
    edges = {other: parts[other][-1 if other < rank else 0] for other in (rank - 1, rank + 1) if 0 <= other < 8}
    found = ft_cg.interpolated(this, rank, 1, values[-1], edges)
    np.testing.assert_allclose(found, parts[rank], atol=1e-14)


def test_neighbours_are_solved_together_or_alone(ft_cg):
    loss = ft_cg.Loss(7, (0, 1, 3, 5, 6), 0.0)
    assert loss.groups(True) == [(0, 2), (3, 1), (5, 2)]
    assert loss.groups(False) == [(rank, 1) for rank in loss.ranks]


@pytest.mark.parametrize("lost", [(0,), (2, 3), (0, 2, 5)])
def test_after_a_loss_it_takes_about_as_many_iterations_as_starting_again_or_less(ft_cg, lost: tuple[int, ...]):
    """Not less in each case: what is interpolated early is less smooth than zero, though nearer to the solution."""
    this = problem(ft_cg, ranks=6)
    without, *_ = ft_cg.repeated(this, [])
    more = []
    for iteration in range(without):
        needed, state, _, well = ft_cg.repeated(this, [ft_cg.Loss(iteration, lost, 0.0)])
        assert well
        assert state.error <= this.limit
        more.append(needed - iteration - without)
    assert max(more) <= 3
    assert max(more[8:]) <= 0
    assert more[-1] < -0.9 * without


# --------------------------------------------------------------------------------------------------------- the program


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        (8, ()),
        (9, ("--solver", "lanczos")),
        (10, ("--solver", "power")),
        (11, ("--recovery", "lossy", "--solver", "lanczos")),
        (12, ()),
        (13, ("--recovery", "rollback", "--solver", "power")),
    ],
)
def test_the_default_is_right_on_any_number_of_ranks(ranks: int, options: tuple[str, ...]):
    run = simulated("ft_cg.py", *options, ranks=ranks)
    assert (results(run)[-1], run.status, run.err) == ("right: True", 0, "")


@pytest.mark.sampled
@pytest.mark.parametrize("solver", ["cg", "power", "lanczos"])
@pytest.mark.parametrize("recovery", ["lossy", "li", "rollback", "restart"])
def test_who_dies_changes_no_result(recovery: str, solver: str):
    words = ("--recovery", recovery, "--solver", solver, *SMALL)
    without = simulated("ft_cg.py", *words, ranks=6, ft=True)
    fail = ["rank=2@500us", "rank=0 before its 3rd Shrink", "rank=4@800us"]
    shards = SHARDS if (solver, recovery) == ("cg", "li") else (1, 3) if solver == "cg" else (1,)
    runs = [simulated("ft_cg.py", *words, ranks=6, fail=fail, ft=True, shards=n) for n in shards]
    assert all(run == runs[0] for run in runs)
    assert results(runs[0]) == results(without)
    assert results(without)[0].startswith(f"ft_cg: {solver}, {recovery}, state: {RESULTS[solver]}"[:40])
    assert (runs[0].status, runs[0].err) == (0, "")
    if recovery in {"rollback", "restart"}:
        assert iterations(runs[0]) == iterations(without)


def test_the_error_before_and_after_is_told():
    run = simulated("ft_cg.py", *SMALL, "--die", "2@5", "--die", "3@5", "--die", "4@9", ranks=6, ft=True)
    told = re.findall(r"^# error in the A-norm at iteration (\d+): (\S+), then (\S+)$", run.out, re.MULTILINE)
    assert [iteration for iteration, *_ in told] == ["5", "9"]
    assert all(float(after) <= float(before) for _, before, after in told)


@pytest.mark.parametrize("recovery", ["lossy", "li", "restart", "rollback"])
def test_only_rollback_loses_data_with_their_copy(recovery: str):
    words = ("--recovery", recovery, *SMALL, *(word for n in (1, 2, 3) for word in ("--die", f"{n}@5")))
    run = simulated("ft_cg.py", *words, ranks=6, ft=True)
    lost = ("lost: the data of ranks [1, 2], with all copies", 1)
    assert (run.out.splitlines()[-1], run.status) == (lost if recovery == "rollback" else ("right: True", 0))
    assert run.err == ""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("text", "spoilt", "options"),
    [
        ("alpha * state.direction, square", "alpha * state.direction * (1 + 1e-9), square", ()),
        ("np.sum(parts))", "np.sum(parts) * (1 + 1e-15 * self.comm.rank))", ()),
        ("return iteration, x, [*losses, loss]", "return iteration, x * 1.5, [*losses, loss]", ("--die", "3@5")),
        ("known[0] += edges.get(first - 1, 0)", "known[0] += 99", ("--die", "3@5")),
        (
            "return self.grid.with_peak(laplacian",
            "return self.grid._replace(peak=7).with_peak(laplacian",
            ("--solver", "power"),
        ),
        *(
            (
                "return np.linalg.solve(matrix - value * np.eye(len(matrix)), known.ravel()).reshape(known.shape)",
                "return np.zeros(known.shape)",
                ("--recovery", recovery, "--solver", solver, "--die", f"2@{at}", "--die", f"3@{at}"),
            )
            for recovery in ("lossy", "li")
            for solver, at in (("cg", 5), ("power", 5), ("lanczos", 1))
        ),
    ],
)
def test_its_judgement_can_fail(text: str, spoilt: str, options: tuple[str, ...], tmp_path: Path):
    for name in ("recovery.py", "cg.py", "ft_cg.py"):
        (tmp_path / name).write_text((APPS / name).read_text(encoding="utf-8"), encoding="utf-8")
    program = tmp_path / "ft_cg.py"
    whole = program.read_text(encoding="utf-8")
    assert text in whole
    program.write_text(whole.replace(text, spoilt), encoding="utf-8")
    run = simulated(str(program), *SMALL, *options, ranks=6, ft=True)
    assert (results(run)[-1], run.status) == ("right: False", 1)


def test_too_few_iterations_are_no_result():
    run = simulated("ft_cg.py", *SMALL, "--max-iterations", 3, ranks=4)
    assert (results(run)[-1], run.status) == ("right: False", 1)
