"""Tree traversal and repair that are right whoever dies, and whenever: the node of the simulated MPI library.

The paper gives the principle (Algorithms 3 and 4): values go up the tree and the result comes down; who finds a
neighbour dead turns to those behind it. It leaves open what makes all results equal, and its authors' simulator does
not say either, for there a value is a set of nodes and the root does not die. The rules here, on top of that:

**Values go up once.** A node sends its value when it has those of all nodes below it or knows them to be dead. It then
never changes: `Piece` holds the fold over a whole subtree, and says who is absent from it. Whoever takes over the
children of a dead node gets their pieces, or the dead node's with theirs in it; a larger piece replaces the smaller
ones inside it, so nothing is used twice.

**Roots exchange their pieces,** and each decides by itself, if nobody dies. This is as fast as it can be, but it is no
agreement: a root that dies after it has reached some of the others only leaves them with different values. So a node
that knows of a dead root does not decide like this any more. The smallest node alive *coordinates*: the other roots,
and those whose ancestors are all dead, are below it. Each *ties* itself to the coordinator with what it sends: it then
takes the result from there, unless it learns that the coordinator has died as well. A result that one of them has
already is what the coordinator passes on. In a tree with a single root the children of a dead root take its place in
this way.

**Nobody floods anybody** (`TreeNode`, patient): with Algorithm 1's order of work, a node that many depend on may be
kept so busy by their questions that it never asks its own. One coordinator with five nodes below it is enough, if L is
small.

**Nobody asks in vain.** A node that is done goes on answering, so a child whose parent died after it got the result
can have it from the next one up.

Every message carries whom its sender knows to be dead, and the receiver learns that first; so it always agrees that it
is the one to turn to. Why all living nodes then have one result is said in `failures.agreement`, whose rules these are;
what is new is the exchange of the roots. Its result is the same at every root that has it, since pieces do not
change; and the coordinator hears from each living root either this result, or that it will not decide by itself any
more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from xsim_py.mpi import NOBODY

from .node import DATA, KEEPALIVE, Contact, Limits, NodePacket, OperationNode, TreeResult

ALLREDUCE, REDUCE, BCAST = OPERATIONS = ("allreduce", "reduce", "bcast")
"""What can be done; node 0 is the root of a reduce or bcast."""


class Piece(NamedTuple):
    """The value of a whole subtree.

    Attributes
    ----------
    root : int
        The node at its top.
    absent : frozenset of int
        The nodes in it whose contributions are not in, because they are dead.
    payload : object
        What the others' contributions come to.
    """

    root: int
    absent: frozenset[int]
    payload: Any


class Up(NamedTuple):
    """DATA on its way up: pieces, and whether the sender takes the result from the receiver from now on."""

    pieces: tuple[Piece, ...]
    tied: bool


class TreeShape(Protocol):
    """The shape that messages follow; parents have smaller numbers than their children. See `trees.Tree`."""

    root_count: int

    def parent(self, node: int, /) -> int:
        """The node above, -1 for a root."""

    def children(self, node: int, /) -> Sequence[int]:
        """The nodes below, in the order in which they are sent to."""

    def fathers(self, node: int, /) -> Sequence[int]:
        """Whom it sends its subtree's value to: its parent; of a root, the other roots."""


