"""Liveness discovery: the variants of the literature and where they fail, all schedules of small groups for ours."""

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from tests.mpi.failures.liveness_world import NOBODY, Discovery, known_dead, listed
from tests.mpi.failures.test_agreement import play, search
from xsim_py.mpi.failures.agreement import Ballot
from xsim_py.mpi.failures.liveness import DATA, REQUEST, RESULT, VARIANTS, Liveness, LivenessPacket


def sets_of_dead(sizes: range) -> list[tuple[int, frozenset[int]]]:
    """All sets of dead members that leave somebody alive, of groups of these sizes."""
    return [(s, frozenset(dead)) for s in sizes for count in range(s) for dead in combinations(range(s), count)]


# ------------------------------------------------------------------------------------------- deaths before it begins


@pytest.mark.parametrize(("variant", "hang"), [("legio", 22), ("repaired", 0), ("safe", 0)])
def test_of_all_sets_of_dead_up_to_ten_legio_hangs_in_22_and_the_others_in_none(variant: str, hang: int):
    hung = 0
    sets = sets_of_dead(range(1, 11))
    for size, dead in sets:
        members, _ = known_dead(size, dead, variant)
        found = {member.decision for member in members.values()}
        hung += None in found
        assert {decision.missing for decision in found - {None}} == {dead}
    assert (len(sets), hung) == (2036, hang)


@pytest.mark.parametrize("variant", ["repaired", "safe"])
def test_random_sets_of_dead_are_found_in_groups_of_any_size(variant: str):
    chance = random.Random(3)
    for size in range(11, 80 if CAMPAIGN else 40):
        for _ in range(100 if CAMPAIGN else 2):
            dead = frozenset(chance.sample(range(size), chance.randrange(size)))
            members, _ = known_dead(size, dead, variant)
            assert {member.decision.missing for member in members.values() if member.decision} == {dead}


def test_with_half_of_a_large_group_dead_legio_mostly_hangs_and_the_safe_variant_never():
    chance = random.Random(1)
    hung = 0
    for _ in range(8):
        dead = frozenset(chance.sample(range(1024), 512))
        hung += any(member.decision is None for member in known_dead(1024, dead, "legio")[0].values())
        members, _ = known_dead(1024, dead, "safe")
        assert {member.decision.missing for member in members.values() if member.decision} == {dead}
    assert hung >= 5


def test_legio_forgets_whom_it_led_under_a_role_between():
    members, _ = known_dead(7, {0, 1, 2, 3, 4}, "legio")
    assert {me: listed(member) for me, member in members.items()} == {5: [5, 6], 6: None}
    assert members[6].waiting_for() == (5,)


def test_the_figures_of_the_paper():
    """Figure 1: all of 6 are alive. Figure 2: 2 and 5 are dead, and 3 is cut off. Figure 3: so it is not."""
    everybody, _ = known_dead(6, NOBODY, "naive")
    assert {tuple(listed(member) or ()) for member in everybody.values()} == {tuple(range(6))}
    naive, _ = known_dead(6, {2, 5}, "naive")
    assert {me: listed(member) for me, member in naive.items()} == {0: [0, 1, 4], 1: [0, 1, 4], 3: [3], 4: [0, 1, 4]}
    for variant in VARIANTS[1:]:
        others, _ = known_dead(6, {2, 5}, variant)
        assert {me: listed(member) for me, member in others.items()} == {me: [0, 1, 3, 4] for me in (0, 1, 3, 4)}


@pytest.mark.parametrize("variant", VARIANTS)
def test_with_nobody_dead_it_takes_two_messages_for_each_member_but_one(variant: str):
    for size in (*range(1, 20), 63, 64, 65, 100, 1000, 1024):
        members, messages = known_dead(size, NOBODY, variant)
        assert messages == 2 * (size - 1)
        assert {member.decision.missing for member in members.values() if member.decision} == {NOBODY}


def test_a_list_is_charged_at_four_bytes_a_rank():
    flags, some = (1, 2), frozenset({3})
    assert LivenessPacket(DATA, 8).size_bytes == 32
    assert LivenessPacket(DATA, 8, flags, failed=some, acked=some, missing=some).size_bytes == 32 + 8 + 4 + 4
    assert LivenessPacket(RESULT, 16, flags, failed=some, missing=some).size_bytes == 64 + 8
    assert LivenessPacket(REQUEST).size_bytes == 0


# --------------------------------------------------------------------------------------------- deaths while it runs

# States grow about tenfold with a member or a death.
SMALL = [(1, 0), (2, 1), (3, 2), (4, 1)]
LARGER = [(4, 2), (4, 3), (5, 1), (6, 1)] if CAMPAIGN else []
WAYS = [(False, False), (True, True), (True, False), (False, True)][: None if CAMPAIGN else 2]


@pytest.mark.sampled
@pytest.mark.parametrize(("gossip", "rough"), WAYS)
@pytest.mark.parametrize(("size", "deaths"), SMALL + LARGER)
def test_every_schedule_of_a_small_group_ends_in_one_list(size: int, deaths: int, gossip: bool, rough: bool):
    search(Discovery(size, gossip=gossip, rough=rough), deaths)


SEEDS = st.integers(0, 2**32)


@given(st.integers(1, 14), st.booleans(), st.booleans(), st.integers(0, 13), SEEDS)
def test_random_schedules_end_in_one_list_of_all_who_live(size: int, gossip: bool, rough: bool, deaths: int, seed: int):
    chance = random.Random(seed)
    acked = [frozenset(other for other in range(size) if chance.random() < 0.8) for _ in range(size)]
    play(Discovery(size, gossip=gossip, rough=rough, acked=acked), chance, min(deaths, size - 1))


class NeverAsks(Liveness):
    """Sends no REQUEST after it has inherited a role."""

    __slots__ = ()

    def _merge_block(self, block, out):
        return super()._merge_block(block, [])


class Listens(Liveness):
    """Takes a RESULT from a member that it knows to be dead."""

    __slots__ = ()

    def receive(self, source, packet):
        if packet.kind == RESULT and self.decision is None:
            self.known -= {source}
            self._sent_to = source
        return super().receive(source, packet)


@pytest.mark.parametrize("options", [{"variant": "repaired"}, {"kind": NeverAsks}, {"kind": Listens}], ids=str)
def test_the_search_finds_what_is_wrong_without_the_remedies(options: dict[str, type[Liveness]]):
    with pytest.raises(AssertionError):
        search(Discovery(3, gossip=True, **options), 2)


def test_the_repaired_variant_waits_for_ever_for_who_has_finished_under_a_dead_root():
    """Of 3 ranks, 0 dies after it has answered 2 and before it answers 1; 1 inherits its role, and waits for 2."""
    for variant, done in (("repaired", False), ("safe", True)):
        members = [Liveness(me=me, size=3, variant=variant) for me in range(3)]
        sent = [member.contribute(Ballot((), NOBODY, NOBODY)) for member in members]
        members[0].receive(1, sent[1][0][1])
        answers = dict(members[0].receive(2, sent[2][0][1]))
        members[2].receive(0, answers[2])
        asked = members[1].learn([0])
        assert members[1].waiting_for() == (2,)
        for _, packet in asked:
            for _, answer in members[2].receive(1, packet):
                members[1].receive(2, answer)
        assert (members[1].decision is not None) is done
