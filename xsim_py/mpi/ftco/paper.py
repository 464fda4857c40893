"""Tree traversal that tolerates any number of failures at any time: the node of the simulated MPI.

The paper gives the principle (Algorithms 3 and 4): values go up the tree and the result comes down; a node that detects
a failed neighbour turns to the nodes behind it. The paper does not say how all results become equal, and neither does
its authors' simulator, where a value is a set of nodes and the root does not fail. The rules here add:

**Values go up once.** A node sends its value when each node below it has sent its value or is known to have failed. The
value then never changes: `Piece` holds the fold over a whole subtree and lists its absent nodes. A node that takes over
the children of a failed node gets their pieces, or the failed node's piece, which includes theirs; a larger piece
replaces the smaller ones inside it, so no contribution is used twice.

**Roots exchange their pieces,** and each decides by itself if no root fails. This is the fastest way, but it is not an
agreement: a root that fails after it has reached only some of the others leaves them with different values. So a node
that knows of a failed root no longer decides like this. The smallest surviving node *coordinates*: the other roots, and
nodes whose ancestors have all failed, are below it. What such a node sends *ties* it to the coordinator: it then takes
the result from there, unless it learns that the coordinator has failed as well. If one of them already has a result,
the coordinator passes that on. In a tree with a single root the children of a failed root replace it in this way.

**Queries never flood a node** (`TreeNode`, patient): with Algorithm 1's order of work, a node with many dependants may
be kept so busy by their queries that it never sends its own. One coordinator with five nodes below it is enough, if L
is small.

**Every query is answered.** A node that is done keeps answering, so a child whose parent failed after it got the result
can get it from the next ancestor.

Every message carries the failed nodes known to its sender, and the receiver records those first, so it always agrees
that it is the right node to turn to. `failures.agreement`, which has the same rules, explains why all surviving nodes
get one result; the exchange of the roots is new. Its result is the same at every root that has it, because pieces do
not change; and the coordinator receives from each surviving root either this result, or the promise not to decide by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from xsim_py.mpi import NOBODY

from .node import DATA, KEEPALIVE, Contact, Limits, NodePacket, OperationNode, TreeResult

ALLREDUCE, REDUCE, BCAST = OPERATIONS = ("allreduce", "reduce", "bcast")
"""The operations; node 0 is the root of a reduce or bcast."""


class Piece(NamedTuple):
    """The value of a whole subtree."""

    root: int
    """The node at its top."""
    absent: frozenset[int]
    """The failed nodes in it whose contributions are not included."""
    payload: Any
    """The combined contributions of the others."""


class Up(NamedTuple):
    """DATA that goes up the tree.

    If it is `tied`, the sender takes the result from the receiver from now on.
    """

    pieces: tuple[Piece, ...]
    tied: bool


class TreeShape(Protocol):
    """The tree of an operation; see `trees.Tree`.

    Parents have smaller numbers than their children.
    """

    root_count: int

    def parent(self, node: int, /) -> int:
        """Return the parent of a node, -1 for a root."""

    def children(self, node: int, /) -> Sequence[int]:
        """Return the children of a node, in the order in which it sends to them."""

    def fathers(self, node: int, /) -> Sequence[int]:
        """Return the receivers of a subtree's value: the parent, or, for a root, the other roots."""


