"""The way back of a call that is undone, also after it was computed and some ranks have left it.

Those ranks are not called back: all that they got has come to them before. But their messages have to reach the others,
who do the call again message by message, and the messages of the others to them have to vanish when they come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.mpi.checksum import crc32
from xsim_py.mpi.transport.message import EAGER, RENDEZVOUS, Message

from .tracing import departs, taken_by

if TYPE_CHECKING:
    from xsim_py.mpi.transport.fabric import Fabric

    from .meeting import Call

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
        self._fabric = fabric
        self._call = call
        self._all = listing = call.bound.listing(call.times)
        self._asking = bool(listing.asks.any())
        self._sent = _Sorted(listing.source, len(call.fibers))
        self._received = _Sorted(listing.target, len(call.fibers))

    def send_again(self, place: int) -> None:
        """Send what a rank has sent; an event handler, at the time at which it entered, and no event of the run."""
        fabric, call, all_ = self._fabric, self._call, self._all
        fabric.kernel.events -= 1
        numbers = self._sent.of(place)
        for number in numbers:
            fabric.tally.log += (int(all_.origin[number]), int(all_.dest[number]), int(all_.size_bytes[number]))
        if not self._asking and fabric.trace is None:
            numbers = self._send_in_turn(numbers)
        for number in numbers:
            message, key, asks = self._message(number), int(all_.key[number]), bool(all_.asks[number])
            if asks:
                message.kind, message.ticket = RENDEZVOUS, -key  # as no other
                self._send_data(number, message.ticket, message.data)
                message.data = b""
            to, arrival_ps = message.to, message.arrival_ps
            if fabric.trace is None:
                fabric.shard.post_to(to, arrival_ps, key, "again", message)
            else:
                left_ps = int(all_.sent_ps[number])
                departs(fabric, call, key, message.origin, to, message.size_bytes, left_ps, asks)
                fabric.shard.post_to(to, arrival_ps, key, "traced", (key, message))
        if self._asking:
            self._answer(place)

    def _message(self, number: int) -> Message:
        """Return one of them."""
        call, all_ = self._call, self._all
        cid, tag = call.where
        columns = all_.origin, all_.dest, all_.first_ps, all_.source, all_.receive_ps
        origin, to, arrival_ps, source, overhead_ps = (int(column[number]) for column in columns)
        data = call.bound.payload(call.memory, number)
        check = crc32(data) if call.bound.check else 0
        return Message(
            arrival_ps, cid, source, tag, data, len(data), EAGER, overhead_ps, to, origin, 0, check, call.note
        )

    def _send_in_turn(self, numbers: list[int]) -> list[int]:
        """Have those for ranks of this shard come one after the other, each at its own event; the others are left.

        Of a million ranks there would be twenty million messages under way at once.
        """
        shard = self._fabric.shard
        dest, arrival_ps, keys = self._all.dest, self._all.first_ps, self._all.key
        here = [number for number in numbers if shard.local(int(dest[number]))]
        here.sort(key=lambda number: (arrival_ps[number], keys[number]), reverse=True)
        if here:
            self._post_last(here)
        return [number for number in numbers if not shard.local(int(dest[number]))]

    def _post_last(self, numbers: list[int]) -> None:
        arrival_ps, keys = self._all.first_ps, self._all.key
        self._fabric.kernel.post(int(arrival_ps[numbers[-1]]), int(keys[numbers[-1]]), self._comes, numbers)

    def _comes(self, numbers: list[int]) -> None:
        """The next message of a rank comes, as in `Fabric._deliver`; who has left has had it."""
        number = numbers.pop()
        if numbers:
            self._post_last(numbers)
        m = self._message(number)
        if self._call.fibers[int(self._all.target[number])] is None:
            self._fabric.digest += hash((m.arrival_ps, m.to, m.source, m.tag, m.size_bytes, m.check))
        else:
            self._fabric.deliver(m)

    def _send_data(self, number: int, ticket: int, data: bytes) -> None:
        """Let the data of a message follow its request; that they have left is an event that nobody waits for."""
        fabric, all_ = self._fabric, self._all
        columns = all_.origin, all_.dest, all_.arrival_ps, all_.data_key
        origin, to, arrival_ps, key = (int(column[number]) for column in columns)
        message = Message(arrival_ps, 0, 0, 0, data, len(data), RENDEZVOUS, 0, to, origin, ticket, 0, None)
        fabric.shard.post_to(to, arrival_ps, key, "again", message)
        fabric.kernel.events += 1

    def _answer(self, place: int) -> None:
        """Let those who have asked this rank hear what it has answered."""
        all_ = self._all
        for number in self._received.of(place):
            if all_.asks[number]:
                columns = all_.origin, all_.dest, all_.answer_ps, all_.answer_key
                origin, to, when_ps, key = (int(column[number]) for column in columns)
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
