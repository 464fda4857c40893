"""Agreement among the members of a communicator of which some die meanwhile: one member's part, as a state machine.

It is told of arrivals and deaths, and says what to send: no clock, no I/O. Its driver charges for the messages.

**The protocol.** Contributions go up a static tree, merged on the way; the root, which is the smallest member alive,
decides; the decision comes down: 2(n-1) messages and twice the tree's height when nobody dies. A dead member is
replaced by its parent, which adopts its children; the root adopts those that have no ancestor left. To a child it
has adopted and not heard, a member sends REQUEST, which is answered by UP, or by DOWN where the decision is known.
Who sends UP again to a new parent that has decided is answered by DOWN. Every UP and REQUEST carries the deaths that
its sender knows of, and the receiver learns them first; so the receiver always agrees that it is the parent.

**What is assumed.** A member is said to be dead only when it is, perhaps late, and not to all at once; a driver need
only report deaths of members in `Agreement.waiting_for`. What the living send arrives, in any order; what the dead
had sent may arrive or not.

**What holds.** At every moment all members that live and have decided have the same decision; so all survivors have.
It counts every one of them, and exactly the dead in ``missing`` not. It is *not* uniform among the dead: a root that
dies before its decision reached any survivor had a decision that nobody shares. No protocol can do better whose root
returns without waiting for receipts (uniform consensus is harder than consensus: Charron-Bost and Schiper, J. of
Algorithms 51, 2004), and receipts would cost every agreement two more latencies of the height of the tree.

**Why.** A member ignores whatever comes from a member that it knows to be dead. Take an undecided x that has sent UP
to its parent p. It moves to another parent only when it knows that p is dead, and then it ignores p's DOWN. So x
decides through p or through nobody else, and p likewise through its own parent, up to a root s: an UP ties the whole
subtree to s as long as s lives, whatever became of earlier roots. If p dies after its UP went on to q, it might seem
that x could still hear from a member u between p and q that died as well. But u sends to x only if u knew, alive,
that p was dead, and p passed u over only since p knew, alive, that u was dead. When s decides, every living member
is tied to s like this or has told s the decision it had; so a former root's decision either is what s repeats, or
lives nowhere and arrives nowhere. `tests/mpi/failures/test_agreement.py` tries all schedules of small groups, and
random ones of larger.

**Nobody waits for ever** who is told of deaths in `waiting_for` only. A complete member waits for its parent, an
incomplete one for children without UP. Such a child is dead (and reported), or has not contributed, or waits itself
for its children, or has sent its UP to a dead member that it waits for (and is told of).

**Prior art.** The early returning agreement of Open MPI: Herault, Bouteiller, Bosilca, Gamell, Teranishi, Parashar,
Dongarra, "Practical scalable consensus for pseudo-synchronous distributed systems", SC'15 (tree, repair, requests
for results). Buntinas, "Scalable distributed consensus to support MPI fault tolerance", IPDPS 2012 (three phases
over a rebuilt tree). xSim's agreement of 2014 is a reduction and a broadcast on a binomial tree. What differs: the
trees are fixed by the number of members, so that no common knowledge of earlier failures is needed to begin.

Cost: 450 bytes a member in progress, 600 with what it has under way; 4 us a message, 6 if 1,000 of 32,768 are dead.
Nothing loops over all members, and repair costs as much as the dead have children.
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
    """A member's contribution to an agreement.

    Attributes
    ----------
    flags : tuple of int
        Numbers that are combined with a bitwise AND, one by one; every member brings as many.
    acked : frozenset of int
        Members whose failure it has acknowledged.
    failed : frozenset of int
        Members that it knows to have failed.
    """

    flags: tuple[int, ...]
    acked: frozenset[int]
    failed: frozenset[int]


class Decision(NamedTuple):
    """The outcome on which all agree.

    Attributes
    ----------
    flags : tuple of int
        AND over everyone who contributed.
    failed : frozenset of int
        Members that failed, as far as anyone who contributed knew on entry, or was learnt on the way.
    missing : frozenset of int
        Those of `failed` who did not contribute.
    error : bool
        Whether someone is missing whose failure was not acknowledged by every contributor.
    """

    flags: tuple[int, ...]
    failed: frozenset[int]
    missing: frozenset[int]
    error: bool


class AgreementPacket(NamedTuple):
    """A message of the protocol.

    Attributes
    ----------
    kind : int
        `UP`, `DOWN` or `REQUEST`.
    failed : frozenset of int
        Members that the sender knows to be dead; of a DOWN, the decision's.
    flags, missing
        As in `Ballot` and `Decision`.
    acked : frozenset of int
        Of an UP, those whom all acknowledged who contributed to it.
    error : bool
        Of a DOWN, the decision's.
    """

    kind: int
    failed: frozenset[int]
    flags: tuple[int, ...] = ()
    acked: frozenset[int] = NOBODY
    missing: frozenset[int] = NOBODY
    error: bool = False

    @property
    def size_bytes(self) -> int:
        """Length on the network: `missing` is a mark at entries of `failed`, and costs nothing more."""
        return _HEADER_BYTES + _ITEM_BYTES * (len(self.flags) + len(self.failed) + len(self.acked))


Outgoing = list[tuple[int, AgreementPacket]]  # to whom and what, in the order of sending


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
    """A shape in which parents have smaller numbers, and children are given in ascending order, deepest first."""

    parent: Callable[[int], int]
    children: Callable[[int, int], Iterable[int]]


TREES = {
    "binomial": _Tree(_binomial_parent, _binomial_children),  # parent: highest bit cleared; xSim's
    "binary": _Tree(_binary_parent, _binary_children),  # parent: (m - 1) // 2; Open MPI's
}


class Agreement:
    """One member's part in one agreement.

    Its methods return what to send, in order. A member that has decided must be kept, and go on receiving, as long as
    another may ask: until this member has decided the next agreement among the same members, for that needed everyone
    alive to have decided this one. The last agreement is kept until the end of the job.

    Parameters
    ----------
    me : int
        Number of this member.
    size : int
        How many members there are, dead ones included; they are 0 to ``size - 1``.
    tree : str
        One of `TREES`.
    failed : frozenset of int
        Members known to be dead.

    Attributes
    ----------
    decision : Decision or None
        The result, once there is one.
    known : frozenset of int
        Members known to be dead; includes what packets told. Not kept up to date after the decision.
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
        self.decision: Decision | None = None
        self.known = NOBODY
        self._tree = TREES[tree]
        self._contributed = False
        self._flags: tuple[int, ...] | None = None  # None: no ballot is in
        self._acked = NOBODY
        self._missing = NOBODY
        self._pending = tuple(self._tree.children(me, size))  # living children whose UP is not in, in order
        self._root = me == 0
        self._sent_to = -1
        self._learn(failed)

    def waiting_for(self) -> tuple[int, ...]:
        """Members it depends on now, whose deaths it must be told of; none before `contribute` and once decided."""
        if not self._contributed or self.decision is not None:
            return ()
        return self._pending or (self._sent_to,)

    def contribute(self, ballot: Ballot) -> Outgoing:
        """Enter the agreement."""
        assert not self._contributed
        self._learn(ballot.failed)
        self._merge(ballot.flags, ballot.acked, NOBODY)
        self._contributed = True
        # Children below a member that died may not know that; without this they would wait for it.
        adopted = [child for child in self._pending if self._tree.parent(child) != self.me]
        return self._requests(adopted) + self._advance()

    def learn(self, failed: Iterable[int]) -> Outgoing:
        """Hear from the failure detector that members are dead; what is known already, or too late, does no harm."""
        if self.decision is not None:
            return []
        return self._requests(self._learn(frozenset(failed))) + self._advance()

    def receive(self, source: int, packet: AgreementPacket) -> Outgoing:
        """Take a packet that arrived from another member."""
        if source in self.known:
            return []
        if self.decision is not None:
            # A DOWN to whoever was its child at the decision is on its way already.
            asks = packet.kind != DOWN and self._parent(source) != self.me
            return [(source, _down(self.decision))] if asks else []
        adopted = self._learn(packet.failed)
        if packet.kind == DOWN:
            return self._decide(_told(packet), told_by=source)
        # An UP of someone who is not pending comes from below a member whose UP is in, and says nothing new.
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
            if acked != self._acked:  # equal ones stay one object, for there may be as many as ranks
                self._acked &= acked
        if missing:
            self._missing |= missing

    def _learn(self, failed: frozenset[int]) -> list[int]:
        """Take note of deaths; returns the children that are adopted by this."""
        if failed is self.known or failed <= self.known:
            return []
        assert self.me not in failed
        self.known = self.known | failed if self.known else failed
        dead = [child for child in self._pending if child in failed]
        if not self._root and self._smallest_alive() == self.me:
            self._root = True
            dead.append(0)  # all that have no ancestor left are found from the first root
        if not dead:
            return []
        missing: list[int] = []
        left = [child for child in self._pending if child not in failed]
        adopted = self._below(dead, missing)
        self._pending = tuple(sorted({*left, *adopted}))
        self._missing = self._missing.union(missing)
        return sorted(adopted)

    def _below(self, dead: list[int], passed: list[int]) -> list[int]:
        """Return the living that have none but the dead between them and these dead, who are put into `passed`."""
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
        """Nearest ancestor not known to be dead, or else the root; the root itself has none and gives itself."""
        while member:
            member = self._tree.parent(member)
            if member not in self.known:
                return member
        return self._smallest_alive()

    def _advance(self) -> Outgoing:
        """Send what is due when nobody below is missing any more."""
        if self._pending or not self._contributed:
            return []
        assert self._flags is not None
        if self._root:
            error = not self._missing <= self._acked
            return self._decide(Decision(self._flags, self.known, self._missing, error), told_by=self.me)
        parent = self._parent(self.me)
        if parent == self._sent_to:
            return []
        self._sent_to = parent
        return [(parent, AgreementPacket(UP, self.known, self._flags, self._acked, self._missing))]

    def _requests(self, adopted: list[int]) -> Outgoing:
        """Ask children that may not know yet whose children they are."""
        if not adopted or not self._contributed:
            return []
        packet = AgreementPacket(REQUEST, self.known)
        pending = set(self._pending)
        return [(child, packet) for child in adopted if child in pending]

    def _decide(self, decision: Decision, *, told_by: int) -> Outgoing:
        self.decision = decision
        self._pending = ()
        dead = [0] if self._root and self.me else []
        children: list[int] = []
        for child in self._tree.children(self.me, self.size):
            (dead if child in self.known else children).append(child)
        children += self._below(dead, [])
        packet = _down(decision)
        return [(child, packet) for child in sorted(children) if child != told_by]


# Most members of a large group are told the same: then it is one object for all of them.


@lru_cache(maxsize=64)
def _told(packet: AgreementPacket) -> Decision:
    return Decision(packet.flags, packet.failed, packet.missing, packet.error)


@lru_cache(maxsize=64)
def _down(decision: Decision) -> AgreementPacket:
    flags, failed, missing, error = decision
    return AgreementPacket(DOWN, failed, flags, missing=missing, error=error)
