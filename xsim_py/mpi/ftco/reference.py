"""Tree traversal and repair by the rules of the authors' published simulator: the node of the formal model.

A value is a set of nodes, merged by union. A node works through ten points in order: it waits for its children and for
those that it has adopted, sends to its fathers and to those that it has adopted, waits for them, and when its set holds
every node it sends to its children and to those that it has adopted. A node that is known to be dead counts as having
arrived. A death below puts the node back to the first point, one above to sending to its adopted fathers.

Whoever has worked through all points has finished, and takes nothing from its queue any more. That is why these rules
hang when a node that has received the result dies before it has passed it on, and the nodes above it have finished.
`paper.PaperNode` has no such gaps; this class is there to reproduce the published figures, and node 0 must not die.

What the description of that simulator leaves open is decided here as its figures demand:

* A time limit that has run out for a living node goes on counting as running until something comes from there, so a
  question is never repeated before the first has been answered.
* Whom nothing was sent to yet, and who has been heard, counts as asked in step 0.
* There is a death notice for each message that was not answered, and the second one for the same node puts its receiver
  back once more. This is what makes the death of a root expensive: the others have sent it DATA and a KEEPALIVE, and
  when the second notice comes they begin once more to send the result down, to all children from the first one on.
* Of two messages of a kind and distance the one that came last is taken first.
* Deaths that a node learns of in a step come before what it does in that step.
* A node that finds itself finished does nothing else in that step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .node import ACK, ANY, DATA, KEEPALIVE, Contact, Limits, NodePacket, SendAction, TakeAction, TreeNode
from .trees import Tree

# What a node does at each point, and with whom.
_WAIT, _SEND, _ROOT, _FULL = range(4)
_CHILDREN, _ADOPTED_CHILDREN, _FATHERS, _ADOPTED_FATHERS = range(4)
_POINTS = (
    (_WAIT, _CHILDREN),
    (_WAIT, _ADOPTED_CHILDREN),
    (_SEND, _FATHERS),
    (_SEND, _ADOPTED_FATHERS),
    (_ROOT, 0),
    (_WAIT, _FATHERS),
    (_WAIT, _ADOPTED_FATHERS),
    (_FULL, 0),
    (_SEND, _CHILDREN),
    (_SEND, _ADOPTED_CHILDREN),
)
_UP_AGAIN = 3
_AWAIT_RESULT = 5
_END = len(_POINTS)
# First and last point of each operation.
_SPAN = {"allreduce": (0, _END), "reduce": (0, _AWAIT_RESULT), "bcast": (_AWAIT_RESULT, _END)}


class ReferenceNode(TreeNode):
    """One node's part in one operation, under the rules ``reference``.

    Parameters
    ----------
    tree : Tree
        The shape; the roots of a multi-root tree are below node 0 in a reduce or bcast.
    operation : str
        ``allreduce``, ``reduce`` or ``bcast``.
    ask_all : bool
        Whether all contacts are asked if they are alive, not only those that have not arrived (Algorithm 4, line 20).
    reset_eta : bool
        Whether the first death makes it expect everything at once.

    For `me`, `limits`, `order`, `service` and `start` see `TreeNode`.

    Attributes
    ----------
    have : int
        The nodes whose values are here, or that are dead, a bit each.
    full_time : int
        When it first found the values of all nodes here; -1: not yet.
    """

    __slots__ = (
        "_all",
        "_ask_all",
        "_eta_full",
        "_eta_sub",
        "_place",
        "_point",
        "_reset_eta",
        "_span",
        "_with",
        "full_time",
        "have",
        "operation",
        "tree",
    )

    def __init__(
        self,
        me: int,
        tree: Tree,
        limits: Limits,
        *,
        operation: str = "allreduce",
        ask_all: bool = True,
        reset_eta: bool = True,
        order: str = "code",
        service: Callable[[int, int], int],
        start: int = 0,
    ) -> None:
        super().__init__(me, limits, order=order, service=service, start=start)
        self.tree = tree
        self.operation = operation
        self.full_time = -1
        self._all = (1 << tree.size) - 1
        self.have = self._all if operation == "bcast" and me == 0 else 1 << me
        self._span = _SPAN[operation]
        self._point = self._span[0]
        self._place = 0
        self._ask_all = ask_all
        self._reset_eta = reset_eta
        self._eta_sub = start + limits.eta_sub(me)
        self._eta_full = start + limits.eta_full(me)
        children = self._children(me)
        fathers = self._fathers(me)
        self._with: tuple[list[int], ...] = (children, [], fathers, [])
        for other in (*fathers, *children):
            self.contacts[other] = Contact(1)

    # ------------------------------------------------------------------------------------------------- the tree

    @property
    def _root_count(self) -> int:
        return self.tree.root_count if self.operation == "allreduce" else 1

    def _fathers(self, node: int) -> list[int]:
        if self.operation == "allreduce":
            return list(self.tree.fathers(node))
        return [self._father(node)] if node else []

    def _father(self, node: int) -> int:
        """The node above; node 0 for a root."""
        return max(0, self.tree.parent(node))

    def _children(self, node: int) -> list[int]:
        children = list(self.tree.children(node))
        return children if node or self.operation == "allreduce" else [*range(1, self.tree.root_count), *children]

    def distance(self, other: int) -> int:
        """How far another node is; all that it deals with have been given a distance when they became contacts."""
        return 1

    def _has(self, node: int) -> int:
        return self.have >> node & 1

    # --------------------------------------------------------------------------------------- along the tree

    def _next(self) -> int:
        """Whom to send DATA to; -1: nobody now."""
        while self._point < self._span[1]:
            what, whom = _POINTS[self._point]
            if what in (_SEND, _WAIT):
                others = self._with[whom]
                while self._place < len(others):
                    other = others[self._place]
                    if what == _SEND:
                        if other not in self.dead:
                            return other
                    elif not self._has(other):
                        return -1
                    self._place += 1
            elif (what == _FULL or self.me == 0) and self.have != self._all:
                return -1
            self._point += 1
            self._place = 0
        return -1

    def traverse(self, now: int) -> tuple[int, Any] | None:
        """Return whom to send DATA next; see `TreeNode.traverse`."""
        dest = self._next()
        if self.full_time < 0 and self.have == self._all:
            self.full_time = now
        if dest < 0:
            return None
        self._place += 1
        return dest, self.have

    def can_send(self) -> bool:
        """Return whether there is somebody to send DATA to."""
        return self._next() >= 0

    @property
    def finished(self) -> bool:
        """True when it has nothing left to send, and so is deaf; node 0 never is."""
        return self.entered and self.me != 0 and self._next() < 0 and self._point == self._span[1]

    # ------------------------------------------------------------------------------------------ what it does

    def act(self, now: int) -> SendAction | TakeAction | None:
        """Do at most one thing; see `TreeNode.act`."""
        if not self.entered:
            return self._act_early(now)
        sending = self.traverse(now)
        if sending is not None:
            return self._send(DATA, *sending, now)
        if self.finished:
            if self.finish_time < 0:
                self.finish_time = now
            return None
        preferred = self._service(self.me, now)
        for distance in (preferred, ANY) if preferred != ANY else (ANY,):
            for task in self._order:
                done = task(self, distance, now)
                if done is not None:
                    return done
        return None

    def deliver(self, packet: NodePacket, now: int) -> None:
        """Put a message into the queue, before the others: what came last is taken first."""
        super().deliver(packet, now)
        queue = self._queues[packet.kind]
        queue.insert(0, queue.pop())

    def _act_early(self, now: int) -> SendAction | TakeAction | None:
        """A node that has not begun: it takes a KEEPALIVE and answers in the same step, and will answer once more."""
        taken = self._take_keepalive(ANY, now)
        if taken is None:
            return self._take_ack(ANY, now)
        source = taken.packet.source
        if source in self.dead:
            return taken
        answer = self._send(ACK, source, None, now)
        self.contacts[source].owed = True
        return answer

    def wake(self, now: int) -> int | None:
        """Return when there is something to do; see `TreeNode.wake`."""
        if not self.entered:
            return now if self._queues[KEEPALIVE] or self._queues[ACK] else None
        if self._next() >= 0:
            return now
        if self.finished:
            return now if self.finish_time < 0 else None
        if self.queue_length or any(contact.owed for contact in self.contacts.values()):
            return now
        due = min((self._due(self.contacts[other], other, since) for other, since in self.suspects()), default=None)
        return None if due is None else max(now, due)

    def suspects(self) -> Iterator[tuple[int, int]]:
        """Whoever can be asked, and from when on: for the values of children, or for the result."""
        since = self._eta_full + 1
        if self._point < 2:
            since = min(since, self._eta_sub + 1)
        for other, contact in self.contacts.items():
            if contact.until < 0 and other not in self.dead and (self._ask_all or not self._has(other)):
                yield other, since

    def _due(self, contact: Contact, other: int, since: int) -> int:
        """Do as `TreeNode`; who was sent nothing counts as asked in step 0, once anything came from there."""
        if contact.until >= 0:
            since = max(since, contact.until + 1)
        if contact.heard:
            since = max(since, max(contact.sent, self.start) + self.patience(other) + 1)
        return since

    # --------------------------------------------------------------------------------------- messages and deaths

    def take(self, packet: NodePacket, contact: Contact, now: int) -> None:
        """Merge what has come with DATA."""
        if packet.kind == DATA:
            merged = self.have | packet.value
            self.have = packet.value if merged == packet.value else merged

    def contact(self, other: int) -> Contact:
        """Return what is remembered of another node; one that was not known tells that all between are dead."""
        known = self.contacts.get(other)
        if known is None:
            self._bury(self._between(other))
            known = self.contacts.get(other)
            if known is None:
                known = self.contacts[other] = Contact(1)
        return known

    def died(self, other: int, now: int) -> None:
        """Hear that a node is dead."""
        if other in self.dead:
            self._start_again(other)
        else:
            self._bury([*self._between(other), other] if self._is_below(other) else [other])

    def _is_below(self, other: int) -> bool:
        return other > self.me or self.me < self._root_count > other

    def _between(self, other: int) -> list[int]:
        """All strictly between: from the top down to one that is below, from here up to one that is above."""
        below = self._is_below(other)
        node, end = (other, self.me) if below else (self.me, other)
        path: list[int] = []
        while node >= self._root_count and (node := self._father(node)) != end:
            path.append(node)
        return path[::-1] if below else path

    def _bury(self, path: Iterable[int]) -> None:
        """Count nodes as dead, and adopt those behind them, in this order."""
        for other in path:
            if other in self.dead:
                continue
            if not self.dead and self._reset_eta:
                self._eta_sub = self._eta_full = 0
            self.dead |= {other}
            self.have |= 1 << other
            gone = self.contacts.setdefault(other, Contact(1))
            gone.owed = False
            gone.until = -1
            below = self._is_below(other)
            adopted = self._with[_ADOPTED_CHILDREN if below else _ADOPTED_FATHERS]
            for behind in self._children(other) if below else self._fathers(other):
                if behind not in self.contacts and behind != self.me:
                    self.contacts[behind] = Contact(gone.distance + 1)
                    adopted.append(behind)
            self._start_again(other)

    def _start_again(self, dead: int) -> None:
        """Go back to the point from which a death is made up for."""
        if self._is_below(dead):
            self._point, self._place = self._span[0], 0
        elif self._point >= _UP_AGAIN:
            self._point, self._place = max(_UP_AGAIN, self._span[0]), 0
