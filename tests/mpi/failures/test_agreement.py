"""The agreement's protocol: all schedules of small groups, random ones of larger, and its cost when nobody dies."""

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from tests.mpi.failures.agreement_series import Series
from tests.mpi.failures.agreement_world import Event, World
from xsim_py.mpi.failures.agreement import DOWN, REQUEST, TREES, UP, Agreement, AgreementPacket, Ballot

NOBODY = frozenset()
SHAPES = sorted(TREES)


def search(world: World, deaths: int) -> tuple[int, int]:
    """Check every schedule with at most so many deaths; returns how many states, and in how many some dead differ."""
    seen: set[int] = set()  # hashes, for the keys are large; 140,000 of them collide once in a thousand million runs
    torn = 0
    stack = [(world, deaths)]
    while stack:
        world, deaths = stack.pop()
        key = hash((world.key(), deaths))
        if key in seen:
            continue
        seen.add(key)
        torn += len(world.decisions()) > 1
        events = list(world.possible())
        if not events:
            world.check_end()
        for event in events:
            following = world.copy()
            sends = following.happen(event)
            stack.append((following, deaths))
            if deaths:
                # To die after the last message is to die as an event of its own.
                stack += [(after(world, event._replace(sends=cut)), deaths - 1) for cut in range(sends)]
        if deaths:
            stack += [(after(world, Event("die", member, sends=0)), deaths - 1) for member in sorted(world.alive)]
    return len(seen), torn


def after(world: World, event: Event) -> World:
    following = world.copy()
    following.happen(event)
    return following


# States grow about tenfold with a member or a death: the campaign's largest search has 140,000.
SMALL = [(1, 0), (2, 1), (3, 2), (4, 1)]
LARGER = [(4, 2), (4, 3), (5, 1)] if CAMPAIGN else []
WAYS = [(False, False), (True, True), (True, False), (False, True)][: None if CAMPAIGN else 2]


@pytest.mark.sampled
@pytest.mark.parametrize(("gossip", "rough"), WAYS)
@pytest.mark.parametrize("tree", SHAPES)
@pytest.mark.parametrize(("size", "deaths"), SMALL + LARGER)
def test_every_schedule_of_a_small_group_ends_in_one_decision(size, deaths, tree, gossip, rough):
    search(World(size, tree, gossip=gossip, rough=rough), deaths)


@pytest.mark.parametrize("tree", SHAPES)
def test_a_message_lost_with_its_sender_is_all_that_can_set_the_dead_apart(tree):
    """So it is when the root dies as it decides; without a death nobody differs."""
    assert search(World(3, tree, gossip=True), 1)[1] > 0
    assert search(World(3, tree, gossip=True), 0)[1] == 0


class Listens(Agreement):
    """Takes a DOWN from a member that it knows to be dead."""

    __slots__ = ()

    def receive(self, source, packet):
        if packet.kind != DOWN or self.decision is not None:
            return super().receive(source, packet)
        self.known -= {source}
        return super().receive(source, packet)


class NeverAsks(Agreement):
    """Does not tell the children that it adopts."""

    __slots__ = ()

    def _requests(self, adopted):
        return []


@pytest.mark.parametrize("kind", [Listens, NeverAsks])
def test_the_search_finds_a_broken_protocol(kind):
    with pytest.raises(AssertionError):
        search(World(3, "binomial", gossip=True, kind=kind), 2)


def play(world: World | Series, chance: random.Random, deaths: int) -> None:
    """One schedule; every sort of event and every pair of members is fast or slow as chance has it."""
    death_rate = chance.choice([0.02, 0.1, 0.3])
    spread = chance.choice([0, 1, 2, 4])
    haste = {kind: 10 ** chance.uniform(-1.5, 1.5) for kind in ("enter", "deliver", "lose", "learn")}
    weights: dict[tuple[str, int, int], float] = {}
    while events := list(world.possible()):
        for event in events:
            weights.setdefault(event[:3], haste[event.kind] * 10 ** chance.uniform(-spread, 0))
        event = chance.choices(events, [weights[event[:3]] for event in events])[0]
        if deaths and chance.random() < death_rate:
            deaths -= 1
            alone = Event("die", chance.choice(sorted(world.alive)), sends=0)
            event = alone if chance.random() < 0.3 else event._replace(sends=chance.randrange(5))
        world.happen(event)
    world.check_end()


SEEDS = st.integers(0, 2**32)


@given(st.integers(1, 12), st.sampled_from(SHAPES), st.booleans(), st.booleans(), st.integers(0, 11), SEEDS)
def test_random_schedules_end_in_one_decision(size, tree, gossip, rough, deaths, seed):
    chance = random.Random(seed)
    acked = [frozenset(other for other in range(size) if chance.random() < 0.8) for _ in range(size)]
    play(World(size, tree, gossip=gossip, rough=rough, acked=acked), chance, min(deaths, size - 1))


@given(st.integers(1, 9), st.sampled_from(SHAPES), st.booleans(), st.integers(0, 8), SEEDS)
def test_in_a_series_of_agreements_the_last_decided_one_is_all_that_need_be_kept(size, tree, gossip, deaths, seed):
    play(Series(size, tree, gossip=gossip, rounds=4), random.Random(seed), min(deaths, size - 1))


