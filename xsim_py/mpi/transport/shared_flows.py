"""Messages between ranks that share links max-min fairly (`network.fair_contention`).

What a rank sends leaves at once, also beside what it sends already. So a small message may be through before an earlier
large one; MPI does not let them overtake each other (MPI 4.1, section 3.5), and it comes with its elder then. Only
those wait that might meet the same receive, or be taken for another in a collective.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .message import CONTROL, Operation
from .shared_links import ROUTES_KEPT, SharedLinks

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

    from .message import Message, Send


class SharedFlows(SharedLinks):
    """The links between the nodes of a machine, which messages share max-min fairly.

    Parameters
    ----------
    machine : Machine
        Where the ranks are, and the routes between nodes.
    network : Network
        The costs of messages.
    account : FairContention
        How fast each message flows.
    """

    fifo = False

    def __init__(self, machine: Any, network: Any, account: Any) -> None:
        super().__init__(machine, network, account)
        self._ways = lru_cache(ROUTES_KEPT)(self._way)
        self._sends: dict[int, tuple[int, Send]] = {}
        self._streams: dict[tuple[int, int, int, int], deque[Message]] = {}
        self._early: dict[Message, int] = {}  # those that are through before their elders, and their keys

    def enter(self, time_ps: int, key: int, way: tuple[int, int, int], message: Message | None) -> None:
        """Let a message enter the network, as `SharedLinks.enter`."""
        origin, to, _ = way
        if message is not None and (stream := _stream(message)):
            elders = self._streams.get(stream)
            if elders is None:
                elders = self._streams[stream] = deque()
            elders.append(message)
        self._account.enter(time_ps, key, way, self._ways(origin, to), message)

    def _way(self, origin: int, to: int) -> Any:
        machine = self._machine
        within = machine.node_of[origin] == machine.node_of[to]
        return self._account.way(machine.shared_way(origin, to)[::-1], within=within)

    def hold(self, rank: Rank, send: Send) -> bool:
        """Have a send be complete when its data are there, which have just left; return whether they use links."""
        if not self.between(rank.number, send.to):
            return False
        launched, rank.key = rank.key, rank.key + 1
        self._sends[launched] = rank.key, send
        return True

    def _advance(self, now_ps: int) -> None:
        """Flows begin and end. That is no event of the run: only that a message arrives is one."""
        self._account.advance(now_ps)
        if self._shard.alone:
            self._shard.kernel.events -= 1  # this call has been counted

    def _arrive(self, time_ps: int, key: int, message: Message | None) -> None:
        found = self._sends.pop(key, None)
        if found is not None:
            own_key, send = found
            send.time_ps = time_ps
            self._shard.kernel.post(time_ps, own_key, Operation.complete, send)
        if message is None:
            return
        if stream := _stream(message):
            elders = self._streams[stream]
            if elders[0] is not message:
                self._early[message] = key
                return
            elders.popleft()
            super()._arrive(time_ps, key, message)
            while elders and elders[0] in self._early:
                message = elders.popleft()
                super()._arrive(time_ps, self._early.pop(message), message)
            if not elders:
                del self._streams[stream]
        else:
            super()._arrive(time_ps, key, message)


def _stream(message: Message) -> tuple[int, int, int, int] | None:
    """Return what keeps its order among messages; None for the data of a rendezvous, whose envelope was matched."""
    cid = message.cid
    if cid or message.kind == CONTROL:
        return message.origin, message.to, cid, message.tag if cid & 1 else 0
    return None
