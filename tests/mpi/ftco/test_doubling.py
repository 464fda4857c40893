"""Fault-tolerant recursive doubling: whoever dies, whenever, all who live end with one result; and what it costs."""

from itertools import combinations
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from tests.mpi.ftco.world import Scenario, World, failing, happenings
from xsim_py.mpi.ftco.doubling import BlockValue, DoublingNode, Halves
from xsim_py.mpi.ftco.node import ACK, DATA, KEEPALIVE


def plain(size: int, **changes: object) -> Scenario:
    return Scenario(
        **{
            "tree": Halves(size),
            "size": size,
            "operation": "allreduce",
            "order": "code",
            "timeout": 30,
            "slowest": 4,
            "starts": (0,) * size,
            "seed": 1,
            "patience": 200_000,
            **changes,
        }
    )


@st.composite
def scenarios(draw: st.DrawFn, most: int = 48) -> Scenario:
    size = draw(st.integers(1, 10) | st.integers(1, most))
    return plain(size, **draw(happenings(size)))


@given(scenarios())
def test_all_who_live_have_one_result_with_every_survivor_in_it_once(scenario: Scenario):
    World(scenario, DoublingNode).play().check()


class Hasty(DoublingNode):
    """Takes the value of the whole for the result, whoever is absent from it."""

    def _merged(self, exchange, other):
        merged = super()._merged(exchange, other)
        return merged._replace(known=merged.known | merged.absent)


class Forgetful(DoublingNode):
    """Takes values in a pass also from those whom it knew to be dead before."""

    def _begin_pass(self, now):
        received = {exchange: dict(values) for exchange, values in self._received.items()}
        super()._begin_pass(now)
        self._received.update(received)


class Deserting(DoublingNode):
    """Answers nobody once it is done."""

    def deliver(self, packet, now):
        if not self.may_return:
            super().deliver(packet, now)


def test_these_checks_find_rules_that_are_too_simple():
    """Node 1 has sent to 0 and dies; 0 sends both values to 2 and dies; 3, who asks both, has neither value."""
    two = [
        plain(4, last_acts={1: 1, 0: acts}, seed=seed, patience=20_000, **told)
        for acts in range(2, 6)
        for seed in range(6)
        for told in ({}, {"starts": (0, 0, 0, 90)})
    ]
    early = [
        plain(3, timeout=5, starts=(120, start, 0), last_acts={2: 1}, told={0: 110, 1: told}, seed=seed)
        for start in (30, 95)
        for told in (5, 10)
        for seed in range(3)
    ]
    for kind, scenarios in ((Hasty, two), (Deserting, two), (Forgetful, early)):
        assert failing(kind, scenarios), kind
        assert not failing(DoublingNode, scenarios)


@pytest.mark.parametrize("size", range(1, 9 if CAMPAIGN else 8))
def test_all_who_may_be_dead_before(size: int):
    """Known to all it takes one pass, and no time limit; known to nobody it takes those that the search does."""
    for count in range(size):
        for dead in combinations(range(size), count):
            World(plain(size, deaths=dict.fromkeys(dead, 0)), DoublingNode).play().check()
            world = World(plain(size, deaths=dict.fromkeys(dead, 0), timeout=10_000, slowest=1), DoublingNode)
            for node in world.nodes:
                for other in dead:
                    node.died(other, 0)
            world.play().check()
            assert world.sent[KEEPALIVE] == 0
            assert all(node.finish_time < 100 for node in world.nodes if node.me not in dead)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8] if CAMPAIGN else [1, 2, 3, 4, 7])
def test_every_node_dies_after_every_one_of_its_actions(size: int):
    """And every pair of nodes, in groups of up to 5."""
    whole = World(plain(size), DoublingNode).play()
    whole.check()
    for first in range(size):
        for acts in range(whole.acts[first] + 2):
            deaths = {"last_acts": {first: acts}} if acts else {"deaths": {first: 0}}
            World(plain(size, **deaths), DoublingNode).play().check()
            if size > 5:
                continue
            for second in range(first):
                for others in range(1, whole.acts[second] + 6):
                    last = {**deaths.get("last_acts", {}), second: others}
                    World(plain(size, **{**deaths, "last_acts": last}), DoublingNode).play().check()


SIZES = range(1, 70) if CAMPAIGN else (*range(1, 18), 24, 31, 32, 33, 47, 63, 64, 65)


def test_without_failures_there_is_a_value_for_each_node_and_round_and_nothing_else():
    """Node 2k exchanges with 2k + 1, and so on; among nodes that are no power of two every half gets values, too."""
    for size in SIZES:
        check_without_failures(size)


def check_without_failures(size: int) -> None:
    world = World(plain(size, slowest=1, timeout=1000), DoublingNode).play()
    world.check()
    assert (world.sent[KEEPALIVE], world.sent[ACK]) == (0, 0)
    rounds = [[each.depth for each in Halves(size).rounds(node)] for node in range(size)]
    if size & (size - 1) == 0:
        assert rounds == [list(reversed(range(size.bit_length() - 1)))] * size
        assert world.sent[DATA] == size * (size.bit_length() - 1)
    assert max(map(len, rounds)) == (size - 1).bit_length()
    assert sum(map(len, rounds)) == world.sent[DATA]


@given(st.integers(1, 300), st.data())
def test_both_halves_of_an_exchange_know_of_each_other(size: int, data: st.DataObject):
    shape = Halves(size)
    me = data.draw(st.integers(0, size - 1))
    for exchange in shape.rounds(me):
        assert me in exchange.mine
        assert abs(len(exchange.mine) - len(exchange.theirs)) <= 1
        if size & (size - 1) == 0:
            assert me ^ len(exchange.mine) == exchange.theirs[exchange.mine.index(me)]
        for other in exchange.theirs:
            back = next(each for each in shape.rounds(other) if each.depth == exchange.depth)
            assert (back.mine, back.theirs) == (exchange.theirs, exchange.mine)


class Recorded(DoublingNode):
    """Says to whom it sends in the last round."""

    last: ClassVar[list[tuple[int, int]]] = []

    def _send(self, kind, dest, value, now):
        if isinstance(value, BlockValue) and value.depth == 0:
            self.last.append((self.me, dest))
        return super()._send(kind, dest, value, now)


def test_the_role_of_the_dead_goes_to_the_lowest_of_their_half():
    """Of 16 nodes 8 and 9 are known to be dead: 10, whose partner is 2, has the last exchange with 0 and 1, too."""
    Recorded.last.clear()
    world = World(plain(16, deaths={8: 0, 9: 0}, timeout=10_000, slowest=1), Recorded)
    for node in world.nodes:
        node.died(8, 0)
        node.died(9, 0)
    world.play().check()
    both = {(node, node ^ 8) for node in range(16)} - {(0, 8), (1, 9), (8, 0), (9, 1)}
    assert len(world.sent) == 1
    assert sorted(Recorded.last) == sorted(both | {(10, 0), (10, 1)})
