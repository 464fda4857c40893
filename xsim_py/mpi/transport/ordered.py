"""Fabrics of networks on which a message may be faster than an earlier one by more than the earlier one leads.

MPI does not let messages overtake each other (MPI 4.1, section 3.5): one that would come before its elder from the same
rank comes with it. Only those wait that might meet the same receive, or be taken for another in a collective: of one
communicator, of one collective, or among the library's control messages.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from .fabric import Fabric
from .message import CONTROL

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

    from .message import Message

_MANY = 1 << 14


class OrderedFabric(Fabric):
    """A fabric whose messages come in the order in which they were sent."""

    in_order = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.inline_end = -1
        self._due: dict[tuple[int, int, int, int], int] = {}

    def launch(self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int) -> None:
        """Let an envelope leave; it comes no sooner than those before it."""
        cid = message.cid
        if cid or message.kind == CONTROL:  # all but the data of a rendezvous, whose envelope has been matched
            stream = (rank.number, message.to, cid, message.tag if cid & 1 else 0)
            arrival = start_ps + wire_ps + latency_ps
            due = self._due.get(stream, 0)
            if due > arrival:
                latency_ps += due - arrival
            else:
                self._due[stream] = arrival
                if len(self._due) > _MANY:
                    self._forget()
        super().launch(rank, message, start_ps, wire_ps, latency_ps)

    def _forget(self) -> None:
        """Forget what has arrived."""
        now_ps = self.kernel.now_ps
        self._due = {stream: due for stream, due in self._due.items() if due > now_ps}


@cache
def ordered(kind: type[Fabric]) -> type[OrderedFabric]:
    """Return a fabric that does what another one does, in order."""
    return type(f"Ordered{kind.__name__}", (OrderedFabric, kind), {})
