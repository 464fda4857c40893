"""One node's part in a fault-tolerant tree collective: what every set of rules has in common.

The paper's Algorithms 1, 2, 4 and 5 without the tree: a queue with priorities, receipts, questions whether somebody is
alive, and the time limits for their answers. What a node sends along the tree, and what it does about a death, is up to
the subclasses (Algorithm 3 and "Data Propagation Disruptions"): `paper.PaperNode` and `reference.ReferenceNode`.

A node knows neither network nor clock. Its driver tells it the time, in ticks (steps of the formal model, picoseconds
on the simulated MPI), brings what has arrived (`TreeNode.deliver`) and who has died (`TreeNode.died`), and asks it to
do one thing (`TreeNode.act`). A driver that asks no sooner than at `TreeNode.wake` misses nothing.

A node is told of a death by its driver, which knows whether somebody who does not answer is dead or slow: the paper
assumes that time limits are long enough, and nothing here would be right if a living node were taken for dead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from xsim_py.mpi import NOBODY

DATA, KEEPALIVE, ACK = range(3)
"""The paper's three kinds of message: a value, the question whether somebody is alive, and the receipt for either."""

ANY = 0
"""The service distance that every contact has."""


class NodePacket(NamedTuple):
    """A message.

    Attributes
    ----------
    kind : int
        `DATA`, `KEEPALIVE` or `ACK`.
    source : int
        The sender.
    distance : int
        Between sender and receiver in the tree, as the sender sees it.
    value : object
        Of `DATA`, what is passed on.
    dead : frozenset of int
        Whom the sender knows to be dead.
    """

    kind: int
    source: int
    distance: int
    value: Any = None
    dead: frozenset[int] = NOBODY


class TreeResult(NamedTuple):
    """DATA that is the outcome of an operation.

    Attributes
    ----------
    payload : object
        The result; of a bcast whose root died before anyone alive heard from it, None.
    missing : frozenset of int
        Whose contributions are not in it.
    """

    payload: Any
    missing: frozenset[int]


class SendAction(NamedTuple):
    """An action: a message leaves."""

    dest: int
    packet: NodePacket


class TakeAction(NamedTuple):
    """An action: a message has been taken from the queue."""

    packet: NodePacket


class Limits(Protocol):
    """How long to wait, in ticks; see `trees.Timing`."""

    def timeout(self, node: int, distance: int) -> int:
        """After how long a node at a distance that has not answered counts as dead."""

    def eta_sub(self, node: int) -> int:
        """When the values of all its children should have arrived at a node, counted from the start."""

    def eta_full(self, node: int) -> int:
        """When the result should have arrived at a node, counted from the start."""


class Contact:
    """A node's memory of another one.

    Attributes
    ----------
    distance : int
        Between the two in the tree.
    sent : int
        When DATA or KEEPALIVE was last sent there; -1: never.
    until : int
        Until when an answer to that is awaited; -1: none is.
    asked : int
        How often it has confirmed that it is alive, and had nothing to tell.
    heard : bool
        Whether anything has come from there.
    owed : bool
        Whether it is to have a receipt.
    """

    __slots__ = ("asked", "distance", "heard", "owed", "sent", "until")

    def __init__(self, distance: int) -> None:
        self.distance = distance
        self.asked = 0
        self.sent = -1
        self.until = -1
        self.heard = False
        self.owed = False


