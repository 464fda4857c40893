"""What is left to do for a call that is undone after it was computed and some ranks have left it.

Those ranks are not called back: all that they got has come to them before. But their messages have to reach the others,
who do the call again message by message, and the messages of the others to them have to vanish when they come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from xsim_py.mpi.message import EAGER, Message

from .tracing import departs, meetings_of

if TYPE_CHECKING:
    from xsim_py.mpi.p2p import Fabric

    from .meeting import Call

__all__ = ["forget_what_they_had", "messages_of_those_who_left"]


def messages_of_those_who_left(fabric: Fabric, call: Call) -> list[Any]:
    """The messages of the ranks that have left, as entries of `Kernel.relive`."""
    bound, times = call.bound, call.times
    assert bound is not None
    gone = np.array([fiber is None for fiber in call.fibers])
    fabric.kernel.events -= int(gone.sum()) - (call.inline >= 0)  # they went on at events that are none of the run
    overhead_ps = np.broadcast_to(bound.costs.receive_ps, len(bound))
    sources, origins, dests = bound.source, bound.origin, bound.dest
    entries = []
    for number in np.flatnonzero(gone[sources]).tolist():
        data = bound.payload(call.memory, number)
        to, origin, size_bytes = int(dests[number]), int(origins[number]), len(data)
        source, arrival_ps = int(sources[number]), int(times.arrival_ps[number])
        check = crc32(data) if bound.check else 0
        fabric.tally.log += (origin, to, size_bytes)
        cid, tag = call.where
        message = Message(
            cid,
            source,
            tag,
            data,
            size_bytes,
            EAGER,
            arrival_ps,
            int(overhead_ps[number]),
            to,
            origin,
            0,
            check,
            call.note,
        )
        if fabric.trace is not None:
            departs(fabric, call, number, message)
        entries.append((arrival_ps, (int(times.keys[number]), fabric.deliver, message)))
    return entries


def forget_what_they_had(fabric: Fabric, call: Call) -> None:
    """Take what has come again to ranks that have left out of their mailboxes."""
    assert call.bound is not None
    met = meetings_of(fabric, call) if fabric.trace is not None else None
    for number, fiber in zip(call.comm.ranks, call.fibers, strict=True):
        if fiber is None:
            box = fabric.shard.rank(number).mpi
            for message in box.all_kept():
                if (message.cid, message.tag) == call.where:
                    box.remove(message)
                    if met is not None:
                        met(message)