class PaperNode(OperationNode):
    """One node's part in one operation, under the rules ``paper``.

    A reduce has a result only at node 0.
    """

    __slots__ = (
        "_adopted",
        "_below",
        "_exchanged",
        "_have_result",
        "_leader",
        "_pieces",
        "_roots",
        "_tied_to",
        "_unacknowledged",
        "_waiting",
        "operation",
        "tree",
    )

    def __init__(
        self,
        # See `OperationNode` for parameters without a comment.
        me: int,
        tree: TreeShape,  # the roots of a multi-root tree are below node 0 in a reduce or bcast
        limits: Limits,
        *,
        operation: str = ALLREDUCE,  # one of `OPERATIONS`
        combine: Callable[[Mapping[int, Any]], Any],
        service: Callable[[int, int], int],
        order: str = "printed",
        patient: bool = True,
        start: int = 0,
        dead: frozenset[int] = NOBODY,  # the nodes already known to have failed
    ) -> None:
        super().__init__(me, limits, combine=combine, service=service, order=order, patient=patient, start=start)
        self.tree = tree
        self.operation = operation
        self._roots = range(tree.root_count if operation == ALLREDUCE else 1)
        self._pieces: dict[int, Piece] = {}  # by root; none is inside another
        self._below = dict.fromkeys(self._children(me), False)  # a node below me -> whether it has tied itself to me
        self._waiting = len(self._below)  # number of them that have not
        self._adopted: set[int] = set()
        self._have_result: set[int] = set()  # nodes that got the result from me, or from which I got it
        self._unacknowledged: set[int] = set()
        self._exchanged = False
        self._tied_to = -1  # the node to which I have tied myself
        self._leader = self._find_leader()  # the node I am below; -1: none
        self._learn(dead)

    # ------------------------------------------------------------------------------------------------- the tree

    def _parent(self, node: int) -> int:
        """Return the parent of a node; in a reduce or bcast node 0 is the parent of the other roots."""
        parent = self.tree.parent(node)
        return 0 if parent < 0 < node and len(self._roots) == 1 else parent

    def _children(self, node: int) -> list[int]:
        children = list(self.tree.children(node))
        if node == 0 and len(self._roots) == 1:
            return [*range(1, self.tree.root_count), *children]
        return children

    def _above(self, node: int) -> Iterator[int]:
        """Yield the ancestors of a node, from its parent on."""
        node = self._parent(node)
        while node >= 0:
            yield node
            node = self._parent(node)

    def _survivors(self, node: int) -> Iterator[int]:
        """Yield a node, or, if it has failed, its substitutes.

        They are the first surviving nodes on each path down from it.
        """
        if node not in self.dead:
            yield node
            return
        for child in self._children(node):
            yield from self._survivors(child)

    def distance(self, other: int) -> int:
        """Return the levels between ancestor and descendant, else the distance by way of the roots.

        Roots are neighbours.
        """
        mine = [self.me, *self._above(self.me)]
        theirs = [other, *self._above(other)]
        if other in mine:
            return mine.index(other)
        if self.me in theirs:
            return theirs.index(self.me)
        return len(mine) + len(theirs) - 1

    def timeout(self, other: int) -> int:
        """Return the timeout of another node, in ticks.

        The paper's formula gives 0 for a distance at which there is no node; the minimum is that of distance 1.
        """
        return max(super().timeout(other), self.limits.timeout(other, 1))

    @property
    def _has_failed_root(self) -> bool:
        """True if a root is known to have failed, so that roots must not decide by themselves."""
        return any(root in self.dead for root in self._roots) if self.dead else False

    def _find_leader(self) -> int:
        """Return the nearest surviving ancestor, or the coordinator; -1: I am a root or coordinate."""
        for node in self._above(self.me):
            if node not in self.dead:
                return node
        if not self._has_failed_root:
            return -1
        first = next(node for node in range(self.me + 1) if node not in self.dead)
        return -1 if first == self.me else first

    # ---------------------------------------------------------------------------------------------------- inputs

    def enter(self, now: int, contribution: object = None) -> None:
        """Begin the operation with this node's contribution (for a bcast, node 0's value)."""
        super().enter(now, contribution)
        if self.operation == BCAST and self.me == 0:
            self.result = TreeResult(contribution, NOBODY)
        self._advance()

    def died(self, other: int, now: int) -> None:
        """Handle the failure of a node."""
        self._learn((other,))
        self._advance()

    def take(self, packet: NodePacket, contact: Contact, now: int) -> None:
        """Handle a message; the failures known to its sender are recorded first."""
        self._learn(packet.dead)
        source = packet.source
        self._unacknowledged.discard(source)
        if packet.kind == DATA:
            if isinstance(packet.value, TreeResult):
                self.result = self.result or packet.value
                self._have_result.add(source)
                self._arrived(source)
            else:
                self._handle_up(source, packet.value)
        elif packet.kind == KEEPALIVE and self.result is not None and source == self._leader:
            self._send_result(source)  # it is above me and waits for the value of an operation that is over
        self._advance()

    def _handle_up(self, source: int, up: Up) -> None:
        if self.result is None:
            for piece in up.pieces:
                self._add(piece)
        if up.tied:
            if source not in self._below:
                self._adopt(source, arrived=True)
            self._arrived(source)

    def _arrived(self, child: int) -> None:
        if self._below.get(child) is False:
            self._below[child] = True
            self._waiting -= 1

    def _add(self, piece: Piece) -> None:
        """Keep a piece unless it is inside another; it replaces the pieces inside it."""
        pieces = self._pieces
        if piece.root in pieces or any(node in pieces for node in self._above(piece.root)):
            return
        if self.dead or piece.absent:
            for root in [root for root in pieces if piece.root in self._above(root)]:
                del pieces[root]
        pieces[piece.root] = piece

    def _learn(self, dead: Iterable[int]) -> None:
        """Record failures: substitutes replace the failed nodes below me and the one above me."""
        fresh = self._record_failed(dead)
        if not fresh:
            return
        self._unacknowledged.difference_update(fresh)
        for node in fresh:
            if node in self._below:
                arrived = self._below.pop(node)
                self._waiting -= not arrived
                for other in self._survivors(node):
                    self._adopt(other, arrived=arrived)
        self._leader = self._find_leader()
        if self._leader < 0 and self._has_failed_root:
            for root in self._roots:
                for other in self._survivors(root):
                    if other != self.me:
                        self._adopt(other, arrived=False)

    def _adopt(self, other: int, *, arrived: bool) -> None:
        if other not in self._below:
            self._below[other] = arrived
            self._waiting += not arrived
            self._adopted.add(other)

    # -------------------------------------------------------------------------------------------------- actions

    def _advance(self) -> None:
        """Put all values that can be sent now into the outbox."""
        if not self.entered:
            return
        if self.result is None:
            self._send_up()
        if self.result is not None and self.operation != REDUCE:
            for child in self._below:
                self._send_result(child)

    def _send_up(self) -> None:
        if self._waiting or not self._sends_up:
            return
        if not self._exchanged:
            self._exchanged = True
            self._fold_subtree()
            if self._leader < 0 and not self._has_failed_root and len(self._roots) > 1:
                own = (self._pieces[self.me],)
                self._outbox.extend((root, Up(own, False)) for root in self.tree.fathers(self.me))
        if self._leader >= 0:
            if self._tied_to != self._leader:
                self._tied_to = self._leader
                self._outbox.append((self._leader, Up(tuple(self._pieces.values()), True)))
        elif self._has_failed_root or all(root in self._pieces for root in self._roots):
            self._decide()

    @property
    def _sends_up(self) -> bool:
        """True if values go up.

        In a bcast they do so only to see whether any node has the value of a failed root.
        """
        if self.operation == BCAST:
            return self._has_failed_root
        return self.operation == ALLREDUCE or not self._has_failed_root

    def _fold_subtree(self) -> None:
        """Fold the pieces below me and my own contribution into one piece."""
        inside = [root for root in self._pieces if self.me in self._above(root)]
        parts = {root: self._pieces[root].payload for root in inside}
        parts[self.me] = self._contribution
        absent = self._absent(self._children(self.me))
        for root in inside:
            del self._pieces[root]
        self._pieces[self.me] = Piece(self.me, absent, self._fold(parts))

    def _decide(self) -> None:
        missing = self._absent(self._roots)
        payload = self._fold({root: piece.payload for root, piece in self._pieces.items()})
        self.result = TreeResult(payload, missing)

    def _fold(self, parts: dict[int, Any]) -> object:
        if self.operation == BCAST:
            return None
        if len(parts) == 1:
            return next(iter(parts.values()))
        return self.combine({node: parts[node] for node in sorted(parts)})

    def _absent(self, tops: Iterable[int]) -> frozenset[int]:
        """Return the nodes at or below these nodes that are in none of the pieces."""
        absent: set[int] = set()
        nodes = list(tops)
        while nodes:
            node = nodes.pop()
            piece = self._pieces.get(node)
            if piece is not None:
                absent |= piece.absent
            else:
                absent.add(node)
                nodes.extend(self._children(node))
        return frozenset(absent)

    def _send_result(self, other: int) -> None:
        """Pass the result on, once."""
        if other not in self._have_result:
            self._have_result.add(other)
            self._outbox.append((other, self.result))

    def traverse(self, now: int) -> tuple[int, Any] | None:
        """Take the next value from the outbox; some values need an ACK."""
        sending = super().traverse(now)
        if sending is not None and (isinstance(sending[1], TreeResult) or self.operation == REDUCE):
            self._unacknowledged.add(sending[0])
        return sending

    def _awaited(self) -> Iterator[tuple[int, int]]:
        """Yield the nodes that it depends on, each with the time from which to query it."""
        if not self.entered or self.result is not None:
            return
        if self._sends_up and self._waiting:
            since = self.start + self.limits.eta_sub(self.me)
            for child, arrived in self._below.items():
                if not arrived:
                    yield child, 0 if child in self._adopted else since
            return
        since = self.start + self.limits.eta_full(self.me)
        if self._leader >= 0:
            if self.operation != REDUCE:
                yield self._leader, since if self._leader == self._parent(self.me) else 0
        elif self.operation == ALLREDUCE:
            for root in self.tree.fathers(self.me):
                if root not in self._pieces:
                    yield root, since

    # --------------------------------------------------------------------------------------------- completion

    @property
    def finished(self) -> bool:
        """True if it has nothing left to do but answer others."""
        if not self.entered or self.can_send():
            return False
        if self.operation == REDUCE and self.me:
            return self._has_failed_root or (not self._waiting and self._tied_to == self._leader)
        return self.result is not None

    @property
    def may_return(self) -> bool:
        """True if it is finished and its result is acknowledged: the call may return.

        See "Message Flow" in the paper.
        """
        return self.finished and not self._unacknowledged
