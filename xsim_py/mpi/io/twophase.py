"""Collective access to a file: in two phases, as ROMIO does it.

All ranks tell each other from where to where they access the file. If these ranges do not meet, each rank goes its
own way (`independent`). If they do, one rank a node (an aggregator, hint ``cb_nodes``) accesses an equal share of the
whole range for all: to write, each rank sends it the pieces that lie there; it joins them and writes them in chunks
(``cb_buffer_size``), which are then few and large. To read, the ranks send what they want and get it back. The hints
``romio_cb_write`` and ``romio_cb_read`` say ``enable``, ``disable`` or ``automatic``.

Prior art: del Rosario, Bordawekar and Choudhary (1993); Thakur, Gropp and Lusk (1999). What differs: ROMIO exchanges
the data of each chunk when that is due, and here all of them are exchanged at once, so an aggregator needs memory for
its share.
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
"""How many collectives a call may be made of."""

_RANGE = struct.Struct("<qqq")
_NO_RANGE = _RANGE.pack(-1, -1, 0)
_COUNT = struct.Struct("<q")
_REPLY = struct.Struct("<qq")
_WHOLE = 1 << 62

_SMALLEST_SHARE = 1 << 16
"""Bytes: so few are not worth another aggregator. ROMIO takes a stripe of the file system where that has some."""


class _Share(NamedTuple):
    """The part of a file that one aggregator accesses for all."""

    owner: int
    low: int
    high: int


class _Plan(NamedTuple):
    """Who accesses what, as all ranks have found out: nothing where each rank goes its own way."""

    shares: list[_Share]
    ranges: Integers

    def contributors(self, share: _Share) -> list[int]:
        """Whose range meets a share."""
        found: list[int] = np.flatnonzero((self.ranges[:, 0] < share.high) & (self.ranges[:, 1] > share.low)).tolist()
        return found

    def touches(self, place: int, share: _Share) -> bool:
        """Return whether a rank's range meets a share."""
        return bool(self.ranges[place, 0] < share.high and self.ranges[place, 1] > share.low)


_EACH_ALONE = _Plan([], np.empty((0, 3), np.int64))


def _plan(file: OpenFile, ch: CollectiveChannel, pieces: Pieces, *, writing: bool) -> _Plan:
    wanted = file.hints.two_phase(writing=writing)
    if file.atomic or wanted == "disable" or len(file.comm.ranks) == 1:
        return _EACH_ALONE
    table = gather_everywhere(ch, _RANGE.pack(pieces.low, pieces.high, pieces.overlap))
    told = b"".join(_NO_RANGE if entry is None else entry for entry in table)
    return _plan_of(told, tuple(file.hints.aggregators), wanted == "enable")


