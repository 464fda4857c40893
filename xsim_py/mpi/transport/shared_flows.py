"""Messages that share links max-min fairly (`network.fair_contention`).

The messages of a rank leave at once, even while others are leaving. So a small message may finish before an earlier
large one, and then arrives with it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .message import Message, Operation, Send
from .shared_links import ROUTES_KEPT, SharedLinks

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank


class SharedFlows(SharedLinks):
    """The links between the nodes of a machine, shared by messages max-min fairly.

    `account` is a `FairContention`: the rates of messages. For the others see `SharedLinks`.
    """

    def __init__(self, machine: object, network: Any, account: Any) -> None:
        super().__init__(machine, network, account)
        self._routes = lru_cache(ROUTES_KEPT)(self._route)
        self._sends: dict[int, tuple[int, Send]] = {}

    def enter(self, time_ps: int, key: int, ends: tuple[int, int, int], message: Message | None) -> None:
        """Inject a message into the network; see `SharedLinks.enter`."""
        origin, to, _ = ends
        if message is not None:
            self._queue(message)
        self._account.enter(time_ps, key, ends, self._routes(origin, to), message)

    def _route(self, origin: int, to: int) -> object:
        machine = self._machine
        within = machine.node_of[origin] == machine.node_of[to]
        return self._account.flow_route(machine.shared_route(origin, to)[::-1], within=within)

    def hold(self, rank: Rank, send: Send) -> bool:
        """Complete a send when its data, which have just left, arrive.

        Return True if they use links.
        """
        if not self.between(rank.number, send.to):
            return False
        launched, rank.key = rank.key, rank.key + 1
        self._sends[launched] = rank.key, send
        return True

    def _advance(self, now_ps: int) -> None:
        """Begin and end flows. Only the arrival of a message counts as an event of the run."""
        self._account.advance(now_ps)
        if self._shard.alone:
            self._shard.kernel.events -= 1  # this call has been counted

    def _arrive(self, time_ps: int, key: int, message: Message | None) -> None:
        found = self._sends.pop(key, None)
        if found is not None:
            own_key, send = found
            send.time_ps = time_ps
            self._shard.kernel.post(time_ps, own_key, Operation.complete, send)
        super()._arrive(time_ps, key, message)
