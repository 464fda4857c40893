"""FTCO in each rank's simulated MPI library, which acts as if by a progress thread.

The protocol is a state machine: `paper.PaperNode` or `doubling.DoublingNode`. This module passes it the time, the
messages and the failures of which its rank can know, and charges its messages to the network. They are control
messages, which also arrive while a rank computes. Each action costs the library the network's overhead for a message
sent or received.

**Sessions.** A rank has one `FtcoSession` per operation, created on entry or on the first message for it; before its
rank enters, it only confirms that it is alive (appendix B). A rank that is done keeps answering as long as another rank
may query it. The result of an operation to which all contribute implies that all survivors have completed earlier
operations, so their sessions are discarded. After 64 operations that imply no such thing, all ranks run one in the
background, as Open MPI's ``coll/sync`` does with a barrier.

**Failure detection.** A rank that has not answered within the session's timeout and *has* failed is declared failed:
for this rank, permanently, and for all that learn it from its messages. Surviving ranks are never suspected. As only
failed ranks are detected, timeouts of surviving ranks need no events. Those of a failed rank start when it fails, for
each query pending then; later queries wait as long.

**Queries to surviving ranks.** In a run of hours a late rank would be queried, and answer, millions of times, and a
deadlock would never be recognised. So the interval between two queries doubles, and those after the tenth are assumed
to be answered without being sent, until that rank fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.calls import MISMATCH, CollectiveChannel, Note
from xsim_py.mpi.comm import WORLD_CID, Communicator, Context, shared_context
from xsim_py.mpi.failures.knowledge import knowledge_of, revoked_error
from xsim_py.mpi.transport.mailbox import ClosedMailbox
from xsim_py.mpi.transport.message import Message, Operation
from xsim_py.mpi.transport.p2p import wait
from xsim_py.mpi.transport.protocols import ControlHandler, LibraryPart
from xsim_py.process.lifecycle import announce, stop_mismatch
from xsim_py.process.ranks import current

from .doubling import DoublingNode, Halves
from .node import ACK, NodePacket, OperationNode, SendAction, TreeResult
from .paper import ALLREDUCE, PaperNode
from .payload import Folded, folding, packet_bytes, payload_bytes
from .shapes import Service, Shapes

if TYPE_CHECKING:
    from xsim_py.mpi.failures.deaths import Deaths
    from xsim_py.process.ranks.rank import Rank

_FTCO = 4
"""The tag of a control message: a message of an operation."""

_MAX_QUERIES = 10
_OPERATIONS_PER_CHECK = 64
_COMPLETION_CHECK = 1 << 20  # where a call's operations are numbered, the number of the completion check after it

Key = tuple[int, int, int]
"""An operation: communicator (its collective context), number of the call on it, index of the operation in the call."""


class Post(NamedTuple):
    """A message on the network."""

    key: Key
    """The operation."""
    note: Note
    """The call that it belongs to, a `Note` that is the same for all members."""
    operation: str
    root: int
    """The rank of the communicator that is node 0."""
    packet: NodePacket
    """The message of the protocol."""
    members: Sequence[int] | None
    """The communicator's ranks, in case the receiver has not created it yet; None for the world, and for an ACK."""


class FtcoCall(Operation):
    """An operation that a fiber waits for."""

    __slots__ = ("comm", "note", "session")

    def __init__(self, comm: Communicator, note: Note, session: FtcoSession) -> None:
        super().__init__()
        self.comm = comm
        self.note = note
        self.session = session

    def describe(self) -> str:
        """Return a line for the deadlock report."""
        return f"{self.note} on {self.comm.shown.label()}, until all ranks have arrived or are known to have failed"

    def finish(self, error: Exception | None = None) -> None:
        """Complete it now, with a result or an error."""
        self.error = error
        self.time_ps = max(self.comm.fabric.kernel.now_ps, knowledge_of(self.comm.box).busy_ps)
        rank = self.comm.box.rank
        rank.key += 1
        rank.shard.kernel.post(self.time_ps, rank.key, Operation.complete, self)


