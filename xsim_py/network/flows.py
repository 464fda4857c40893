"""Flows that share links max-min fairly, while their number and routes change over time.

Each flow gets the largest rate that takes nothing from a flow with a lower rate: all rates grow together until a link
is full, and its flows then keep theirs (progressive filling; Bertsekas and Gallager, *Data Networks*, 1992, section
6.5.2). A link that occurs twice in a route counts twice. Rates hold until another flow begins or ends, and are then
recomputed. This is SimGrid's CM02 with equal weights and without cross traffic (Casanova, Giersch, Legrand, Quinson,
Suter, JPDC 74, 2014).

Two things make it cheap. Flows not connected by a chain of shared links are independent, so only the component of the
flows that began or ended is recomputed. And filling needs no order: a link none of whose flows is limited further by
another link is full at its share, whatever happens elsewhere, so one round fixes the rates of all such links.

Nothing depends on the order of simultaneous events: rates are functions of the set of routes, and sums are taken over
sorted numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_FEW: Final = 24  # flows: with fewer, lists are faster than arrays
_MANY: Final = 200  # flows: with more, scanning all of them for one component is faster
_SAME_INSTANT: Final = 1e-14  # relative: the rounding error between events that are simultaneous
_FARTHEST: Final = 2.0**50  # integer times are exact as floats up to eight times this

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class FairFlows:
    """The flows that share some links, from event to event.

    If `integer_times`, times are integers, such as picoseconds; a flow then ends at the nearest one. Otherwise they are
    floats. Sizes, capacities and times may have any consistent units: with bytes and picoseconds, capacities are bytes
    per picosecond.
    """

    def __init__(self, *, integer_times: bool = False) -> None:
        self._integer_times = integer_times
        self._epoch: Any = 0
        self._capacities = np.full(64, np.inf)  # index 0 is a dummy link that pads the routes
        self._links = 1
        self._limited = [False]  # whether a link has a finite capacity
        self._on: list[set[int]] = [set()]
        self._paths: list[list[int]] = []
        self._names: list[Any] = []
        self._free: list[int] = []
        self._routes = np.zeros((0, 1), np.int64)
        self._rate, self._left, self._since, self._due, self._most = (np.zeros(0) for _ in range(5))
        self._held = 0  # the number of active flows with a maximum rate
        self._soonest = math.inf
        self._pending: list[tuple[Any, Any, int, float, list[int], float]] = []
        self._serial = count()

    def add_link(self, capacity: float) -> int:
        """Add a link and return its number.

        A link of unlimited capacity (`math.inf`) never slows a flow.
        """
        if not capacity > 0:
            raise ValueError(f"a link capacity of {capacity} is out of range: it must be positive")
        number = self._links
        if number == len(self._capacities):
            self._capacities = np.concatenate([self._capacities, np.full(number, np.inf)])
        self._capacities[number] = capacity
        self._limited.append(capacity < math.inf)
        self._on.append(set())
        self._links += 1
        return number

    def add(self, name: object, begin: object, size: float, route: Iterable[int], max_rate: float = math.inf) -> None:
        """Add a flow.

        Its `name` identifies it in the result of `advance`; names must be sortable. At `begin`, its first byte reaches
        the links, after its latency: not before the time of the last `advance`. `size` is the amount to transfer, and
        `route` has the numbers of its links, from `add_link`. `max_rate` is ignored if no link has a
        finite capacity.
        """
        path = [link for link in route if self._limited[link]]
        heappush(self._pending, (begin, name, next(self._serial), size, path, max_rate))

    @property
    def next_time(self) -> Any:
        """The time of the next begin or end of a flow, if none is added; infinity if there is none."""
        begins = self._pending[0][0] if self._pending else math.inf
        if self._soonest == math.inf:
            return begins
        ends = self._epoch + (int(self._soonest) if self._integer_times else self._soonest)
        return min(begins, ends)

    @property
    def rates(self) -> dict[Any, float]:
        """The rates of all active flows, by name."""
        return {name: float(self._rate[slot]) for slot, name in enumerate(self._names) if self._paths[slot]}

    def advance(self, now: object) -> list[tuple[Any, Any]]:
        """Advance the time up to and including `now`.

        Returns the time and name of each flow that has ended, ordered by time and name.
        """
        ended: list[tuple[Any, Any]] = []
        while (time := self.next_time) <= now and time < math.inf:
            ended += self._process_events(time)
        return ended

    def _process_events(self, time: Any) -> list[tuple[Any, Any]]:
        """Begin and end all flows of one time, and recompute the affected rates."""
        if self._integer_times and (len(self._free) == len(self._paths) or time - self._epoch > _FARTHEST):
            self._move_epoch(time)
        last = time if self._integer_times else time * (1 + _SAME_INSTANT)
        ended: list[tuple[Any, Any]] = []
        affected: set[int] = set()
        if self._soonest <= last - self._epoch:
            for slot in np.flatnonzero(self._due <= last - self._epoch).tolist():
                ended.append((time if self._integer_times else float(self._due[slot]), self._names[slot]))
                affected.update(self._leave(slot))
        while self._pending and self._pending[0][0] <= last:
            begin, name, _, size, path, max_rate = heappop(self._pending)
            if path and size > 0:
                affected.update(path)
                self._enter(name, size, path, max_rate)
            else:
                ended.append((begin, name))
        self._share(affected, float(time - self._epoch))
        self._soonest = float(self._due.min(initial=np.inf))
        ended.sort()
        return ended

    def _move_epoch(self, time: object) -> None:
        """Make `time` the origin of times, so that they stay small enough to be exact."""
        self._since -= time - self._epoch
        self._due -= time - self._epoch
        self._soonest -= time - self._epoch
        self._epoch = time

    def _enter(self, name: object, size: float, path: list[int], max_rate: float) -> None:
        if not self._free:
            self._grow()
        if len(path) > self._routes.shape[1]:
            more = len(path) - self._routes.shape[1]
            self._routes = np.pad(self._routes, ((0, 0), (0, more)))
        slot = self._free.pop()
        self._names[slot], self._paths[slot] = name, path
        self._routes[slot, : len(path)] = path
        self._left[slot], self._most[slot] = size, max_rate
        self._held += max_rate < math.inf
        for link in path:
            self._on[link].add(slot)

    def _grow(self) -> None:
        """Double the room for flows."""
        old = len(self._paths)
        more = max(old, 16)
        self._routes = np.pad(self._routes, ((0, more), (0, 0)))
        self._rate, self._left, self._since, self._most = (
            np.pad(each, (0, more)) for each in (self._rate, self._left, self._since, self._most)
        )
        self._due = np.pad(self._due, (0, more), constant_values=np.inf)
        self._paths += [[] for _ in range(more)]
        self._names += [None] * more
        self._free += range(old + more - 1, old - 1, -1)

    def _leave(self, slot: int) -> list[int]:
        """Remove a flow from its links, and return them."""
        path = self._paths[slot]
        for link in path:
            self._on[link].discard(slot)
        self._held -= bool(self._most[slot] < math.inf)
        self._paths[slot], self._names[slot] = [], None
        self._routes[slot] = 0
        self._rate[slot] = 0
        self._due[slot] = np.inf
        self._free.append(slot)
        return path

    def _share(self, affected: set[int], time: float) -> None:
        """Recompute the rates of all flows connected to these links by a chain of shared links."""
        slots = self._component(affected)
        if not len(slots):
            return
        max_rate = self._most[slots] if self._held else None
        if len(slots) > _FEW:
            rates = max_min_rates(self._routes[slots], self._capacities[: self._links], max_rate)
        else:
            paths = [self._paths[slot] for slot in slots]
            rates = np.array(
                max_min_rates_of_few(paths, self._capacities, None if max_rate is None else max_rate.tolist())
            )
        changed = rates != self._rate[slots]
        slots, rates = slots[changed], rates[changed]
        remaining = self._left[slots] - self._rate[slots] * (time - self._since[slots])
        remaining = np.maximum(remaining, 0)
        lasting = remaining / rates
        self._left[slots], self._rate[slots], self._since[slots] = remaining, rates, time
        self._due[slots] = time + (np.rint(lasting) if self._integer_times else lasting)

    def _component(self, affected: set[int]) -> Ints:
        """Return the slots of the flows connected to these links by a chain of shared links."""
        links, slots = set(affected), set[int]()
        frontier = list(affected)
        while frontier:
            fresh = self._on[frontier.pop()] - slots
            slots |= fresh
            if len(slots) > _MANY:
                return self._component_by_scan(list(links))
            for slot in fresh:
                for link in self._paths[slot]:
                    if link not in links:
                        links.add(link)
                        frontier.append(link)
        return np.fromiter(slots, np.int64, len(slots))

    def _component_by_scan(self, links: list[int]) -> Ints:
        """Return the result of `_component` by repeated scans of all routes."""
        marked = np.zeros(self._links, np.bool_)
        marked[links] = True
        found = -1
        while True:
            slots = np.flatnonzero(marked[self._routes].any(axis=1))
            if len(slots) == found:
                return slots
            found = len(slots)
            marked[self._routes[slots]] = True
            marked[0] = False


def max_min_rates(routes: Ints, capacities: Floats, max_rate: Floats | None = None) -> Floats:
    """Return the max-min fair rates of flows over links, with arrays.

    The F rows of `routes` have the links of each flow, padded with zeros. `capacities` are those of L links by number;
    that of number 0 is infinite. `max_rate` has the maximum rates of the F flows; None: unlimited. The result has F
    rates. No flow may have an infinite one.
    """
    if 4 * routes.size < len(capacities):
        links, places = np.unique(routes, return_inverse=True)
        if links[0]:  # all routes have equal lengths: number 0 is missing
            links, places = np.concatenate([[0], links]), places + 1
        return max_min_rates(places.reshape(routes.shape), capacities[links], max_rate)
    rates = np.zeros(len(routes))
    alive = np.arange(len(routes))
    remaining = capacities.copy()
    users = np.bincount(routes.ravel(), minlength=len(remaining))
    blocked = np.empty(len(remaining), np.bool_)
    while len(alive):
        share = np.divide(remaining, users, out=np.full(len(remaining), np.inf), where=users > 0)
        share[0] = np.inf
        shares = share[routes]
        lowest = shares.min(axis=1)
        if max_rate is not None:  # acts as a private link of the flow
            lowest = np.minimum(lowest, max_rate)
        blocked[:] = False
        blocked[routes[lowest[:, None] < shares]] = True
        blocked[0] = True
        fixed = ~blocked[routes].all(axis=1)
        if max_rate is not None:
            fixed |= lowest == max_rate
            max_rate = max_rate[~fixed]
        rates[alive[fixed]] = lowest[fixed]
        # Sums of sorted numbers do not depend on the order of the flows.
        order = np.flatnonzero(fixed)[np.argsort(lowest[fixed])]
        entries = routes[order].ravel()
        used = np.bincount(entries, np.repeat(lowest[order], routes.shape[1]), len(remaining))
        users -= np.bincount(entries, minlength=len(remaining))
        remaining = np.maximum(remaining - used, 0)
        alive, routes = alive[~fixed], routes[~fixed]
    return rates


def max_min_rates_of_few(
    paths: Sequence[Sequence[int]], capacities: Floats, max_rate: Sequence[float] | None = None
) -> list[float]:
    """Return the result of `max_min_rates`, bit for bit, with lists: faster for few flows.

    `paths` has the links of each flow, at least one, and `capacities` the finite capacities of the links by number.
    `max_rate` has the maximum rates of the flows; None: unlimited.
    """
    if max_rate is None:
        max_rate = [math.inf] * len(paths)
    if len(paths) == 1:
        return [min(max_rate[0], *[float(capacities[link]) / uses for link, uses in Counter(paths[0]).items()])]
    rates = [0.0] * len(paths)
    alive = list(range(len(paths)))
    users = Counter(link for path in paths for link in path)
    remaining = {link: float(capacities[link]) for link in users}
    while alive:
        share = {link: remaining[link] / uses for link, uses in users.items() if uses}
        lowest = {flow: min(max_rate[flow], *[share[link] for link in paths[flow]]) for flow in alive}
        blocked = {link for flow in alive for link in paths[flow] if lowest[flow] < share[link]}
        fixed = [flow for flow in alive if lowest[flow] == max_rate[flow] or not blocked.issuperset(paths[flow])]
        fixed.sort(key=lowest.__getitem__)
        used = dict.fromkeys(users, 0.0)
        for flow in fixed:
            rates[flow] = lowest[flow]
            for link in paths[flow]:
                used[link] += lowest[flow]
                users[link] -= 1
        remaining = {link: max(remaining[link] - used[link], 0.0) for link in users}
        alive = [flow for flow in alive if not rates[flow]]
    return rates
