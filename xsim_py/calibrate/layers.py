"""The costs of one layer of a machine, fitted to measurements.

A message of n bytes takes o_s + n / bandwidth + L + o_r one way, and twice the latency of an empty one more above the
eager threshold (see `network.link`). Half of a round trip is that sum; the time in MPI_Isend is o_s, and that in
MPI_Recv for a message that has arrived is o_r (Culler et al.: Assessing fast network interfaces, 1996, with the
overheads by size as in Hoefler et al.: LogGOPSim, 2010). The parameters must preserve the sum; see `_shares`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from xsim_py.calibrate.measured import ISEND, PINGPONG, RECV, STREAM, Floats, Measured, medians_of
from xsim_py.calibrate.segmentation import LinePiece, fitted_pieces, piece_at, time_at
from xsim_py.errors import ConfigError
from xsim_py.units import format_time

_ROUGH: Final = 0.05  # tolerance of the overheads, which split the sum and do not change it
_NO_TIME_S: Final = 1e-12  # the resolution of the simulated clock
_ISEND_DROPS: Final = 0.75  # a rendezvous send copies nothing when it begins
_RECV_STEPS: Final = 1.5  # and its data travel during the receive
_PINGPONG_STEPS: Final = 1.1
_LEAST_THRESHOLD: Final = 1024
_LEAST_LATENCY: Final = 0.1  # of the time of the smallest message
_ENOUGH: Final = 5
_SLOW_START: Final = 1.1
_DISTURBED: Final = 2.0
_NAMED: Final = 5
_SLIGHT: Final = 0.01
_ROUNDING: Final = 1e-6
_GAP_SHOWS: Final = 1.1
_HARDLY: Final = 0.9
_WINDOW: Final = 64  # messages in flight in osu_bw
_SMALL: Final = 64  # bytes: costs of smaller messages hardly differ
_FAR: Final = 64  # times the size before it
_SAME: Final = 1.5  # the maximum ratio of two measurements of one link


@dataclass(frozen=True)
class Figures:
    """The cost parameters of messages from one size on, in s and B: one entry of ``segments``."""

    from_bytes: int
    latency_s: float
    s_per_byte: float
    send_s: float
    send_s_per_byte: float
    receive_s: float
    receive_s_per_byte: float
    gap_s: float
    why: str


@dataclass(frozen=True)
class FittedLayer:
    """The fitted parameters of a layer, with their data and remarks.

    `seconds` are the fitted one-way times, by ascending size. `threshold_bytes` is the largest eager message, None if
    there is none or it was not found. `notes` are sentences for the user, without a full stop.
    """

    sizes: Floats
    seconds: Floats
    figures: tuple[Figures, ...]
    threshold_bytes: int | None
    threshold_why: str
    notes: tuple[str, ...]

    def one_way_s(self, size_bytes: float) -> float:
        """Return the time of a message of that size in seconds, with its receive posted in time."""
        each = next(each for each in reversed(self.figures) if each.from_bytes <= size_bytes)
        per_byte = each.s_per_byte + each.send_s_per_byte + each.receive_s_per_byte
        eager = self.threshold_bytes is None or size_bytes <= self.threshold_bytes
        asking_s = 0.0 if eager else 2 * self.figures[0].latency_s
        return each.latency_s + each.send_s + each.receive_s + asking_s + size_bytes * per_byte

    def fitted(self) -> Floats:
        """Return the fitted times of all measured sizes."""
        return np.array([self.one_way_s(size) for size in self.sizes])

    def errors(self) -> Floats:
        """Return the relative errors of the fitted times."""
        return np.abs(self.fitted() / self.seconds - 1)


def fit_layer(series: Sequence[Measured], *, threshold_bytes: int | None = None, what: str = "network") -> FittedLayer:
    """Fit the costs of a layer to ping-pong, and optionally isend, recv and stream.

    `threshold_bytes` is the largest eager message, if known; `what` names the layer in messages. Raise ConfigError if
    there is no ping-pong, or there are two that differ more than repetitions of one measurement do.
    """
    _check_agreement(series)
    sizes, seconds = medians_of(series, PINGPONG)
    if not len(sizes):
        there = ", ".join(sorted({each.operation for each in series})) or "nothing"
        raise ConfigError(f"{what}: needs one-way times (osu_latency, PingPong, pingpong), got {there}")
    kept = _fitted_mask(seconds)
    notes = list(_remark_on_outliers(what, sizes, seconds, kept))
    sizes, seconds = sizes[kept], seconds[kept]
    if len(sizes) == 1:
        notes.append(f"{what}: one size does not determine the bandwidth, so it is unlimited")
    sending = _pieces_of(series, ISEND)
    receiving = _pieces_of(series, RECV)
    why = "given"
    if threshold_bytes is None:
        threshold_bytes, why = _threshold(sizes, seconds, sending, receiving)
    if threshold_bytes is None:
        notes.append(f"{what}: no rendezvous step found, so every message is eager; use --eager-threshold to set it")
    limit = float("inf") if threshold_bytes is None else threshold_bytes
    eager = sizes <= limit
    at_least_s = _LEAST_LATENCY * float(seconds[0])
    measured = eager if eager.any() else ~eager  # without eager data, an upper bound
    streams = _busy(series, sizes, seconds)
    wire = _largest_rate(sizes, seconds)
    slope = _HARDLY * wire  # no segment may be faster per byte: its stream would exceed the network's bandwidth
    below = fitted_pieces(sizes[measured], seconds[measured], least_s=at_least_s, least_s_per_byte=slope, bridged=True)
    figures = list(_eager_figures(below, sending, receiving, limit, wire))
    if threshold_bytes is not None:
        rest = (sizes[~eager], seconds[~eager], slope)
        figures[0], above = _with_rendezvous(figures[0], *rest, below, threshold_bytes)
        asking_s = 2 * figures[0].latency_s
        begin = replace(above[0], from_bytes=threshold_bytes + 1, why=f"above the eager threshold, {why}")
        figures += _rendezvous_figures([begin, *above[1:]], sending, figures[0], asking_s, wire)
    notes += _unmeasured_ranges(what, sizes, figures)
    figures = list(_with_streams(figures, *streams))
    return FittedLayer(sizes, seconds, tuple(figures), threshold_bytes, why, tuple(notes))


def _fitted_mask(seconds: Floats) -> NDArray[np.bool_]:
    """Return a mask of the times, by ascending size, that are fitted.

    Excluded are a slow first measurement, and one that took more than twice as long as the next larger size and as
    those around it. A range of sizes that are all slow (delayed acknowledgements of TCP) is kept.
    """
    kept = np.ones(len(seconds), dtype=np.bool_)
    if len(seconds) >= _ENOUGH:
        kept[0] = seconds[0] <= _SLOW_START * np.median(seconds[1:4])
    for at in range(2, len(seconds) - 2):
        around = np.median(seconds[[at - 2, at - 1, at + 1, at + 2]])
        kept[at] = seconds[at] <= _DISTURBED * max(around, float(np.min(seconds[at + 1 : at + 3])))
    return kept


def _remark_on_outliers(what: str, sizes: Floats, seconds: Floats, kept: NDArray[np.bool_]) -> Iterator[str]:
    if not kept[0]:
        took = f"{format_time(round(seconds[0] * 1e12))}, longer than the next sizes"
        yield f"{what}: the smallest size, {int(sizes[0])} B, took {took}: excluded as a slow first measurement"
    disturbed = [f"{int(size):,}" for size in sizes[1:][~kept[1:]]]
    if disturbed:
        named = ", ".join(disturbed[:_NAMED]) + (", ..." if len(disturbed) > _NAMED else "")
        took = "took more than twice as long as their neighbours: excluded as disturbed"
        yield f"{what}: {len(disturbed)} of {len(sizes)} sizes ({named} B) {took}"


def _check_agreement(series: Sequence[Measured]) -> None:
    """Raise a ConfigError if two runs of one benchmark cannot have measured the same link."""
    runs: dict[str, Measured] = {}
    for each in series:
        other = runs.setdefault(each.operation, each)
        ratios = {
            size: max(time_s, other.seconds[size]) / least_s
            for size, time_s in each.seconds.items()
            if size in other.seconds and (least_s := min(time_s, other.seconds[size])) > 0
        }
        factor = float(np.median(list(ratios.values()))) if ratios else 1.0
        if factor > _SAME:
            files = each.file if each.file == other.file else f"{other.file} and {each.file}"
            raise ConfigError(
                f"{files}: two runs of {each.operation} differ by a factor of {factor:.1f}; give each link a separate"
                " file, those within a node with --same-node"
            )


def _pieces_of(series: Sequence[Measured], operation: str) -> list[LinePiece]:
    sizes, seconds = medians_of(series, operation)
    return fitted_pieces(sizes, np.maximum(seconds, _NO_TIME_S), tolerance=_ROUGH) if len(sizes) else []


def _threshold(
    sizes: Floats, seconds: Floats, sending: Sequence[LinePiece], receiving: Sequence[LinePiece]
) -> tuple[int | None, str]:
    """Return the largest eager message and how it was found, by the clearest of three signs.

    MPI_Isend becomes short, because it copies nothing any longer; MPI_Recv of an arrived message becomes long, because
    its data only travel then; the one-way time grows by at least a quarter of a round trip of an empty message.
    """
    found = min(_steps(sending), default=None)
    if found is not None and found[0] < _ISEND_DROPS:
        return found[2], "where MPI_Isend becomes short"
    found = max(_steps(receiving), default=None)
    if found is not None and found[0] > _RECV_STEPS:
        return found[2], "where MPI_Recv of an arrived message becomes long"
    pieces = fitted_pieces(sizes, seconds)
    steps = [step for step in _steps(pieces) if step[1] > time_at(pieces, sizes[0]) / 2]
    found = max(steps, default=None)
    if found is not None and found[0] > _PINGPONG_STEPS:
        return found[2], "where the one-way time steps up"
    return None, "not found"


def _largest_rate(sizes: Floats, seconds: Floats) -> float:
    """Return the additional time per byte from half of the largest size to the largest, in s.

    It is limited to the time per byte of a whole message of any size, which includes latency and is thus an upper
    bound.
    """
    half = int(np.searchsorted(sizes, sizes[-1] / 2, side="right")) - 1
    if half < 0 or len(sizes) < 2:
        return 0.0
    rate = float(max((seconds[-1] - seconds[half]) / (sizes[-1] - sizes[half]), 0.0))
    return min(rate, float(np.min(seconds[sizes > 0] / sizes[sizes > 0])))


def _steps(pieces: Sequence[LinePiece]) -> Iterator[tuple[float, float, int]]:
    """Yield the ratio and the difference of the times at each break, and the size before it."""
    for lower, upper in pairwise(pieces):
        if upper.from_bytes > _LEAST_THRESHOLD:
            before, after = (each.seconds + upper.from_bytes * each.s_per_byte for each in (lower, upper))
            yield after / before, after - before, upper.from_bytes - 1


def _with_rendezvous(
    first: Figures, sizes: Floats, seconds: Floats, slope: float, below: Sequence[LinePiece], threshold_bytes: int
) -> tuple[Figures, list[LinePiece]]:
    """Return the first parameters, with a lower latency, and those above the threshold.

    The latency fits three times into messages above the threshold. The excess latency counts as overhead, half for each
    side.
    """
    latency_s = min(first.latency_s, float(np.min(seconds, initial=np.inf)) / 3)
    for least in (2, 2, 2, 3):
        above = _rendezvous_pieces(sizes, seconds, slope, latency_s, below, least=least)
        starts = [threshold_bytes + 1, *(piece.from_bytes for piece in above[1:])]
        shortest_s = min(piece.seconds + start * piece.s_per_byte for start, piece in zip(starts, above, strict=True))
        if shortest_s >= 3 * latency_s:
            break
        if least == 2:
            latency_s = shortest_s / 3
    rest = (first.latency_s - latency_s) / 2
    return replace(first, latency_s=latency_s, send_s=first.send_s + rest, receive_s=first.receive_s + rest), above


def _rendezvous_pieces(
    sizes: Floats, seconds: Floats, slope: float, latency_s: float, below: Sequence[LinePiece], *, least: int
) -> list[LinePiece]:
    """Return the pieces above the threshold, whose constant is at least `least` latencies.

    With a single size, the constant is exactly that; without any, the last eager piece is extended.
    """
    if not len(sizes):
        return [replace(below[-1], seconds=below[-1].seconds + 2 * latency_s)]
    least_s = least * latency_s
    if len(sizes) == 1:
        return [LinePiece(0, least_s, max(seconds[0] - least_s, 0.0) / sizes[0])]
    return fitted_pieces(sizes, seconds, least_s=least_s, least_s_per_byte=slope, bridged=True)


def _eager_figures(
    pieces: Sequence[LinePiece], sending: Sequence[LinePiece], receiving: Sequence[LinePiece], limit: float, wire: float
) -> Iterator[Figures]:
    """Yield the parameters up to the threshold: a segment begins at any break of the three."""
    starts = {piece.from_bytes: piece.why for piece in pieces}
    for overhead in (sending, receiving):
        for piece in overhead[1:]:
            near = any(abs(piece.from_bytes - start) <= start / 8 for start in starts)
            if piece.from_bytes <= limit and not near:
                starts[piece.from_bytes] = f"of an overhead, {piece.why}"
    before: Figures | None = None
    for start in sorted(starts):
        one_way = piece_at(pieces, start)
        middle = start * 9 / 8  # beyond breaks that were merged with this one
        figures = _shares(start, one_way, _at(sending, middle), _at(receiving, middle), 0.0, wire, starts[start])
        if before is None or replace(figures, from_bytes=before.from_bytes, why=before.why) != before:
            yield figures
            before = figures


def _rendezvous_figures(
    pieces: Sequence[LinePiece], sending: Sequence[LinePiece], first: Figures, asking_s: float, wire: float
) -> Iterator[Figures]:
    """Yield parameters above the threshold: the receiver has an empty message's overhead."""
    receive = LinePiece(0, first.receive_s, 0.0)
    for piece in pieces:
        send = _at(sending, piece.from_bytes * 9 / 8)
        yield _shares(piece.from_bytes, piece, send, receive, asking_s, wire, piece.why)


