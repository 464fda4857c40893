"""Messages that share the links of a network max-min fairly, each as a flow of its bytes.

A message is in its latency first, then its bytes flow over all links of its route at once, at a rate that changes
whenever another message begins or ends (`xsim_py.network.flows`; SimGrid's CM02 with equal weights). One that meets
nobody arrives exactly when the closed form of `xsim_py.network.link` says.

How fast a rank injects is a link, too, which all that it sends shares. A message whose time on the wire is more than
its bytes take on the links (its segment, or a measured time) goes no faster than that, and leaves the rest to others.

Who shares with a message is known only when its last byte has arrived, and then it is too late to say so to shards that
run ahead. So all flows are followed earlier than they are, by the least latency between two nodes: that much of its
latency a message has behind its last byte here, and not before its first. Flows only differ in when they are, and each
message arrives when it would.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.config import NetworkSpec
from xsim_py.network.flows import FairFlows
from xsim_py.network.link import Cost, Link, least_ps_per_byte

if TYPE_CHECKING:
    from xsim_py.network.network import Distances


class SharingLink(Link):
    """The costs of messages that share the interface of their sender, and do not wait for it but for the gap."""

    __slots__ = ()

    def computed(self, size_bytes: int) -> Cost:
        """Compute the cost of a message of that size."""
        cost = super().computed(size_bytes)
        cost.busy_ps = self._figures[bisect_right(self._from_bytes, size_bytes) - 1].gap_ps
        return cost


@cache
def sharing_link(kind: type[Link]) -> type[Link]:
    """Return a class of costs like another one, but that messages share the interface of their sender."""
    return type(f"Sharing{kind.__name__}", (SharingLink, kind), {"__slots__": ()})


class Way(NamedTuple):
    """A route, as `FairContention.enter` needs it."""

    links: tuple[int, ...]
    """The numbers of its links."""
    alone: float
    """Bytes per picosecond of a message that meets nobody."""
    own: bool
    """True if its rank may inject more slowly than these links allow."""


class FairContention:
    """The links of the network, and the messages that flow over them.

    Parameters
    ----------
    link
        Returns the costs of messages from one rank to another.
    capacity
        Returns how many bytes a directed link carries in a picosecond.
    injection
        How many bytes a rank injects in a picosecond.
    one_way_out
        Whether all that a rank sends to other nodes goes over one link first.
    ahead_ps
        By how much flows are followed earlier than they are: at most the latency of any message.

    Attributes
    ----------
    wake : callable
        Told of each time at which `advance` has to be called; set by the caller.
    arrive : callable
        Told when the last byte of a message arrives, of its place and whose it is; set by the caller.
    fifo : bool
        Whether messages take a link one after the other.
    """

    wake: Callable[[int], None]
    arrive: Callable[[int, int, Any], None]
    fifo = False

    def __init__(
        self,
        link: Callable[[int, int], Link],
        *,
        capacity: Callable[[Any], float],
        injection: float,
        one_way_out: bool,
        ahead_ps: int,
    ) -> None:
        self._link, self._capacity, self._ahead_ps = link, capacity, ahead_ps
        self._injection, self._one_way_out = injection, one_way_out
        self._flows = FairFlows(whole_times=True)
        self._numbers: dict[Any, int] = {}
        self._interfaces: dict[int, int] = {}  # the links by which ranks inject
        self._capacities = [math.inf]
        self._messages: dict[int, Any] = {}
        self._awake_ps: float = math.inf

    def way(self, route: Sequence[Hashable], *, within: bool = False) -> Way:
        """Return what `enter` needs of a route, which is one directed link or more, and may be within a node."""
        known, capacities = self._numbers, self._capacities
        for link in route:
            if link not in known:
                known[link] = self._add(self._capacity(link))
        numbers = [known[link] for link in route]
        alone = min([capacities[number] for number in numbers])
        if len(set(numbers)) < len(numbers):  # a node's port for both directions, perhaps
            alone = min([capacities[number] / uses for number, uses in Counter(numbers).items()])
        if within:
            return Way(tuple(numbers), alone, False)
        own = self._injection < (capacities[numbers[0]] if self._one_way_out else math.inf)
        return Way(tuple(numbers), min(alone, self._injection), own)

    def _add(self, capacity: float) -> int:
        self._capacities.append(capacity)
        return self._flows.add_link(capacity)

    def enter(self, time_ps: int, place: int, ends: tuple[int, int, int], way: Way, message: Any) -> None:
        """Let a message begin.

        Parameters
        ----------
        time_ps
            When its injection begins.
        place
            Its own place in the order of what happens at one time, the same for every number of shards.
        ends
            The rank that it is from, the one that it is for, and its size in bytes.
        way
            Its route.
        message
            Whose it is, for `arrive`.
        """
        origin, to, size_bytes = ends
        link = self._link(origin, to)
        cost = link.cost(size_bytes)
        size_bytes = size_bytes + link.header_bytes if size_bytes >= 0 else 0
        wire_ps = cost.wire_ps
        begin_ps = time_ps + cost.latency_ps - self._ahead_ps
        links, alone, own = way
        size, most = wire_ps * alone, math.inf
        if alone == math.inf:
            begin_ps, size = begin_ps + wire_ps, 0.0
        elif wire_ps - size_bytes / alone > 1:  # by more than rounding
            size, most = float(size_bytes), size_bytes / wire_ps
        if own and size:
            interface = self._interfaces.get(origin)
            if interface is None:
                interface = self._interfaces[origin] = self._add(self._injection)
            links = (interface, *links)
        self._flows.add(place, begin_ps, size, links, most)
        self._messages[place] = message
        if begin_ps < self._awake_ps:
            self._awake_ps = begin_ps
            self.wake(begin_ps)

    def advance(self, now_ps: int) -> None:
        """Let flows begin and end that begin or end at this time; it may be that there are none."""
        if now_ps < self._awake_ps:
            return
        for ended_ps, place in self._flows.advance(now_ps):
            self.arrive(ended_ps + self._ahead_ps, place, self._messages.pop(place))
        self._awake_ps = next_ps = self._flows.next_time
        if next_ps < math.inf:
            self.wake(next_ps)


def fair_contention(
    link: Callable[[int, int], Link], costs: NetworkSpec, distances: Distances, *, ahead_ps: int
) -> FairContention:
    """Return the account of a network.

    Parameters
    ----------
    link
        Returns the costs of messages from one rank to another.
    costs
        Those between nodes.
    distances
        The links.
    ahead_ps
        At most the latency of any message.
    """
    figures = distances.figures
    fastest = float(least_ps_per_byte(costs))

    def capacity(link: Any) -> float:
        ps_per_byte = fastest if figures is None else float(figures[distances.layer(link)][0]) or fastest
        return 1 / ps_per_byte if ps_per_byte else math.inf

    return FairContention(
        link,
        capacity=capacity,
        injection=1 / fastest if fastest else math.inf,
        one_way_out=distances.one_way_out,
        ahead_ps=ahead_ps,
    )
