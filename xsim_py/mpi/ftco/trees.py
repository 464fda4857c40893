"""The trees of FTCO, their timeouts, and the fault-free latency of an operation on them.

Nodes are added in rounds; in a round, each node that gets children gets its first before any gets its second. So
siblings are not consecutive, parents have smaller numbers than their children, and a list of children in ascending
order begins with the largest subtree. In a round of a k-nomial tree every existing node gets k - 1 children; in a k-ary
tree the nodes of the previous round get k each. With several roots, nodes 0 to k-1 exist from the start, and each is a
neighbour of all others: a value that reaches one root from its subtree goes to the others at once, which saves most of
a descent and an ascent (Margolin and Barak, section 5.2.1).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

KINDS = ("knomial", "kary")
ROOTS = ("single", "multi")

Ints = NDArray[np.int64]


class Tree:
    """The tree of an operation.

    Make it with `tree`, which caches shapes. Memory: 12 bytes per node, and 8 more for each distance queried.

    There are at least 1 node and a parameter k (`radix`) of at least 2. `kind` is ``knomial`` or ``kary``. `roots` is
    ``single``, or ``multi`` for k roots (one, of a single node). Raises a `ValueError` if the size, kind, radix or
    number of roots is impossible.
    """

    def __init__(self, size: int, kind: str = "knomial", *, radix: int, roots: str = "single") -> None:
        if size < 1 or kind not in KINDS or radix < 2 or roots not in ROOTS:
            raise ValueError(f"no tree has {size} nodes, kind {kind!r}, radix {radix} and {roots!r} roots")
        if roots == "multi" and radix > size > 1:
            raise ValueError(f"{size} nodes are too few for {radix} roots")
        self.size = size
        self.kind = kind
        self.radix = radix
        self.roots = roots
        self.root_count = min(radix, size) if roots == "multi" else 1  # nodes 0 to ``root_count - 1`` are roots
        self.parent_array = np.full(size, -1, np.int32)  # -1 for roots
        for first, end, above in self.rounds():
            self.parent_array[first:end] = np.arange(above, above + end - first)
        below = self.parent_array[self.root_count :]
        # All children, by parent; shape (size - root_count,).
        self.child_list = (np.argsort(below, kind="stable") + self.root_count).astype(np.int32)
        degrees = np.bincount(below, minlength=size)
        # The offset of each node's children in `child_list`; shape (size + 1,).
        self.child_start = np.concatenate(([0], np.cumsum(degrees))).astype(np.int32)
        self._down: list[Ints] = [np.ones(size, np.int64), degrees]
        self._up: list[Ints] = [np.ones(size, np.int64)]

    def rounds(self) -> Iterator[tuple[int, int, int]]:
        """Yield ranges of consecutively added nodes: first, end, and the parent of the first.

        The parents of a range are consecutive, too.
        """
        first = 0  # of the nodes that get children in this round
        count = made = self.root_count
        while made < self.size:
            begin = made
            for _ in range(self.radix - (self.kind == "knomial")):
                if made == self.size:
                    return
                end = min(made + count, self.size)
                yield made, end, first
                made = end
            if self.kind == "knomial":
                count = made
            else:
                first, count = begin, made - begin

    def parent(self, node: int) -> int:
        """Return the parent of a node, -1 for a root."""
        return int(self.parent_array[node])

    def children(self, node: int) -> Sequence[int]:
        """Return the children of a node, in the order in which it sends to them."""
        children: list[int] = self.child_list[self.child_start[node] : self.child_start[node + 1]].tolist()
        return children

    def fathers(self, node: int) -> tuple[int, ...]:
        """Return the receivers of a subtree's value: the parent, or, for a root, the other roots.

        Roots come from the next one on.
        """
        if node >= self.root_count:
            return (self.parent(node),)
        return (*range(node + 1, self.root_count), *range(node))

    def root_of(self, node: int) -> int:
        """Return the root of the tree that contains a node."""
        while node >= self.root_count:
            node = self.parent(node)
        return node

    def is_below(self, node: int, top: int) -> bool:
        """Return True if a node is in the subtree of another node, and is not that node."""
        if node <= top:
            return False
        while node > top:
            node = self.parent(node)
        return node == top

    def degree(self, node: int) -> int:
        """Return the number of neighbours of a node."""
        return self.peers(node, 1)

    def peers(self, node: int, distance: int) -> int:
        """Return the number of possible peers at a distance: up or down, but not up and then down.

        Above a node there is one per distance; at the distance of the roots, all other roots; beyond them one, or none
        for node 0. The authors of the algorithm count the same way.
        """
        return int(self._count_down(distance)[node] + self._count_up(distance)[node])

    def peers_array(self, distance: int) -> Ints:
        """Return `peers` of all nodes."""
        return self._count_down(distance) + self._count_up(distance)

    def _count_down(self, distance: int) -> Ints:
        while len(self._down) <= distance:
            counts = np.zeros(self.size, np.int64)
            for first, end, above in self.rounds():
                counts[above : above + end - first] += self._down[-1][first:end]
            self._down.append(counts)
        return self._down[distance]

    def _count_up(self, distance: int) -> Ints:
        while len(self._up) <= distance:
            counts = np.zeros(self.size, np.int64)
            if len(self._up) == 1:
                counts[: self.root_count] = self.root_count - 1
                counts[self.root_count :] = 1
            else:
                counts[self.root_count :] = self._up[-1][self.parent_array[self.root_count :]]
                if self.root_count > 2:
                    counts[1 : self.root_count] = 1
                elif self.root_count == 2:  # each has one father, the other
                    counts[:2] = self._up[-1][[1, 0]]
            self._up.append(counts)
        return self._up[distance]


@lru_cache(maxsize=16)
def tree(size: int, kind: str = "knomial", *, radix: int, roots: str = "single") -> Tree:
    """Return the tree of a shape; see `Tree`."""
    return Tree(size, kind, radix=radix, roots=roots)


class Timing:
    """Timeouts and expected arrival times, in ticks.

    A tick is a step of the formal model, elsewhere a picosecond. `latency` is the time of a message in the network, the
    paper's L, and `overhead` the time to send or to receive a message, the paper's o. `timeout` is that at any
    distance; None: the paper's function of the distance.
    """

    def __init__(self, tree: Tree, *, latency: int, overhead: int, timeout: int | None = None) -> None:
        self.tree = tree
        self.latency = latency
        self.overhead = overhead
        self.fixed = timeout
        self._timeouts: dict[int, list[int]] = {}
        self._eta_sub: list[int] | None = None
        self._eta_full: list[int] | None = None

    def timeout(self, node: int, distance: int) -> int:
        """Return the timeout of a node for peers at a distance, in ticks.

        ``peers(node, d)`` nodes query it from there, and it serves them with probability ``2**-d``; the time is rounded
        up to whole intervals of its deterministic service (appendix A). It is 0 if no node is at that distance.
        """
        if self.fixed is not None:
            return self.fixed
        known = self._timeouts.get(distance)
        if known is None:
            known = self._timeouts[distance] = self.timeout_array(distance).tolist()
        return known[node]

    def timeout_array(self, distance: int) -> Ints:
        """Return `timeout` of all nodes."""
        if self.fixed is not None:
            return np.full(self.tree.size, self.fixed, np.int64)
        peers = self.tree.peers_array(distance)
        interval = 4 * np.maximum(self.tree.peers_array(1), 1)
        waiting = -(-(peers << distance) // interval) * interval * self.overhead + 2 * self.latency
        return np.where(peers == 0, 0, waiting)

    def eta_sub(self, node: int) -> int:
        """Return when the values of all of a node's children are expected, from the start."""
        if self._eta_sub is None:
            self._eta_sub = self.eta_sub_array().tolist()
        return self._eta_sub[node]

    def eta_full(self, node: int) -> int:
        """Return when the result is expected at a node, from the start."""
        if self._eta_full is None:
            self._eta_full = self.eta_full_array().tolist()
        return self._eta_full[node]

    def eta_sub_array(self) -> Ints:
        """Return `eta_sub` of all nodes."""
        # The latest child, at first without this node's own part, which is added when its own parent is computed.
        latest = np.zeros(self.tree.size, np.int64)
        hop = self.latency + self.overhead
        degrees = np.diff(self.tree.child_start).astype(np.int64)
        own = np.where(degrees > 0, hop + degrees * self.overhead, 0)
        for first, end, above in reversed(list(self.tree.rounds())):
            parents = slice(above, above + end - first)
            np.maximum(latest[parents], latest[first:end] + own[first:end], out=latest[parents])
        return latest + own

    def eta_full_array(self) -> Ints:
        """Return `eta_full` of all nodes."""
        roots = self.tree.root_count
        eta = np.zeros(self.tree.size, np.int64)
        eta[:roots] = self.eta_sub_array()[:roots].max()
        if roots > 1:
            eta[:roots] += self.latency + self.overhead + (roots - 1) * self.overhead
        siblings = np.zeros(self.tree.size, np.int64)  # siblings that are served before
        for first, end, above in self.tree.rounds():
            parents = slice(above, above + end - first)
            eta[first:end] = eta[parents] + self.latency + (2 + siblings[parents]) * self.overhead
            siblings[parents] += 1
        return eta


