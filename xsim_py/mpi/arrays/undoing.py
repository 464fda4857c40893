"""What is left to do for a call that is undone after it was computed and some ranks have left it.

Those ranks are not called back: all that they got has come to them before. But their messages have to reach the others,
who do the call again message by message, and the messages of the others to them have to vanish when they come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.mpi.checksum import crc32
from xsim_py.mpi.message import EAGER, RENDEZVOUS, Message

from .tracing import departs, taken_by

if TYPE_CHECKING:
    from xsim_py.mpi.p2p import Fabric

    from .call import Call
    from .timetable import Asked

__all__ = ["Sender", "answered", "forget_what_they_had", "take_back"]


def take_back(fabric: Any, call: Call, wake: Callable[[Any], object]) -> None:
    """Let nobody go on any more as it was computed. Events at which ranks did so are none of the run."""
    fabric.kernel.withdraw(wake, {fiber for fiber in call.fibers if fiber is not None})
    gone = call.gone()
    fabric.kernel.events -= len(gone) - (call.inline >= 0)
    if fabric.trace is not None:
        when, ranks = taken_by(call), call.comm.ranks
        fabric.had.update(((*call.where, ranks[place]), when) for place in gone)


class Sender:
    """Sends the messages of ranks that have left, and answers those that have asked them."""

    def __init__(self, fabric: Fabric, call: Call) -> None:
        bound = call.bound
        assert bound is not None
        self._fabric = fabric
        self._call = call
        self._asked = asked = call.times.asked
        first_ps = call.times.arrival_ps
        if asked is not None:
            first_ps = np.where(asked.asks, asked.request_ps, first_ps)
        self._columns = bound.origin, bound.dest, first_ps, call.times.keys
        self._overhead_ps = np.broadcast_to(bound.costs.receive_ps, len(bound))
        self._sent = _Sorted(bound.source, len(call.fibers))
        self._received = None if asked is None else _Sorted(bound.target, len(call.fibers))

    def send_again(self, place: int) -> None:
        """Send what a rank has sent; an event handler, at the time at which it entered, and no event of the run."""
        fabric, call, bound, asked = self._fabric, self._call, self._call.bound, self._asked
        assert bound is not None
        fabric.kernel.events -= 1
        cid, tag = call.where
        for number in self._sent.of(place):
            origin, to, arrival_ps, key = (int(column[number]) for column in self._columns)
            data = bound.payload(call.memory, number)
            size_bytes = len(data)
            overhead_ps = int(self._overhead_ps[number])
            check = crc32(data) if bound.check else 0
            fabric.tally.log += (origin, to, size_bytes)
            kind, ticket = EAGER, 0
            if asked is not None and asked.asks[number]:
                kind, ticket = RENDEZVOUS, -key  # as no other
                self._send_data(number, ticket, data)
                data = b""
            message = Message(
                cid, place, tag, data, size_bytes, kind, arrival_ps, overhead_ps, to, origin, ticket, check, call.note
            )
            if fabric.trace is None:
                fabric.shard.post_to(to, arrival_ps, key, "again", message)
            else:
                departs(fabric, call, number, message)
                fabric.shard.post_to(to, arrival_ps, key, "traced", (key, message))
        if asked is not None:
            self._answer(place, asked)

    def _send_data(self, number: int, ticket: int, data: bytes) -> None:
        """Let the data of a message follow its request; that they have left is an event that nobody waits for."""
        fabric, asked, times = self._fabric, self._asked, self._call.times
        assert asked is not None
        origin, to = (int(column[number]) for column in self._columns[:2])
        arrival_ps, key = int(times.arrival_ps[number]), int(asked.data_key[number])
        message = Message(0, 0, 0, data, len(data), RENDEZVOUS, arrival_ps, 0, to, origin, ticket, 0, None)
        fabric.shard.post_to(to, arrival_ps, key, "again", message)
        fabric.kernel.events += 1

    def _answer(self, place: int, asked: Asked) -> None:
        """Let those who have asked this rank hear what it has answered."""
        assert self._received is not None
        for number in self._received.of(place):
            if asked.asks[number]:
                origin, to = (int(column[number]) for column in self._columns[:2])
                when_ps, key = int(asked.answer_ps[number]), int(asked.answer_key[number])
                self._fabric.shard.post_to(origin, when_ps, key, "answered", (origin, to, self._call.where))


class _Sorted:
    """The messages of each rank."""

    def __init__(self, ranks: Any, size: int) -> None:
        self._order = np.argsort(ranks, kind="stable")
        self._starts = np.searchsorted(ranks[self._order], np.arange(size + 1))

    def of(self, rank: int) -> list[int]:
        """Their numbers."""
        found: list[int] = self._order[self._starts[rank] : self._starts[rank + 1]].tolist()
        return found


def answered(fabric: Fabric, answer: tuple[int, int, tuple[int, int]]) -> None:
    """A rank hears that it may send its data to one that has left; an event handler.

    Unless it has left itself: its data have been sent then.
    """
    number, to, (cid, tag) = answer
    box = fabric.shard.rank(number).mpi
    for send in list(box.sends.values()):
        if send.note is not None and (send.to, send.tag, send.comm.cid | 1) == (to, tag, cid):
            fabric.shard.handlers["cts"]((number, send.ticket))
            return


def forget_what_they_had(fabric: Fabric, call: Call) -> None:
    """Take what has come again to ranks that have left out of their mailboxes."""
    for place in call.gone():
        box = fabric.shard.rank(call.comm.ranks[place]).mpi
        for message in box.all_kept():
            if (message.cid, message.tag) == call.where:
                box.remove(message)
