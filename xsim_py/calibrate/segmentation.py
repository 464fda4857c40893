"""Piecewise linear fits: T(n) = a + b n, with pieces chosen by penalised least squares.

All positions of the breaks are tried, by dynamic programming over the sorted sizes (Bellman: On the approximation of
curves by line segments using dynamic programming, 1961; Bai, Perron: Computation and analysis of multiple structural
change models, 2003), and the number of pieces minimises the Bayesian information criterion (Yao: Estimating the number
of change-points via Schwarz' criterion, 1988). Errors are relative: 1 us of 2 us counts as much as 1 s of 2 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import Final

import numpy as np

from xsim_py.calibrate.measured import Floats

_MANY: Final = 48  # sizes, from which on a piece has at least four
_FEW: Final = 2  # the minimum with fewer sizes, which benchmarks print as means of many repetitions
_MOST_SIZES: Final = 1000  # the dynamic programme takes quadratic time
_MOST_PIECES: Final = 12
_KIB: Final = 1024
_PENALTY: Final = 3  # for the parameters of a piece: its begin, a and b
_PENALTY_OF_FEW: Final = 4  # because with few sizes, the chosen breaks fit them too well
_MEETING: Final = "where the lines meet"


@dataclass(frozen=True)
class LinePiece:
    """One straight line: ``seconds + bytes * s_per_byte`` from a size on.

    `why` is the rule by which its begin was placed between two measured sizes.
    """

    from_bytes: int
    seconds: float
    s_per_byte: float
    why: str = ""


def fitted_pieces(
    sizes: Floats,
    seconds: Floats,
    *,
    least_s: float = 0.0,
    least_s_per_byte: float = 0.0,
    tolerance: float = 0.005,
    bridged: bool = False,
) -> list[LinePiece]:
    """Return the pieces of measured times.

    Sizes are unique and ascending, in bytes, and times positive; both have shape (n,). `least_s` and `least_s_per_byte`
    are the smallest ``a`` and ``b`` of any piece. An improvement below the `tolerance`, a relative error, is ignored as
    measurement noise. If `bridged`, two pieces are joined by a straight line if the sizes that end and begin them
    differ by more than a factor of two, so that a break may be anywhere: half of a step is a smaller error than a whole
    one on the wrong side.
    """
    if len(sizes) > _MOST_SIZES:
        sizes, seconds = _grouped(sizes), _grouped(seconds)
    count = len(sizes)
    least, each = (4, 4) if count >= _MANY else (_FEW, _FEW + 1)  # minimum, and average
    errors, a, b = _all_lines(sizes, seconds, least_s, least_s_per_byte)
    penalty = _PENALTY if count >= _MANY else _PENALTY_OF_FEW
    best, cuts = _optimal_cuts(errors, least, min(_MOST_PIECES, max(count // each, 1)))
    criteria = [
        count * log(error / count + tolerance**2) + penalty * pieces * log(count)
        for pieces, error in enumerate(best, 1)
    ]
    chosen = cuts[int(np.argmin(criteria))]
    ends = [*chosen[1:], count]
    found = [
        LinePiece(int(sizes[i]), float(a[i, j - 1]), float(b[i, j - 1])) for i, j in zip(chosen, ends, strict=True)
    ]
    pieces = [LinePiece(0, found[0].seconds, found[0].s_per_byte)]
    for index, piece in zip(chosen[1:], found[1:], strict=True):
        low, high = int(sizes[index - 1]), int(sizes[index])
        start, why = _break(pieces[-1], piece, low, high)
        bridge = _bridge(pieces[-1], piece, low, high) if bridged and not why.startswith(_MEETING) else None
        if bridge is not None and bridge.seconds >= least_s and bridge.s_per_byte >= least_s_per_byte:
            start, why = high, "the end of that line"
            pieces.append(bridge)
        pieces.append(LinePiece(start, piece.seconds, piece.s_per_byte, why))
    return pieces


def piece_at(pieces: Sequence[LinePiece], size_bytes: float) -> LinePiece:
    """Return the piece that contains a size."""
    return next((piece for piece in reversed(pieces) if piece.from_bytes <= size_bytes), pieces[0])


def time_at(pieces: Sequence[LinePiece], size_bytes: float) -> float:
    """Return the fitted time of a size in seconds."""
    piece = piece_at(pieces, size_bytes)
    return piece.seconds + size_bytes * piece.s_per_byte


def roundest(low: int, high: int) -> int:
    """Return the number in [low, high) divisible by the largest power of two; 0 counts as odd."""
    for bits in range(high.bit_length(), -1, -1):
        multiple = max((low + (1 << bits) - 1) >> bits, 1) << bits
        if multiple < high:
            return multiple
    return low


def limit_between(low: int, high: int) -> tuple[int, str]:
    """Return the largest size of the lower piece, which ends between the sizes `low` and `high`.

    It is a round number, as in protocols: a power of two, or the only multiple of 1 KiB between the two. Otherwise it
    is the geometric mean.
    """
    limit = roundest(low, high)
    power = limit & -limit
    if limit and (power == limit or power >= max(high - low, _KIB)):
        return limit, "a round number"
    return min(max(int(sqrt(max(low, 1) * high)), low), high - 1), "the middle by ratio"


def _break(lower: LinePiece, upper: LinePiece, low: int, high: int) -> tuple[int, str]:
    """Return the first size of the upper of two pieces, and the rule by which it was found."""
    between = f"{low:,} and {high:,} B"
    if lower.s_per_byte != upper.s_per_byte:
        meet = (upper.seconds - lower.seconds) / (lower.s_per_byte - upper.s_per_byte)
        if low < meet <= high:
            return ceil(meet), f"{_MEETING} between {between}"
    limit, why = limit_between(low, high)
    return limit + 1, f"{why} between {between}"


def _bridge(lower: LinePiece, upper: LinePiece, low: int, high: int) -> LinePiece | None:
    """Return the line from one piece's end to the next one's begin, if far apart and rising."""
    if high <= 2 * low:
        return None
    from_s, to_s = lower.seconds + low * lower.s_per_byte, upper.seconds + high * upper.s_per_byte
    slope = (to_s - from_s) / (high - low)
    if slope < 0:
        return None
    why = f"a step somewhere between {low:,} and {high:,} B, where a straight line joins both sides"
    return LinePiece(low + 1, from_s - low * slope, slope, why)


def _grouped(values: Floats) -> Floats:
    """Return the means of at most `_MOST_SIZES` groups; means of a line's points are on it, too."""
    return np.array([group.mean() for group in np.array_split(values, _MOST_SIZES)])