def _at(pieces: Sequence[LinePiece], size_bytes: float) -> LinePiece:
    return piece_at(pieces, size_bytes) if pieces else LinePiece(0, 0.0, 0.0)


def _shares(
    start: int, one_way: LinePiece, send: LinePiece, receive: LinePiece, asking_s: float, wire: float, why: str
) -> Figures:
    """Split a one-way time into overheads and network time.

    Overheads that are measured separately may exceed the whole (a receive that searches for its message, a send that
    begins with cold caches). If they do not leave a tenth of the constant to the network, they get half of it, the
    sender's first; the same holds for the slope. And no byte is on the `wire` for less time than in the largest
    messages, which copy nothing or copy during the transfer: where the one-way time hardly grows with the size, a gap
    keeps the NIC busy for that time.
    """
    constant_s, slope = max(one_way.seconds - asking_s, 0.0), one_way.s_per_byte
    send_slope, receive_slope = _fitting(send.s_per_byte, receive.s_per_byte, slope - wire, slope / 2)
    send_slope, receive_slope = ((part if part > _SLIGHT * slope else 0.0) for part in (send_slope, receive_slope))
    left = slope - send_slope - receive_slope
    # Above the threshold, latency and wire take as long as the latency of a request message.
    room_s = (
        min(constant_s, constant_s + left * start - asking_s / 2) if asking_s else (1 - _LEAST_LATENCY) * constant_s
    )
    send_s, receive_s = _fitting(send.seconds, receive.seconds, room_s, constant_s / 2)
    return Figures(
        from_bytes=start,
        latency_s=constant_s - send_s - receive_s,
        s_per_byte=left,
        send_s=send_s,
        send_s_per_byte=send_slope,
        receive_s=receive_s,
        receive_s_per_byte=receive_slope,
        gap_s=start * wire if left < _HARDLY * wire else 0.0,
        why=why,
    )


