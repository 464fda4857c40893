"""The trace of vectorised collectives: each message is recorded as if simulated individually."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from xsim_py.mpi.transport.fabric import Fabric
    from xsim_py.mpi.transport.message import Message

    from .instance import CollectiveInstance


def record_messages(fabric: Fabric, call: CollectiveInstance) -> None:
    """Record all messages of a call in this shard, from their departure to the match."""
    listing = call.bound.listing(call.times)
    local = np.ones(len(call.bound.numbers), bool) if call.members is None else call.members.local
    trace = fabric.trace
    assert trace is not None
    columns = (listing.key, listing.origin, listing.dest, listing.size_bytes, listing.sent_ps, listing.rendezvous)
    comes = listing.arrival_ps, listing.taken_ps
    here = local[listing.source], local[listing.target]
    for key, source, dest, size_bytes, sent_ps, rendezvous, came_ps, taken_ps, leaving, coming in zip(
        *(column.tolist() for column in (*columns, *comes, *here)), strict=True
    ):
        if leaving:
            record_departure(fabric, call, key, source, dest, size_bytes, sent_ps, rendezvous)
        if coming:
            trace.matched(trace.arrived(key, came_ps), taken_ps)


def record_departure(
    fabric: Fabric,
    call: CollectiveInstance,
    key: int,
    source: int,
    dest: int,
    size_bytes: int,
    left_ps: int,
    rendezvous: bool,
) -> None:
    """Record the departure of one message."""
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
        kind="rendezvous" if rendezvous else "eager",
        sent_ps=left_ps,
    )


def match_times(call: CollectiveInstance) -> Callable[[Message], int]:
    """Return a function that returns when a rank that has left had received a resent message."""
    listing = call.bound.listing(call.times)
    taken: dict[tuple[int, int], deque[int]] = {}
    order = np.argsort(listing.key, kind="stable")
    columns = (column[order].tolist() for column in (listing.origin, listing.dest, listing.taken_ps))
    for origin, dest, taken_ps in zip(*columns, strict=True):
        taken.setdefault((origin, dest), deque()).append(taken_ps)
    return lambda message: taken[message.origin, message.to].popleft()