# ------------------------------------------------------------------------------------------- fault-free latency


def fault_free_latency(tree: Tree, *, latency: int, overhead: int, operation: str = "allreduce") -> int:
    """Return the exact time of an operation without failures, in ticks.

    It ends when the last node other than node 0 is done, or, for a reduce, when node 0 is. A node sends or receives in
    `overhead`; a message is in the network for `latency`. The `operation` is ``allreduce``, ``reduce`` or ``bcast``.
    """
    hop = latency + overhead
    roots = tree.root_count
    if tree.size == 1:
        return 0
    if operation == "bcast":
        # Node 0 sends to the other roots first, then to its children.
        starts = [(roots - 1) * overhead, *(index * overhead + hop + overhead for index in range(roots - 1))]
        return _descent(tree, np.array(starts), hop, overhead)
    ready, arrivals = _ascent(tree, hop, overhead)
    if operation == "reduce":
        others = [ready[root] + hop for root in range(1, roots)]
        return _serve(sorted(arrivals[0] + others), overhead)
    decided = _exchange(ready, arrivals, hop, overhead) if roots > 1 else ready
    return _descent(tree, np.array(decided), hop, overhead)


def _serve(arrivals: list[int], overhead: int) -> int:
    """Return when the last message, in order of arrival, has been received; 0 if there are none."""
    end = 0
    for arrival in arrivals:
        end = max(end, arrival) + overhead
    return end


