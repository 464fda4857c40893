"""Liveness discovery in a group under failures: the state machine of one member.

All survivors obtain the same list of survivors, and combine their contributions on the way; no process outside the
group is needed. Its input is messages and failure notices, its output is messages, as in `agreement`.

**The protocol.** Rank r of the group is a leaf of level k = tz(r) + 1, where tz counts trailing zero bits, and a root
of the levels below; rank 0 is the root of all. A root of level k receives DATA from the leader of the block of 2^(k-1)
ranks behind its own; then it leads both. A leaf sends DATA to the lowest rank of its block of 2^k ranks, and waits for
the RESULT, which comes down the same paths. The lowest surviving rank of a block leads it: a rank that finds all lower
ranks failed inherits their role, and continues at the same level. 2 (s - 1) messages and 2 floor(log2 s) latencies
without failures.

**The variants.** The source is Rocco and Palermo, "Fault-Aware Non-Collective Communication Creation and Reparation in
MPI", 2022; the library Legio is its implementation.

* ``naive``: their Algorithm 1, with 1 << (root_index - 1) for its shift. No rank inherits a role: a leaf whose root has
  failed is cut off, and lists the ranks that it has (their figure 2).
* ``legio``: Legio's ``deeper_check_tree``, in which roles are inherited (their figure 3). It answers the ranks that it
  derives from its last role, and so forgets those that it led under a role in between: of 7 ranks with 0 to 4 failed, 5
  inherits twice, and 6 waits forever.
* ``repaired``: it answers all ranks whose DATA it used, the last first. Correct if no rank fails during the discovery.
* ``safe``: a rank that inherits a role sends REQUEST to the leader that it waits for, and a rank that is done answers
  DATA and REQUEST with its RESULT. So a rank that has sent to a failed root is found by the root's heir, and the heir
  does not wait for a rank that is done. The calls of `noncollective` use it, and it is ``liveness`` as an algorithm of
  agree and shrink.

**Guarantees of ``safe``** under the assumptions of `agreement`: at every moment all survivors that are done have the
same decision; it lists every survivor; and termination needs only notices of failures in `waiting_for`. A rank that has
sent DATA takes a RESULT from another rank only if it knows the receiver to have failed, and then takes nothing more
from that; so it is tied to that root as in `agreement`. `tests/mpi/failures/test_liveness.py` tries all schedules of
small groups and random ones of larger groups. A decision is lost with its root if that fails before its RESULT has
reached a survivor.

DATA list a block of ranks and a RESULT all ranks, with a flag each; the state holds only the missing ones.
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
    """A message of the protocol."""

    kind: int
    """`DATA`, `RESULT` or `REQUEST`."""
    listed: int = 0
    """The number of ranks whose state it lists."""
    flags: tuple[int, ...] = ()
    """As in `Ballot`, combined over the contributors, like `failed` and `acked`."""
    failed: frozenset[int] = NOBODY
    missing: frozenset[int] = NOBODY
    """Those of the listed ranks that have not contributed."""
    acked: frozenset[int] = NOBODY
    error: bool = False
    """For a RESULT, the decision's."""

    @property
    def size_bytes(self) -> int:
        """Length on the network: 4 bytes per listed rank.

        DATA have 4 more for each rank acknowledged or failed.
        """
        named = 0 if self.kind == RESULT else len(self.failed) + len(self.acked)
        return _ITEM_BYTES * (self.listed + len(self.flags) + named)


Outgoing = list[tuple[int, LivenessPacket]]


