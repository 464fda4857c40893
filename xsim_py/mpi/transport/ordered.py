"""Networks on which a message could overtake an earlier one.

A message that would arrive before its predecessor in a stream (see `streams`) arrives with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fabric import Carrier, Fabric
from .streams import LastArrivals, stream_of

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

    from .message import Message


class SendOrder(Carrier):
    """Lets messages arrive in the order in which they were sent."""

    def __init__(self) -> None:
        self._due = LastArrivals()

    def attach(self, fabric: Fabric) -> None:
        """Join a fabric that is not connected yet."""
        super().attach(fabric)
        fabric.in_order = False

    def launch(
        self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int
    ) -> tuple[int, int, int]:
        """Delay an envelope until those before it have arrived."""
        if stream := stream_of(message):
            arrival = start_ps + wire_ps + latency_ps
            due = self._due.get(stream, 0)
            if due > arrival:
                latency_ps += due - arrival
            else:
                self._due[stream] = arrival
                if len(self._due) > self._due.limit:
                    self._due.prune(self.fabric.kernel.now_ps)
        return start_ps, wire_ps, latency_ps
