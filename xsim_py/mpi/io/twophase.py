"""Collective access to a file, in two phases as in ROMIO.

All ranks exchange the ranges that they access. If these do not overlap, each rank accesses the file independently
(`independent`). If they do, one rank per node (an aggregator, hint ``cb_nodes``) accesses an equal share of the total
range for all: to write, each rank sends it the pieces in its share; it merges them and writes them in chunks
(``cb_buffer_size``), which are then few and large. To read, the ranks send requests and get the data back. The hints
``romio_cb_write`` and ``romio_cb_read`` are ``enable``, ``disable`` or ``automatic``.

Prior art: del Rosario, Bordawekar and Choudhary (1993); Thakur, Gropp and Lusk (1999). ROMIO exchanges the data of each
chunk in turn; here all of them are exchanged at once, so an aggregator needs memory for its share.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.calls import CollectiveChannel, pick
from xsim_py.mpi.management import gather_everywhere
from xsim_py.mpi.typemap import Layout

from . import independent
from .openfile import OpenFile
from .view import Integers, Pieces, clipped, joined

CHANNELS = 4
"""The maximum number of collectives in a call."""

_RANGE = struct.Struct("<qqq")
_NO_RANGE = _RANGE.pack(-1, -1, 0)
_COUNT = struct.Struct("<q")
_REPLY = struct.Struct("<qq")
_WHOLE = 1 << 62

_SMALLEST_SHARE = 1 << 16
"""Bytes: smaller shares are not worth another aggregator. ROMIO uses a stripe of the file system, if it has stripes."""


class _Share(NamedTuple):
    """The part of a file that one aggregator accesses for all."""

    owner: int
    low: int
    high: int


class _Plan(NamedTuple):
    """The shares of all aggregators, as known to all ranks.

    They are empty if each rank accesses the file independently.
    """

    shares: list[_Share]
    ranges: Integers

    def contributors(self, share: _Share) -> list[int]:
        """Return the ranks whose ranges overlap a share."""
        found: list[int] = np.flatnonzero((self.ranges[:, 0] < share.high) & (self.ranges[:, 1] > share.low)).tolist()
        return found

    def touches(self, place: int, share: _Share) -> bool:
        """Return True if a rank's range overlaps a share."""
        return bool(self.ranges[place, 0] < share.high and self.ranges[place, 1] > share.low)


_INDEPENDENT = _Plan([], np.empty((0, 3), np.int64))


def _plan(file: OpenFile, ch: CollectiveChannel, pieces: Pieces, *, writing: bool) -> _Plan:
    wanted = file.hints.two_phase(writing=writing)
    if file.atomic or wanted == "disable" or len(file.comm.ranks) == 1:
        return _INDEPENDENT
    table = gather_everywhere(ch, _RANGE.pack(pieces.low, pieces.high, pieces.overlap))
    packed = b"".join(_NO_RANGE if entry is None else entry for entry in table)
    return _plan_of(packed, tuple(file.hints.aggregators), wanted == "enable")


