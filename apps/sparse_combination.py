"""Mathematics of the sparse grid combination: coefficients, interpolation, closed forms.

A grid (i, j) has 2^i by 2^j cells of the unit square, with periodic boundaries. The combination of level n adds the
grids with i + j = n + 1, and subtracts those with i + j = n. If grids are lost, the general coefficient problem of
Harding and Hegland gives the best remaining combination.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    Grid = tuple[int, int]
    Coefficients = dict[Grid, int]

COURANT = 0.5  # on the axis with the most cells, at velocity 1


# -------------------------------------------------------------------------------------------------------- coefficients


def diagonal(sum_: int) -> list[Grid]:
    """Return the grids (i, j) with that sum, i and j from 1 on."""
    return [(i, sum_ - i) for i in range(1, sum_)]


def triangle(level: int) -> set[Grid]:
    """Return all grids (i, j) at most as fine as those of the combination of a level."""
    return {grid for sum_ in range(2, level + 2) for grid in diagonal(sum_)}


def coefficients(kept: Collection[Grid]) -> Coefficients:
    """Return the inclusion-exclusion coefficients of a set closed under coarser grids."""
    sums = {
        (i, j): sum((-1) ** (a + b) * ((i + a, j + b) in kept) for a in (0, 1) for b in (0, 1)) for i, j in sorted(kept)
    }
    return {grid: c for grid, c in sums.items() if c}


def recombined(lost: Collection[Grid], level: int) -> Coefficients:
    """Return the best combination without the lost grids (general coefficient problem), or {}.

    It has the largest sum of 4^-(i + j); ties go to the first sorted list of dropped grids.
    """
    best: tuple[int, list[Grid], Coefficients] | None = None
    whole = triangle(level)
    for heights in _staircases(level, level):
        kept = {(i, j) for i, height in enumerate(heights, 1) for j in range(1, height + 1)}
        found = coefficients(kept)
        if kept and not found.keys() & set(lost):
            weight = sum(4 ** (level + 1 - i - j) for i, j in kept)
            candidate = (-weight, sorted(whole - kept), found)
            best = candidate if best is None else min(best, candidate, key=lambda each: each[:2])
    return best[2] if best else {}


def _staircases(level: int, most: int, i: int = 1) -> Iterator[tuple[int, ...]]:
    """Yield the heights of all sets closed under coarser grids."""
    if i > level:
        yield ()
        return
    for height in range(min(level + 1 - i, most) + 1):
        for rest in _staircases(level, height, i + 1):
            yield (height, *rest)


def judged_best(lost: Collection[Grid], level: int) -> Coefficients:
    """Return the result of `recombined` by a second method: column by column, from the corners.

    A set closed under coarser grids is a staircase of heights, one per column. Its coefficient is 1 at outer corners,
    where a column is higher than the next, and -1 at inner corners between two of them. So the use of a grid depends on
    two columns alone. The best choice from one column on, given its height, follows from the best from the next one on.
    """
    best: list[tuple[int, list[Grid], Coefficients] | None] = [(0, [], {})]  # by the height of the column after it
    for i in range(level, 0, -1):
        highest, longer = level + 1 - i, []
        for height in range(highest + 1):
            weight = -sum(4 ** (level + 1 - i - j) for j in range(1, height + 1))
            dropped = [(i, j) for j in range(height + 1, highest + 1)]
            found = []
            for next_, rest in enumerate(best[: height + 1]):
                corners = {(i, height): 1} | ({(i, next_): -1} if next_ else {}) if next_ < height else {}
                if rest is not None and not corners.keys() & set(lost):
                    found.append((weight + rest[0], dropped + rest[1], corners | rest[2]))
            longer.append(min(found, key=lambda each: each[:2], default=None))
        best = longer
    return min((each for each in best[1:] if each), key=lambda each: each[:2], default=(0, [], {}))[2]


# ------------------------------------------------------------------------------------------------------- interpolation


def nodes(exponent: int, *, closed: bool = False) -> np.ndarray:
    """Return the nodes of 2^exponent cells of [0, 1), or of [0, 1]."""
    return np.arange(2**exponent + closed) / 2**exponent


def interpolated(values: np.ndarray, to: int) -> np.ndarray:
    """Interpolate linearly along the first axis, from nodes of [0, 1) to the 2^to + 1 nodes of [0, 1]."""
    places = nodes(to, closed=True) * len(values)
    below = np.minimum(places.astype(int), len(values) - 1)
    weight = (places - below)[:, None]
    return values[below] * (1 - weight) + values[(below + 1) % len(values)] * weight


# ------------------------------------------------------------------------------------------------ problems, closed form


class Problem(NamedTuple):
    """A product of the same profile on both axes that moves with a constant velocity."""

    shape: Callable[[np.ndarray], np.ndarray]
    velocity: tuple[float, float]

    def profile(self, x: np.ndarray) -> np.ndarray:
        """Return the initial values, rounded so that their bits are the same on every computer."""
        return np.round(self.shape(x) * 2**32) / 2**32


PROBLEMS = {
    "advection": Problem(lambda x: np.sin(2 * np.pi * x), (1.0, 0.5)),
    # The function stands still, so that the error is that of the combination alone.
    "sine": Problem(lambda x: np.sin(np.pi * x), (0.0, 0.0)),
    # A Maxwell distribution of velocities, from -3 to 3 thermal speeds, accelerated by a force along the first axis.
    "gene": Problem(lambda x: np.exp(-9 * (2 * (x % 1) - 1) ** 2), (0.5, 0.0)),
}


def courant(problem: Problem, axis: int, exponent: int, finest: int) -> float:
    """Return the cells per step along an axis, with equal steps on all grids."""
    return problem.velocity[axis] * COURANT * 2.0 ** (exponent - finest)


def on_grid(problem: Problem, grid: Grid, finest: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the Lax-Wendroff solution on a grid after a number of steps, by its Fourier symbol."""
    return tuple(_moved(problem, axis, grid[axis], finest, steps) for axis in (0, 1))


def _moved(problem: Problem, axis: int, exponent: int, finest: int, steps: int) -> np.ndarray:
    c, angles = courant(problem, axis, exponent, finest), 2 * np.pi * np.fft.fftfreq(2**exponent)
    symbol = 1 - c * c * (1 - np.cos(angles)) - 1j * c * np.sin(angles)
    return np.fft.ifft(np.fft.fft(problem.profile(nodes(exponent))) * symbol**steps).real


def exact(problem: Problem, finest: int, steps: int, to: int) -> np.ndarray:
    """Return the solution of the equation itself at 2^to + 1 nodes of each axis."""
    time = steps * COURANT / 2**finest
    return np.outer(*(problem.profile(nodes(to, closed=True) - speed * time) for speed in problem.velocity))


def combined(
    problem: Problem, sources: Sequence[tuple[int, Grid, Grid]], finest: int, steps: int, to: int
) -> np.ndarray:
    """Combine closed forms, each given by coefficient, grid, and the grid of its values."""
    total = np.zeros((2**to + 1, 2**to + 1))
    for coefficient, grid, source in sources:
        axes = on_grid(problem, source, finest, steps)
        profiles = (values[:: 2 ** (source[axis] - grid[axis])] for axis, values in enumerate(axes))
        total += coefficient * np.outer(*(interpolated(values[:, None], to)[:, 0] for values in profiles))
    return total
