"""The state machine of a node in a fault-tolerant tree collective: the part common to all rule sets.

The paper's Algorithms 1, 2, 4 and 5 without the tree: a queue with priorities, ACKs, KEEPALIVE queries and their
timeouts. Subclasses decide what a node sends along the tree and how it reacts to a failure (Algorithm 3 and "Data
Propagation Disruptions"): `paper.PaperNode` and `reference.ReferenceNode`.

A node knows neither network nor clock. Its driver passes it the time in ticks (steps of the formal model, picoseconds
on the simulated MPI), the messages (`TreeNode.deliver`) and failures (`TreeNode.died`), and asks it for one action at a
time (`TreeNode.act`). A driver that does not ask before `TreeNode.wake` misses nothing.

The driver reports failures, because it knows whether a node that does not answer has failed or is slow. The paper
assumes that timeouts are long enough; if a surviving node were declared failed, the results would be wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

from xsim_py.mpi import NOBODY

DATA, KEEPALIVE, ACK = range(3)
"""The paper's three kinds of message: a value, a query for a heartbeat, and the acknowledgement of either."""

ANY = 0
"""The service distance that every contact has."""


class NodePacket(NamedTuple):
    """A message between two nodes."""

    kind: int
    """`DATA`, `KEEPALIVE` or `ACK`."""
    source: int
    """The sender."""
    distance: int
    """Between sender and receiver in the tree, as the sender sees it."""
    value: Any = None
    """The value passed on, for `DATA`."""
    dead: frozenset[int] = NOBODY
    """The failed nodes known to the sender."""


class TreeResult(NamedTuple):
    """The result of an operation, as a value of DATA."""

    payload: Any
    """The result; None for a bcast whose root failed before any surviving node had its value."""
    missing: frozenset[int]
    """The nodes whose contributions are not included."""


class SendAction(NamedTuple):
    """An action: send a message."""

    dest: int
    packet: NodePacket


class TakeAction(NamedTuple):
    """An action: a message was taken from the queue."""

    packet: NodePacket


class Limits(Protocol):
    """Timeouts and expected arrival times, in ticks; see `trees.Timing`."""

    def timeout(self, node: int, distance: int) -> int:
        """Return the timeout after which a node at a distance is suspected."""

    def eta_sub(self, node: int) -> int:
        """Return when the values of all of a node's children are expected, from the start."""

    def eta_full(self, node: int) -> int:
        """Return when the result is expected at a node, from the start."""


class Contact:
    """The knowledge of a node about one peer."""

    __slots__ = ("ack_owed", "acks", "deadline", "distance", "heard", "sent")

    def __init__(self, distance: int) -> None:
        self.distance = distance  # between the two in the tree
        self.acks = 0  # the number of ACKs received from it, if `patient`
        self.sent = -1  # the time of the last DATA or KEEPALIVE sent there; -1: never
        self.deadline = -1  # of the answer to it; -1: no answer is awaited
        self.heard = False  # whether any message has come from it
        self.ack_owed = False  # whether it must be sent an ACK