@lru_cache(maxsize=16)
def _plan_of(packed: bytes, owners: tuple[int, ...], always: bool) -> _Plan:
    """Return the plan for the ranges of all ranks, computed by the first rank that needs it."""
    ranges = np.frombuffer(packed, np.int64).reshape(-1, 3)
    used = ranges[ranges[:, 0] >= 0]
    if used[:, 2].any():  # overlapping pieces cannot be cut at the border of a share
        return _INDEPENDENT
    meet = (used[1:, 0] < used[:-1, 1]).any()
    if not len(used) or not (meet or always):
        return _INDEPENDENT
    low, high = int(used[:, 0].min()), int(used[:, 1].max())
    each = max(-(-(high - low) // len(owners)), _SMALLEST_SHARE)
    shares = [
        _Share(owner, low + number * each, min(low + (number + 1) * each, high)) for number, owner in enumerate(owners)
    ]
    return _Plan([share for share in shares if share.low < share.high], ranges)


# ------------------------------------------------------------------------------------------------------- lists


def _packed(pieces: Pieces) -> bytes:
    return _COUNT.pack(len(pieces)) + pieces.starts.tobytes() + pieces.sizes.tobytes()


def _unpacked(packed: bytes) -> tuple[Pieces, bytes]:
    """Return a list of pieces, and the data that follow it."""
    (count,) = _COUNT.unpack_from(packed)
    numbers = np.frombuffer(packed, np.int64, 2 * count, _COUNT.size)
    return Pieces(numbers[:count], numbers[count:]), packed[_COUNT.size + numbers.nbytes :]


class _Union:
    """The union of several lists of pieces, as consecutive runs: the memory of an aggregator."""

    def __init__(self, lists: Sequence[Pieces]) -> None:
        starts = np.concatenate([pieces.starts for pieces in lists])
        order = np.argsort(starts, kind="stable")
        starts = starts[order]
        ends = np.maximum.accumulate(starts + np.concatenate([pieces.sizes for pieces in lists])[order])
        heads = np.flatnonzero(np.concatenate(([True], starts[1:] > ends[:-1])))
        tails = np.append(heads[1:] - 1, len(starts) - 1)
        self.pieces = Pieces(starts[heads], ends[tails] - starts[heads])
        self._begins = np.cumsum(self.pieces.sizes) - self.pieces.sizes

    def layout(self, pieces: Pieces) -> Layout:
        """Return the locations of pieces in the memory."""
        offsets: Integers
        if len(self.pieces) == 1:
            offsets = pieces.starts - self.pieces.starts
        else:
            runs = np.searchsorted(self.pieces.starts, pieces.starts, "right") - 1
            offsets = self._begins[runs] + pieces.starts - self.pieces.starts[runs]
        found = joined(offsets, pieces.sizes)
        return Layout((), found.starts, found.sizes)


# ------------------------------------------------------------------------------------------------------- write


def write(file: OpenFile, chs: Sequence[CollectiveChannel], pieces: Pieces, data: bytes) -> None:
    """Write this rank's pieces, whose bytes are consecutive in `data`."""
    plan = _plan(file, chs[0], pieces, writing=True)
    if not plan.shares:
        independent.write_alone(file, pieces, data)
        return
    ch, me = chs[1], file.comm.me
    parts, position = {}, 0
    for share in plan.shares:
        part = clipped(pieces, share.low, share.high)
        if plan.touches(me, share):
            parts[share.owner] = _packed(part) + data[position : position + part.total]
        position += part.total
    sends = [ch.isend(owner, part) for owner, part in parts.items() if owner != me]
    mine = next((share for share in plan.shares if share.owner == me), None)
    received = _receive(ch, plan, mine, parts.get(me), sends)
    code = c.SUCCESS
    if mine is not None and received:
        try:
            _write_share(file, [_unpacked(packed) for packed in received])
        except errors.Exception as error:
            code = error.Get_error_class()
    _agree(file, chs[3], plan, code)


def _agree(file: OpenFile, ch: CollectiveChannel, plan: _Plan, code: int) -> None:
    """Distribute the aggregators' error codes, or that of a single one, to all ranks."""
    packed = _COUNT.pack(code)
    if len(plan.shares) == 1:
        owner = plan.shares[0].owner
        worst = pick(file.comm, "bcast", len(packed))(ch, packed if ch.rank == owner else None, owner, len(packed))
    else:
        worst = pick(file.comm, "allreduce", len(packed))(ch, packed, _Largest())
    (code,) = _COUNT.unpack(worst)
    if code:
        errors.fail(code, "an aggregator could not write")


def _receive(
    ch: CollectiveChannel, plan: _Plan, mine: _Share | None, own: bytes | None, sends: list[Any]
) -> list[bytes]:
    """Receive the ranks' messages to an aggregator, in rank order.

    Wait for this rank's sends, too.
    """
    others = [] if mine is None else [place for place in plan.contributors(mine) if place != ch.rank]
    received = ch.wait([*sends, *(ch.irecv(place) for place in others)])[len(sends) :]
    packed = dict(zip(others, received, strict=True))
    if mine is not None and own is not None:
        packed[ch.rank] = own
    return [entry for _, entry in sorted(packed.items()) if entry is not None]


def _write_share(file: OpenFile, lists: Sequence[tuple[Pieces, bytes]]) -> None:
    lists = [(pieces, data) for pieces, data in lists if len(pieces)]
    if not lists:
        return
    union = _Union([pieces for pieces, _ in lists])
    memory = memoryview(bytearray(union.pieces.total))
    for pieces, data in lists:  # if ranks write the same bytes, the last one wins
        union.layout(pieces).unpack(data, memory, origin=0, count=1, extent=0)
    buffer_bytes = file.hints.collective_buffer_bytes
    independent.write(file.disk, union.pieces, bytes(memory), buffer_bytes=buffer_bytes, direct=False)


class _Largest:
    """The maximum of two numbers, as packed bytes."""

    commutative = True
    unit_bytes = _COUNT.size

    def __call__(self, left: bytes, right: bytes) -> bytes:
        return max(left, right, key=_COUNT.unpack)


# -------------------------------------------------------------------------------------------------------- read


def read(file: OpenFile, chs: Sequence[CollectiveChannel], pieces: Pieces) -> bytes:
    """Return the bytes of this rank's pieces, up to the end of the file."""
    plan = _plan(file, chs[0], pieces, writing=False)
    if not plan.shares:
        return independent.read_alone(file, pieces)
    request_ch, reply_ch, me = chs[1], chs[2], file.comm.me
    requests = {
        share.owner: _packed(clipped(pieces, share.low, share.high)) for share in plan.shares if plan.touches(me, share)
    }
    sends = [request_ch.isend(owner, wanted) for owner, wanted in requests.items() if owner != me]
    mine = next((share for share in plan.shares if share.owner == me), None)
    received = _receive(request_ch, plan, mine, requests.get(me), sends)
    replies: dict[int, bytes] = {}
    if mine is not None:
        replies = dict(zip(plan.contributors(mine), _read_share(file, received), strict=True))
    sends = [reply_ch.isend(place, reply) for place, reply in replies.items() if place != me]
    others = [owner for owner in requests if owner != me]
    packed: dict[int, Any] = dict(zip(others, _receive_replies(reply_ch, sends, others), strict=True))
    if me in requests:
        packed[me] = replies[me]
    return _assembled(pieces, [packed[owner] for owner in requests])


def _receive_replies(ch: CollectiveChannel, sends: list[Any], owners: Sequence[int]) -> list[Any]:
    """Receive the replies of aggregators; wait for this rank's own replies to leave, too."""
    return ch.wait([*sends, *(ch.irecv(owner) for owner in owners)])[len(sends) :]


def _read_share(file: OpenFile, requests: Sequence[bytes]) -> list[bytes]:
    """Return a reply per list of pieces: an error code, the end of the file, and padded data."""
    lists = [_unpacked(packed)[0] for packed in requests]
    wanted = [pieces for pieces in lists if len(pieces)]
    end = _WHOLE
    memory = memoryview(b"")
    union = None
    if wanted:
        union = _Union(wanted)
        try:
            buffer_bytes = file.hints.collective_buffer_bytes
            data = independent.read(file.disk, union.pieces, buffer_bytes=buffer_bytes, direct=False)
        except errors.Exception as error:
            return [_REPLY.pack(error.Get_error_class(), 0) for _ in lists]
        total = union.pieces.total
        if len(data) < total:
            end = _file_end(union.pieces, len(data))
        memory = memoryview(data + bytes(total - len(data)))
    replies = []
    for pieces in lists:
        packed = b""
        if union is not None and len(pieces):
            packed = union.layout(pieces).pack(memory, origin=0, count=1, extent=0)
        replies.append(_REPLY.pack(c.SUCCESS, end) + packed)
    return replies


def _file_end(pieces: Pieces, taken: int) -> int:
    """Return the end of the file, if `taken` bytes of the pieces existed."""
    ends = np.cumsum(pieces.sizes)
    run = int(np.searchsorted(ends, taken, "right"))
    return int(pieces.starts[run] + taken - (ends[run] - pieces.sizes[run]))


def _assembled(pieces: Pieces, replies: Sequence[bytes]) -> bytes:
    """Return the data of all aggregators' replies as one stream, up to the end of the file."""
    end = _WHOLE
    for reply in replies:
        code, seen = _REPLY.unpack_from(reply)
        if code:
            errors.fail(code, "an aggregator could not read")
        end = min(end, seen)
    data = b"".join(reply[_REPLY.size :] for reply in replies)
    return data[: clipped(pieces, 0, end).total] if end < _WHOLE else data
