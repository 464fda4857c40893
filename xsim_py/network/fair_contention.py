"""Max-min fair sharing of links: each message is a flow of its bytes.

A message first waits for its latency. Then its bytes flow over all links of its route at once, at a rate that changes
whenever another flow begins or ends (`xsim_py.network.flows`; SimGrid's CM02 with equal weights). A message without
contention arrives exactly at the time of the closed form of `xsim_py.network.link`.

The injection port of a rank is a link, too, shared by all its messages. A message whose time on the wire is longer than
its bytes take on the links (because of its segment, or a measured time) is limited to that rate, and leaves the rest to
others.

The flows that share with a message are known only when its last byte has arrived, too late for shards that run ahead.
So all flows are computed earlier by the minimum latency between two nodes: that part of a message's latency comes after
its last byte here, not before its first. This shifts flows in time only, and arrival times are unaffected.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.config import NetworkSpec
from xsim_py.network.flows import FairFlows
from xsim_py.network.link import Link, least_ps_per_byte

if TYPE_CHECKING:
    from xsim_py.network.network import Distances


class FlowRoute(NamedTuple):
    """A route in the form that `FairContention.enter` takes."""

    links: tuple[int, ...]
    """The numbers of its links."""
    alone_rate: float
    """The rate without contention, in bytes per picosecond."""
    own: bool
    """True if the injection rate of its rank may be lower than these links allow."""


class FairContention:
    """The links of the network, and the messages that flow over them."""

    # See `LinkContention`.
    wake: Callable[[int], None]
    arrive: Callable[[int, int, Any], None]
    fifo = False

    def __init__(
        self,
        link: Callable[[int, int], Link],  # returns the costs of messages from one rank to another
        *,
        capacity: Callable[[Any], float],  # returns the bytes per picosecond of a directed link
        injection: float,  # bytes per picosecond that a rank can inject
        shared_first_link: bool,  # whether all messages of a rank to other nodes share their first link
        ahead_ps: int,  # by how much flows are computed earlier than they occur: at most the latency of any message
    ) -> None:
        self._link, self._capacity, self._ahead_ps = link, capacity, ahead_ps
        self._injection, self._one_way_out = injection, shared_first_link
        self._flows = FairFlows(integer_times=True)
        self._numbers: dict[Any, int] = {}
        self._interfaces: dict[int, int] = {}  # the links that model the injection ports of ranks
        self._capacities = [math.inf]
        self._messages: dict[int, Any] = {}
        self._awake_ps: float = math.inf

    def flow_route(self, route: Sequence[Hashable], *, within: bool = False) -> FlowRoute:
        """Return a route of one directed link or more, possibly within a node, as `enter` takes it."""
        known, capacities = self._numbers, self._capacities
        for link in route:
            if link not in known:
                known[link] = self._add(self._capacity(link))
        numbers = [known[link] for link in route]
        alone_rate = min([capacities[number] for number in numbers])
        if len(set(numbers)) < len(numbers):  # e.g. a node's half-duplex port
            alone_rate = min([capacities[number] / uses for number, uses in Counter(numbers).items()])
        if within:
            return FlowRoute(tuple(numbers), alone_rate, False)
        own = self._injection < (capacities[numbers[0]] if self._one_way_out else math.inf)
        return FlowRoute(tuple(numbers), min(alone_rate, self._injection), own)

    def _add(self, capacity: float) -> int:
        self._capacities.append(capacity)
        return self._flows.add_link(capacity)

    def enter(self, time_ps: int, order: int, ends: tuple[int, int, int], route: FlowRoute, message: object) -> None:
        """Begin a message.

        Its injection begins at `time_ps`. `order` orders it among simultaneous events, independently of the number of
        shards. `ends` are the sending rank, the receiving rank, and the size in bytes. `message` is the object passed
        to `arrive`.
        """
        origin, to, size_bytes = ends
        link = self._link(origin, to)
        cost = link.cost(size_bytes)
        size_bytes = size_bytes + link.header_bytes if size_bytes >= 0 else 0
        wire_ps = cost.wire_ps
        begin_ps = time_ps + cost.latency_ps - self._ahead_ps
        links, alone_rate, own = route
        size, most = wire_ps * alone_rate, math.inf
        if alone_rate == math.inf:
            begin_ps, size = begin_ps + wire_ps, 0.0
        elif wire_ps - size_bytes / alone_rate > 1:  # by more than rounding
            size, most = float(size_bytes), size_bytes / wire_ps
        if own and size:
            interface = self._interfaces.get(origin)
            if interface is None:
                interface = self._interfaces[origin] = self._add(self._injection)
            links = (interface, *links)
        self._flows.add(order, begin_ps, size, links, most)
        self._messages[order] = message
        if begin_ps < self._awake_ps:
            self._awake_ps = begin_ps
            self.wake(begin_ps)

    def advance(self, now_ps: int) -> None:
        """Begin and end the flows of this time, if any."""
        if now_ps < self._awake_ps:
            return
        for ended_ps, order in self._flows.advance(now_ps):
            self.arrive(ended_ps + self._ahead_ps, order, self._messages.pop(order))
        self._awake_ps = next_ps = self._flows.next_time
        if next_ps < math.inf:
            self.wake(next_ps)


def fair_contention(
    link: Callable[[int, int], Link], costs: NetworkSpec, distances: Distances, *, ahead_ps: int
) -> FairContention:
    """Return the max-min fair contention of a network.

    `link` returns the costs of messages from one rank to another, `costs` are those between nodes, and `distances` has
    the links. `ahead_ps` is at most the latency of any message.
    """
    parameters = distances.link_parameters
    fastest = float(least_ps_per_byte(costs))

    def capacity(link: tuple[int, ...]) -> float:
        ps_per_byte = fastest if parameters is None else float(parameters[distances.layer(link)][0]) or fastest
        return 1 / ps_per_byte if ps_per_byte else math.inf

    return FairContention(
        link,
        capacity=capacity,
        injection=1 / fastest if fastest else math.inf,
        shared_first_link=distances.shared_first_link,
        ahead_ps=ahead_ps,
    )
