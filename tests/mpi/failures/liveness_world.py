"""All that can happen to the members of one liveness discovery; and one in which all deaths came before it."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Collection
from functools import partial
from typing import Any

from tests.mpi.failures.agreement_world import World
from xsim_py.mpi.failures.agreement import Ballot
from xsim_py.mpi.failures.liveness import Liveness, LivenessPacket

NOBODY: frozenset[int] = frozenset()


class Discovery(World):
    """`World` for members of a discovery."""

    def __init__(self, size: int, *, kind: type[Liveness] = Liveness, variant: str = "safe", **options: Any) -> None:
        super().__init__(size, "", kind=partial(_member, kind, variant), **options)

    def copy(self) -> Discovery:
        members, self.members = self.members, []
        other = super().copy()
        self.members, other.members = members, [copy.copy(member) for member in members]
        for member in other.members:
            member._received = dict(member._received)
        return other

    def key(self) -> tuple[object, ...]:
        members, self.members = self.members, []
        around = super().key()
        self.members = members
        return *around, *(_state(member) if me in self.alive else member.decision for me, member in enumerate(members))


def _member(kind: type[Liveness], variant: str, *, me: int, size: int, tree: str, failed: frozenset[int]) -> Any:
    return kind(me=me, size=size, variant=variant, failed=failed)


def _state(member: Any) -> tuple[object, ...]:
    heard = tuple(member._received.items())
    return tuple(getattr(member, name) for name in Liveness.__slots__ if name != "_received") + heard


def known_dead(size: int, dead: Collection[int], variant: str) -> tuple[dict[int, Liveness], int]:
    """Let those who live discover the others, whose deaths they hear of when they wait for them.

    Returns
    -------
    members : dict of int to Liveness
        Those who live, when nothing happens any more.
    messages : int
        How many they have sent.
    """
    living = [me for me in range(size) if me not in dead]
    members = {me: Liveness(me=me, size=size, variant=variant) for me in living}
    under_way: deque[tuple[int, int, LivenessPacket]] = deque()
    messages = 0

    def send(source: int, outgoing: list[tuple[int, LivenessPacket]]) -> None:
        nonlocal messages
        messages += len(outgoing)
        under_way.extend((source, to, packet) for to, packet in outgoing if to in members)

    for me in living:
        send(me, members[me].contribute(Ballot((~(1 << me),), NOBODY, NOBODY)))
    waiting = True
    while under_way or waiting:
        while under_way:
            source, to, packet = under_way.popleft()
            send(to, members[to].receive(source, packet))
        hears = {me: [other for other in members[me].waiting_for() if other in dead] for me in living}
        waiting = any(hears.values())
        for me in living:
            if hears[me]:
                send(me, members[me].learn(hears[me]))
    return members, messages


def listed(member: Liveness) -> list[int] | None:
    """Return the ranks that a member's result lists; None: it has none."""
    decision = member.decision
    return None if decision is None else [rank for rank in range(member.size) if rank not in decision.missing]