def _ascent(tree: Tree, hop: int, overhead: int) -> tuple[list[int], list[list[int]]]:
    """Return when each root has its subtree's values, and when each value reached it."""
    size, roots = tree.size, tree.root_count
    depth = np.zeros(size, np.int64)
    for first, end, above in tree.rounds():
        depth[first:end] = depth[above : above + end - first] + 1
    ready = np.zeros(size, np.int64)
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(int(depth.max()) + 2))
    for level in range(int(depth.max()), 0, -1):
        nodes = order[bounds[level] : bounds[level + 1]]
        arrival = ready[nodes] + hop
        parents = tree.parent_array[nodes]
        # The last to arrive is served last; each of the others must be served before the ones that follow.
        by_parent = np.lexsort((-arrival, parents))
        parents, arrival = parents[by_parent], arrival[by_parent]
        starts = np.flatnonzero(np.r_[True, parents[1:] != parents[:-1]])
        rank = np.arange(len(parents)) - np.repeat(starts, np.diff(np.r_[starts, len(parents)]))
        ready[parents[starts]] = np.maximum.reduceat(arrival + (rank + 1) * overhead, starts)
    arrivals = [sorted(int(ready[child]) + hop for child in tree.children(root)) for root in range(roots)]
    return ready[:roots].tolist(), arrivals


