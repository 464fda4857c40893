"""Straight lines piece by piece, judged by brute force and by curves whose pieces are known."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xsim_py.calibrate.segmentation import (
    _all_lines,
    _optimal_cuts,
    fitted_pieces,
    limit_between,
    roundest,
    time_at,
)


def nonnegative_line(sizes: np.ndarray, seconds: np.ndarray) -> float:
    """The least squared relative error of a line with a, b >= 0: the best of the faces of the quadrant."""
    weights = 1 / seconds
    errors = []
    for columns in ((0, 1), (0,), (1,)):
        design = (np.vstack([np.ones_like(sizes), sizes]).T * weights[:, None])[:, columns]
        found, *_ = np.linalg.lstsq(design, np.ones_like(sizes), rcond=None)
        if (found >= -1e-15).all():
            errors.append(float(((design @ found - 1) ** 2).sum()))
    return min(errors)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5000), st.floats(0.1, 10)), min_size=6, max_size=10, unique_by=lambda p: p[0]))
def test_no_other_places_of_the_breaks_are_better(points: list[tuple[int, float]]):
    sizes, seconds = (np.array(column, dtype=float) for column in zip(*sorted(points), strict=True))
    errors, *_ = _all_lines(sizes, seconds, 0.0, 0.0)
    best, cuts = _optimal_cuts(errors, 2, 3)
    count = len(sizes)
    for pieces, (found, starts) in enumerate(zip(best, cuts, strict=True), 1):
        every = []
        for inner in combinations(range(1, count), pieces - 1):
            ends = [0, *inner, count]
            if min(np.diff(ends)) >= 2:
                spans = pairwise(ends)
                every.append(sum(nonnegative_line(sizes[i:j], seconds[i:j]) for i, j in spans))
        assert found == pytest.approx(min(every), rel=1e-6, abs=1e-9)
        assert len(starts) == pieces


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(6, 60), min_size=1, max_size=4),
    st.lists(st.floats(0.5, 8), min_size=4, max_size=4),
    st.integers(0, 2**32),
)
def test_pieces_that_are_there_are_found(steps: list[int], jumps: list[float], seed: int):
    """A curve with jumps of at least half as much again, and noise of a thousandth."""
    chance = np.random.default_rng(seed)
    sizes = np.unique(np.round(np.exp(chance.uniform(0, np.log(1e6), 200))))
    breaks = np.cumsum(steps) * 1e6 / 260
    which = np.searchsorted(breaks, sizes, side="right")
    truth = 1e-6 * np.cumprod([1, *(1 + jump for jump in jumps)])[which] * (1 + sizes / 4e5)
    pieces = fitted_pieces(sizes, truth * (1 + 0.001 * chance.standard_normal(len(sizes))))
    errors = np.abs([time_at(pieces, size) for size in sizes] / truth - 1)
    lonely = np.bincount(which, minlength=5)[which] < 8
    assert np.mean(errors[~lonely] < 0.01) > 0.9


def test_one_line_is_one_piece():
    sizes = np.array([float(2**power) for power in range(20)])
    (piece,) = fitted_pieces(sizes, 1e-6 + 1e-9 * sizes)
    assert (piece.seconds, piece.s_per_byte) == pytest.approx((1e-6, 1e-9), rel=1e-6)


def test_noise_does_not_become_pieces():
    chance = np.random.default_rng(1)
    sizes = np.unique(np.round(np.exp(chance.uniform(0, 14, 200))))
    times = (2e-6 + 1e-9 * sizes) * (1 + 0.05 * chance.standard_normal(len(sizes)))
    assert len(fitted_pieces(sizes, times)) == 1


@pytest.mark.parametrize("count", range(1, 8))
def test_few_sizes_are_enough(count: int):
    sizes = np.array([float(4**power) for power in range(count)])
    pieces = fitted_pieces(sizes, 1e-6 + 1e-9 * sizes)
    assert pieces[0].from_bytes == 0
    assert [time_at(pieces, size) for size in sizes] == pytest.approx(1e-6 + 1e-9 * sizes, rel=1e-3)


def test_many_sizes_are_fitted_as_groups():
    sizes = np.arange(1.0, 20001.0)
    pieces = fitted_pieces(sizes, np.where(sizes <= 8192, 1e-6, 3e-6) + 1e-9 * sizes)
    assert pieces[-1].from_bytes == 8193
    assert [time_at(pieces, size) for size in (1, 8000, 8193, 20000)] == pytest.approx(
        [1.001e-6, 9e-6, 1.1193e-5, 2.3e-5]
    )


def test_far_sizes_with_a_step_between_them_are_joined():
    """Half of a step is less of an error than a whole one on the wrong side."""
    sizes = np.array([4.0**power for power in range(12)])
    seconds = np.where(sizes <= 1024, 2e-6, 6e-6) + 1e-9 * sizes
    *_, lower, bridge, upper = fitted_pieces(sizes, seconds, bridged=True)
    assert (bridge.from_bytes, upper.from_bytes) == (1025, 4096)
    assert "somewhere between 1,024 and 4,096 B" in bridge.why
    middle = time_at([lower, bridge, upper], 2560)
    assert middle == pytest.approx((seconds[5] + seconds[6]) / 2, rel=1e-3)
    near = fitted_pieces(
        sizes := np.array([2.0**power for power in range(20)]), np.where(sizes <= 1024, 2e-6, 6e-6), bridged=True
    )
    assert [piece.from_bytes for piece in near] == [0, 1025]
    falling = fitted_pieces(np.array([4.0**power for power in range(12)]), seconds[::-1].copy(), bridged=True)
    assert not [piece for piece in falling if "joins" in piece.why]


def test_a_least_time_is_kept():
    sizes = np.arange(1.0, 60.0)
    assert min(piece.seconds for piece in fitted_pieces(sizes, 1e-6 * sizes, least_s=5e-7)) >= 5e-7


@pytest.mark.parametrize(
    ("low", "high", "limit", "why"),
    [
        (65536, 131072, 65536, "a round number"),
        (17107, 17498, 17408, "a round number"),  # 17 KiB
        (60000, 70000, 65536, "a round number"),
        (146, 158, 151, "the middle by ratio"),
        (146, 165, 155, "the middle by ratio"),  # 160 is there by chance
        (7, 8, 7, "the middle by ratio"),
        (0, 1, 0, "the middle by ratio"),
    ],
)
def test_a_break_is_at_a_round_number_or_in_the_middle(low: int, high: int, limit: int, why: str):
    assert limit_between(low, high) == (limit, why)


@given(st.integers(0, 10**6), st.integers(1, 10**5))
def test_the_roundest_number_is_divided_by_the_greatest_power_of_two(low: int, more: int):
    def power(number: int) -> int:
        return number & -number if number else 0

    found = roundest(low, low + more)
    assert low <= found < low + more
    if more <= 300:
        assert power(found) == max(power(number) for number in range(low, low + more))