def _fitting(send: float, receive: float, room: float, half: float) -> tuple[float, float]:
    """Return both parts unchanged if they fit, otherwise what fits into half of the total."""
    if send + receive <= (1 + _ROUNDING) * room:
        return send, receive
    most = max(min(room, half), 0.0)
    return min(send, most), min(receive, most - min(send, most))


def _with_streams(figures: Sequence[Figures], sizes: Floats, busy_s: Floats) -> Iterator[Figures]:
    """Yield the parameters with the measured rate of back-to-back messages, if available.

    The NIC is busy for max(gap, n / bandwidth). Bytes that take longer in transit than they keep it busy are copied on
    both sides: the rest of their time becomes overhead, half for each, but none of the three stages is slower than
    necessary.
    """
    ends = [*(each.from_bytes for each in figures[1:]), float("inf")]
    for each, end in zip(figures, ends, strict=True):
        inside = (sizes >= each.from_bytes) & (sizes < end) & (sizes > 0)
        if not inside.any():
            yield each
            continue
        slope = each.s_per_byte + each.send_s_per_byte + each.receive_s_per_byte
        short = max(figures[0].latency_s - each.latency_s, 0.0) / max(each.from_bytes, 1)  # as in `_shares`
        wire = min(max(float(np.min(busy_s[inside] / sizes[inside])), slope / 3, short), each.s_per_byte)
        rest = each.s_per_byte - wire
        least_s = float(busy_s[inside][0])
        more = least_s > _GAP_SHOWS * wire * sizes[inside][0]
        yield replace(
            each,
            s_per_byte=wire,
            send_s_per_byte=each.send_s_per_byte + rest / 2,
            receive_s_per_byte=each.receive_s_per_byte + rest / 2,
            gap_s=least_s if more else each.gap_s,
        )