class _QueryLimited(OperationNode):
    """A node that stops querying nodes which have often confirmed that they are alive."""

    __slots__ = ()

    failed_nodes: set[int]  # the nodes that the simulator knows to have failed

    def _awaited(self) -> Iterator[tuple[int, int]]:
        contacts = self.contacts
        for other, since in super()._awaited():
            contact = contacts.get(other)
            if contact is None or contact.acks < _MAX_QUERIES or other in self.failed_nodes:
                yield other, since


class _TreeOperation(_QueryLimited, PaperNode):
    __slots__ = ("failed_nodes",)


class _DoublingOperation(_QueryLimited, DoublingNode):
    __slots__ = ("failed_nodes",)


class Ftco(LibraryPart):
    """The part of the library that serves FTCO on a shard."""

    def __init__(self, deaths: Deaths, shapes: Shapes) -> None:
        self.fabric = deaths.fabric
        self.deaths = deaths  # the failures reported to this shard
        self.shapes = shapes  # the trees and timeouts of this run's machine

    def control(self) -> dict[int, ControlHandler]:
        """Return the handler of its control messages."""
        return {_FTCO: ControlHandler("ftco", self._receive)}

    def _receive(self, rank: Rank, message: Message) -> None:
        """Handle a message, which may be for an operation that this rank has not entered."""
        post: Post = message.note
        state = knowledge_of(rank.mpi or self.fabric.open(rank))
        session: FtcoSession | None = state.sessions.get(post.key)
        if session is None:
            cid, number, _ = post.key
            if number < state.done.get(cid, 0) or cid & ~1 in state.revoked:
                return  # all survivors have completed it
            if post.packet.kind == ACK:
                return
            members = self._members(cid & ~1, post.members)
            session = self._open(rank, post.key, members, post.operation, post.root, post.note)
        session.receive(post, message.origin)

    def _members(self, cid: int, ranks: Any) -> Context:
        return shared_context(self.fabric, cid, range(self.fabric.settings.ranks) if cid == WORLD_CID else ranks)

    def _open(self, rank: Rank, key: Key, members: Context, operation: str, root: int, note: Note) -> FtcoSession:
        state = knowledge_of(rank.mpi)
        session = FtcoSession(self, rank, key, members, operation, root, note)
        state.keep("sessions", key, session)
        return session

    # ----------------------------------------------------------------------------------- called by algorithms

    def run(
        self, ch: CollectiveChannel, operation: str, root: int, contribute: Callable[[int], Any], combine: object
    ) -> TreeResult:
        """Run an operation in the running fiber, and wait for its end.

        The operation belongs to the collective of `ch`, a `CollectiveChannel`, and to its communicator. The `root` is
        the rank of the communicator at the root of the tree. `contribute` returns this rank's contribution, given the
        number before which this rank has completed everything (see `Folded`). `combine` combines several payloads; see
        `OperationNode`. A reduce has a result only at its root.
        """
        comm: Communicator = ch.comm
        fiber = current.running()
        rank = fiber.rank
        fiber.sync()
        state = knowledge_of(comm.box)
        if comm.cid in state.revoked:
            raise revoked_error(comm)
        session = self._session_for(comm, ch, operation, root)
        low = 0 if rank.private("fibers", set) - {fiber} else ch.tag
        session.call = call = FtcoCall(comm, ch.note, session)
        session.enter(contribute(low), combine)
        wait(call)
        if operation == ALLREDUCE:
            self.forget(rank, session.key[0], session.result.payload.low)
        elif ch.tag % _OPERATIONS_PER_CHECK == 0:
            self._check_completion(comm, ch, bool(low))
        return session.result

    def _session_for(self, comm: Communicator, ch: CollectiveChannel, operation: str, root: int) -> FtcoSession:
        """Return the session of the next operation of a call; other ranks may have begun it."""
        state = knowledge_of(comm.box)
        step = 0
        while (known := state.sessions.get((comm.cid | 1, ch.tag, step))) is not None and known.node.entered:
            step += 1
        session: FtcoSession = known or self._open(
            comm.box.rank, (comm.cid | 1, ch.tag, step), comm.context, operation, root, ch.note
        )
        if session.note != ch.note:
            stop_mismatch(session.mismatch(ch.note, "another rank"), ch)
        return session

    def forget(self, rank: Rank, cid: int, low: int) -> None:
        """Discard the sessions before `low` on a communicator: all survivors have completed them."""
        state = knowledge_of(rank.mpi)
        if low > state.done.get(cid, 0):
            state.keep("done", cid, low)
            for key in [key for key in state.sessions if key[0] == cid and key[1] < low]:
                state.drop("sessions", key)

    def _check_completion(self, comm: Communicator, ch: CollectiveChannel, complete: bool) -> None:
        """Check in the background that all ranks have completed all operations so far."""
        rank = comm.box.rank
        key = (comm.cid | 1, ch.tag, _COMPLETION_CHECK)
        session = knowledge_of(comm.box).sessions.get(key)
        if session is None:
            session = self._open(rank, key, comm.context, ALLREDUCE, 0, ch.note)
        session.enter(Folded(ch.tag if complete else 0, b""), folding(_second))