def _all_lines(
    sizes: Floats, seconds: Floats, least_s: float, least_s_per_byte: float
) -> tuple[Floats, Floats, Floats]:
    """Return squared relative errors, a and b of the best line through sizes i to j (i <= j).

    All are (n, n) arrays. The normal equations with weights 1/T^2 follow from prefix sums. At a bound, the best line is
    that with the other parameter alone.
    """
    weight = 1 / seconds
    rest = (seconds - least_s - least_s_per_byte * sizes) * weight

    def sums(values: Floats) -> Floats:
        prefix = np.concatenate(([0.0], np.cumsum(values)))
        table: Floats = prefix[None, 1:] - prefix[:-1, None]
        return table

    slope = weight * sizes
    ww, ws, ss = sums(weight * weight), sums(weight * slope), sums(slope * slope)
    wr, sr, rr = sums(weight * rest), sums(slope * rest), sums(rest * rest)
    with np.errstate(all="ignore"):
        determinant = ww * ss - ws * ws
        solvable = determinant > 1e-12 * ww * ss
        a = np.where(solvable, (wr * ss - sr * ws) / determinant, wr / ww)
        b = np.where(solvable, (ww * sr - ws * wr) / determinant, 0.0)
        a, b = np.where(b < 0, wr / ww, a), np.maximum(b, 0.0)
        b = np.where(a < 0, np.where(ss > 0, np.maximum(sr / ss, 0.0), 0.0), b)
        a = np.maximum(a, 0.0)
        errors = rr - 2 * a * wr - 2 * b * sr + a * a * ww + 2 * a * b * ws + b * b * ss
    return np.maximum(errors, 0.0), a + least_s, b + least_s_per_byte


def _optimal_cuts(errors: Floats, least: int, most_pieces: int) -> tuple[list[float], list[list[int]]]:
    """Return the minimum error per number of pieces, and the indices at which they begin."""
    count = len(errors)
    place = np.arange(count)
    allowed = np.where(place[None, :] - place[:, None] >= min(least, count) - 1, errors, np.inf)
    ended, before = [allowed[0]], [np.zeros(count, dtype=np.intp)]
    for _ in range(1, most_pieces):
        total = ended[-1][:-1, None] + allowed[1:]
        before.append(total.argmin(axis=0) + 1)
        ended.append(total.min(axis=0))
    best, cuts = list[float](), list[list[int]]()
    for pieces in range(1, most_pieces + 1):
        if not np.isfinite(ended[pieces - 1][-1]):
            break
        starts, end = list[int](), count
        for level in range(pieces - 1, 0, -1):
            end = int(before[level][end - 1])
            starts.append(end)
        best.append(float(ended[pieces - 1][-1]))
        cuts.append([0, *reversed(starts)])
    return best, cuts