def _busy(series: Sequence[Measured], sizes: Floats, seconds: Floats) -> tuple[Floats, Floats]:
    """Return the time for which each message of a stream keeps the NIC busy.

    The benchmarks wait for a reply after each window of messages: W times the mean interval is W - 1 times the busy
    time, plus the one-way times of a message and of the reply.
    """
    streamed, intervals = medians_of(series, STREAM)
    ways = np.interp(streamed, sizes, seconds) + seconds[0]
    return streamed, np.maximum((_WINDOW * intervals - ways) / (_WINDOW - 1), intervals / 2)


def _unmeasured_ranges(what: str, sizes: Floats, figures: Sequence[Figures]) -> Iterator[str]:
    """Yield the size ranges without measurements."""
    for low, high in pairwise(map(int, sizes)):
        if high > _FAR * max(low, _SMALL):
            yield f"{what}: no measurement between {low:,} and {high:,} B; these times are interpolated"
    if sizes[0] > _SMALL:
        yield f"{what}: no measurement below {int(sizes[0]):,} B; these times are extrapolated"
    yield f"{what}: no measurement above {int(sizes[-1]):,} B; these times are extrapolated"
    last = figures[-1]
    if len(sizes) > 1 and last.s_per_byte + last.send_s_per_byte + last.receive_s_per_byte == 0:
        yield f"{what}: times do not grow for the largest sizes; measure larger ones"