@lru_cache(maxsize=16)
def _plan_of(told: bytes, owners: tuple[int, ...], always: bool) -> _Plan:
    """Return what all ranks make of what each has told; the first one that asks finds it for the others."""
    ranges = np.frombuffer(told, np.int64).reshape(-1, 3)
    used = ranges[ranges[:, 0] >= 0]
    if used[:, 2].any():  # pieces that overlap can not be cut at the border of a share
        return _EACH_ALONE
    meet = (used[1:, 0] < used[:-1, 1]).any()
    if not len(used) or not (meet or always):
        return _EACH_ALONE
    low, high = int(used[:, 0].min()), int(used[:, 1].max())
    each = max(-(-(high - low) // len(owners)), _SMALLEST_SHARE)
    shares = [
        _Share(owner, low + number * each, min(low + (number + 1) * each, high)) for number, owner in enumerate(owners)
    ]
    return _Plan([share for share in shares if share.low < share.high], ranges)


# ------------------------------------------------------------------------------------------------------- lists


def _packed(pieces: Pieces) -> bytes:
    return _COUNT.pack(len(pieces)) + pieces.starts.tobytes() + pieces.sizes.tobytes()


def _unpacked(told: bytes) -> tuple[Pieces, bytes]:
    """A list of pieces, and the data behind it."""
    (count,) = _COUNT.unpack_from(told)
    numbers = np.frombuffer(told, np.int64, 2 * count, _COUNT.size)
    return Pieces(numbers[:count], numbers[count:]), told[_COUNT.size + numbers.nbytes :]


class _Union:
    """The bytes that several lists of pieces cover, one run after the other: the memory of an aggregator."""

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
        """Where pieces are in the memory."""
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
    """Write this rank's pieces, whose bytes follow each other in `data`."""
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
    come = _receive(ch, plan, mine, parts.get(me), sends)
    code = c.SUCCESS
    if mine is not None and come:
        try:
            _write_share(file, [_unpacked(told) for told in come])
        except errors.Exception as error:
            code = error.Get_error_class()
    _agree(file, chs[3], plan, code)


def _agree(file: OpenFile, ch: CollectiveChannel, plan: _Plan, code: int) -> None:
    """Tell all ranks whether the aggregators could write; a single one knows."""
    told = _COUNT.pack(code)
    if len(plan.shares) == 1:
        owner = plan.shares[0].owner
        worst = pick(file.comm, "bcast", len(told))(ch, told if ch.rank == owner else None, owner, len(told))
    else:
        worst = pick(file.comm, "allreduce", len(told))(ch, told, _Largest())
    (code,) = _COUNT.unpack(worst)
    if code:
        errors.fail(code, "an aggregator could not write")


def _receive(
    ch: CollectiveChannel, plan: _Plan, mine: _Share | None, own: bytes | None, sends: list[Any]
) -> list[bytes]:
    """Receive what the ranks say to an aggregator, in their order; waits for its own messages, too."""
    others = [] if mine is None else [place for place in plan.contributors(mine) if place != ch.rank]
    come = ch.wait([*sends, *(ch.irecv(place) for place in others)])[len(sends) :]
    told = dict(zip(others, come, strict=True))
    if mine is not None and own is not None:
        told[ch.rank] = own
    return [entry for _, entry in sorted(told.items()) if entry is not None]


def _write_share(file: OpenFile, lists: Sequence[tuple[Pieces, bytes]]) -> None:
    lists = [(pieces, data) for pieces, data in lists if len(pieces)]
    if not lists:
        return
    union = _Union([pieces for pieces, _ in lists])
    memory = memoryview(bytearray(union.pieces.total))
    for pieces, data in lists:  # where ranks write the same bytes, the last one's stay
        union.layout(pieces).unpack(data, memory, origin=0, count=1, extent=0)
    buffer_bytes = file.hints.collective_buffer_bytes
    independent.write(file.disk, union.pieces, bytes(memory), buffer_bytes=buffer_bytes, direct=False)


class _Largest:
    """The larger of two numbers, as packed bytes."""

    commutative = True
    unit_bytes = _COUNT.size

    def __call__(self, left: bytes, right: bytes) -> bytes:
        return max(left, right, key=_COUNT.unpack)


# -------------------------------------------------------------------------------------------------------- read


def read(file: OpenFile, chs: Sequence[CollectiveChannel], pieces: Pieces) -> bytes:
    """The bytes of this rank's pieces, as far as the file has them."""
    plan = _plan(file, chs[0], pieces, writing=False)
    if not plan.shares:
        return independent.read_alone(file, pieces)
    asking, answering, me = chs[1], chs[2], file.comm.me
    asked = {
        share.owner: _packed(clipped(pieces, share.low, share.high)) for share in plan.shares if plan.touches(me, share)
    }
    sends = [asking.isend(owner, wanted) for owner, wanted in asked.items() if owner != me]
    mine = next((share for share in plan.shares if share.owner == me), None)
    come = _receive(asking, plan, mine, asked.get(me), sends)
    answers: dict[int, bytes] = {}
    if mine is not None:
        answers = dict(zip(plan.contributors(mine), _read_share(file, come), strict=True))
    sends = [answering.isend(place, answer) for place, answer in answers.items() if place != me]
    others = [owner for owner in asked if owner != me]
    told: dict[int, Any] = dict(zip(others, _answers(answering, sends, others), strict=True))
    if me in asked:
        told[me] = answers[me]
    return _assembled(pieces, [told[owner] for owner in asked])


def _answers(ch: CollectiveChannel, sends: list[Any], owners: Sequence[int]) -> list[Any]:
    """Receive what aggregators answer; waits for this rank's own answers to leave, too."""
    return ch.wait([*sends, *(ch.irecv(owner) for owner in owners)])[len(sends) :]


def _read_share(file: OpenFile, asked: Sequence[bytes]) -> list[bytes]:
    """For each list of pieces: an error code, where the file ends, and the data, with anything behind its end."""
    lists = [_unpacked(told)[0] for told in asked]
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
    answers = []
    for pieces in lists:
        packed = b""
        if union is not None and len(pieces):
            packed = union.layout(pieces).pack(memory, origin=0, count=1, extent=0)
        answers.append(_REPLY.pack(c.SUCCESS, end) + packed)
    return answers


def _file_end(pieces: Pieces, taken: int) -> int:
    """Where the file ends, if so many bytes of the pieces were there."""
    ends = np.cumsum(pieces.sizes)
    run = int(np.searchsorted(ends, taken, "right"))
    return int(pieces.starts[run] + taken - (ends[run] - pieces.sizes[run]))


def _assembled(pieces: Pieces, answers: Sequence[bytes]) -> bytes:
    """One stream of the answers of all aggregators, as far as the file goes."""
    end = _WHOLE
    for answer in answers:
        code, seen = _REPLY.unpack_from(answer)
        if code:
            errors.fail(code, "an aggregator could not read")
        end = min(end, seen)
    data = b"".join(answer[_REPLY.size :] for answer in answers)
    return data[: clipped(pieces, 0, end).total] if end < _WHOLE else data