def without_deaths(size: int, tree: str) -> tuple[int, int, list[int]]:
    """Everyone enters at 0 and a message takes 1; returns messages, the last decision, and the decided flags."""
    members = [Agreement(me=me, size=size, tree=tree) for me in range(size)]
    now = [
        (me, to, packet)
        for me, member in enumerate(members)
        for to, packet in member.contribute(Ballot((me, ~me), NOBODY, NOBODY))
    ]
    messages = time_steps = 0
    while now:
        messages += len(now)
        time_steps += 1
        now = [
            (to, further, answer)
            for source, to, packet in now
            for further, answer in members[to].receive(source, packet)
        ]
    assert len({member.decision for member in members}) == 1
    return messages, time_steps, list(members[-1].decision.flags)


@pytest.mark.parametrize("tree", SHAPES)
def test_without_deaths_it_is_one_sweep_up_and_one_down(tree):
    for size in (*range(1, 40), 63, 64, 65, 100, 127, 128, 255, 256, 257, 300):
        height = max(member.bit_count() for member in range(size)) if tree == "binomial" else size.bit_length() - 1
        everyone = 0
        for member in range(size):
            everyone |= member
        assert without_deaths(size, tree) == (2 * (size - 1), 2 * height, [0, ~everyone])


def test_a_packet_is_charged_for_flags_failures_and_acknowledgements():
    assert AgreementPacket(REQUEST, NOBODY).size_bytes == 64
    assert AgreementPacket(UP, frozenset({1, 2}), (7, 1), frozenset({2}), frozenset({1})).size_bytes == 64 + 8 + 8 + 4


def test_a_late_child_of_a_dead_member_is_told_the_decision():
    """0 has the ballot of 1, who dies; 3, below 1, hears of it and asks 0, and is told at once, and once."""
    root = Agreement(me=0, size=4, tree="binomial")
    root.contribute(Ballot((1,), NOBODY, NOBODY))
    below = AgreementPacket(UP, NOBODY, (1,))
    assert root.receive(2, below) == []
    decided = root.receive(1, below)
    assert [(to, packet.kind) for to, packet in decided] == [(1, DOWN), (2, DOWN)]
    late = root.receive(3, AgreementPacket(UP, frozenset({1}), (1,)))
    assert late == [(3, decided[0][1])]
    assert root.waiting_for() == ()


def test_the_last_word_of_a_root_is_not_heeded_by_whoever_knows_of_its_death():
    """The shortest way to two decisions among the living, if it were: 2 takes that of 0, and has let 1 decide anew."""
    members = [Agreement(me=me, size=3, tree="binomial") for me in range(3)]
    entered = [member.contribute(Ballot((~(1 << me),), NOBODY, NOBODY)) for me, member in enumerate(members)]
    members[0].receive(1, entered[1][0][1])
    last_word = members[0].receive(2, entered[2][0][1])
    [(heir, again)] = members[2].learn([0])
    assert members[2].receive(0, dict(last_word)[2]) == []
    [(other, decided)] = members[heir].receive(2, again)
    assert members[1].receive(0, dict(last_word)[1]) == []
    assert (heir, other) == (1, 2)
    members[2].receive(1, decided)
    assert members[1].decision == members[2].decision == ((~0b110,), {0}, {0}, True)
    assert members[0].decision == ((~0b111,), NOBODY, NOBODY, False)


def test_it_waits_for_children_then_for_its_parent_and_only_once_entered():
    member = Agreement(me=1, size=8, tree="binary")
    assert member.waiting_for() == ()
    member.contribute(Ballot((1,), NOBODY, NOBODY))
    assert member.waiting_for() == (3, 4)
    assert member.learn([3]) == [(7, AgreementPacket(REQUEST, frozenset({3})))]
    assert member.waiting_for() == (4, 7)
    member.receive(4, AgreementPacket(UP, NOBODY, (1,)))
    sent = member.receive(7, AgreementPacket(UP, NOBODY, (1,)))
    assert sent == [(0, AgreementPacket(UP, frozenset({3}), (1,), missing=frozenset({3})))]
    assert member.waiting_for() == (0,)


def lines_run(function: Callable[[], Any]) -> tuple[Any, int]:
    """What a function returns, and how many lines of Python that took, each turn of a loop counted."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = function()
    finally:
        sys.settrace(before)
    return result, lines


@pytest.mark.parametrize("tree", SHAPES)
def test_a_million_members_cost_only_what_their_neighbours_and_the_dead_do(tree):
    size = 1_000_000
    dead = frozenset(range(1000))
    root, lines = lines_run(lambda: Agreement(me=1000, size=size, tree=tree, failed=dead))
    asked, more = lines_run(lambda: root.contribute(Ballot((1,), NOBODY, dead)))
    assert lines + more < 300 * len(dead)
    assert {packet.kind for _, packet in asked} == {REQUEST}
    assert len(asked) < 11 * len(dead)
    leaf = Agreement(me=size - 1, size=size, tree=tree)
    assert sys.getsizeof(leaf) + sys.getsizeof(leaf._pending) < 500
