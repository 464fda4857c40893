"""Tree traversal by the rules of the authors' published simulator: the formal model's node.

A value is a set of nodes, merged by union. A node works through ten points in order: it waits for its children and its
adopted children, sends to its fathers and its adopted fathers, and waits for them; when its set holds every node, it
sends to its children and its adopted children. A node that is known to have failed counts as having arrived. A failure
below sets the node back to the first point, a failure above to sending to its adopted fathers.

A node that has worked through all points has finished, and takes nothing more from its queue. That is why these rules
hang if a node that has received the result fails before it has passed it on, and the nodes above it have finished.
`paper.PaperNode` has no such gaps. This class exists to reproduce the published figures; node 0 must not fail.

Points left open by the description of that simulator are decided as its figures demand:

* A timeout that has expired for a surviving node counts as running until a message comes from there, so a query is
  never repeated before the first has been answered.
* A node from which a message has come, and to which none was sent, counts as queried in step 0.
* There is a failure notice for each message that was not answered, and the second one for the same node sets its
  receiver back once more. This makes the failure of a root expensive: the others have sent it DATA and a KEEPALIVE, and
  on the second notice they start to send the result down again, to all children from the first one on.
* Of two messages of a kind and distance the last to arrive is taken first.
* Failures that a node learns of in a step precede its action in that step.
* A node that finds itself finished does nothing else in that step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .node import ACK, ANY, DATA, KEEPALIVE, Contact, Limits, NodePacket, SendAction, TakeAction, TreeNode
from .trees import Tree

# The action at each point, and its peers.
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
    """One node's part in one operation, under the rules ``reference``."""

    __slots__ = (
        "_all",
        "_ask_all",
        "_eta_full",
        "_eta_sub",
        "_index",
        "_peers",
        "_point",
        "_reset_eta",
        "_span",
        "full_time",
        "have",
        "operation",
        "tree",
    )

    def __init__(
        self,
        # See `TreeNode` for parameters without a comment.
        me: int,
        tree: Tree,  # the roots of a multi-root tree are below node 0 in a reduce or bcast
        limits: Limits,
        *,
        operation: str = "allreduce",  # ``allreduce``, ``reduce`` or ``bcast``
        # Whether all contacts are queried, not only those that have not arrived (Algorithm 4, line 20).
        ask_all: bool = True,
        reset_eta: bool = True,  # whether the first failure sets all expected arrival times to now
        order: str = "code",
        service: Callable[[int, int], int],
        start: int = 0,
    ) -> None:
        super().__init__(me, limits, order=order, service=service, start=start)
        self.tree = tree
        self.operation = operation
        self.full_time = -1  # when it first had the values of all nodes; -1: not yet
        self._all = (1 << tree.size) - 1
        # The nodes that have arrived or failed, as a bit mask.
        self.have = self._all if operation == "bcast" and me == 0 else 1 << me
        self._span = _SPAN[operation]
        self._point = self._span[0]
        self._index = 0
        self._ask_all = ask_all
        self._reset_eta = reset_eta
        self._eta_sub = start + limits.eta_sub(me)
        self._eta_full = start + limits.eta_full(me)
        children = self._children(me)
        fathers = self._fathers(me)
        self._peers: tuple[list[int], ...] = (children, [], fathers, [])
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
        """Return the parent of a node; node 0 for a root."""
        return max(0, self.tree.parent(node))

    def _children(self, node: int) -> list[int]:
        children = list(self.tree.children(node))
        return children if node or self.operation == "allreduce" else [*range(1, self.tree.root_count), *children]

    def distance(self, other: int) -> int:
        """Return 1: all its peers got a distance when they became contacts."""
        return 1

    def _has(self, node: int) -> int:
        return self.have >> node & 1

    # --------------------------------------------------------------------------------------- along the tree

    def _next(self) -> int:
        """Return the next destination of DATA, or -1 if there is none now."""
        while self._point < self._span[1]:
            what, role = _POINTS[self._point]
            if what in (_SEND, _WAIT):
                others = self._peers[role]
                while self._index < len(others):
                    other = others[self._index]
                    if what == _SEND:
                        if other not in self.dead:
                            return other
                    elif not self._has(other):
                        return -1
                    self._index += 1
            elif (what == _FULL or self.me == 0) and self.have != self._all:
                return -1
            self._point += 1
            self._index = 0
        return -1

    def traverse(self, now: int) -> tuple[int, Any] | None:
        """Return the next destination of DATA and the value; see `TreeNode.traverse`."""
        dest = self._next()
        if self.full_time < 0 and self.have == self._all:
            self.full_time = now
        if dest < 0:
            return None
        self._index += 1
        return dest, self.have

    def can_send(self) -> bool:
        """Return True if there is a node to send DATA to."""
        return self._next() >= 0

    @property
    def finished(self) -> bool:
        """True if it has nothing left to send, and so ignores its queue; node 0 never finishes."""
        return self.entered and self.me != 0 and self._next() < 0 and self._point == self._span[1]

    # ----------------------------------------------------------------------------------------------- actions

    def act(self, now: int) -> SendAction | TakeAction | None:
        """Perform at most one action; see `TreeNode.act`."""
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
        """Put a message at the head of the queue: the last to arrive is taken first."""
        super().deliver(packet, now)
        queue = self._queues[packet.kind]
        queue.insert(0, queue.pop())

    def _act_early(self, now: int) -> SendAction | TakeAction | None:
        """Act before the operation begins: take a KEEPALIVE and answer it in the same step.

        Another ACK follows later.
        """
        taken = self._take_keepalive(ANY, now)
        if taken is None:
            return self._take_ack(ANY, now)
        source = taken.packet.source
        if source in self.dead:
            return taken
        answer = self._send(ACK, source, None, now)
        self.contacts[source].ack_owed = True
        return answer

    def wake(self, now: int) -> int | None:
        """Return when there is something to do; see `TreeNode.wake`."""
        if not self.entered:
            return now if self._queues[KEEPALIVE] or self._queues[ACK] else None
        if self._next() >= 0:
            return now
        if self.finished:
            return now if self.finish_time < 0 else None
        if self.queue_length or any(contact.ack_owed for contact in self.contacts.values()):
            return now
        due = min((self._due(self.contacts[other], other, since) for other, since in self.suspects()), default=None)
        return None if due is None else max(now, due)

    def suspects(self) -> Iterator[tuple[int, int]]:
        """Yield the nodes that can be queried for values or the result, each with its earliest time."""
        since = self._eta_full + 1
        if self._point < 2:
            since = min(since, self._eta_sub + 1)
        for other, contact in self.contacts.items():
            if contact.deadline < 0 and other not in self.dead and (self._ask_all or not self._has(other)):
                yield other, since

    def _due(self, contact: Contact, other: int, since: int) -> int:
        """Return the time from which a suspect may be queried.

        A node that was sent nothing counts as queried in step 0 once a message has come from it.
        """
        if contact.deadline >= 0:
            since = max(since, contact.deadline + 1)
        if contact.heard:
            since = max(since, max(contact.sent, self.start) + self.query_interval(other) + 1)
        return since

    # ------------------------------------------------------------------------------------- messages and failures

    def take(self, packet: NodePacket, contact: Contact, now: int) -> None:
        """Merge the value of DATA."""
        if packet.kind == DATA:
            merged = self.have | packet.value
            self.have = packet.value if merged == packet.value else merged

    def contact(self, other: int) -> Contact:
        """Return the contact of another node; a new one implies that all nodes between have failed."""
        known = self.contacts.get(other)
        if known is None:
            self._record_failed(self._between(other))
            known = self.contacts.get(other)
            if known is None:
                known = self.contacts[other] = Contact(1)
        return known

    def died(self, other: int, now: int) -> None:
        """Handle a failure notice."""
        if other in self.dead:
            self._restart_from(other)
        else:
            self._record_failed([*self._between(other), other] if self._is_below(other) else [other])

    def _is_below(self, other: int) -> bool:
        return other > self.me or self.me < self._root_count > other

    def _between(self, other: int) -> list[int]:
        """Return the nodes in between: from here down to a node below, or up to one above."""
        below = self._is_below(other)
        node, end = (other, self.me) if below else (self.me, other)
        path: list[int] = []
        while node >= self._root_count and (node := self._father(node)) != end:
            path.append(node)
        return path[::-1] if below else path

    def _record_failed(self, path: Iterable[int]) -> None:
        """Record nodes as failed and adopt those behind them, in this order."""
        for other in path:
            if other in self.dead:
                continue
            if not self.dead and self._reset_eta:
                self._eta_sub = self._eta_full = 0
            self.dead |= {other}
            self.have |= 1 << other
            gone = self.contacts.setdefault(other, Contact(1))
            gone.ack_owed = False
            gone.deadline = -1
            below = self._is_below(other)
            adopted = self._peers[_ADOPTED_CHILDREN if below else _ADOPTED_FATHERS]
            for behind in self._children(other) if below else self._fathers(other):
                if behind not in self.contacts and behind != self.me:
                    self.contacts[behind] = Contact(gone.distance + 1)
                    adopted.append(behind)
            self._restart_from(other)

    def _restart_from(self, dead: int) -> None:
        """Go back to the point from which a failure is repaired."""
        if self._is_below(dead):
            self._point, self._index = self._span[0], 0
        elif self._point >= _UP_AGAIN:
            self._point, self._index = max(_UP_AGAIN, self._span[0]), 0
