"""Recursive doubling that tolerates any number of failures at any time: no tree, no root.

Halves of the nodes exchange values, after halves of the halves have done so: node ``me`` exchanges with ``me ^ 2**k``
in round k. Halves of an odd number differ by one; then one node of the smaller half sends to two (`Halves`).
Fault-tolerant recursive doubling is the paper's future work; its authors give no details. Additions to the textbook
algorithm:

**Substitutes.** The lowest surviving node of the same half replaces a failed partner (`DoublingNode._sender_for`): it
has the same value, or will have it. A node that already knew of the failure exchanges values with the substitute at
once. A node that detects it during the operation sends a query, and a queried node answers as soon as it can, even when
it is done.

**Absent nodes.** A value lists the absent nodes of its half. Halves are disjoint, so no contribution can be in a value
twice.

**Passes.** If a node fails during the exchange, its contribution may be in some values and not in others, and no node
can see that from its own value: exchanges among equals need as many rounds as there are failures (Fischer and Lynch,
1982). So each value also lists the nodes that *all* its contributors knew to have failed before they began. If the
nodes absent from the total are among them, all survivors have excluded the same nodes, and the value is the result. If
not, the nodes that see this start a new pass with what they know now. Without failures, or if all nodes knew of the
failures, there is one pass; each failure detected during the operation can add up to two.

Why are all results equal? Suppose X decides in a pass, Y decides in the same or a later one, and both survive. When Y
began that pass it already knew of the nodes absent from its result, so it took nothing from them, and neither did any
contributor to that result. So values that X received from one of these nodes came through nodes that are absent
themselves, up to X, which has then failed. A result is passed on, and is accepted unless its sender is known to have
failed, for which the same holds.

Two nodes that exchange values need no ACKs: each value acknowledges the other. Without failures and among 2**k nodes
there are no other messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from xsim_py.mpi import NOBODY

from .node import DATA, KEEPALIVE, Contact, Limits, NodePacket, OperationNode, SendAction, TreeResult

RECURSIVE_DOUBLING = "recursive_doubling"
"""The name of this algorithm in `mpi.ftco.algorithm` and `xsim ftco --algorithm`."""


class DoublingRound(NamedTuple):
    """A round of one node: its half of some nodes exchanges values with the other half."""

    depth: int
    """How often all nodes have been halved to get these: 0 is the last round."""
    mine: range
    """The half to which the node belongs."""
    theirs: range
    """The other half."""


class Halves:
    """The nodes from 0 on, halved repeatedly; the first half of an odd number is larger by one."""

    def __init__(self, size: int) -> None:
        self.size = size  # the number of nodes

    def rounds(self, node: int) -> tuple[DoublingRound, ...]:
        """Return the exchanges of a node, in order."""
        found: list[DoublingRound] = []
        block = range(self.size)
        while len(block) > 1:
            middle = block[(len(block) + 1) // 2]
            halves = range(block.start, middle), range(middle, block.stop)
            block = halves[node >= middle]
            found.append(DoublingRound(len(found), block, halves[node < middle]))
        return tuple(reversed(found))

    def degree(self, node: int) -> int:
        """Return the number of nodes that a node exchanges with."""
        return len(self.rounds(node))


class DoublingTiming:
    """Timeouts and expected arrival times, in ticks.

    For the other parameters see `trees.Timing`.
    """

    def __init__(self, shape: Halves, *, latency: int, overhead: int, timeout: int | None = None) -> None:
        rounds = (shape.size - 1).bit_length()
        self._timeout = 4 * rounds * overhead + 2 * latency if timeout is None else timeout
        self._exchange = latency + 3 * overhead  # one node in a round has to send twice
        self._eta_full = rounds * self._exchange

    def timeout(self, node: int, distance: int) -> int:
        """Return the timeout: the paper's for a neighbour with that number of neighbours."""
        return self._timeout

    def eta_sub(self, node: int) -> int:
        """Return when the other half's value is expected, from the start of an exchange."""
        return self._exchange

    def eta_full(self, node: int) -> int:
        """Return when the result is expected at a node, from the start."""
        return self._eta_full


class BlockValue(NamedTuple):
    """DATA of an exchange: the combined value of one half."""

    number: int
    """The pass."""
    depth: int
    """The exchange of the pass."""
    absent: frozenset[int]
    """The failed nodes of the half whose contributions are not included."""
    known: frozenset[int]
    """The failed nodes known to all contributors when they began the pass."""
    payload: Any
    """The combined contributions of the others."""


