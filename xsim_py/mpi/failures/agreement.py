"""Agreement among a communicator's members under failures: the state machine of one member.

Its input is messages and failure notices, its output is messages; it has no clock and no I/O. Its driver charges for
the messages.

**The protocol.** Contributions go up a static tree, merged on the way; the root, which is the smallest surviving
member, decides; the decision comes down: 2(n-1) messages and twice the tree's height without failures. The parent of a
failed member replaces it and adopts its children; the root adopts those without a surviving ancestor. A member sends
REQUEST to an adopted child that has not contributed; the child answers with UP, or with DOWN if it knows the decision.
A member that sends UP again, to a new parent that has decided, is answered with DOWN. Every UP and REQUEST carries the
failures known to its sender, and the receiver records them first, so it always agrees that it is the parent.

**Assumptions.** A member is reported failed only after it has failed, perhaps late, and at different times to different
members; a driver need only report failures of members in `Agreement.waiting_for`. Messages of survivors arrive, in any
order; messages of failed members may arrive or not.

**Guarantees.** At every moment all surviving members that have decided have the same decision; so eventually all
survivors have. It counts every survivor, and excludes exactly the failed members in ``missing``. It is *not* uniform
among failed members: a root that fails before its decision reaches a survivor had a decision that no other member
shares. No protocol whose root returns without waiting for acknowledgements can do better (uniform consensus is harder
than consensus: Charron-Bost and Schiper, J. of Algorithms 51, 2004), and acknowledgements would cost every agreement
two more latencies times the height of the tree.

**Proof.** A member ignores all messages from a member that it knows to have failed. Take an undecided x that has sent
UP to its parent p. It moves to another parent only when it knows that p has failed, and then it ignores p's DOWN. So x
decides through p or not at all, and p likewise through its own parent, up to a root s: an UP ties the whole subtree to
s as long as s survives, whatever happened to earlier roots. If p fails after its UP went on to q, it might seem that x
could still receive a DOWN from a member u between p and q that failed as well. But u sends to x only if u, while alive,
knew that p had failed, and p skipped u only because p, while alive, knew that u had failed. When s decides, every
surviving member is tied to s like this or has reported its decision to s; so a former root's decision is either the one
that s repeats, or is held by no survivor and reaches none. `tests/mpi/failures/test_agreement.py` tries all schedules
of small groups and random ones of larger groups.

**Termination** needs only notices of failures in `waiting_for`. A complete member waits for its parent, an incomplete
one for children without UP. Such a child has failed (and is reported), or has not contributed, or itself waits for its
children, or has sent its UP to a failed member that it waits for (and is notified of).

**Prior art.** The early returning agreement of Open MPI: Herault, Bouteiller, Bosilca, Gamell, Teranishi, Parashar,
Dongarra, "Practical scalable consensus for pseudo-synchronous distributed systems", SC'15 (tree, repair, requests for
results). Buntinas, "Scalable distributed consensus to support MPI fault tolerance", IPDPS 2012 (three phases over a
rebuilt tree). xSim's agreement of 2014 is a reduction and a broadcast on a binomial tree. The difference: our trees
depend only on the number of members, so beginning needs no common knowledge of earlier failures.

Cost: 450 bytes per member in progress, 600 with its messages in flight; 4 us per message, 6 if 1,000 of 32,768 have
failed. Nothing loops over all members, and a repair costs as much as the failed members have children.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from xsim_py.mpi import NOBODY

UP, DOWN, REQUEST = range(3)

_HEADER_BYTES = 64
_ITEM_BYTES = 4


class Ballot(NamedTuple):
    """A member's contribution to an agreement."""

    flags: tuple[int, ...]
    """Numbers that are combined one by one with a bitwise AND; the same number of them from every member."""
    acked: frozenset[int]
    """Members whose failure it has acknowledged."""
    failed: frozenset[int]
    """Members that it knows to have failed."""


class Decision(NamedTuple):
    """The result on which all agree."""

    flags: tuple[int, ...]
    """AND over all contributors."""
    failed: frozenset[int]
    """Failed members that a contributor knew of on entry, or that were detected during the agreement."""
    missing: frozenset[int]
    """Those of `failed` that did not contribute."""
    error: bool
    """Whether a member is missing whose failure not every contributor had acknowledged."""


