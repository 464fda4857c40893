"""Fabrics of networks on which a message could overtake an earlier one.

A message that would arrive before its predecessor in a stream (see `streams`) arrives with it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from .fabric import Fabric
from .streams import LastArrivals, stream_of

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

    from .message import Message


class OrderedFabric(Fabric):
    """A fabric whose messages arrive in the order in which they were sent."""

    in_order = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.inline_end = -1
        self._due = LastArrivals()

    def launch(self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int) -> None:
        """Send an envelope; it arrives no sooner than those before it."""
        if stream := stream_of(message):
            arrival = start_ps + wire_ps + latency_ps
            due = self._due.get(stream, 0)
            if due > arrival:
                latency_ps += due - arrival
            else:
                self._due[stream] = arrival
                if len(self._due) > self._due.limit:
                    self._due.prune(self.kernel.now_ps)
        super().launch(rank, message, start_ps, wire_ps, latency_ps)


@cache
def ordered(kind: type[Fabric]) -> type[OrderedFabric]:
    """Return a subclass of a fabric class that keeps messages in order."""
    return type(f"Ordered{kind.__name__}", (OrderedFabric, kind), {})
