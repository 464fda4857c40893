"""All that can happen to the members of one agreement: entries, deliveries, deaths, and news of deaths, in any order.

A world is told which of the events that are possible happens next. A death cuts the list of what a member sends at any
place, so it can come in the middle of a broadcast. Every event is followed by the checks that must always hold.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from xsim_py.mpi.failures.agreement import Agreement, AgreementPacket, Ballot, Decision


class Event(NamedTuple):
    """Something that can happen to a member.

    It enters, takes a packet from `other`, loses one from `other`, hears that `other` is dead, or (``die``) just dies.
    If it dies of the event, only the first `sends` of its messages leave.
    """

    kind: str  # enter, deliver, lose, learn, die
    member: int
    other: int = -1
    place: int = 0  # of the packet among those under way
    sends: int | None = None


class World:
    """The members, what is under way between them, and who lives.

    Parameters
    ----------
    size, tree
        As of an `Agreement`.
    gossip : bool
        Whether anyone may hear of any death at any time, and not just of those whom it waits for.
    rough : bool
        Whether packets may overtake each other, and those of the dead get lost: more than the protocol asks for.
    acked : list of frozenset
        What each member has acknowledged.
    kind : type
        The class of the members.
    """

    def __init__(
        self,
        size: int,
        tree: str,
        *,
        gossip: bool,
        rough: bool = False,
        acked: list[frozenset[int]] | None = None,
        kind: type[Agreement] = Agreement,
    ) -> None:
        self.size = size
        self.gossip = gossip
        self.rough = rough
        self.acked = acked or [frozenset()] * size
        self.members = [kind(me=me, size=size, tree=tree, failed=frozenset()) for me in range(size)]
        self.alive = set(range(size))
        self.entered: dict[int, frozenset[int]] = {}  # who, and what it knew
        self.under_way: dict[tuple[int, int], list[AgreementPacket]] = defaultdict(list)
        self.sent = 0

    def copy(self) -> World:
        """A world that goes on by itself."""
        other = copy.copy(self)
        other.members = [copy.copy(member) for member in self.members]
        for member in other.members:
            member._pending = set(member._pending)
        other.alive = set(self.alive)
        other.entered = dict(self.entered)
        other.under_way = defaultdict(list, {ends: list(queue) for ends, queue in self.under_way.items() if queue})
        return other

    def key(self) -> tuple[object, ...]:
        """Equal for worlds with the same future."""
        return (
            tuple(
                (
                    member.decision,
                    member.known,
                    frozenset(member._pending),
                    member._missing,
                    member._sent_to,
                    member._flags,
                    member._contributed,
                )
                if number in self.alive
                else member.decision
                for number, member in enumerate(self.members)
            ),
            frozenset(self.alive),
            frozenset(self.entered.items()),
            frozenset((ends, tuple(queue)) for ends, queue in self.under_way.items() if queue),
        )

    def possible(self) -> Iterator[Event]:
        """What can happen next, deaths aside."""
        for source, member in sorted(ends for ends, queue in self.under_way.items() if queue):
            for place in range(len(self.under_way[source, member]) if self.rough else 1):
                yield Event("deliver", member, source, place)
                if self.rough and source not in self.alive:
                    yield Event("lose", member, source, place)
        dead = [member for member in range(self.size) if member not in self.alive]
        for number in sorted(self.alive):
            member = self.members[number]
            if number not in self.entered:
                yield Event("enter", number)
            for other in dead if self.gossip else member.waiting_for():
                if other not in self.alive and other not in member.known and member.decision is None:
                    yield Event("learn", number, other)

    def happen(self, event: Event) -> int:
        """Let it happen; returns how many messages the member would send if it did not die of it."""
        kind, number, other, place, sends = event
        member = self.members[number]
        out: list[tuple[int, AgreementPacket]] = []
        if kind == "enter":
            self.entered[number] = member.known
            out = member.contribute(Ballot((~(1 << number),), self.acked[number], member.known))
        elif kind == "deliver":
            out = member.receive(other, self.under_way[other, number].pop(place))
        elif kind == "lose":
            del self.under_way[other, number][place]
        elif kind == "learn":
            out = member.learn([other])
        for to, packet in out[:sends]:
            self.sent += 1
            if to in self.alive:
                self.under_way[number, to].append(packet)
        if sends is not None:
            self.alive.remove(number)
            for ends in [ends for ends in self.under_way if ends[1] == number]:
                del self.under_way[ends]
        self.check(number)
        return len(out)

    def check(self, changed: int) -> None:
        """What must hold at every moment; only the member that changed can have broken it."""
        decision = self.members[changed].decision
        if decision is None:
            return
        for number in sorted(self.alive):
            other = self.members[number].decision
            assert changed not in self.alive or other is None or other == decision, "the living disagree"
        contributors = {number for number in range(self.size) if not decision.flags[0] >> number & 1}
        assert self.alive <= contributors <= set(self.entered)
        assert decision.missing == set(range(self.size)) - contributors
        assert decision.missing <= decision.failed
        assert not decision.failed & self.alive
        assert decision.failed >= frozenset().union(*(self.entered[number] for number in contributors))
        acked = frozenset.intersection(*(self.acked[number] for number in contributors))
        assert decision.error == (not decision.missing <= acked)

    def check_end(self) -> None:
        """What must hold when nothing can happen any more, but deaths."""
        assert all(self.members[number].decision is not None for number in self.alive), "someone waits for ever"

    def decisions(self) -> set[Decision]:
        """All that were ever taken, those of the dead included."""
        return {member.decision for member in self.members if member.decision is not None}