class AgreementPacket(NamedTuple):
    """A message of the protocol."""

    kind: int
    """`UP`, `DOWN` or `REQUEST`."""
    failed: frozenset[int]
    """Failed members known to the sender; for a DOWN, the decision's."""
    flags: tuple[int, ...] = ()
    """As in `Ballot` and `Decision`."""
    acked: frozenset[int] = NOBODY
    """For an UP, the members acknowledged by all its contributors."""
    missing: frozenset[int] = NOBODY
    """As in `Decision`."""
    error: bool = False
    """For a DOWN, the decision's."""

    @property
    def size_bytes(self) -> int:
        """Length on the network: `missing` is a flag in entries of `failed`, and costs nothing more."""
        return _HEADER_BYTES + _ITEM_BYTES * (len(self.flags) + len(self.failed) + len(self.acked))


Outgoing = list[tuple[int, AgreementPacket]]  # destination and packet, in the order of sending


def _binomial_parent(member: int) -> int:
    return member - (1 << member.bit_length() >> 1)


def _binomial_children(member: int, size: int) -> list[int]:
    children = []
    step = 1 << member.bit_length()
    while member + step < size:
        children.append(member + step)
        step <<= 1
    return children


def _binary_parent(member: int) -> int:
    return member - 1 >> 1


def _binary_children(member: int, size: int) -> range:
    return range(min(2 * member + 1, size), min(2 * member + 3, size))


class _Tree(NamedTuple):
    """A tree whose parents have smaller numbers.

    Children come in ascending order, deepest subtree first.
    """

    parent: Callable[[int], int]
    children: Callable[[int, int], Iterable[int]]


TREES = {
    "binomial": _Tree(_binomial_parent, _binomial_children),  # parent: highest bit cleared; xSim's
    "binary": _Tree(_binary_parent, _binary_children),  # parent: (m - 1) // 2; Open MPI's
}