class TreeNode:
    """One node's part in one operation."""

    __slots__ = (
        "_order",
        "_patient",
        "_queues",
        "_service",
        "contacts",
        "dead",
        "entered",
        "finish_time",
        "limits",
        "longest_queue",
        "me",
        "queue_length",
        "start",
    )

    def __init__(
        self,
        me: int,
        limits: Limits,  # timeouts, in ticks
        *,
        order: str,  # a key of `ORDERS`: the order of tasks when nothing can be sent along the tree
        # ``service(me, now)`` is the service distance at a time (appendix A); `ANY` for no preference.
        service: Callable[[int, int], int],
        # Whether the interval between KEEPALIVEs to the same node doubles each time, so that they cannot flood a node
        # that is slow or has many dependants. A late failure may then be detected late, but at most after twice the
        # time waited so far. The paper has "some time interval".
        patient: bool = False,
        start: int = 0,  # when the first node begins the operation; expected arrival times count from there
    ) -> None:
        self.me = me
        self.limits = limits
        self.start = start
        self.entered = False  # whether it has begun the operation itself (appendix B)
        self.dead = NOBODY  # the nodes that it knows to have failed
        self.contacts: dict[int, Contact] = {}  # its peers, in the order in which it serves them
        self.finish_time = -1  # when it first had nothing left to send; -1: not yet
        self.queue_length = 0
        self.longest_queue = 0  # the maximum length of its queue of delivered messages
        self._order = self.ORDERS[order]
        self._service = service
        self._patient = patient
        self._queues: tuple[list[NodePacket], list[NodePacket], list[NodePacket]] = ([], [], [])

    # ------------------------------------------------------------------------------------- decided by subclasses

    def traverse(self, now: int) -> tuple[int, Any] | None:
        """Return the next destination and value along the tree (Algorithm 3), or None."""
        raise NotImplementedError

    def take(self, packet: NodePacket, contact: Contact, now: int) -> None:
        """Handle a message taken from the queue; its contact is already up to date."""
        raise NotImplementedError

    def suspects(self) -> Iterable[tuple[int, int]]:
        """Return the nodes to query, each with its earliest time (Algorithm 4, lines 18 to 21)."""
        raise NotImplementedError

    def died(self, other: int, now: int) -> None:
        """Handle the failure of a node."""
        raise NotImplementedError

    def distance(self, other: int) -> int:
        """Return the distance to another node in the tree, at least 1."""
        raise NotImplementedError

    @property
    def finished(self) -> bool:
        """True if it has nothing left to do but answer others."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------- called by drivers

    def enter(self, now: int) -> None:
        """Begin the operation."""
        self.entered = True

    def deliver(self, packet: NodePacket, now: int) -> None:
        """Put a message that has arrived into the queue."""
        self._queues[packet.kind].append(packet)
        self.queue_length += 1
        if self.queue_length > self.longest_queue:
            self.longest_queue = self.queue_length

    def act(self, now: int) -> SendAction | TakeAction | None:
        """Perform and return at most one action (one round of Algorithm 1)."""
        if self.entered:
            sending = self.traverse(now)
            if sending is not None:
                return self._send(DATA, *sending, now)
            if self.finish_time < 0 and self.finished:
                self.finish_time = now
        if not self._has_work(now):
            return None
        preferred = self._service(self.me, now)
        for distance in (preferred, ANY) if preferred != ANY else (ANY,):
            for task in self._order:
                done = task(self, distance, now)
                if done is not None:
                    return done
        return None

    def wake(self, now: int) -> int | None:
        """Return when there is next something to do if no more messages arrive, or None.

        It may be too early, but is never too late.
        """
        if self.queue_length or any(contact.ack_owed for contact in self.contacts.values()):
            return now
        if not self.entered:
            return None
        if self.can_send() or (self.finish_time < 0 and self.finished):
            return now
        due = [self._due(self.contact(other), other, since) for other, since in self.suspects()]
        return max(now, min(due)) if due else None

    def can_send(self) -> bool:
        """Return True if `traverse` has something to send."""
        raise NotImplementedError

    def missed_deadlines(self, now: int) -> list[int]:
        """Return the nodes that have missed their deadline, and set each a new one.

        A driver without an oracle checks which of them have failed, and reports those by `died`.
        """
        late = [other for other, contact in self.contacts.items() if 0 <= contact.deadline <= now]
        for other in late:
            self.contacts[other].deadline = now + self.timeout(other)
        return late

    def deadline(self) -> int | None:
        """Return the earliest deadline of an answer, or None if no answer is awaited."""
        return min((contact.deadline for contact in self.contacts.values() if contact.deadline >= 0), default=None)

    # ------------------------------------------------------------------------------------------------ internals

    def contact(self, other: int) -> Contact:
        """Return the contact of another node, creating it on first use."""
        known = self.contacts.get(other)
        if known is None:
            known = self.contacts[other] = Contact(self.distance(other))
        return known

    def timeout(self, other: int) -> int:
        """Return the timeout of another node, in ticks."""
        return self.limits.timeout(other, self.contact(other).distance)

    def query_interval(self, other: int) -> int:
        """Return the interval between two KEEPALIVEs to another node, in ticks."""
        contact = self.contact(other)
        return max(self.timeout(other), self.limits.timeout(self.me, contact.distance)) << contact.acks

    def _due(self, contact: Contact, other: int, since: int) -> int:
        """Return the time from which a suspect may be queried."""
        if contact.deadline >= 0:
            since = max(since, contact.deadline + 1)
        if contact.heard and contact.sent >= 0:
            since = max(since, contact.sent + self.query_interval(other) + 1)
        return since

    def _has_work(self, now: int) -> bool:
        """Return True if some task has work: most nodes have nothing to do most of the time."""
        return bool(self.queue_length) or self.wake(now) == now

    def _send(self, kind: int, dest: int, value: object, now: int) -> SendAction:
        contact = self.contact(dest)
        contact.ack_owed = False
        if kind != ACK:
            contact.sent = now
            contact.deadline = now + self.timeout(dest)
        return SendAction(dest, NodePacket(kind, self.me, contact.distance, value, self.dead))

    def _take(self, kind: int, distance: int, now: int) -> TakeAction | None:
        """Take the first message of a kind from a distance."""
        queue = self._queues[kind]
        for index, packet in enumerate(queue):
            if distance in (ANY, packet.distance):
                del queue[index]
                self.queue_length -= 1
                if packet.source not in self.dead:
                    contact = self.contact(packet.source)
                    contact.heard = True
                    contact.deadline = -1
                    contact.ack_owed = contact.ack_owed or kind != ACK
                    contact.acks += self._patient and kind == ACK
                    self.take(packet, contact, now)
                return TakeAction(packet)
        return None

    def _take_data(self, distance: int, now: int) -> TakeAction | None:
        return self._take(DATA, distance, now)

    def _take_keepalive(self, distance: int, now: int) -> TakeAction | None:
        return self._take(KEEPALIVE, distance, now)

    def _take_ack(self, distance: int, now: int) -> TakeAction | None:
        return self._take(ACK, distance, now)

    def _send_ack(self, distance: int, now: int) -> SendAction | None:
        for other, contact in self.contacts.items():
            if contact.ack_owed and distance in (ANY, contact.distance):
                return self._send(ACK, other, None, now)
        return None

    def _send_keepalive(self, distance: int, now: int) -> SendAction | None:
        for other in self._due_queries(distance, now):
            return self._send(KEEPALIVE, other, None, now)
        return None

    def _due_queries(self, distance: int, now: int) -> Iterator[int]:
        if not self.entered:
            return
        for other, since in self.suspects():
            contact = self.contact(other)
            if distance in (ANY, contact.distance) and self._due(contact, other, since) <= now:
                yield other

    ORDERS: ClassVar[dict[str, tuple[_Task, ...]]] = {
        # Algorithm 1: the queue first, then fault tolerance.
        "printed": (
            _take_data,
            _take_keepalive,
            _take_ack,
            _send_ack,
            _send_keepalive,
        ),
        # The order of the authors' simulator.
        "code": (
            _take_data,
            _send_ack,
            _send_keepalive,
            _take_keepalive,
            _take_ack,
        ),
    }


_Task = Callable[[TreeNode, int, int], "SendAction | TakeAction | None"]


class OperationNode(TreeNode):
    """A node with any contribution, and an outbox for values that wait to be sent."""

    __slots__ = ("_contribution", "_outbox", "combine", "result")

    def __init__(
        self,
        # See `TreeNode` for parameters without a comment.
        me: int,
        limits: Limits,
        *,
        # Combines the payloads of several nodes, or of parts of them, passed by node number in ascending order.
        combine: Callable[[Mapping[int, Any]], Any],
        service: Callable[[int, int], int],
        order: str,
        patient: bool,
        start: int,
    ) -> None:
        super().__init__(me, limits, order=order, service=service, patient=patient, start=start)
        self.result: TreeResult | None = None  # once known to this node
        self.combine = combine
        self._contribution: Any = None
        self._outbox: deque[tuple[int, Any]] = deque()

    def enter(self, now: int, contribution: object = None) -> None:
        """Begin the operation with this node's contribution."""
        super().enter(now)
        self._contribution = contribution

    @property
    def may_return(self) -> bool:
        """True if the call may return."""
        return self.finished

    def _awaited(self) -> Iterator[tuple[int, int]]:
        """Yield the nodes that it depends on, each with the time from which to query it."""
        raise NotImplementedError

    def suspects(self) -> Iterator[tuple[int, int]]:
        """Yield the nodes whose messages are late: only they are queried (Algorithm 4, line 20).

        A node with an unanswered message is not queried again, because no message is lost.
        """
        return ((other, since) for other, since in self._awaited() if self.contact(other).deadline < 0)

    def traverse(self, now: int) -> tuple[int, Any] | None:
        """Take the next value from the outbox."""
        while self._outbox:
            dest, value = self._outbox.popleft()
            if dest not in self.dead:
                return dest, value
        return None

    def can_send(self) -> bool:
        """Return True if the outbox holds a message to a node not known to have failed."""
        return any(dest not in self.dead for dest, _ in self._outbox)

    def _record_failed(self, dead: Iterable[int]) -> list[int]:
        """Record failed nodes; return the newly failed ones."""
        fresh = sorted(node for node in dead if node not in self.dead)
        if fresh:
            self.dead |= frozenset(fresh)
        for node in fresh:
            known = self.contacts.get(node)
            if known is not None:
                known.deadline = -1
                known.ack_owed = False
        return fresh