def _exchange(ready: list[int], arrivals: list[list[int]], hop: int, overhead: int) -> list[int]:
    """Return when each root has the values of all others and has sent its own.

    A root that can send does so; else it receives, in order of arrival, from children and other roots alike. Messages
    from other roots that arrive before it is ready delay those from children, so roots are processed in the order in
    which they act.
    """
    roots = len(ready)
    queues = [[(time, -1) for time in times] for times in arrivals]  # arrival time and source root; -1: a child
    waiting = [len(times) for times in arrivals]
    free = [0] * roots
    unsent = [list(range(root - 1, -1, -1)) + list(range(roots - 1, root, -1)) for root in range(roots)]
    missing = [roots - 1] * roots

    def next_time(root: int) -> int:
        if not waiting[root] and unsent[root]:
            return free[root]
        return max(free[root], queues[root][0][0]) if queues[root] else -1

    pending = [(next_time(root), root) for root in range(roots)]
    heapify(pending)
    while pending:
        now, root = heappop(pending)
        if now < 0 or now != next_time(root):
            continue  # an earlier message has arrived and was handled instead
        free[root] = now + overhead
        if not waiting[root] and unsent[root]:
            other = unsent[root].pop()
            insort(queues[other], (now + hop, root))
            heappush(pending, (next_time(other), other))
        elif queues[root].pop(0)[1] < 0:
            waiting[root] -= 1
        else:
            missing[root] -= 1
        heappush(pending, (next_time(root), root))
    assert not any(missing)
    return free


def _descent(tree: Tree, starts: Ints | int, hop: int, overhead: int) -> int:
    """Return when the last node other than node 0 is done.

    The roots can begin to send to their children at the times `starts`.
    """
    begin = np.zeros(tree.size, np.int64)
    begin[: tree.root_count] = starts
    done = begin.copy()
    for first, end, above in tree.rounds():
        parents = slice(above, above + end - first)
        done[parents] += overhead
        begin[first:end] = done[parents] - overhead + hop + overhead
        done[first:end] = begin[first:end]
    return int(done[1:].max())


@lru_cache(maxsize=256)
def best_radix(size: int, kind: str, roots: str, latency: int, overhead: int, operation: str = "allreduce") -> int:
    """Return the smallest radix with the shortest fault-free operation.

    For the parameters see `Tree` and `fault_free_latency`.
    """
    best, shortest = 2, -1
    for radix in range(2, size + 1):
        if 0 <= shortest < (radix - 1) * overhead:
            break  # some node sends or receives that many messages, and more with each larger radix
        if 0 <= shortest <= _full_latency(size, kind, roots, radix, latency, overhead, operation):
            continue
        shape = Tree(size, kind, radix=radix, roots=roots)
        steps = fault_free_latency(shape, latency=latency, overhead=overhead, operation=operation)
        if shortest < 0 or steps < shortest:
            best, shortest = radix, steps
    return best


def _full_latency(
    size: int, kind: str, roots: str, radix: int, latency: int, overhead: int, operation: str = "allreduce"
) -> int:
    """Return a lower bound of `fault_free_latency`.

    It is the closed form for the largest tree of full rounds within the size.
    """
    if operation != "allreduce" and kind == "kary" and roots == "multi":
        return 0  # node 0 has more children than any other node, and there is no closed form
    several = operation == "allreduce" and roots == "multi"
    count = width = radix if several else 1
    rounds = 0
    while count + width * (radix - (kind == "knomial")) <= size:
        width *= radix
        count = width if kind == "knomial" else count + width
        rounds += 1
    ascent = rounds * (latency + (radix + (kind == "kary")) * overhead)
    if operation != "allreduce":
        return ascent
    exchange = max((radix - 1) * overhead, latency + overhead) + (radix - 1) * overhead if several else 0
    return exchange + 2 * ascent
