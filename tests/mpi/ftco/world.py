"""Nodes of one operation on a network where every message takes as long as chance wants, and nodes die at any moment.

The network keeps the order of messages between two nodes and loses none, as MPI's does; what the dead have sent still
arrives. A node dies at a time, or in the middle of what it does: after so many actions, of which the last was perhaps a
message to the first of its children only.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from xsim_py.mpi.ftco.doubling import DoublingNode
from xsim_py.mpi.ftco.node import SendAction, TreeNode
from xsim_py.mpi.ftco.paper import PaperNode, TreeShape


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What happens from outside.

    `starts` says when each node enters; `deaths` when a node dies, by its number; `last_acts` after how many actions;
    `told` when a node hears, from elsewhere, of all who are dead by then.
    No operation may take longer than `patience`, in ticks.
    """

    tree: TreeShape
    size: int
    operation: str
    order: str
    timeout: int
    slowest: int
    seed: int
    starts: tuple[int, ...]
    patience: int = 10**6
    deaths: Mapping[int, int] = field(default_factory=dict)
    last_acts: Mapping[int, int] = field(default_factory=dict)
    told: Mapping[int, int] = field(default_factory=dict)


class Limits:
    """Time limits that grow with the distance, as the paper's do."""

    def __init__(self, timeout: int) -> None:
        self.ticks = timeout

    def timeout(self, node: int, distance: int) -> int:
        return self.ticks * distance

    def eta_sub(self, node: int) -> int:
        return self.ticks

    def eta_full(self, node: int) -> int:
        return 2 * self.ticks


def unite(parts: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """The combination of the tests: who is in; nobody may be in twice."""
    assert list(parts) == sorted(parts)
    whole = frozenset().union(*parts.values())
    assert len(whole) == sum(map(len, parts.values())), "a contribution was used twice"
    return whole


class World:
    """Plays a scenario to its end."""

    def __init__(self, scenario: Scenario, kind: type[PaperNode] = PaperNode) -> None:
        self.scenario = scenario
        self.chance = random.Random(scenario.seed)
        self.dead: set[int] = set()
        self.acts = [0] * scenario.size
        self.events: list[tuple[int, int, str, int, Any]] = []
        self.planned: list[int | None] = [None] * scenario.size
        self.last_arrival: dict[tuple[int, int], int] = {}
        self.sent: Counter[int] = Counter()  # messages of each kind
        self.posted = 0
        self.nodes = [
            kind(
                me,
                scenario.tree,
                Limits(scenario.timeout),
                operation=scenario.operation,
                combine=unite,
                service=lambda me, now: self.chance.choice((0, 1, 2, 3)),
                order=scenario.order,
                patient=True,
            )
            for me in range(scenario.size)
        ]
        for node, time in scenario.deaths.items():
            self.post(time, "die", node)
        for node, time in scenario.told.items():
            self.post(time, "hear", node)
        for node, time in enumerate(scenario.starts):
            self.post(time, "enter", node)

    def post(self, time: int, what: str, node: int, packet: Any = None) -> None:
        self.posted += 1
        heapq.heappush(self.events, (time, self.posted, what, node, packet))

    def plan(self, me: int, now: int) -> None:
        """Come back to a node when it has something to do, or has waited long enough for somebody."""
        times = [time for time in (self.nodes[me].wake(now), self.nodes[me].deadline()) if time is not None]
        if times:
            time = max(now, min(times))
            planned = self.planned[me]
            if planned is None or time < planned:
                self.planned[me] = time
                self.post(time, "act", me)

    def play(self) -> World:
        """Let everything happen that does."""
        while self.events:
            now, _, what, me, packet = heapq.heappop(self.events)
            if me in self.dead or (what == "act" and self.planned[me] != now):
                continue
            assert now < self.scenario.patience, "it does not end"
            node = self.nodes[me]
            if what == "die":
                self.dead.add(me)
            elif what == "hear":
                for other in sorted(self.dead):
                    node.died(other, now)
                self.plan(me, now)
            elif what == "enter":
                node.enter(now, frozenset((me,)))
                self.plan(me, now)
            elif what == "arrive":
                node.deliver(packet, now)
                self.plan(me, now)
            else:
                self.act(me, now)
        return self

    def act(self, me: int, now: int) -> None:
        node = self.nodes[me]
        self.planned[me] = None
        for other in node.missed_deadlines(now):
            if other in self.dead:
                node.died(other, now)
        action = node.act(now)
        self.acts[me] += 1
        if isinstance(action, SendAction):
            self.sent[action.packet.kind] += 1
            pair = (me, action.dest)
            time = max(now + self.chance.randint(1, self.scenario.slowest), self.last_arrival.get(pair, 0) + 1)
            self.last_arrival[pair] = time
            self.post(time, "arrive", action.dest, action.packet)
        if self.acts[me] == self.scenario.last_acts.get(me):
            self.dead.add(me)
            return
        self.plan(me, now + 1)

    def check(self) -> None:
        """All who live are done; their results are equal, and hold every survivor; `unite` has found nobody twice."""
        scenario = self.scenario
        alive = [node for node in self.nodes if node.me not in self.dead]
        assert all(node.may_return for node in alive)
        assert all(node.dead <= self.dead for node in alive), "a living node was taken for dead"
        if scenario.operation == "reduce":
            alive = alive[:1] if 0 not in self.dead else []
        results = {node.result for node in alive}
        assert len(results) <= 1
        for result in results:
            if scenario.operation == "bcast":
                assert result.payload == {0} or (result.payload is None and 0 in self.dead)
            else:
                assert result.payload >= set(range(scenario.size)) - self.dead
                assert result.missing == set(range(scenario.size)) - result.payload


@st.composite
def happenings(draw: st.DrawFn, size: int) -> dict[str, Any]:
    """Draw how long messages take, when nodes begin, who dies when, and who is told of a death from elsewhere."""
    doomed = draw(st.sets(st.integers(0, size - 1), max_size=size - 1))
    message_times = st.integers(0, 30) | st.integers(0, 400)
    deaths, last_acts = {}, {}
    for node in sorted(doomed):
        if draw(st.booleans()):
            deaths[node] = draw(message_times)
        else:
            last_acts[node] = draw(st.integers(1, 15))
    late = st.tuples(*[st.just(0) | st.integers(0, 200)] * size)
    return {
        "order": draw(st.sampled_from(sorted(TreeNode.ORDERS))),
        "timeout": draw(st.sampled_from([5, 30, 100])),
        "slowest": draw(st.sampled_from([1, 4, 40])),
        "seed": draw(st.integers(0, 2**32)),
        "starts": draw(st.just((0,) * size) | late),
        "deaths": deaths,
        "last_acts": last_acts,
        "told": draw(st.dictionaries(st.integers(0, size - 1), st.integers(0, 250))),
    }


def failing(kind: type[PaperNode] | type[DoublingNode], scenarios: Iterable[Scenario]) -> int:
    """How many of these go wrong with other rules."""
    count = 0
    for scenario in scenarios:
        try:
            World(scenario, kind).play().check()
        except AssertionError:
            count += 1
    return count
