"""Dragonflies: groups of fully connected routers, with links between all groups.

The canonical one is that of Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology" (ISCA
2008): p nodes per router, a routers per group, h global links per router, and up to a h + 1 groups; balanced if a = 2p
= 2h. The wiring determines which router links to which group: ``relative`` (port j of group i leads to group i + 1 + j)
or ``absolute`` (to group j, skipping itself). `Cascade` is Cray's variant: a group is a grid of routers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from xsim_py.config import MachineSpec
from xsim_py.config.fat_trees import parse_cascade
from xsim_py.machine.topology import Route, RouterTopology, Topology, Wire

HOST, LOCAL, GLOBAL = range(3)


class Dragonfly(RouterTopology):
    """A canonical dragonfly; consecutive nodes are on one router.

    Routers follow the nodes, group by group. The `routing` ``valiant`` goes over a group drawn for each pair of nodes
    (Valiant, "A scheme for fast parallel communication", SIAM J. Comput. 11, 1982); ``ecmp`` draws one of the shortest
    links between two groups.
    """

    layers = ("host", "local", "global")
    shared_first_link = True

    def __init__(
        self,
        hosts: int,  # nodes per router, p
        routers: int,  # routers per group, a
        global_links: int,  # links per router to other groups, h
        *,
        groups: int | None = None,  # None: the maximum, a h / between + 1
        between: int = 1,  # links between each two groups
        wiring: str = "relative",  # ``relative`` or ``absolute``
        routing: str = "minimal",  # ``minimal``, ``valiant`` or ``ecmp``
    ) -> None:
        self.hosts, self.routers, self.global_links = hosts, routers, global_links
        self.groups = groups or routers * global_links // between + 1
        self.between, self.wiring = between, wiring
        self._relative, self._valiant = wiring == "relative", routing == "valiant" and self.groups > 2
        self._drawn = routing == "ecmp" and between > 1
        self.switches = routers * self.groups
        self.nodes = hosts * self.switches
        self.least_hops = 2 if hosts > 1 else 3 if self.nodes > 1 else 0

    @classmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Return the dragonfly that a description defines.

        If its size is open, it is balanced and large enough.
        """
        topology = spec.topology
        hosts, routers, links = topology.hosts_per_router, topology.routers_per_group, topology.global_links_per_router
        unit = hosts or links or (routers and -(-routers // 2))
        between = topology.links_between_groups or 1
        if not unit:
            unit = 1
            while 2 * unit * unit * (topology.groups or 2 * unit * unit // between + 1) < nodes:
                unit += 1
        return cls(
            hosts or unit,
            routers or 2 * unit,
            links or unit,
            groups=topology.groups,
            between=between,
            wiring=topology.wiring or "relative",
            routing=topology.routing or "minimal",
        )

    def gateway(self, group: int, to: int, copy: int = 0, /) -> int:
        """Return the router of a group with its link (the `copy`-th of several) to another group."""
        if self._relative:
            port = (to - group - 1) % self.groups
        else:
            port = to if to < group else to - 1
        return (port + copy * (self.groups - 1)) // self.global_links

    def _copy(self, a: int, b: int) -> int:
        """Return the link between two groups with the fewest hops; ties by destination or by a draw."""
        (group, router), (other, last) = (divmod(node // self.hosts, self.routers) for node in (a, b))
        turn = self.draw(self.between, a, b) if self._drawn else b % self.between

        def order(copy: int) -> tuple[int, int]:
            hops = (self.gateway(group, other, copy) != router) + (self.gateway(other, group, copy) != last)
            return hops, (copy - turn) % self.between

        return min(range(self.between), key=order)

    def _across(self, group: int, other: int, copy: int) -> Wire:
        """Return a link between two groups."""
        first = self.nodes + group * self.routers, self.nodes + other * self.routers
        pairs = [
            (first[0] + self.gateway(group, other, each), first[1] + self.gateway(other, group, each))
            for each in range(copy + 1)
        ]
        before = pairs.count(pairs[-1]) - 1
        return (*pairs[-1], before) if before else pairs[-1]

    def via(self, a: int, b: int, /) -> int | None:
        """Return the randomly drawn intermediate group of a message, or None."""
        group, other = (node // (self.hosts * self.routers) for node in (a, b))
        if not self._valiant or group == other:
            return None
        drawn = self.draw(self.groups - 2, a, b)
        for taken in sorted((group, other)):
            drawn += drawn >= taken
        return drawn

    def route(self, a: int, b: int, /) -> Route:
        """Return the minimal route, or the one over `via`."""
        return self.route_over(a, b, self.via(a, b))

    def route_over(self, a: int, b: int, via: int | None, /) -> Route:
        """Return the route over a third group; the minimal one if `via` is None or one of the two."""
        if a == b:
            return []
        at, last = self.nodes + a // self.hosts, self.nodes + b // self.hosts
        group, other = (node // (self.hosts * self.routers) for node in (a, b))
        route: Route = [(a, at)]
        groups = [group, other] if via is None or via in (group, other) else [group, via, other]
        if group == other:
            groups = [group]
        for here, there in pairwise(groups):
            copy = self._copy(a, b) if len(groups) == 2 and self.between > 1 else b % self.between
            link = self._across(here, there, copy)
            if link[0] != at:
                route.append((at, link[0]))
            route.append(link)
            at = link[1]
        if at != last:
            route.append((at, last))
        route.append((last, b))
        return route

    def links_per_layer(self, a: int, b: int, /) -> tuple[int, ...]:
        """Return the number of links of nodes, within groups and between groups of the route."""
        if a == b:
            return 0, 0, 0
        one, other = a // self.hosts, b // self.hosts
        if one == other:
            return 2, 0, 0
        (group, router), (to, last) = divmod(one, self.routers), divmod(other, self.routers)
        if group == to:
            return 2, 1, 0
        if self.between > 1 or self._valiant:
            route = self.route(a, b)
            between = sum(self.layer(link) == GLOBAL for link in route)
            return 2, len(route) - between - 2, between
        return 2, (self.gateway(group, to) != router) + (self.gateway(to, group) != last), 1

    def hops(self, a: int, b: int, /) -> int:
        """Return the number of links of the route: those between routers, and two."""
        return sum(self.links_per_layer(a, b))

    def layer(self, link: Wire, /) -> int:
        """Return the layer of a link: of a node, within a group, or between groups."""
        if min(link[0], link[1]) < self.nodes:
            return HOST
        group, other = ((end - self.nodes) // self.routers for end in link[:2])
        return LOCAL if group == other else GLOBAL

    def vertex(self, vertex: int, /) -> str:
        """Return ``h<number>`` for a node, and ``r<group>.<number>`` for a router."""
        if vertex < self.nodes:
            return f"h{vertex}"
        group, router = divmod(vertex - self.nodes, self.routers)
        return f"r{group}.{router}"

    def wires(self) -> Iterator[Wire]:
        """Yield the links of nodes, within groups, and between groups."""
        yield from super().wires()
        for group in range(self.groups):
            first = self.nodes + group * self.routers
            yield from combinations(range(first, first + self.routers), 2)
        for pair in combinations(range(self.groups), 2):
            yield from (self._across(*pair, copy) for copy in range(self.between))

    def router_diameter(self) -> int:
        """Return the hops between routers of the longest route."""
        local = self.routers > 1
        if self.groups == 1:
            return int(local)
        if self._valiant:
            return 2 + 3 * local
        most = max(hops for hops in range(4) if self._pairs_at(0, 1, hops)) if self.between > 1 else 1 + 2 * local
        return max(most, int(local))

    def mean_router_hops(self) -> float:
        """Return the mean hops between routers over all ordered pairs of different routers."""
        routers, groups = self.routers, self.groups
        if self._valiant:
            across = 2 + 2 * (routers - 1) / routers + self._turns()
        elif self.between > 1:
            counts = Counter[int]()
            for pair in combinations(range(groups), 2):
                for hops in range(1, 4):
                    counts[hops] += self._pairs_at(*pair, hops)
            across = sum(hops * count for hops, count in counts.items()) / max(counts.total(), 1)
        else:
            across = 1 + 2 * (routers - 1) / routers
        return (routers - 1 + routers * (groups - 1) * across) / max(routers * groups - 1, 1)

    def _pairs_at(self, group: int, other: int, hops: int) -> int:
        """Return the number of pairs of routers of two groups that are that many hops apart."""
        ends = {(self.gateway(group, other, copy), self.gateway(other, group, copy)) for copy in range(self.between)}
        here, there = ({end[side] for end in ends} for side in (0, 1))
        within = self.routers**2 - (self.routers - len(here)) * (self.routers - len(there))
        return {1: len(ends), 2: within - len(ends), 3: self.routers**2 - within}.get(hops, 0)

    def _turns(self) -> float:
        """Return the mean number of local hops of a message in a drawn intermediate group."""
        stays = 0.0
        for copy in range(self.between):
            ports = range(copy * (self.groups - 1), (copy + 1) * (self.groups - 1))
            counts = Counter(port // self.global_links for port in ports)
            stays += sum(count * (count - 1) for count in counts.values())
        return 1 - stays / (self.between * (self.groups - 1) * (self.groups - 2))

    def bisection(self, bandwidths: Sequence[float], /) -> float:
        """Return the bandwidth of the links between two halves of the groups, or of the nodes of a half."""
        if self.groups == 1:
            links, layer = (self.routers // 2) * -(-self.routers // 2), LOCAL
        else:
            links, layer = (self.groups // 2) * -(-self.groups // 2) * self.between, GLOBAL
        nodes = self.nodes // 2 * bandwidths[HOST]
        return min(links * bandwidths[layer], nodes) if links else nodes

    def __str__(self) -> str:
        several = f", {self.between} links between two groups" if self.between > 1 else ""
        way = ", valiant" if self._valiant else ""
        return (
            f"dragonfly of {self.groups} groups of {self.routers} routers with {self.hosts} node"
            f"{'s' if self.hosts > 1 else ''} and {self.global_links} global link"
            f"{'s' if self.global_links > 1 else ''} each{several}, wired {self.wiring}{way}"
        )


class Cascade(RouterTopology):
    """A dragonfly whose groups are grids of routers: chassis of blades (Faanes et al., "Cray Cascade", SC 2012).

    All blades of a chassis are connected (green), and so are blades with the same number in all chassis of a group
    (black). Router (chassis 0, blade j) of group i has the link to group j (blue), as in SimGrid.

    There are `chassis` per group, `blades` per chassis (at least as many as groups), and `hosts` (nodes) per blade.
    `blue`, `black` and `green` are the bandwidth factors of the links between groups, chassis and blades, relative to
    their layer.
    """

    layers = ("host", "green", "black", "blue")
    shared_first_link = True

    def __init__(
        self, groups: int, chassis: int, blades: int, hosts: int, *, blue: int = 1, black: int = 1, green: int = 1
    ) -> None:
        self.groups, self.chassis, self.blades, self.hosts = groups, chassis, blades, hosts
        self.widths = (1, green, black, blue)
        self.switches = groups * chassis * blades
        self.nodes = hosts * self.switches
        self.least_hops = 2 if hosts > 1 else 3 if self.nodes > 1 else 0

    @classmethod
    def of(cls, spec: MachineSpec, nodes: int) -> Topology:
        """Return the machine that a description defines; validation ensures that all keys exist."""
        topology = spec.topology
        if topology.shape is not None:
            (groups, blue), (chassis, black), (blades, green), hosts = parse_cascade(topology.shape)
            return cls(groups, chassis, blades, hosts, blue=blue, black=black, green=green)
        groups, chassis, blades = topology.groups or 1, topology.chassis or 1, topology.blades or 1
        return cls(
            groups,
            chassis,
            blades,
            topology.hosts_per_router or 1,
            blue=topology.links_between_groups or 1,
            black=topology.links_between_chassis or 1,
            green=topology.links_in_chassis or 1,
        )

    def _router(self, group: int, chassis: int, blade: int) -> int:
        return self.nodes + (group * self.chassis + chassis) * self.blades + blade

    def _place(self, node: int) -> tuple[int, int, int]:
        """Return the group, chassis and blade of a node."""
        rest, blade = divmod(node // self.hosts, self.blades)
        return *divmod(rest, self.chassis), blade

    def route(self, a: int, b: int, /) -> Route:
        """Return the route over the blue link between the groups, green before black on both sides.

        Hops from a router to itself are omitted.
        """
        if a == b:
            return []
        (group, chassis, blade), (other, last, end) = self._place(a), self._place(b)
        stops = [self._router(group, chassis, blade)]
        if group != other:
            stops += [self._router(group, chassis, other), self._router(group, 0, other)]
            group, chassis, blade = other, 0, group
            stops.append(self._router(group, chassis, blade))
        stops += [self._router(group, chassis, end), self._router(group, last, end)]
        vertices = [a, *(to for at, to in zip([-1, *stops], stops, strict=False) if at != to), b]
        return list(pairwise(vertices))

    def links_per_layer(self, a: int, b: int, /) -> tuple[int, ...]:
        """Return the number of links of nodes, and of green, black and blue links of the route."""
        if a == b:
            return 0, 0, 0, 0
        (group, chassis, blade), (other, last, end) = self._place(a), self._place(b)
        if group == other:
            return 2, int(blade != end), int(chassis != last), 0
        return 2, (blade != other) + (end != group), (chassis != 0) + (last != 0), 1

    def hops(self, a: int, b: int, /) -> int:
        """Return the number of links of the route."""
        return sum(self.links_per_layer(a, b))

    def layer(self, link: Wire, /) -> int:
        """Return the layer of a link: of a node, green, black or blue."""
        if min(link[0], link[1]) < self.nodes:
            return 0
        (one, _), (other, _) = (divmod(end - self.nodes, self.blades) for end in link[:2])
        if one == other:
            return 1
        return 2 if one // self.chassis == other // self.chassis else 3

    def vertex(self, vertex: int, /) -> str:
        """Return ``h<number>`` for a node, and ``r<group>.<chassis>.<blade>`` for a router."""
        if vertex < self.nodes:
            return f"h{vertex}"
        rest, blade = divmod(vertex - self.nodes, self.blades)
        return "r{}.{}.{}".format(*divmod(rest, self.chassis), blade)

    def wires(self) -> Iterator[Wire]:
        """Yield the links of nodes, then green, black and blue links."""
        yield from super().wires()
        for group in range(self.groups):
            for chassis in range(self.chassis):
                first = self._router(group, chassis, 0)
                yield from combinations(range(first, first + self.blades), 2)
            for blade in range(self.blades):
                yield from combinations([self._router(group, each, blade) for each in range(self.chassis)], 2)
        for group, other in combinations(range(self.groups), 2):
            yield self._router(group, 0, other), self._router(other, 0, group)

    def router_diameter(self) -> int:
        """Return the hops between routers of the longest route."""
        across = 1 if self.groups == 1 else 2
        return across * ((self.blades > 1) + (self.chassis > 1)) + (self.groups > 1)

    def mean_router_hops(self) -> float:
        """Return the mean hops between routers over all ordered pairs of different routers."""
        moves = (self.blades - 1) / self.blades + (self.chassis - 1) / self.chassis
        routers = self.blades * self.chassis
        total = routers * moves + (self.groups - 1) * routers * (1 + 2 * moves)
        return total / max(self.switches - 1, 1)

    def bisection(self, bandwidths: Sequence[float], /) -> float:
        """Return the bandwidth between two halves: of the groups, the chassis, or the blades."""
        assert self.widths is not None
        wide = [bandwidth * width for bandwidth, width in zip(bandwidths, self.widths, strict=True)]
        halves = (
            (self.groups, 1, wide[3]),
            (self.chassis, self.blades, wide[2]),
            (self.blades, self.chassis, wide[1]),
        )
        nodes = self.nodes // 2 * wide[0]
        for parts, times, bandwidth in halves:
            if parts > 1:
                return min((parts // 2) * -(-parts // 2) * times * bandwidth, nodes)
        return nodes

    def __str__(self) -> str:
        return (
            f"dragonfly (Cascade) of {self.groups} groups of {self.chassis} chassis of {self.blades} blades "
            f"with {self.hosts} node{'s' if self.hosts > 1 else ''} each"
        )
