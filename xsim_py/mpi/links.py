"""Routes of messages over links that they share; joins what `machine` and `network` know."""

from __future__ import annotations

from typing import Any

__all__ = ["SharedLinks"]


class SharedLinks:
    """Until when each link of the machine is taken, for messages between ranks.

    Parameters
    ----------
    machine : Machine
        Where the ranks are, and the routes between nodes.
    account : LinkContention
        Who uses which link when.
    """

    def __init__(self, machine: Any, account: Any) -> None:
        self._node_of = machine.node_of
        self._route = machine.topology.route
        self._account = account

    def between(self, origin: int, to: int) -> bool:
        """Whether a message between these ranks uses links at all."""
        return bool(self._node_of[origin] != self._node_of[to])

    def traverse(self, origin: int, to: int, size_bytes: int, time_ps: int) -> int:
        """Send a message at `time_ps` and return when it arrives; calls come in the order of their times."""
        route = self._route(self._node_of[origin], self._node_of[to])
        arrival_ps: int = self._account.traverse(route, time_ps=time_ps, size_bytes=size_bytes)
        return arrival_ps