def _expected_bytes(note: Note, size: int) -> int:
    """Return the length of a call's longest messages as far as all members know it, else 0."""
    if note.size_bytes is None:
        return 0
    name = note.name.lower()
    blocks = size if ("gather" in name or "scatter" in name) and "reduce" not in name else 1
    expected: int = note.size_bytes * blocks
    return expected


def _second(_: bytes, other: bytes) -> bytes:
    return other


class FtcoSession:
    """One rank's part in one operation."""

    __slots__ = (
        "_due_ps",
        "_is_over",
        "_revoked",
        "_shape",
        "call",
        "ftco",
        "key",
        "members",
        "node",
        "note",
        "operation",
        "rank",
        "result",
        "root",
    )

    def __init__(
        self, ftco: Ftco, rank: Rank, key: Key, members: Context, operation: str, root: int, note: Note
    ) -> None:
        self.ftco = ftco
        self.rank = rank
        self.key = key
        self.members = members  # the participating ranks
        self.operation = operation
        self.root = root  # the index of node 0 among them; the others follow in order
        self.note = note  # the call that it belongs to, a `Note` that is the same for all members
        self.call: FtcoCall | None = None  # that waits for its end
        # The result, once `call` is complete; without a payload if this rank gets none.
        self.result = TreeResult(None, frozenset())
        self._due_ps = -1  # when it acts next
        self._is_over = False  # for this rank
        self._revoked = False
        size = len(members.ranks)
        shapes = ftco.shapes
        expected_bytes = 0 if key[2] >= _COMPLETION_CHECK else _expected_bytes(note, size)
        self._shape = shape = shapes.shape(size, operation, expected_bytes)
        me = self._node_of(rank.number)
        slot_ps = shapes.costs(0).overhead_ps
        seed = hash((ftco.fabric.settings.seed, *key))
        kind: Any = _DoublingOperation if isinstance(shape, Halves) else _TreeOperation
        self.node: _QueryLimited = kind(  # the state machine
            me,
            shape,
            shapes.limits(shape, expected_bytes),
            operation=operation,
            combine=None,
            service=Service(shapes.spec.service, seed=seed, degree=shape.degree(me), slot_ps=slot_ps),
            order="code",  # in the printed order a node queried by many may never send its own queries
            patient=True,
            dead=self._nodes_of(knowledge_of(rank.mpi).known),
        )
        dead = ftco.deaths.dead
        self.node.failed_nodes = set(self._nodes_of(dead)) if dead else set()

    # ----------------------------------------------------------------------------------- numbering of nodes

    def _node_of(self, number: int) -> int:
        """Return the node of a world rank, which must be a member."""
        return (self.members.index(number) - self.root) % len(self.members.ranks)

    def _nodes_of(self, numbers: Iterable[int]) -> frozenset[int]:
        size = len(self.members.ranks)
        return frozenset((index - self.root) % size for index in self.members.places(numbers))

    def _rank_of(self, node: int) -> int:
        """Return the world rank of a node."""
        return self.members.ranks[self.rank_in(node)]

    def rank_in(self, node: int) -> int:
        """Return the rank in the communicator of a node."""
        return (node + self.root) % len(self.members.ranks)

    # ----------------------------------------------------------------------------------------------- inputs

    def enter(self, contribution: object, combine: Any) -> None:
        """Begin, at the kernel's time."""
        now_ps = self.rank.shard.kernel.now_ps
        node = self.node
        node.combine = combine
        node.limits = self.ftco.shapes.limits(self._shape, payload_bytes(contribution))
        node.start = now_ps
        node.enter(now_ps, contribution)
        self._wake(now_ps)

    def receive(self, post: Post, origin: int) -> None:
        """Handle a message."""
        if self._matches(post, origin):
            now_ps = self.rank.shard.kernel.now_ps
            self.node.deliver(post.packet, now_ps)
            self._wake(now_ps)

    def _matches(self, post: Post, origin: int) -> bool:
        """Return True if another member runs the same operation; if it does not, abort the job."""
        note = self.note
        if (note is post.note or note == post.note) and post.operation == self.operation and post.root == self.root:
            return True
        message = self.mismatch(self.note, f"rank {origin}", post.note)
        announce(self.rank, self.rank.shard.kernel.now_ps, 3, message, mismatch=True)
        return False

    def mismatch(self, mine: object, who: str, theirs: object = None) -> str:
        """Return the message of the abort of a job whose ranks are in different collectives."""
        named = self.members.replaces or self.members
        where = "MPI_COMM_WORLD" if named.cid == WORLD_CID else f"a communicator of {named.size} ranks"
        everyone = self.rank.shard.everyone
        text = f"rank {self.rank.number} is in {mine}, {who} in {theirs or self.note} (ranks of {everyone})"
        return f"{MISMATCH} on {where}: {text}"

    def learn(self, numbers: Iterable[int]) -> None:
        """Handle failures that the rank has learnt of."""
        nodes = self._nodes_of(numbers) - self.node.dead
        if nodes:
            now_ps = self.rank.shard.kernel.now_ps
            for node in sorted(nodes):
                self.node.died(node, now_ps)
            self._wake(now_ps)

    def revoke(self, cid: int) -> None:
        """Handle the revocation of a communicator: its pending operations end."""
        if self.key[0] != cid | 1:
            return
        self._revoked = True
        knowledge_of(self.rank.mpi).drop("sessions", self.key)
        call, self.call = self.call, None
        if call is not None:
            call.finish(revoked_error(call.comm))

    # --------------------------------------------------------------------------------- timeouts and failures

    def watch(self, number: int) -> None:
        """Handle a rank's failure: nodes that wait for its answer detect it at their timeout."""
        index = self.members.place(number)
        if index < 0:
            return
        other = (index - self.root) % len(self.members.ranks)
        node = self.node
        node.failed_nodes.add(other)
        contact = node.contacts.get(other)
        if contact is None or other in node.dead:
            return
        now_ps = self.rank.shard.kernel.now_ps
        if 0 <= contact.deadline < now_ps:
            # It was alive at its deadline and got a new one.
            timeout_ps = node.timeout(other)
            contact.deadline += -(-(now_ps - contact.deadline) // timeout_ps) * timeout_ps
        elif contact.deadline < 0 and contact.acks >= _MAX_QUERIES:
            # The queries that were not sent count as answered: the next one is due as if they had been.
            patience_ps = node.query_interval(other)
            contact.sent += (now_ps - contact.sent) // patience_ps * patience_ps
        self._expect(other)
        self._wake(now_ps)

    def _expect(self, other: int) -> None:
        """Schedule the timeout of a failed node that may owe an answer."""
        contact = self.node.contacts.get(other)
        if contact is None or contact.deadline < 0:
            return
        rank, number = self.rank, self._rank_of(other)
        fabric = rank.mpi.fabric
        died_ps = self.ftco.deaths.dead[number].time_ps
        # No rank may know of a failure before any message from there can have arrived.
        soonest_ps = died_ps + fabric.link(number, rank.number).latency_ps
        rank.key += 1
        rank.shard.kernel.post(max(contact.deadline, soonest_ps), rank.key, self._expired, (other, contact.deadline))

    def _expired(self, entry: tuple[int, int]) -> None:
        """Handle the timeout of a node that has failed."""
        other, until = entry
        rank = self.rank
        contact = self.node.contacts.get(other)
        if contact is None or contact.deadline != until or type(rank.mpi) is ClosedMailbox:
            return
        if rank.mpi.fabric.defer_for(rank, self._expired, entry):
            return
        self.ftco.deaths.learn(rank, (self._rank_of(other),), "ftco")

    def _wake(self, at_ps: int) -> None:
        """Act at a time, unless an earlier action is scheduled."""
        if self._due_ps < 0 or at_ps < self._due_ps:
            self._due_ps = at_ps
            self.rank.key += 1
            self.rank.shard.kernel.post(at_ps, self.rank.key, self._act, at_ps)

    def _act(self, at_ps: int) -> None:
        """Perform actions, as long as they take no time."""
        rank = self.rank
        if at_ps != self._due_ps or type(rank.mpi) is ClosedMailbox or self._revoked:
            return
        if rank.mpi.fabric.defer_for(rank, self._act, at_ps):
            return
        self._due_ps = -1
        node = self.node
        state = knowledge_of(rank.mpi)
        known = node.dead
        next_ps = node.wake(at_ps)
        while next_ps is not None and next_ps <= at_ps and state.busy_ps <= at_ps:
            done = node.act(at_ps)
            if done is None:
                next_ps = at_ps + 1
                break
            next_ps = node.wake(at_ps)
            if isinstance(done, SendAction):
                state.busy_ps = self._send(done, at_ps)
            else:
                packet = done.packet
                link = rank.mpi.fabric.link(self._rank_of(packet.source), rank.number)
                state.busy_ps = at_ps + link.cost(packet_bytes(packet)).receive_ps
        if node.dead is not known:
            self._notify_rank(node.dead - known)
        if not self._is_over and node.may_return:
            self._finish()
        if next_ps is not None:
            self._wake(max(next_ps, state.busy_ps))

    def _send(self, done: SendAction, at_ps: int) -> int:
        """Send a message; return when the processor is free again."""
        rank, packet = self.rank, done.packet
        fabric = rank.mpi.fabric
        members = None if packet.kind == ACK or self.key[0] == WORLD_CID | 1 else self.members.ranks
        post = Post(self.key, self.note, self.operation, self.root, packet, members)
        number = self._rank_of(done.dest)
        at_ps = fabric.send_control(rank, number, _FTCO, post, packet_bytes(packet), at_ps)
        if done.dest in self.node.failed_nodes:
            self._expect(done.dest)
        return at_ps

    def _notify_rank(self, nodes: Iterable[int]) -> None:
        """Notify the rank of failures learnt from messages, in an event.

        It cannot be done at once, because an action is in progress.
        """
        rank = self.rank
        numbers = [self._rank_of(node) for node in sorted(nodes)]
        if any(number not in knowledge_of(rank.mpi).known for number in numbers):
            rank.key += 1
            kernel = rank.shard.kernel
            kernel.post(kernel.now_ps, rank.key, _learn, (rank, numbers))

    def _finish(self) -> None:
        """Complete the operation for this rank, which keeps answering queries for the result."""
        self._is_over = True
        result = self.node.result
        if result is not None:
            self.result = TreeResult(result.payload, frozenset(self.rank_in(node) for node in result.missing))
        call, self.call = self.call, None
        if call is not None:
            call.finish()
        else:
            self.ftco.forget(self.rank, self.key[0], self.result.payload.low)


def _learn(entry: tuple[Rank, list[int]]) -> None:
    rank, numbers = entry
    if type(rank.mpi) is not ClosedMailbox and not rank.mpi.fabric.defer_for(rank, _learn, entry):
        rank.mpi.fabric.part(Ftco).deaths.learn(rank, numbers, "ftco")


def absent(comm: Communicator, places: Iterable[int]) -> errors.Exception:
    """Return the error of a call that cannot complete without the failed ranks."""
    failed = sorted(places)
    named = f"rank{'s' * (len(failed) > 1)} {', '.join(map(str, failed[:8]))}{', ...' * (len(failed) > 8)}"
    return errors.error(c.ERR_PROC_FAILED, f"{named} of {comm.label()} failed without a contribution")
