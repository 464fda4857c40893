"""The free slots of a machine, for dynamic processes.

Initial ranks keep their slots for the whole run, unless they fail. The core of a failed process is reused if no other
one is free; cores of a failed node are not. Slots are assigned by the machine's placement: a node is filled before the
next one, or ranks are dealt out, each to a node with the fewest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from heapq import heapify, heappop, heappush

from xsim_py.machine.machine import Machine


class Universe:
    """The slots of a machine.

    It is made while the machine has its initial ranks only.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._round_robin = machine.spec.machine.placement == "round_robin"
        self._used = Counter(machine.node_of[: machine.ranks])
        self._next = max(self._used) + 1  # all nodes from here on are empty
        self._cores = machine.cores_per_node
        if machine.open and machine.topology.grows == "cores":
            self._cores = 1 << 62
        self._partial = [self._entry(node) for node in range(self._next) if self._used[node] < self._cores]
        heapify(self._partial)
        # The number of free slots; None if unlimited.
        self.free = None if machine.open else machine.universe - machine.ranks
        self._vacated: list[int] = []  # the nodes of slots vacated by failed processes
        self._failed: set[int] = set()

    def _entry(self, node: int) -> tuple[int, int]:
        return (self._used[node] if self._round_robin else 0, node)

    def allocate(self, count: int, nodes: Collection[int] | None = None) -> list[int]:
        """Take up to `count` slots, only on `nodes` if given; return the node of each."""
        taken: list[int] = []
        while len(taken) < count and self.free != 0:
            node = self._best() if nodes is None else self._best_of(nodes)
            if node is None:
                node = self._vacated_on(nodes)
            if node is None:
                break
            self._used[node] += 1
            if self.free is not None:
                self.free -= 1
            taken.append(node)
        return taken

    def _best(self) -> int | None:
        """Return the node for the next rank; it stays a candidate as long as it has a free core."""
        fresh = self._machine.open or self._next < self._machine.nodes
        while self._partial:
            entry = self._partial[0]
            node = entry[1]
            if entry != self._entry(node) or self._used[node] >= self._cores or node in self._failed:
                heappop(self._partial)  # it has been taken, or is out of date
            elif self._round_robin and fresh and entry[0]:
                break
            else:
                heappop(self._partial)
                self._renew(node)
                return node
        while self._next in self._failed:
            self._next += 1
        if not self._machine.open and self._next >= self._machine.nodes:
            return None
        node = self._next
        self._next += 1
        self._renew(node)
        return node

    def _renew(self, node: int) -> None:
        """Keep a node that is about to get a rank as a candidate, if it has more free cores."""
        if self._used[node] + 1 < self._cores:
            heappush(self._partial, (self._used[node] + 1 if self._round_robin else 0, node))

    def _best_of(self, nodes: Collection[int]) -> int | None:
        free = [node for node in nodes if self._used[node] < self._cores and node not in self._failed]
        if not free:
            return None
        node = min(free, key=self._entry)
        while self._next <= node:  # nodes before it stay empty, but are no longer beyond all used ones
            heappush(self._partial, self._entry(self._next))
            self._next += 1
        if self._round_robin and self._used[node] + 1 < self._cores:
            heappush(self._partial, (self._used[node] + 1, node))
        return node

    def release(self, node: int) -> None:
        """Free a slot on a node whose rank has ended."""
        self._used[node] -= 1
        if self.free is not None:
            self.free += 1
        heappush(self._partial, self._entry(node))

    def vacate(self, node: int) -> None:
        """Record the slot on a node that a failed initial rank has vacated."""
        if self.free is not None:
            self.free += 1
        self._vacated.append(node)

    def _vacated_on(self, nodes: Collection[int] | None) -> int | None:
        """Return the node of a slot vacated by a failed process, on one of `nodes` if given."""
        node = next((n for n in sorted(self._vacated) if n not in self._failed and (nodes is None or n in nodes)), None)
        if node is not None:
            self._vacated.remove(node)
            self._used[node] -= 1
        return node

    def close(self, node: int) -> None:
        """Stop assigning slots on a node: it has failed."""
        self._failed.add(node)
