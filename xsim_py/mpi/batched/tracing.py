"""The trace of what was computed: each message of a call is written down as if it had gone its way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.mpi.transport.message import RENDEZVOUS

from .timing import Numbers

if TYPE_CHECKING:
    from xsim_py.mpi.transport.fabric import Fabric
    from xsim_py.mpi.transport.message import Message

    from .meeting import Call

__all__ = ["carried", "departs", "taken_by"]


def carried(fabric: Fabric, call: Call) -> None:
    """Write down all messages of a call, from their departure to the receive that took them: those of this shard."""
    bound, times, local = call.bound, call.times, None if call.members is None else call.members.local
    trace = fabric.trace
    assert trace is not None
    sent_ps = _sent_ps(call)
    asks = np.broadcast_to(False if times.asked is None else times.asked.asks, len(bound))
    everywhere = np.ones(len(bound), bool)
    leaves = everywhere if local is None else local[bound.source]
    comes = everywhere if local is None else local[bound.target]
    columns = (times.keys, bound.origin, bound.dest, bound.size_bytes, sent_ps, times.arrival_ps, times.taken_ps, asks)
    for number, source, dest, size_bytes, left_ps, came_ps, taken_ps, asked, leaving, coming in zip(
        *(column.tolist() for column in (*columns, leaves, comes)), strict=True
    ):
        if leaving:
            _departs(fabric, call, number, source, dest, size_bytes, left_ps, asked)
        if coming:
            trace.taken(trace.arrived(number, came_ps), taken_ps)


def departs(fabric: Any, call: Call, number: int, message: Message) -> None:
    """Write down that one message leaves, the rest of whose way the fabric sees; `number` is its own in the call."""
    asks = message.kind == RENDEZVOUS
    left_ps = int(_sent_ps(call)[number])
    key = int(call.times.keys[number])
    _departs(fabric, call, key, message.origin, message.to, message.size_bytes, left_ps, asks)


def _sent_ps(call: Call) -> Numbers:
    """When each message leaves, or its request."""
    times, costs = call.times, call.bound.costs
    eager: Numbers = times.arrival_ps - costs.way_ps
    if times.asked is None or costs.asking is None:
        return eager
    return np.where(times.asked.asks, times.asked.request_ps - costs.asking.latency_ps, eager)


def _departs(
    fabric: Fabric, call: Call, key: int, source: int, dest: int, size_bytes: int, left_ps: int, asks: bool
) -> None:
    assert fabric.trace is not None
    cid, tag = call.where
    fabric.trace.departed(
        key,
        source=source,
        dest=dest,
        tag=tag,
        size_bytes=size_bytes,
        communicator=cid & ~1,
        collective=True,
        call=call.note.name,
        kind="rendezvous" if asks else "eager",
        sent_ps=left_ps,
    )


def taken_by(call: Call) -> Callable[[Message], int]:
    """Says, of a message that has come again to a rank that has left, when that rank had taken it."""
    bound = call.bound
    taken: dict[tuple[int, int], deque[int]] = {}
    order = np.argsort(call.times.keys, kind="stable")
    columns = (column[order].tolist() for column in (bound.origin, bound.dest, call.times.taken_ps))
    for origin, dest, taken_ps in zip(*columns, strict=True):
        taken.setdefault((origin, dest), deque()).append(taken_ps)
    return lambda message: taken[message.origin, message.to].popleft()