class PaperNode(OperationNode):
    """One node's part in one operation, under the rules ``paper``.

    Parameters
    ----------
    tree : TreeShape
        The shape; the roots of a multi-root tree are below node 0 in a reduce or bcast.
    operation : str
        One of `OPERATIONS`.
    dead : frozenset of int
        Whom it knows to be dead from before.

    For the other parameters see `OperationNode`. Of a reduce there is a result at node 0 only.
    """

    __slots__ = (
        "_adopted",
        "_below",
        "_exchanged",
        "_lead",
        "_pieces",
        "_roots",
        "_told",
        "_unreceipted",
        "_up_to",
        "_waiting",
        "operation",
        "tree",
    )

    def __init__(
        self,
        me: int,
        tree: TreeShape,
        limits: Limits,
        *,
        operation: str = ALLREDUCE,
        combine: Callable[[Mapping[int, Any]], Any],
        service: Callable[[int, int], int],
        order: str = "printed",
        patient: bool = True,
        start: int = 0,
        dead: frozenset[int] = NOBODY,
    ) -> None:
        super().__init__(me, limits, combine=combine, service=service, order=order, patient=patient, start=start)
        self.tree = tree
        self.operation = operation
        self._roots = range(tree.root_count if operation == ALLREDUCE else 1)
        self._pieces: dict[int, Piece] = {}  # by root; none is inside another
        self._below = dict.fromkeys(self._children(me), False)  # who is below me -> whether it has tied itself
        self._waiting = len(self._below)  # of them, those who have not
        self._adopted: set[int] = set()
        self._told: set[int] = set()  # who has the result from me, or I from them
        self._unreceipted: set[int] = set()
        self._exchanged = False
        self._up_to = -1  # whom I have tied myself to
        self._lead = self._find_lead()  # whom I am below; -1: nobody
        self._learn(dead)

    # ------------------------------------------------------------------------------------------------- the tree

    def _parent(self, node: int) -> int:
        """The node above; there is one root only unless all are to have the result at once."""
        parent = self.tree.parent(node)
        return 0 if parent < 0 < node and len(self._roots) == 1 else parent

    def _children(self, node: int) -> list[int]:
        children = list(self.tree.children(node))
        if node == 0 and len(self._roots) == 1:
            return [*range(1, self.tree.root_count), *children]
        return children

    def _above(self, node: int) -> Iterator[int]:
        """The ancestors of a node, from its parent on."""
        node = self._parent(node)
        while node >= 0:
            yield node
            node = self._parent(node)

    def _living(self, node: int) -> Iterator[int]:
        """A node, or, if it is dead, those who stand for it: the first living ones on each way down from it."""
        if node not in self.dead:
            yield node
            return
        for child in self._children(node):
            yield from self._living(child)

    def distance(self, other: int) -> int:
        """Levels between an ancestor and a descendant; else by way of the roots, which are neighbours of each other."""
        mine = [self.me, *self._above(self.me)]
        theirs = [other, *self._above(other)]
        if other in mine:
            return mine.index(other)
        if self.me in theirs:
            return theirs.index(self.me)
        return len(mine) + len(theirs) - 1

    def timeout(self, other: int) -> int:
        """Return the limit of `TreeNode.timeout`: the paper's formula gives 0 where nobody is at that distance."""
        return max(super().timeout(other), self.limits.timeout(other, 1))

    @property
    def _leaderless(self) -> bool:
        """True when a root is known to be dead, so that roots must not decide by themselves."""
        return any(root in self.dead for root in self._roots) if self.dead else False

    def _find_lead(self) -> int:
        """Whom I am below: the nearest living ancestor, or the coordinator; -1 if I am a root or coordinate."""
        for node in self._above(self.me):
            if node not in self.dead:
                return node
        if not self._leaderless:
            return -1
        first = next(node for node in range(self.me + 1) if node not in self.dead)
        return -1 if first == self.me else first

    # ---------------------------------------------------------------------------------------- what happens to it

    def enter(self, now: int, contribution: Any = None) -> None:
        """Begin the operation, with what this node contributes (of a bcast: node 0's value)."""
        super().enter(now, contribution)
        if self.operation == BCAST and self.me == 0:
            self.result = TreeResult(contribution, NOBODY)
        self._advance()

    def died(self, other: int, now: int) -> None:
        """Hear that a node is dead."""
        self._learn((other,))
        self._advance()

    def take(self, packet: NodePacket, contact: Contact, now: int) -> None:
        """Handle a message; what its sender knows of the dead comes first."""
        self._learn(packet.dead)
        source = packet.source
        self._unreceipted.discard(source)
        if packet.kind == DATA:
            if isinstance(packet.value, TreeResult):
                self.result = self.result or packet.value
                self._told.add(source)
                self._arrived(source)
            else:
                self._take_up(source, packet.value)
        elif packet.kind == KEEPALIVE and self.result is not None and source == self._lead:
            self._tell(source)  # it is above me and waits for a value that is over
        self._advance()

    def _take_up(self, source: int, up: Up) -> None:
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
        """Keep a piece, unless it is inside another; it replaces those that are inside it."""
        pieces = self._pieces
        if piece.root in pieces or any(node in pieces for node in self._above(piece.root)):
            return
        if self.dead or piece.absent:
            for root in [root for root in pieces if piece.root in self._above(root)]:
                del pieces[root]
        pieces[piece.root] = piece

    def _learn(self, dead: Iterable[int]) -> None:
        """Learn of deaths: those below me are replaced by whoever is behind them, and so is the one above me."""
        fresh = self._bury(dead)
        if not fresh:
            return
        self._unreceipted.difference_update(fresh)
        for node in fresh:
            if node in self._below:
                arrived = self._below.pop(node)
                self._waiting -= not arrived
                for other in self._living(node):
                    self._adopt(other, arrived=arrived)
        self._lead = self._find_lead()
        if self._lead < 0 and self._leaderless:
            for root in self._roots:
                for other in self._living(root):
                    if other != self.me:
                        self._adopt(other, arrived=False)

    def _adopt(self, other: int, *, arrived: bool) -> None:
        if other not in self._below:
            self._below[other] = arrived
            self._waiting += not arrived
            self._adopted.add(other)

    # --------------------------------------------------------------------------------------------- what it does

    def _advance(self) -> None:
        """Put everything into the outbox that can be sent now."""
        if not self.entered:
            return
        if self.result is None:
            self._go_up()
        if self.result is not None and self.operation != REDUCE:
            for child in self._below:
                self._tell(child)

    def _go_up(self) -> None:
        if self._waiting or not self._rises:
            return
        if not self._exchanged:
            self._exchanged = True
            self._form()
            if self._lead < 0 and not self._leaderless and len(self._roots) > 1:
                own = (self._pieces[self.me],)
                self._outbox.extend((root, Up(own, False)) for root in self.tree.fathers(self.me))
        if self._lead >= 0:
            if self._up_to != self._lead:
                self._up_to = self._lead
                self._outbox.append((self._lead, Up(tuple(self._pieces.values()), True)))
        elif self._leaderless or all(root in self._pieces for root in self._roots):
            self._decide()

    @property
    def _rises(self) -> bool:
        """True where values go up: in a bcast only to see whether anyone has the value of a dead root."""
        if self.operation == BCAST:
            return self._leaderless
        return self.operation == ALLREDUCE or not self._leaderless

    def _form(self) -> None:
        """Fold all that is below me, and my own contribution, into one piece."""
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

    def _fold(self, parts: dict[int, Any]) -> Any:
        if self.operation == BCAST:
            return None
        if len(parts) == 1:
            return next(iter(parts.values()))
        return self._combine({node: parts[node] for node in sorted(parts)})

    def _absent(self, tops: Iterable[int]) -> frozenset[int]:
        """Who, at or below these nodes, is in none of the pieces."""
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

    def _tell(self, other: int) -> None:
        """Pass the result on, once."""
        if other not in self._told:
            self._told.add(other)
            self._outbox.append((other, self.result))

    def traverse(self, now: int) -> tuple[int, Any] | None:
        """Take the next value from the outbox; of some, a receipt is awaited."""
        sending = super().traverse(now)
        if sending is not None and (isinstance(sending[1], TreeResult) or self.operation == REDUCE):
            self._unreceipted.add(sending[0])
        return sending

    def _awaited(self) -> Iterator[tuple[int, int]]:
        """Whom it depends on now, and from when on that is worth a question."""
        if not self.entered or self.result is not None:
            return
        if self._rises and self._waiting:
            since = self.start + self.limits.eta_sub(self.me)
            for child, arrived in self._below.items():
                if not arrived:
                    yield child, 0 if child in self._adopted else since
            return
        since = self.start + self.limits.eta_full(self.me)
        if self._lead >= 0:
            if self.operation != REDUCE:
                yield self._lead, since if self._lead == self._parent(self.me) else 0
        elif self.operation == ALLREDUCE:
            for root in self.tree.fathers(self.me):
                if root not in self._pieces:
                    yield root, since

    # ------------------------------------------------------------------------------------------------ the end

    @property
    def finished(self) -> bool:
        """True when it has nothing left to do but to answer others."""
        if not self.entered or self.can_send():
            return False
        if self.operation == REDUCE and self.me:
            return self._leaderless or (not self._waiting and self._up_to == self._lead)
        return self.result is not None

    @property
    def settled(self) -> bool:
        """True when it is finished, and whoever it told has said so: the call may return ("Message Flow")."""
        return self.finished and not self._unreceipted