class Liveness:
    """One member's part in one discovery, with the interface of `agreement.Agreement`.

    This member is number `me`, its rank in the group, of `size` members, failed ones included. `variant` is one of
    `VARIANTS`.
    """

    __slots__ = (
        "_ballot",
        "_level",
        "_merged",
        "_missing",
        "_queried",
        "_received",
        "_role",
        "_sent_to",
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
        # The result, once decided; members that have not contributed are `missing`.
        self.decision: Decision | None = None
        self.known = failed  # members known to have failed, without those reported by packets
        self._top = (size - 1).bit_length()
        self._role = me
        self._level = 1
        self._missing = NOBODY  # in the block that it leads
        self._ballot: Ballot | None = None  # combined over the contributors in that block; None: not entered
        self._received: dict[int, LivenessPacket | None] = {}  # senders: DATA, or None for only a REQUEST
        self._merged: tuple[int, ...] = ()  # ranks whose DATA is in `_ballot`
        self._queried: tuple[int, ...] = ()
        self._sent_to = -1

    def waiting_for(self) -> tuple[int, ...]:
        """Return the members whose failure it must be notified of now.

        There are none before `contribute` and after the decision.
        """
        if self._ballot is None or self.decision is not None:
            return ()
        if self._is_leaf():
            return (self._sent_to,)
        return tuple(self._survivors(self._sibling()))[:1]

    def contribute(self, ballot: Ballot) -> Outgoing:
        """Enter the discovery."""
        assert self._ballot is None
        if ballot.failed is not self.known and not ballot.failed <= self.known:
            self.known |= ballot.failed
        self._ballot = ballot
        return self._advance()

    def learn(self, failed: Iterable[int]) -> Outgoing:
        """Handle failure notices; known ones, and those after the decision, have no effect."""
        if self.decision is not None:
            return []
        self.known = self.known.union(failed)
        return self._advance()

    def receive(self, source: int, packet: LivenessPacket) -> Outgoing:
        """Handle a packet from another member; unused packets of a failed member do not count."""
        if source in self.known:
            return []
        if self.decision is not None:
            is_query = packet.kind != RESULT and self.variant == SAFE
            return [(source, _result(self.decision, self.size))] if is_query else []
        if packet.kind != RESULT:
            self._received[source] = packet if packet.kind == DATA else self._received.get(source)
        elif source == self._sent_to or source in self._queried:
            decision = Decision(packet.flags, packet.failed, packet.missing, packet.error)
            return self._decide(decision)
        return self._advance()

    def _is_leaf(self) -> bool:
        """Return True if its role is that of a leaf of its current level."""
        return self._role != 0 and _trailing_zeros(self._role) < self._level

    def _sibling(self) -> range:
        """Return the block whose leader a root of this level waits for."""
        half = 1 << self._level - 1
        low = self._role + half
        return range(min(low, self.size), min(low + half, self.size))

    def _survivors(self, members: Iterable[int]) -> Iterable[int]:
        return (member for member in members if member not in self.known)

    def _advance(self) -> Outgoing:
        """Advance through the levels as far as possible, send the due messages, decide at the top."""
        if self._ballot is None:
            return []
        out: Outgoing = []
        while self._level <= self._top:
            if self._is_leaf():
                low = self._role >> self._level << self._level
                before = range(low, low + 1 if self.variant == NAIVE else self._role)
                root = next(iter(self._survivors(before)), None)
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
            if self.me not in block and not self._merge_block(block, out):
                return out
            self._level += 1
        return out + self._decide(self._own_decision())

    def _merge_block(self, block: range, out: Outgoing) -> bool:
        """Merge the DATA of a block's leader, or record the whole block as missing.

        Return False if neither is possible yet.
        """
        sender = min((member for member, packet in self._received.items() if packet and member in block), default=None)
        if sender is not None:
            self._merge(sender)
            return True
        leader = next(iter(self._survivors(block[:1] if self.variant == NAIVE else block)), None)
        if leader is None:
            self._missing |= frozenset(block)
            return True
        if self.variant == SAFE and self._role != self.me and leader not in self._queried:
            self._queried = (*self._queried, leader)
            out.append((leader, LivenessPacket(REQUEST)))
        return False

    def _merge(self, source: int) -> None:
        packet, mine = self._received[source], self._ballot
        assert packet is not None
        assert mine is not None
        flags = mine.flags
        if packet.flags != flags:
            flags = tuple(one & other for one, other in zip(flags, packet.flags, strict=True))
        self._ballot = Ballot(flags, mine.acked & packet.acked, mine.failed | packet.failed)
        self._missing |= packet.missing
        self._merged = (*self._merged, source)

    def _block(self) -> range:
        """Return the block of ranks that it represents."""
        size = 1 << self._level - 1
        return range(self._role, min(self._role + size, self.size))

    def _data(self) -> LivenessPacket:
        assert self._ballot is not None
        flags, acked, failed = self._ballot
        return LivenessPacket(DATA, len(self._block()), flags, failed, self._missing, acked)

    def _own_decision(self) -> Decision:
        """Return the decision from all its data: at the root, the result for all."""
        assert self._ballot is not None
        flags, acked, failed = self._ballot
        missing, block = self._missing, self._block()
        if len(block) < self.size:
            missing |= frozenset(range(self.size)).difference(block)
        return Decision(flags, failed | missing, missing, not missing <= acked)

    def _decide(self, decision: Decision) -> Outgoing:
        self.decision = decision
        if self.variant == LEGIO:
            receivers = self._legio_receivers(decision.missing)
        else:
            receivers = [*reversed(self._received if self.variant == SAFE else self._merged)]
        packet = _result(decision, self.size)
        self._received, self._ballot = {}, None
        return [(member, packet) for member in self._survivors(receivers)]

    def _legio_receivers(self, missing: frozenset[int]) -> list[int]:
        """Return the ranks that Legio answers, derived from its last role.

        They are the first listed one of each block behind that role, and below its own rank's level.
        """
        role, receivers = self._role, []
        own, last = (_trailing_zeros(rank) if rank else self._top for rank in (self.me, role))
        for level in range(last, 0, -1):
            role = self.me if level == own else role
            low = role + (1 << level - 1)
            block = range(min(low, self.size), min(low + (1 << level - 1), self.size))
            first = next((member for member in block if member not in missing), None)
            if first is not None and first != self.me:
                receivers.append(first)
        return receivers


def _trailing_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1


def _result(decision: Decision, size: int) -> LivenessPacket:
    flags, failed, missing, error = decision
    return LivenessPacket(RESULT, size, flags, failed, missing, error=error)
