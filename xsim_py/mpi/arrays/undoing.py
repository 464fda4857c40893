"""What is left to do for a call that is undone after it was computed and some ranks have left it.

Those ranks are not called back: all that they got has come to them before. But their messages have to reach the others,
who do the call again message by message, and the messages of the others to them have to vanish when they come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.mpi.checksum import crc32
from xsim_py.mpi.message import EAGER, Message

from .tracing import departs, taken_by

if TYPE_CHECKING:
    from xsim_py.mpi.p2p import Fabric

    from .call import Call

__all__ = ["Sender", "forget_what_they_had", "take_back"]


def take_back(fabric: Any, call: Call, wake: Callable[[Any], object]) -> None:
    """Let nobody go on any more as it was computed. Events at which ranks did so are none of the run."""
    fabric.kernel.withdraw(wake, {fiber for fiber in call.fibers if fiber is not None})
    gone = call.gone()
    fabric.kernel.events -= len(gone) - (call.inline >= 0)
    if fabric.trace is not None:
        when, ranks = taken_by(call), call.comm.ranks
        fabric.had.update(((*call.where, ranks[place]), when) for place in gone)


class Sender:
    """Sends the messages of ranks that have left."""

    def __init__(self, fabric: Fabric, call: Call) -> None:
        bound = call.bound
        assert bound is not None
        self._fabric = fabric
        self._call = call
        self._columns = bound.origin, bound.dest, call.times.arrival_ps, call.times.keys
        self._overhead_ps = np.broadcast_to(bound.costs.receive_ps, len(bound))
        sources = bound.source
        self._by_source = np.argsort(sources, kind="stable")
        self._starts = np.searchsorted(sources[self._by_source], np.arange(len(call.fibers) + 1))

    def send_again(self, place: int) -> None:
        """Send what a rank has sent; an event handler, at the time at which it entered, and no event of the run."""
        fabric, call, bound = self._fabric, self._call, self._call.bound
        assert bound is not None
        fabric.kernel.events -= 1
        cid, tag = call.where
        for number in self._by_source[self._starts[place] : self._starts[place + 1]].tolist():
            origin, to, arrival_ps, key = (int(column[number]) for column in self._columns)
            data = bound.payload(call.memory, number)
            size_bytes = len(data)
            overhead_ps = int(self._overhead_ps[number])
            check = crc32(data) if bound.check else 0
            fabric.tally.log += (origin, to, size_bytes)
            message = Message(
                cid, place, tag, data, size_bytes, EAGER, arrival_ps, overhead_ps, to, origin, 0, check, call.note
            )
            if fabric.trace is None:
                fabric.shard.post_to(to, arrival_ps, key, "again", message)
            else:
                departs(fabric, call, number, message)
                fabric.shard.post_to(to, arrival_ps, key, "traced", (key, message))


def forget_what_they_had(fabric: Fabric, call: Call) -> None:
    """Take what has come again to ranks that have left out of their mailboxes."""
    for place in call.gone():
        box = fabric.shard.rank(call.comm.ranks[place]).mpi
        for message in box.all_kept():
            if (message.cid, message.tag) == call.where:
                box.remove(message)
