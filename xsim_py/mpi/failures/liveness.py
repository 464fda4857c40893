"""Liveness discovery among the members of a group of which some are dead: one member's part, as a state machine.

All who are alive come to the same list of them, and combine what they bring on the way; nobody outside the group is
needed. It is told of arrivals and deaths, and says what to send, as `agreement` does.

**The protocol.** Rank r of the group is a leaf of level k = tz(r) + 1, where tz counts trailing zero bits, and a root
of the levels below; rank 0 is the root of all. A root of level k takes DATA from the leader of the block of 2^(k-1)
ranks behind its own; then it leads both. A leaf sends DATA to the lowest rank of the 2^k ranks that it is in, and waits
for the RESULT, which comes down the same ways. The lowest rank alive of a block leads it: who finds all before it dead
inherits their role, and goes on at the same level. 2 (s - 1) messages and 2 floor(log2 s) latencies if nobody is dead.

**The variants.** Rocco and Palermo, "Fault-Aware Non-Collective Communication Creation and Reparation in MPI", 2022, is
the source, and the library Legio its implementation.

* ``naive``: their Algorithm 1, with 1 << (root_index - 1) for its shift. Nobody inherits: a leaf whose root is dead is
  cut off, and lists what it has (their figure 2).
* ``legio``: Legio's ``deeper_check_tree``, in which roles are inherited (their figure 3). It answers those whom it
  works out from its last role, and so forgets whom it has led under a role between: of 7 ranks with 0 to 4 dead, 5
  inherits twice, and 6 waits for ever.
* ``repaired``: it answers all whose DATA it took, the last first. Right as long as nobody dies during the discovery.
* ``safe``: who inherits asks (REQUEST) whom it waits for, and who is done answers DATA and REQUEST with its RESULT. So
  whoever has sent to a root that died is heard by its heir, and is not waited for by it if it is done already. The
  calls of `noncollective` use it, and it is what ``liveness`` means as an algorithm of agree and shrink.

**What holds of ``safe``**, under what `agreement` assumes: at every moment all who live and are done have the same
decision; it lists every one who lives; and nobody waits for ever who is told of deaths in `waiting_for` only. Who has
sent DATA takes a RESULT from nobody else unless it knows that one to be dead, and then takes nothing from it any more;
so it is tied to that root as in `agreement`. `tests/mpi/failures/test_liveness.py` tries all schedules of small groups
and random ones of larger. A decision dies with its root if that dies before its RESULT has reached anybody alive.

A DATA and a RESULT list a block of ranks and all ranks, with a mark for each; what is kept is who is missing from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from xsim_py.mpi import NOBODY

from .agreement import Ballot, Decision

DATA, RESULT, REQUEST = range(3)

NAIVE, LEGIO, REPAIRED, SAFE = VARIANTS = ("naive", "legio", "repaired", "safe")

_ITEM_BYTES = 4


class LivenessPacket(NamedTuple):
    """A message of the protocol.

    Attributes
    ----------
    kind : int
        `DATA`, `RESULT` or `REQUEST`.
    listed : int
        Of how many ranks it says whether they are alive.
    flags, acked, failed
        As in `Ballot`, combined over those that have contributed.
    missing : frozenset of int
        Those of the listed ranks that have not.
    error : bool
        Of a RESULT, the decision's.
    """

    kind: int
    listed: int = 0
    flags: tuple[int, ...] = ()
    failed: frozenset[int] = NOBODY
    missing: frozenset[int] = NOBODY
    acked: frozenset[int] = NOBODY
    error: bool = False

    @property
    def size_bytes(self) -> int:
        """Length on the network: 4 bytes a rank listed, and of a DATA as many for each rank acknowledged or failed."""
        named = 0 if self.kind == RESULT else len(self.failed) + len(self.acked)
        return _ITEM_BYTES * (self.listed + len(self.flags) + named)


Outgoing = list[tuple[int, LivenessPacket]]


class Liveness:
    """One member's part in one discovery; see `agreement.Agreement`, whose methods and attributes it has.

    Parameters
    ----------
    me : int
        Number of this member: its rank in the group.
    size : int
        How many members there are, dead ones included.
    variant : str
        One of `VARIANTS`.
    failed : frozenset of int
        Members known to be dead.

    Attributes
    ----------
    decision : Decision or None
        The result, once there is one: who has not contributed is `missing`.
    known : frozenset of int
        Members known to be dead. What packets tell of others is not among them.
    """

    __slots__ = (
        "_asked",
        "_ballot",
        "_heard",
        "_level",
        "_missing",
        "_role",
        "_sent_to",
        "_taken",
        "_top",
        "decision",
        "known",
        "me",
        "size",
        "variant",
    )

    def __init__(self, *, me: int, size: int, variant: str = SAFE, failed: frozenset[int] = NOBODY) -> None:
        self.me = me
        self.size = size
        self.variant = variant
        self.decision: Decision | None = None
        self.known = failed
        self._top = (size - 1).bit_length()
        self._role = me
        self._level = 1
        self._missing = NOBODY  # of the block that it leads
        self._ballot: Ballot | None = None  # of all who are in that block; None: it has not entered
        self._heard: dict[int, LivenessPacket | None] = {}  # who has sent: DATA, or only a REQUEST
        self._taken: tuple[int, ...] = ()  # whose DATA is in `_ballot`
        self._asked: tuple[int, ...] = ()
        self._sent_to = -1

    def waiting_for(self) -> tuple[int, ...]:
        """Members it depends on now, whose deaths it must be told of; none before `contribute` and once decided."""
        if self._ballot is None or self.decision is not None:
            return ()
        if self._is_leaf():
            return (self._sent_to,)
        return tuple(self._living(self._sibling()))[:1]

    def contribute(self, ballot: Ballot) -> Outgoing:
        """Enter the discovery."""
        assert self._ballot is None
        if ballot.failed is not self.known and not ballot.failed <= self.known:
            self.known |= ballot.failed
        self._ballot = ballot
        return self._advance()

    def learn(self, failed: Iterable[int]) -> Outgoing:
        """Hear from the failure detector that members are dead; what is known already, or too late, does no harm."""
        if self.decision is not None:
            return []
        self.known = self.known.union(failed)
        return self._advance()

    def receive(self, source: int, packet: LivenessPacket) -> Outgoing:
        """Take a packet that arrived from another member; of a dead one nothing counts that has not been used yet."""
        if source in self.known:
            return []
        if self.decision is not None:
            asks = packet.kind != RESULT and self.variant == SAFE
            return [(source, _result(self.decision, self.size))] if asks else []
        if packet.kind != RESULT:
            self._heard[source] = packet if packet.kind == DATA else self._heard.get(source)
        elif source == self._sent_to or source in self._asked:
            decision = Decision(packet.flags, packet.failed, packet.missing, packet.error)
            return self._decide(decision)
        return self._advance()

    def _is_leaf(self) -> bool:
        """Return whether its role is that of a leaf of the level that it has come to."""
        return self._role != 0 and _trailing_zeros(self._role) < self._level

    def _sibling(self) -> range:
        """Return the block whose leader a root of this level waits for."""
        half = 1 << self._level - 1
        low = self._role + half
        return range(min(low, self.size), min(low + half, self.size))

    def _living(self, members: Iterable[int]) -> Iterable[int]:
        return (member for member in members if member not in self.known)

    def _advance(self) -> Outgoing:
        """Go up as far as it can: send what is due, and decide at the top."""
        if self._ballot is None:
            return []
        out: Outgoing = []
        while self._level <= self._top:
            if self._is_leaf():
                low = self._role >> self._level << self._level
                before = range(low, low + 1 if self.variant == NAIVE else self._role)
                root = next(iter(self._living(before)), None)
                if root is not None:
                    if root != self._sent_to:
                        self._sent_to = root
                        out.append((root, self._data()))
                    return out
                if self.variant == NAIVE:
                    return out + self._decide(self._own_decision())
                self._missing |= frozenset(before)
                self._role = low
                continue
            block = self._sibling()
            if self.me not in block and not self._take(block, out):
                return out
            self._level += 1
        return out + self._decide(self._own_decision())

    def _take(self, block: range, out: Outgoing) -> bool:
        """Take in what the leader of a block has sent, or that all in it are dead; return whether that is known."""
        told = min((member for member, packet in self._heard.items() if packet and member in block), default=None)
        if told is not None:
            self._merge(told)
            return True
        leader = next(iter(self._living(block[:1] if self.variant == NAIVE else block)), None)
        if leader is None:
            self._missing |= frozenset(block)
            return True
        if self.variant == SAFE and self._role != self.me and leader not in self._asked:
            self._asked = (*self._asked, leader)
            out.append((leader, LivenessPacket(REQUEST)))
        return False

    def _merge(self, source: int) -> None:
        packet, mine = self._heard[source], self._ballot
        assert packet is not None
        assert mine is not None
        flags = mine.flags
        if packet.flags != flags:
            flags = tuple(one & other for one, other in zip(flags, packet.flags, strict=True))
        self._ballot = Ballot(flags, mine.acked & packet.acked, mine.failed | packet.failed)
        self._missing |= packet.missing
        self._taken = (*self._taken, source)

    def _block(self) -> range:
        """Return the ranks that it speaks for."""
        size = 1 << self._level - 1
        return range(self._role, min(self._role + size, self.size))

    def _data(self) -> LivenessPacket:
        assert self._ballot is not None
        flags, acked, failed = self._ballot
        return LivenessPacket(DATA, len(self._block()), flags, failed, self._missing, acked)

    def _own_decision(self) -> Decision:
        """Return what follows from all that it has: at the root, what all get."""
        assert self._ballot is not None
        flags, acked, failed = self._ballot
        missing, block = self._missing, self._block()
        if len(block) < self.size:
            missing |= frozenset(range(self.size)).difference(block)
        return Decision(flags, failed | missing, missing, not missing <= acked)

    def _decide(self, decision: Decision) -> Outgoing:
        self.decision = decision
        if self.variant == LEGIO:
            told = self._worked_out(decision.missing)
        else:
            told = [*reversed(self._heard if self.variant == SAFE else self._taken)]
        packet = _result(decision, self.size)
        self._heard, self._ballot = {}, None
        return [(member, packet) for member in self._living(told)]

    def _worked_out(self, missing: frozenset[int]) -> list[int]:
        """Return whom Legio answers: the first listed of each block behind its last role, and below its own rank's."""
        role, told = self._role, []
        own, last = (_trailing_zeros(rank) if rank else self._top for rank in (self.me, role))
        for level in range(last, 0, -1):
            role = self.me if level == own else role
            low = role + (1 << level - 1)
            block = range(min(low, self.size), min(low + (1 << level - 1), self.size))
            first = next((member for member in block if member not in missing), None)
            if first is not None and first != self.me:
                told.append(first)
        return told


def _trailing_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1


def _result(decision: Decision, size: int) -> LivenessPacket:
    flags, failed, missing, error = decision
    return LivenessPacket(RESULT, size, flags, failed, missing, error=error)
