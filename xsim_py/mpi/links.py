"""Routes of messages over links that they share; joins what `machine` and `network` know."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

__all__ = ["SharedLinks"]

_ROUTES_KEPT = 4096  # a few MB; programs use the same ways again and again, and to find one costs over 1 us a hop


class SharedLinks:
    """The links between the nodes of a machine, for messages between ranks.

    Parameters
    ----------
    machine : Machine
        Where the ranks are, and the routes between nodes.
    account : LinkContention
        Who uses which link when.
    """

    def __init__(self, machine: Any, account: Any) -> None:
        self._machine = machine
        many_links = getattr(machine.topology, "many_links", 0)
        self._ahead = machine.topology.links if many_links else lru_cache(_ROUTES_KEPT)(self._slowly)
        self._route = machine.topology.route
        self._passage = account.passage
        self.hop = account.hop
        account.number(many_links)

    def between(self, origin: int, to: int) -> bool:
        """Whether a message between these ranks uses links at all."""
        node_of = self._machine.node_of
        return bool(node_of[origin] != node_of[to])

    def passage(self, origin: int, to: int, size_bytes: int) -> Any:
        """What is ahead of a message between these ranks; `hop` takes it to its next link."""
        node_of = self._machine.node_of
        return self._passage(list(self._ahead(node_of[origin], node_of[to])), size_bytes)

    def _slowly(self, a: int, b: int) -> list[tuple[int, int]]:
        """The links between two nodes, the last one first."""
        return self._route(a, b)[::-1]  # type: ignore[no-any-return]