class Agreement:
    """One member's part in one agreement.

    Its methods return the messages to send, in order. A member that has decided must be kept, and must keep receiving,
    as long as another may query it: until this member has decided the next agreement among the same members, because
    that required all survivors to have decided this one. The last agreement is kept until the end of the job.

    The members, failed ones included, are 0 to ``size - 1``; `me` is the number of this one. `tree` is one of `TREES`,
    and `failed` has the members known to have failed.
    """

    __slots__ = (
        "_acked",
        "_contributed",
        "_flags",
        "_missing",
        "_pending",
        "_root",
        "_sent_to",
        "_tree",
        "decision",
        "known",
        "me",
        "size",
    )

    def __init__(self, *, me: int, size: int, tree: str, failed: frozenset[int] = NOBODY) -> None:
        self.me = me
        self.size = size
        self.decision: Decision | None = None  # the result, once decided
        self.known = NOBODY  # members known to have failed, also from packets; not updated after the decision
        self._tree = TREES[tree]
        self._contributed = False
        self._flags: tuple[int, ...] | None = None  # None: no ballot has arrived
        self._acked = NOBODY
        self._missing = NOBODY
        self._pending = tuple(self._tree.children(me, size))  # surviving children whose UP has not arrived, in order
        self._root = me == 0
        self._sent_to = -1
        self._learn(failed)

    def waiting_for(self) -> tuple[int, ...]:
        """Return the members whose failure it must be notified of now.

        There are none before `contribute` and after the decision.
        """
        if not self._contributed or self.decision is not None:
            return ()
        return self._pending or (self._sent_to,)

    def contribute(self, ballot: Ballot) -> Outgoing:
        """Enter the agreement."""
        assert not self._contributed
        self._learn(ballot.failed)
        self._merge(ballot.flags, ballot.acked, NOBODY)
        self._contributed = True
        # Children below a failed member may not know of its failure; without this they would wait for it.
        adopted = [child for child in self._pending if self._tree.parent(child) != self.me]
        return self._requests(adopted) + self._advance()

    def learn(self, failed: Iterable[int]) -> Outgoing:
        """Handle failure notices; known ones, and those after the decision, have no effect."""
        if self.decision is not None:
            return []
        return self._requests(self._learn(frozenset(failed))) + self._advance()

    def receive(self, source: int, packet: AgreementPacket) -> Outgoing:
        """Handle a packet from another member."""
        if source in self.known:
            return []
        if self.decision is not None:
            # A DOWN to a member that was its child at the decision is already in flight.
            is_query = packet.kind != DOWN and self._parent(source) != self.me
            return [(source, _down(self.decision))] if is_query else []
        adopted = self._learn(packet.failed)
        if packet.kind == DOWN:
            return self._decide(_decision_of(packet), source=source)
        # The UP of a member that is not pending comes from below a member whose UP is in, and adds nothing.
        if packet.kind == UP and source in self._pending:
            self._pending = tuple([child for child in self._pending if child != source])
            self._merge(packet.flags, packet.acked, packet.missing)
        return self._requests(adopted) + self._advance()

    def _merge(self, flags: tuple[int, ...], acked: frozenset[int], missing: frozenset[int]) -> None:
        if self._flags is None:
            self._flags, self._acked = flags, acked
        else:
            if flags != self._flags:
                self._flags = tuple(mine & other for mine, other in zip(self._flags, flags, strict=True))
            if acked != self._acked:  # equal sets stay one object: there may be as many as ranks
                self._acked &= acked
        if missing:
            self._missing |= missing

    def _learn(self, failed: frozenset[int]) -> list[int]:
        """Record failures; return the children adopted because of them."""
        if failed is self.known or failed <= self.known:
            return []
        assert self.me not in failed
        self.known = self.known | failed if self.known else failed
        dead = [child for child in self._pending if child in failed]
        if not self._root and self._smallest_alive() == self.me:
            self._root = True
            dead.append(0)  # all members without a surviving ancestor are found from the first root
        if not dead:
            return []
        missing: list[int] = []
        remaining = [child for child in self._pending if child not in failed]
        adopted = self._survivors_below(dead, missing)
        self._pending = tuple(sorted({*remaining, *adopted}))
        self._missing = self._missing.union(missing)
        return sorted(adopted)

    def _survivors_below(self, dead: list[int], passed: list[int]) -> list[int]:
        """Return the first survivors below failed members.

        The failed members above them are appended to `passed`.
        """
        found = []
        stack = dead
        while stack:
            member = stack.pop()
            passed.append(member)
            for child in self._tree.children(member, self.size):
                if child in self.known:
                    stack.append(child)
                elif child != self.me:
                    found.append(child)
        return found

    def _smallest_alive(self) -> int:
        member = 0
        while member in self.known:
            member += 1
        return member

    def _parent(self, member: int) -> int:
        """Return the nearest ancestor not known to have failed, or else the root, also for the root."""
        while member:
            member = self._tree.parent(member)
            if member not in self.known:
                return member
        return self._smallest_alive()

    def _advance(self) -> Outgoing:
        """Send UP, or decide, once no child is pending."""
        if self._pending or not self._contributed:
            return []
        assert self._flags is not None
        if self._root:
            error = not self._missing <= self._acked
            return self._decide(Decision(self._flags, self.known, self._missing, error), source=self.me)
        parent = self._parent(self.me)
        if parent == self._sent_to:
            return []
        self._sent_to = parent
        return [(parent, AgreementPacket(UP, self.known, self._flags, self._acked, self._missing))]

    def _requests(self, adopted: list[int]) -> Outgoing:
        """Query adopted children, which may not know their new parent yet."""
        if not adopted or not self._contributed:
            return []
        packet = AgreementPacket(REQUEST, self.known)
        pending = set(self._pending)
        return [(child, packet) for child in adopted if child in pending]

    def _decide(self, decision: Decision, *, source: int) -> Outgoing:
        self.decision = decision
        self._pending = ()
        dead = [0] if self._root and self.me else []
        children: list[int] = []
        for child in self._tree.children(self.me, self.size):
            (dead if child in self.known else children).append(child)
        children += self._survivors_below(dead, [])
        packet = _down(decision)
        return [(child, packet) for child in sorted(children) if child != source]


# Most members of a large group get the same packet; they share one object.


@lru_cache(maxsize=64)
def _decision_of(packet: AgreementPacket) -> Decision:
    return Decision(packet.flags, packet.failed, packet.missing, packet.error)


@lru_cache(maxsize=64)
def _down(decision: Decision) -> AgreementPacket:
    flags, failed, missing, error = decision
    return AgreementPacket(DOWN, failed, flags, missing=missing, error=error)