class TreeNode:
    """One node's part in one operation.

    Parameters
    ----------
    me : int
        Its number.
    limits : Limits
        Time limits, in ticks.
    order : str
        One of `ORDERS`: what comes first when nothing can be sent along the tree.
    service : callable
        ``service(me, now)`` is the service distance at a time (appendix A); `ANY` for no preference.
    patient : bool
        Whether the time between two questions to the same node doubles each time, so that they cannot flood a node that
        is slow, or that many depend on. A death that comes late may be noticed late then, but no later than after twice
        the time waited so far. The paper has "some time interval".
    start : int
        When the operation begins for the first node; expected times of arrival count from there.

    Attributes
    ----------
    entered : bool
        Whether it has begun the operation itself (appendix B).
    dead : frozenset of int
        Whom it knows to be dead.
    contacts : dict of int to Contact
        Whom it deals with, in the order in which it turns to them.
    finish_time : int
        When it first found that it had nothing left to send; -1: not yet.
    longest_queue : int
        The most messages that were ever delivered and not yet taken.
    """

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
        limits: Limits,
        *,
        order: str,
        service: Callable[[int, int], int],
        patient: bool = False,
        start: int = 0,
    ) -> None:
        self.me = me
        self.limits = limits
        self.start = start
        self.entered = False
        self.dead = NOBODY
        self.contacts: dict[int, Contact] = {}
        self.finish_time = -1
        self.queue_length = 0
        self.longest_queue = 0
        self._order = ORDERS[order]
        self._service = service
        self._patient = patient
        self._queues: tuple[list[NodePacket], list[NodePacket], list[NodePacket]] = ([], [], [])

    # ------------------------------------------------------------------------------------ what subclasses decide

    def traverse(self, now: int) -> tuple[int, Any] | None:
        """Whom to send what value next along the tree (Algorithm 3); None: nothing can be sent now."""
        raise NotImplementedError

    def take(self, packet: NodePacket, contact: Contact, now: int) -> None:
        """Handle what has been taken from the queue; its contact has been brought up to date already."""
        raise NotImplementedError

    def suspects(self) -> Iterable[tuple[int, int]]:
        """Who is to be asked whether it is alive, and from which time on, in order (Algorithm 4, lines 18 to 21)."""
        raise NotImplementedError

    def died(self, other: int, now: int) -> None:
        """Hear that a node is dead."""
        raise NotImplementedError

    def distance(self, other: int) -> int:
        """How far another node is in the tree, at least 1."""
        raise NotImplementedError

    @property
    def finished(self) -> bool:
        """True when it has nothing left to do but to answer others."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------- what drivers call

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
        """Do at most one thing (one round of Algorithm 1)."""
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
        """The earliest time from `now` on at which there is something to do if nothing more arrives; None: never.

        It may be too early, and never is too late.
        """
        if self.queue_length or any(contact.owed for contact in self.contacts.values()):
            return now
        if not self.entered:
            return None
        if self.can_send() or (self.finish_time < 0 and self.finished):
            return now
        due = [self._due(self.contact(other), other, since) for other, since in self.suspects()]
        return max(now, min(due)) if due else None

    def can_send(self) -> bool:
        """Return whether `traverse` has something to send."""
        raise NotImplementedError

    def overdue(self, now: int) -> list[int]:
        """Who has not answered in time; a driver without an oracle looks whether they are dead, and says so by `died`.

        Whoever lives is given the same time again.
        """
        late = [other for other, contact in self.contacts.items() if 0 <= contact.until <= now]
        for other in late:
            self.contacts[other].until = now + self.timeout(other)
        return late

    def deadline(self) -> int | None:
        """When somebody will be `overdue`."""
        return min((contact.until for contact in self.contacts.values() if contact.until >= 0), default=None)

    # -------------------------------------------------------------------------------------- what it does itself

    def contact(self, other: int) -> Contact:
        """Return what is remembered of another node; made on first use."""
        known = self.contacts.get(other)
        if known is None:
            known = self.contacts[other] = Contact(self.distance(other))
        return known

    def timeout(self, other: int) -> int:
        """After how many ticks without an answer another node counts as dead."""
        return self.limits.timeout(other, self.contact(other).distance)

    def patience(self, other: int) -> int:
        """The ticks between two questions to another node, by now."""
        contact = self.contact(other)
        return max(self.timeout(other), self.limits.timeout(self.me, contact.distance)) << contact.asked

    def _due(self, contact: Contact, other: int, since: int) -> int:
        """From when on a suspect is to be asked whether it is alive."""
        if contact.until >= 0:
            since = max(since, contact.until + 1)
        if contact.heard and contact.sent >= 0:
            since = max(since, contact.sent + self.patience(other) + 1)
        return since

    def _has_work(self, now: int) -> bool:
        """Return whether a task would do something: most nodes have nothing to do most of the time."""
        return bool(self.queue_length) or self.wake(now) == now

    def _send(self, kind: int, dest: int, value: Any, now: int) -> SendAction:
        contact = self.contact(dest)
        contact.owed = False
        if kind != ACK:
            contact.sent = now
            contact.until = now + self.timeout(dest)
        return SendAction(dest, NodePacket(kind, self.me, contact.distance, value, self.dead))

    def _take(self, kind: int, distance: int, now: int) -> TakeAction | None:
        """Take the first message of a kind that has come from a distance."""
        queue = self._queues[kind]
        for place, packet in enumerate(queue):
            if distance in (ANY, packet.distance):
                del queue[place]
                self.queue_length -= 1
                if packet.source not in self.dead:
                    contact = self.contact(packet.source)
                    contact.heard = True
                    contact.until = -1
                    contact.owed = contact.owed or kind != ACK
                    contact.asked += self._patient and kind == ACK
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
            if contact.owed and distance in (ANY, contact.distance):
                return self._send(ACK, other, None, now)
        return None

    def _send_keepalive(self, distance: int, now: int) -> SendAction | None:
        for other in self._asked(distance, now):
            return self._send(KEEPALIVE, other, None, now)
        return None

    def _asked(self, distance: int, now: int) -> Iterator[int]:
        if not self.entered:
            return
        for other, since in self.suspects():
            contact = self.contact(other)
            if distance in (ANY, contact.distance) and self._due(contact, other, since) <= now:
                yield other


_Task = Callable[[TreeNode, int, int], "SendAction | TakeAction | None"]

ORDERS: dict[str, tuple[_Task, ...]] = {
    # Algorithm 1: the queue first, then fault tolerance.
    "printed": (
        TreeNode._take_data,
        TreeNode._take_keepalive,
        TreeNode._take_ack,
        TreeNode._send_ack,
        TreeNode._send_keepalive,
    ),
    # The authors' simulator.
    "code": (
        TreeNode._take_data,
        TreeNode._send_ack,
        TreeNode._send_keepalive,
        TreeNode._take_keepalive,
        TreeNode._take_ack,
    ),
}


class OperationNode(TreeNode):
    """A node whose contribution can be anything, and whose values wait in an outbox until they leave.

    Parameters
    ----------
    combine : callable
        Makes one payload of those of several nodes, or parts of them, which are given by number in ascending order.

    For the other parameters see `TreeNode`.

    Attributes
    ----------
    result : TreeResult or None
        The outcome, as soon as it is known here.
    """

    __slots__ = ("_combine", "_contribution", "_outbox", "result")

    def __init__(
        self,
        me: int,
        limits: Limits,
        *,
        combine: Callable[[Mapping[int, Any]], Any],
        service: Callable[[int, int], int],
        order: str,
        patient: bool,
        start: int,
    ) -> None:
        super().__init__(me, limits, order=order, service=service, patient=patient, start=start)
        self.result: TreeResult | None = None
        self._combine = combine
        self._contribution: Any = None
        self._outbox: deque[tuple[int, Any]] = deque()

    def enter(self, now: int, contribution: Any = None) -> None:
        """Begin the operation, with what this node contributes."""
        super().enter(now)
        self._contribution = contribution

    @property
    def settled(self) -> bool:
        """True when the call may return."""
        return self.finished

    def _awaited(self) -> Iterator[tuple[int, int]]:
        """Whom it depends on now, and from when on that is worth a question."""
        raise NotImplementedError

    def suspects(self) -> Iterator[tuple[int, int]]:
        """Yield whose values, or the result, should have been here: only they are asked (Algorithm 4, line 20).

        Who has still to answer is not asked again: no message is lost.
        """
        return ((other, since) for other, since in self._awaited() if self.contact(other).until < 0)

    def traverse(self, now: int) -> tuple[int, Any] | None:
        """Take the next value from the outbox."""
        while self._outbox:
            dest, value = self._outbox.popleft()
            if dest not in self.dead:
                return dest, value
        return None

    def can_send(self) -> bool:
        """Return whether there is something in the outbox."""
        return any(dest not in self.dead for dest, _ in self._outbox)

    def _bury(self, dead: Iterable[int]) -> list[int]:
        """Know that nodes are dead; return those of whom that is new."""
        fresh = sorted(node for node in dead if node not in self.dead)
        if fresh:
            self.dead |= frozenset(fresh)
        for node in fresh:
            known = self.contacts.get(node)
            if known is not None:
                known.until = -1
                known.owed = False
        return fresh