ExchangeId = tuple[int, int]
"""An exchange of a pass: the pass and the depth."""


class DoublingNode(OperationNode):
    """One node's part in an allreduce by recursive doubling."""

    __slots__ = (
        "_answered",
        "_current",
        "_have_result",
        "_number",
        "_own",
        "_queries",
        "_received",
        "_rounds",
        "_sender",
        "_since",
        "_values",
    )

    def __init__(
        self,
        # See `OperationNode` for parameters without a comment.
        me: int,
        shape: Halves,  # the exchanges
        limits: Limits,
        *,
        operation: str = "allreduce",  # always ``allreduce``
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
        self._current = 0  # index of its next exchange
        self._own = BlockValue(0, 0, NOBODY, NOBODY, None)  # the value of my half in it
        self._sender = -1  # the node that must send me the value of the other half
        self._since = 0  # when it may first be queried
        self._values: dict[ExchangeId, BlockValue] = {}  # of my halves, of all passes
        self._received: dict[ExchangeId, dict[int, BlockValue]] = {}  # of other halves, by sender, in order of arrival
        self._queries: dict[tuple[ExchangeId, int], None] = {}  # queries of other nodes
        self._answered: set[tuple[ExchangeId, int]] = set()  # exchanges whose value I have sent, by receiver
        self._have_result: set[int] = set()  # the nodes to which I have sent the result

    def distance(self, other: int) -> int:
        """Return 1: all nodes are neighbours."""
        return 1

    # ------------------------------------------------------------------------------------------------------- inputs

    def enter(self, now: int, contribution: object = None) -> None:
        """Begin the operation with this node's contribution."""
        super().enter(now, contribution)
        self._begin_pass(now)
        self._advance(now)

    def died(self, other: int, now: int) -> None:
        """Handle the failure of a node."""
        self._record_failed((other,))
        self._advance(now)

    def take(self, packet: NodePacket, contact: Contact, now: int) -> None:
        """Handle a message; the failures known to its sender are recorded first."""
        self._record_failed(packet.dead)
        source, value = packet.source, packet.value
        if packet.kind == KEEPALIVE:
            self._queries[value, source] = None
            self._answer(value, source)
        elif isinstance(value, TreeResult):
            contact.ack_owed = False
            if self.result is None:
                self._decide(value)
        elif packet.kind == DATA:
            exchange_id = value.number, value.depth
            self._received.setdefault(exchange_id, {})[source] = value
            contact.ack_owed = self._is_awaited_by(exchange_id, source)
            if contact.ack_owed and self.result is not None:
                self._answer(exchange_id, source)
        self._advance(now)

    # -------------------------------------------------------------------------------------------------- substitutes

    def _sender_for(self, half: range, index: int) -> int:
        """Return the sender of a half's value to an index of the other half; -1: all have failed."""
        node = half[index % len(half)]
        if node not in self.dead:
            return node
        return next((node for node in half if node not in self.dead), -1)

    def _receivers(self, exchange: DoublingRound) -> Iterator[int]:
        """Yield the nodes to which I must send my half's value, also for failed nodes that I replace."""
        mine, theirs = exchange.mine, exchange.theirs
        senders = [self.me]
        dead = [node for node in self.dead if node in mine] if self.dead else []
        if dead and self.me == next(node for node in mine if node not in self.dead):
            senders += sorted(dead)
        for node in senders:
            for other in theirs[mine.index(node) :: len(mine)]:
                if other not in self.dead:
                    yield other

    def _is_awaited_by(self, exchange_id: ExchangeId, other: int) -> bool:
        """Return True if another node waits for a value from me, so that I must acknowledge it."""
        if (exchange_id, other) in self._answered:
            return False
        exchange = next(each for each in self._rounds if each.depth == exchange_id[1])
        return self._sender_for(exchange.mine, exchange.theirs.index(other)) == self.me

    # ---------------------------------------------------------------------------------------------------- actions

    def _begin_pass(self, now: int) -> None:
        """Begin a pass: values from nodes that are known to have failed do not count in it."""
        for exchange_id in [exchange_id for exchange_id in self._received if exchange_id[0] == self._number]:
            received = self._received.pop(exchange_id)
            self._received[exchange_id] = {
                source: value for source, value in received.items() if source not in self.dead
            }
        self._current = 0
        self._begin_exchange(BlockValue(self._number, 0, NOBODY, self.dead, self._contribution), now)

    def _begin_exchange(self, own: BlockValue, now: int) -> None:
        """Begin an exchange with the value of my half, for which others may be waiting."""
        self._own = own
        if self._current == len(self._rounds):
            return
        exchange = self._rounds[self._current]
        exchange_id = own.number, exchange.depth
        self._values[exchange_id] = own._replace(depth=exchange.depth)
        self._expect(now + self.limits.eta_sub(self.me))
        for other in (
            *self._receivers(exchange),
            *(other for queried, other in self._queries if queried == exchange_id),
        ):
            self._answer(exchange_id, other)

    def _expect(self, since: int) -> None:
        """Wait for the value of the other half, from the node that must send it now."""
        exchange = self._rounds[self._current]
        source = self._sender_for(exchange.theirs, exchange.mine.index(self.me))
        self._sender, self._since = source, since
        if source >= 0:
            contact = self.contact(source)
            contact.sent, contact.acks = -1, 0  # it has not been queried for this value

    def _advance(self, now: int) -> None:
        """Proceed through exchanges and passes as far as values have arrived."""
        while self.entered and self.result is None:
            if self._current < len(self._rounds):
                exchange = self._rounds[self._current]
                received = self._received.get((self._number, exchange.depth))
                if not received:
                    if self._sender in self.dead:
                        self._expect(now)
                    if self._sender >= 0:
                        return
                self._current += 1
                self._begin_exchange(self._merged(exchange, next(iter(received.values())) if received else None), now)
            elif self._own.absent <= self._own.known:
                self._decide(TreeResult(self._own.payload, self._own.absent))
            else:
                self._number += 1
                self._begin_pass(now)

    def _merged(self, exchange: DoublingRound, other: BlockValue | None) -> BlockValue:
        """Return the combined value of both halves; `other` is None if that half has failed."""
        own = self._own
        if other is None:
            return own._replace(absent=own.absent | frozenset(exchange.theirs))
        parts = {exchange.mine.start: own.payload, exchange.theirs.start: other.payload}
        return own._replace(
            absent=own.absent | other.absent,
            known=own.known & other.known,
            payload=self.combine({first: parts[first] for first in sorted(parts)}),
        )

    def _decide(self, result: TreeResult) -> None:
        """Record the result, and send it to all nodes that wait for me or will do so."""
        self.result = result
        for exchange_id, other in self._queries:
            self._answer(exchange_id, other)
        for exchange in self._rounds[self._current + 1 :]:
            for other in self._receivers(exchange):
                self._answer((self._number, exchange.depth), other)
        for exchange_id, received in self._received.items():
            for source in received:
                if self._is_awaited_by(exchange_id, source):
                    self._answer(exchange_id, source)

    def _answer(self, exchange_id: ExchangeId, other: int) -> None:
        """Send another node the result, or else the value of my half for an exchange, once."""
        if (exchange_id, other) in self._answered or other in self._have_result:
            return
        value = self.result or self._values.get(exchange_id)
        if value is not None:
            self._outbox.append((other, value))
            if value is self.result:
                self._have_result.add(other)
            else:
                self._answered.add((exchange_id, other))

    def _awaited(self) -> Iterator[tuple[int, int]]:
        """Yield the sender of the other half's value, and the time from which to query it."""
        if self.entered and self.result is None and self._sender >= 0:
            yield self._sender, self._since

    def _send(self, kind: int, dest: int, value: Any, now: int) -> SendAction:
        """Send a message; a KEEPALIVE names the wanted exchange.

        No answer is expected to a result, or to DATA that is itself an answer or replaces a failed node's.
        """
        until, exchange_id = self.contact(dest).deadline, self._awaited_exchange(dest)
        sending = super()._send(kind, dest, exchange_id if kind == KEEPALIVE else value, now)
        if kind == DATA and (isinstance(value, TreeResult) or exchange_id != (value.number, value.depth)):
            self.contact(dest).deadline = until
        return sending

    def _awaited_exchange(self, other: int) -> ExchangeId | None:
        """Return the exchange for which another node must send me a value, or None."""
        if any(other == source for source, _ in self._awaited()):
            return self._number, self._rounds[self._current].depth
        return None

    # --------------------------------------------------------------------------------------------- completion

    @property
    def finished(self) -> bool:
        """True if it has nothing left to do but answer others."""
        return self.result is not None and not self.can_send()
