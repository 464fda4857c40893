"""Recursive doubling that is right whoever dies, and whenever: no tree, and no root.

Halves of the nodes exchange their values, and before that halves of the halves: node ``me`` deals with ``me ^ 2**k`` in
turn, after so many rounds as the number of nodes can be doubled. Halves of an odd number differ by one; then one node
of the smaller half sends to two (`Halves`). Fault-tolerant recursive doubling is the paper's future work; its authors
say no more than that. What is here on top of the textbook's algorithm:

**Another one stands in.** For a dead partner stands the lowest living node of its half (`DoublingNode._stand_in`): it
has the same value, or will have it. Who knew of the death before sends there, and is sent to from there, at once; who
finds out on the way asks, and whoever is asked answers as soon as it can, also when it is done.

**Rosters.** A value says who of its half is absent from it. Halves are apart, so nobody can be in a value twice.

**Passes.** A node that dies while the others exchange can be in the value of some and not of others, and nobody can see
that from its own value: exchanges among equals need as many rounds as there are failures (Fischer and Lynch, 1982). So
each value also says whom *all* that are in it had known to be dead before they began. Who is absent from the value of
the whole is among them: then everybody alive has left out the same nodes, and the value is the result. If not, all who
see that begin again, with what they know now, in the next pass. Without failures, and with failures that everybody knew
of, there is one pass; each death that is found on the way can make for two more.

Why is that one result? Say X decides in a pass, and Y, too, or in a later one, and both live. From what Y knew when it
began that pass it took nothing from those who are absent from its result, and neither did anyone in it. So what came to
X from one of these came through nodes that are absent themselves, up to X, which is dead then. A result that has been
found is passed on, and taken unless its sender is known to be dead, for which the same holds.

Two who exchange values need no receipts: each one's value is the receipt for the other's. Without failures and among
2**k nodes there is no other message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from xsim_py.mpi import NOBODY

from .node import DATA, KEEPALIVE, Contact, Limits, NodePacket, OperationNode, SendAction, TreeResult

RECURSIVE_DOUBLING = "recursive_doubling"
"""The entry `mpi.ftco.algorithm` and `xsim ftco --algorithm` name it so."""


class DoublingRound(NamedTuple):
    """A round of one node, an exchange: its half of some nodes exchanges values with the other half.

    Attributes
    ----------
    depth : int
        How often all nodes have been halved to get these: 0 is the last round.
    mine, theirs : range
        The two halves.
    """

    depth: int
    mine: range
    theirs: range


class Halves:
    """The nodes from 0 on, halved again and again; where that does not come out even, the first half is larger by one.

    Parameters
    ----------
    size : int
        How many nodes there are.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def rounds(self, node: int) -> tuple[DoublingRound, ...]:
        """Return the exchanges of a node, in their order."""
        found: list[DoublingRound] = []
        whole = range(self.size)
        while len(whole) > 1:
            middle = whole[(len(whole) + 1) // 2]
            halves = range(whole.start, middle), range(middle, whole.stop)
            whole = halves[node >= middle]
            found.append(DoublingRound(len(found), whole, halves[node < middle]))
        return tuple(reversed(found))

    def degree(self, node: int) -> int:
        """Return how many nodes a node deals with."""
        return len(self.rounds(node))


class DoublingTiming:
    """How long nodes wait, in ticks; see `trees.Timing` for the parameters, but for the shape."""

    def __init__(self, shape: Halves, *, latency: int, overhead: int, timeout: int | None = None) -> None:
        rounds = (shape.size - 1).bit_length()
        self._timeout = 4 * rounds * overhead + 2 * latency if timeout is None else timeout
        self._exchange = latency + 3 * overhead  # one node in a round has to send twice
        self._whole = rounds * self._exchange

    def timeout(self, node: int, distance: int) -> int:
        """How long to wait for an answer: the paper's time limit for a neighbour with so many neighbours."""
        return self._timeout

    def eta_sub(self, node: int) -> int:
        """When the value of the other half should have arrived, from the start of an exchange."""
        return self._exchange

    def eta_full(self, node: int) -> int:
        """When the result should have arrived at a node, from the start."""
        return self._whole


class BlockValue(NamedTuple):
    """DATA of an exchange: what one half comes to.

    Attributes
    ----------
    number, depth : int
        In which pass, and in which exchange of it.
    absent : frozenset of int
        The nodes of the half whose contributions are not in, because they are dead.
    known : frozenset of int
        Whom all of those who are in knew to be dead when they began the pass.
    payload : object
        What the others' contributions come to.
    """

    number: int
    depth: int
    absent: frozenset[int]
    known: frozenset[int]
    payload: Any


Place = tuple[int, int]
"""An exchange of a pass: the pass and the depth."""


class DoublingNode(OperationNode):
    """One node's part in an allreduce by recursive doubling.

    Parameters
    ----------
    shape : Halves
        Who exchanges with whom.
    operation : str
        Always ``allreduce``.

    For the other parameters see `OperationNode`.
    """

    __slots__ = (
        "_answered",
        "_came",
        "_current",
        "_number",
        "_own",
        "_rounds",
        "_since",
        "_source",
        "_told",
        "_values",
        "_wanted",
    )

    def __init__(
        self,
        me: int,
        shape: Halves,
        limits: Limits,
        *,
        operation: str = "allreduce",
        combine: Callable[[Mapping[int, Any]], Any],
        service: Callable[[int, int], int],
        order: str = "printed",
        patient: bool = True,
        start: int = 0,
        dead: frozenset[int] = NOBODY,
    ) -> None:
        super().__init__(me, limits, combine=combine, service=service, order=order, patient=patient, start=start)
        self.dead = dead
        self._rounds = shape.rounds(me)
        self._number = 0  # the pass
        self._current = 0  # which of its exchanges comes next
        self._own = BlockValue(0, 0, NOBODY, NOBODY, None)  # the value of my half of it
        self._source = -1  # who has to send me the value of the other half
        self._since = 0  # from when on it may be asked for it
        self._values: dict[Place, BlockValue] = {}  # of my halves, of all passes
        self._came: dict[Place, dict[int, BlockValue]] = {}  # of the others, by who has sent it, first come first
        self._wanted: dict[tuple[Place, int], None] = {}  # what others have asked for
        self._answered: set[tuple[Place, int]] = set()  # what others have from me
        self._told: set[int] = set()  # who has the result from me

    def distance(self, other: int) -> int:
        """Everybody is everybody's neighbour."""
        return 1

    # ------------------------------------------------------------------------------------------- what happens to it

    def enter(self, now: int, contribution: Any = None) -> None:
        """Begin the operation, with what this node contributes."""
        super().enter(now, contribution)
        self._begin(now)
        self._advance(now)

    def died(self, other: int, now: int) -> None:
        """Hear that a node is dead."""
        self._bury((other,))
        self._advance(now)

    def take(self, packet: NodePacket, contact: Contact, now: int) -> None:
        """Handle a message; what its sender knows of the dead comes first."""
        self._bury(packet.dead)
        source, value = packet.source, packet.value
        if packet.kind == KEEPALIVE:
            self._wanted[value, source] = None
            self._answer(value, source)
        elif isinstance(value, TreeResult):
            contact.owed = False
            if self.result is None:
                self._decide(value)
        elif packet.kind == DATA:
            place = value.number, value.depth
            self._came.setdefault(place, {})[source] = value
            contact.owed = self._is_awaited(place, source)
            if contact.owed and self.result is not None:
                self._answer(place, source)
        self._advance(now)

    # ------------------------------------------------------------------------------------------ who stands for whom

    def _stand_in(self, half: range, place: int) -> int:
        """Who has to send the value of a half to the node at a place of the other half; -1: they are all dead."""
        node = half[place % len(half)]
        if node not in self.dead:
            return node
        return next((node for node in half if node not in self.dead), -1)

    def _served(self, exchange: DoublingRound) -> Iterator[int]:
        """Whom I have to send the value of my half, for myself and for the dead for whom I stand in."""
        mine, theirs = exchange.mine, exchange.theirs
        senders = [self.me]
        dead = [node for node in self.dead if node in mine] if self.dead else []
        if dead and self.me == next(node for node in mine if node not in self.dead):
            senders += sorted(dead)
        for node in senders:
            for other in theirs[mine.index(node) :: len(mine)]:
                if other not in self.dead:
                    yield other

    def _is_awaited(self, place: Place, other: int) -> bool:
        """Return whether another node still waits for what I shall send it, so that it had better know that I live."""
        if (place, other) in self._answered:
            return False
        exchange = next(each for each in self._rounds if each.depth == place[1])
        return self._stand_in(exchange.mine, exchange.theirs.index(other)) == self.me

    # ----------------------------------------------------------------------------------------------- what it does

    def _begin(self, now: int) -> None:
        """Begin a pass: what comes from those who are known to be dead by now does not count in it."""
        for place in [place for place in self._came if place[0] == self._number]:
            came = self._came.pop(place)
            self._came[place] = {source: value for source, value in came.items() if source not in self.dead}
        self._current = 0
        self._open(BlockValue(self._number, 0, NOBODY, self.dead, self._contribution), now)

    def _open(self, own: BlockValue, now: int) -> None:
        """Begin an exchange with the value of my half, for which others may be waiting."""
        self._own = own
        if self._current == len(self._rounds):
            return
        exchange = self._rounds[self._current]
        place = own.number, exchange.depth
        self._values[place] = own._replace(depth=exchange.depth)
        self._expect(now + self.limits.eta_sub(self.me))
        for other in (*self._served(exchange), *(other for wanted, other in self._wanted if wanted == place)):
            self._answer(place, other)

    def _expect(self, since: int) -> None:
        """Wait for the value of the other half, from whoever has to send it now."""
        exchange = self._rounds[self._current]
        source = self._stand_in(exchange.theirs, exchange.mine.index(self.me))
        self._source, self._since = source, since
        if source >= 0:
            contact = self.contact(source)
            contact.sent, contact.asked = -1, 0  # it has not been asked for this

    def _advance(self, now: int) -> None:
        """Go on from exchange to exchange, and from pass to pass, as far as values have come."""
        while self.entered and self.result is None:
            if self._current < len(self._rounds):
                exchange = self._rounds[self._current]
                came = self._came.get((self._number, exchange.depth))
                if not came:
                    if self._source in self.dead:
                        self._expect(now)
                    if self._source >= 0:
                        return
                self._current += 1
                self._open(self._joined(exchange, next(iter(came.values())) if came else None), now)
            elif self._own.absent <= self._own.known:
                self._decide(TreeResult(self._own.payload, self._own.absent))
            else:
                self._number += 1
                self._begin(now)

    def _joined(self, exchange: DoublingRound, other: BlockValue | None) -> BlockValue:
        """Return the value of both halves; of one in which nobody lives there is None."""
        own = self._own
        if other is None:
            return own._replace(absent=own.absent | frozenset(exchange.theirs))
        parts = {exchange.mine.start: own.payload, exchange.theirs.start: other.payload}
        return own._replace(
            absent=own.absent | other.absent,
            known=own.known & other.known,
            payload=self._combine({first: parts[first] for first in sorted(parts)}),
        )

    def _decide(self, result: TreeResult) -> None:
        """Have the result, and let all have it who wait for me, or are going to."""
        self.result = result
        for place, other in self._wanted:
            self._answer(place, other)
        for exchange in self._rounds[self._current + 1 :]:
            for other in self._served(exchange):
                self._answer((self._number, exchange.depth), other)
        for place, came in self._came.items():
            for source in came:
                if self._is_awaited(place, source):
                    self._answer(place, source)

    def _answer(self, place: Place, other: int) -> None:
        """Send another node what it needs for an exchange, once: the result, or else the value of my half."""
        if (place, other) in self._answered or other in self._told:
            return
        value = self.result or self._values.get(place)
        if value is not None:
            self._outbox.append((other, value))
            if value is self.result:
                self._told.add(other)
            else:
                self._answered.add((place, other))

    def _awaited(self) -> Iterator[tuple[int, int]]:
        """Who has to send me the value of the other half, and from when on it may be asked for it."""
        if self.entered and self.result is None and self._source >= 0:
            yield self._source, self._since

    def _send(self, kind: int, dest: int, value: Any, now: int) -> SendAction:
        """Say in a question what is wanted; and expect no answer to what is one, or is sent for the dead."""
        until, place = self.contact(dest).until, self._place_of(dest)
        sending = super()._send(kind, dest, place if kind == KEEPALIVE else value, now)
        if kind == DATA and (isinstance(value, TreeResult) or place != (value.number, value.depth)):
            self.contact(dest).until = until
        return sending

    def _place_of(self, other: int) -> Place | None:
        """For which exchange another node has to send me a value."""
        if any(other == source for source, _ in self._awaited()):
            return self._number, self._rounds[self._current].depth
        return None

    # ------------------------------------------------------------------------------------------------ the end

    @property
    def finished(self) -> bool:
        """True when it has nothing left to do but to answer others."""
        return self.result is not None and not self.can_send()
