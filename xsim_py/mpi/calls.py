"""Collective calls as channels over point-to-point messages, blocking or in a separate fiber.

Each collective on a communicator has a number, equal on all its members, which is the tag of its messages. So
concurrent collectives do not mix, and mismatches are detected: every message carries a note that describes its sender's
collective, and a receiver in a different one reports both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from xsim_py.config.algorithms import FTCO, FTCO_OPERATIONS
from xsim_py.process.lifecycle import stop_mismatch
from xsim_py.process.python import clock
from xsim_py.process.python.locks import SharedLock
from xsim_py.process.ranks import current

from . import errors
from .collectives.choose import REGISTRY, TUNED, choose, reduce_then_bcast
from .comm import WORLD_CID, Communicator
from .transport import message as envelopes
from .transport.message import Operation, Receive
from .transport.p2p import SendCall, complete, raise_error, receive, start_receive, start_send, wait

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank

    from .batched.forms import Form

_WORLD = "MPI_COMM_WORLD"
_blank = object.__new__
_time = attrgetter("time_ps")

_MOST_PICKED = 4096

MISMATCH = "collective mismatch"
"""The beginning of reports about ranks in different collectives."""

ABANDONED = "collectives left"
"""The key (`Rank.private`) of the set of collectives that a rank has left by an exception: context and number."""

PENDING_AGREEMENTS = "calls that go on"
"""The key (`Rank.private`) of pending agreements of calls left by an exception, by communicator; Finalize awaits
them.
"""


class Note(NamedTuple):
    """The description of a collective, equal on all members.

    A field that may differ between members (the counts of a v-form) is None.
    """

    name: str
    root: int | None = None
    size_bytes: int | None = None
    detail: str = ""

    @property
    def joint(self) -> bool:
        """True if the call fails with any member."""
        return True

    def __str__(self) -> str:
        parts = []
        if self.root is not None:
            parts.append(f"root={self.root}")
        if self.size_bytes is not None:
            parts.append(f"{self.size_bytes} bytes")
        if self.detail:
            parts.append(self.detail)
        return f"{self.name}({', '.join(parts)})"


class LoneNote(Note):
    """The note of a call by point-to-point messages, each of which fails with its peer only."""

    __slots__ = ()

    @property
    def joint(self) -> bool:
        """True if the call fails with any member."""
        return False


@lru_cache(maxsize=4096)
def note(name: str, root: int | None = None, size_bytes: int | None = None, detail: str = "") -> Note:
    """Return the note with these fields, as one object for all ranks, so that they compare by identity."""
    return Note(name, root, size_bytes, detail)


@lru_cache(maxsize=64)
def lone_note(name: str, root: int | None = None) -> LoneNote:
    """Return the note of a call by point-to-point messages; it equals the result of `note`."""
    return LoneNote(name, root)


_CHECKED, _UNCHECKED = SendCall(""), SendCall("", check=False)


class SurvivingAlgorithms(dict[str, Callable[..., Any]]):
    """The fault-tolerant algorithms of collectives, by operation.

    A part of the library (`Fabric.part`).
    """


class CollectiveChannel:
    """One rank's side of one collective: the `Channel` for which algorithms are written."""

    __slots__ = ("algorithm", "check", "cid", "comm", "instance", "local", "note", "rank", "remote_size", "size", "tag")

    def __init__(
        self, comm: Communicator, tag: int, note: Note, *, check: bool = True, local: CollectiveChannel | None = None
    ) -> None:
        self.comm = comm  # its ranks are addressed; of an intercommunicator, those of the remote group
        self.cid = comm.cid | 1
        self.tag = tag  # the number of the collective on this communicator
        self.note = note  # the description of the collective
        self.check = check  # whether the data enter the digest (not those of pickled objects)
        self.local = local  # for an intercommunicator: the channel within the local group
        self.instance: Any = None  # a `CollectiveInstance`, if it may be vectorised; see `batched.instances`
        self.algorithm: Any = None  # a function, its name or None, for the table of collectives; see `choose.title`
        self.rank = comm.me
        self.size = len(comm.ranks)
        self.remote_size = len(comm.remote)

    def send(self, dest: int, data: bytes) -> None:
        """Send to a rank, and wait for completion."""
        note, how = self.note, _CHECKED if self.check else _UNCHECKED
        send = start_send(self.comm, dest, self.tag, data, self.cid, how, note)
        if send is not None:
            wait(send)

    def recv(self, source: int) -> bytes:
        """Receive from a rank."""
        note = self.note
        message = receive(self.comm, source, self.tag, self.cid, "", note)
        if message.note is not note and message.note != note:
            self._mismatch(source, message.note)
        data = message.data
        message.data = b""
        return data

    def sendrecv(self, dest: int, data: bytes, source: int) -> bytes:
        """Send to a rank and receive from one, concurrently."""
        note, how = self.note, _CHECKED if self.check else _UNCHECKED
        send = start_send(self.comm, dest, self.tag, data, self.cid, how, note)
        message = receive(self.comm, source, self.tag, self.cid, "", note)
        if message.note is not note and message.note != note:
            self._mismatch(source, message.note)
        data = message.data
        message.data = b""
        if send is not None:
            wait(send)
        return data

    def isend(self, dest: int, data: bytes) -> Operation | None:
        """Begin to send; return the operation to wait for, or None."""
        how = _CHECKED if self.check else _UNCHECKED
        return start_send(self.comm, dest, self.tag, data, self.cid, how, self.note)

    def irecv(self, source: int) -> Receive:
        """Begin to receive; return the operation to wait for."""
        return start_receive(self.comm, source, self.tag, self.cid, "", self.note)

    def wait(self, handles: Sequence[Operation | None]) -> list[bytes | None]:
        """Wait for all of these; overheads are paid in the order of arrival."""
        wait_all([handle for handle in handles if handle is not None])
        taken: list[bytes | None] = []
        for handle in handles:
            if handle is not None and handle.error is not None:
                raise_error(handle)
            if isinstance(handle, Receive):
                message = handle.message
                assert message is not None
                if message.note is not self.note and message.note != self.note:
                    self._mismatch(handle.source, message.note)
                taken.append(message.data)
            else:
                taken.append(None)
        return taken

    def _mismatch(self, source: int, other: Note) -> NoReturn:
        comm = self.comm
        own = comm.me if comm.report_name is None else comm.named(comm.me)
        mine = f"rank {own} is in {self.note}"
        theirs = f"gets a message of rank {comm.named(source)}'s {other}"
        stop_mismatch(f"{MISMATCH} on {comm.shown.label()}: {mine} and {theirs}", self)

    def describe(self) -> str:
        """Return one line for the deadlock report, for a rank stopped by a mismatch."""
        return f"{self.note} on {self.comm.shown.label()}"


class AllOf:
    """A waiter that wakes a fiber once, after the last of several operations, not after each."""

    __slots__ = ("fiber", "operations", "remaining")

    def __init__(self, fiber: Fiber, operations: list[Operation]) -> None:
        self.fiber = fiber
        self.operations = operations
        self.remaining = len(operations)

    def resume(self) -> None:
        """Count a completed operation; resume the fiber after the last."""
        self.remaining -= 1
        if not self.remaining:
            self.fiber.resume()

    def interrupt(self) -> None:
        """Stop waiting for all operations: one of them cannot complete for now."""
        for operation in self.operations:
            operation.waiter = None
        self.fiber.resume()

    @property
    def first(self) -> Operation:
        """The first incomplete operation."""
        return next(operation for operation in self.operations if not operation.done)

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        text = self.first.describe()
        return f"{text}, and {self.remaining - 1} more requests" if self.remaining > 1 else text


def wait_all(operations: list[Operation]) -> None:
    """Wait for all operations; the CPU completes them in the order in which they became ready.

    Raises the error of an operation that cannot complete before a failure is acknowledged; errors of completed
    operations are left in them.
    """
    fiber: Any = current.fiber
    pending = [operation for operation in operations if not operation.done]
    if pending:
        fabric = fiber.rank.mpi.fabric
        if fabric.failure_seen:
            for operation in pending:
                fabric.guard.admit_wait(operation)
        while pending:
            _park(fiber, pending)
            pending = [operation for operation in pending if not operation.done]
            for operation in pending:
                fabric.guard.recheck(operation)
    clock = fiber.clock_ps
    if len(operations) > 1:
        operations = sorted(operations, key=_time)
    for operation in operations:
        if operation.time_ps > clock:
            box = fiber.rank.mpi
            box.fabric.tally.waited_ps[box.place] += operation.time_ps - clock
            if box.fabric.trace is not None:
                box.fabric.waited(operation, clock, operation.time_ps)
            clock = operation.time_ps
        clock += operation.overhead_ps
    fiber.clock_ps = clock
    if envelopes.observed is not None:
        for operation in operations:
            envelopes.observed(operation)


def _park(fiber: Fiber, pending: list[Operation]) -> None:
    """Wait until all of these are complete, or one of them is interrupted."""
    if len(pending) == 1:
        pending[0].waiter = fiber
        fiber.park(pending[0])
        return
    everyone = AllOf(fiber, pending)
    for operation in pending:
        operation.waiter = everyone
    fiber.park(everyone)


def channel(comm: Communicator, note: Note, *, check: bool = True, admitted: bool = False) -> CollectiveChannel:
    """Return the channel of the next collective on `comm`.

    Raises an error if the call is known to fail; with `admitted` the caller checks that.
    """
    comm.collectives = tag = comm.collectives + 1
    if comm.fabric.trace is not None:
        comm.fabric.entered(comm, tag, note)
    local = None
    if comm.local is not None:
        comm.local.collectives += 1
        local = CollectiveChannel(comm.local, comm.local.collectives, note, check=check)
    if comm.fabric.failure_seen and not admitted:
        comm.fabric.guard.admit(comm, None, collective=True, survives=survives(comm, note.name))
    if local is not None:
        return CollectiveChannel(comm, tag, note, check=check, local=local)
    made = _blank(CollectiveChannel)  # hot path: the code above, in half the time
    context = comm.context
    made.comm = comm
    made.cid = comm.cid | 1
    made.tag = tag
    made.note = note
    made.check = check
    made.local = None
    made.algorithm = None
    made.rank = comm.me
    made.remote_size = context.remote_size
    made.size = size = context.size
    instances = comm.fabric.instances
    if instances is None or size < instances.least_ranks:
        made.instance = None
        if size > 1 and comm.report_name is None:
            comm.fabric.order.begin(comm, tag, note)
    else:
        made.instance = instances.begin(comm, (made.cid, tag), note)
    return made


def perform(ch: CollectiveChannel, form: Form, algorithm: Callable[..., Any], *args: object) -> Any:
    """Run ``algorithm(ch, *form.plain(args))`` in the running fiber, or vectorised.

    See `batched.instances`.
    """
    instances, call = ch.comm.fabric.instances, ch.instance
    if instances is not None and call is not None and not call.undone:
        done = instances.perform(ch, form, algorithm, args)
        if not call.undone:
            return done
    del instances, call  # a rank killed while it waits is kept forever, with all references
    plain = form.plain(args)
    try:
        if not plain:  # with a star the rank would wait one frame of C deeper, of 400 bytes
            return algorithm(ch)
        if len(plain) == 1:
            return algorithm(ch, plain[0])
        return algorithm(ch, plain[0], plain[1])
    except errors.Exception as error:
        error.__traceback__ = None  # it would keep the frames below alive while the program handles it
        raise


def refused(comm: Communicator, peer: int | None, *, collective: str = "") -> Operation | None:
    """Return a completed operation with an error if a non-blocking call is known to fail, or None.

    As in Open MPI, the error is raised on completion. `collective` is the name of a collective; then `peer` is None.
    """
    if not comm.fabric.failure_seen:
        return None
    survive = bool(collective) and survives(comm, collective)
    error = comm.fabric.guard.refusal(comm, peer, collective=bool(collective), survives=survive)
    if error is None:
        return None
    operation = Operation()
    operation.error = error
    operation.time_ps = clock.read_ps()
    operation.done = True
    return operation


class Background(Operation):
    """A collective (or another call) that runs in a separate fiber, as if by a progress thread."""

    __slots__ = ("body", "entrance", "fiber", "name", "result")

    def __init__(self, name: str, body: Callable[[], Any]) -> None:
        super().__init__()
        self.name = name
        self.body = body
        self.result: Any = None  # of the body
        self.fiber: Fiber | None = None
        self.entrance: int | None = None  # in a traced run: the collective's row; see `Recorder.entered`

    def describe(self) -> str:
        """Return one line for the deadlock report: the reason for which the fiber itself waits."""
        inner = self.fiber.waiting.describe() if self.fiber is not None and self.fiber.waiting is not None else ""
        return f"{self.name}: {inner}" if inner else self.name

    def _run(self, fiber: Fiber) -> None:
        try:
            self.result = self.body()
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # from a user-defined operation
            self.error = error
        self.time_ps = fiber.clock_ps
        rank = fiber.rank
        rank.mpi.background -= 1
        rank.private("fibers", set).discard(fiber)
        rank.key += 1
        rank.shard.kernel.post(self.time_ps, rank.key, Operation.complete, self)

    def launch(self, fiber: Fiber) -> None:
        """Start the fiber, unless its rank has failed meanwhile; an event handler."""
        if fiber.greenlet is None:
            fiber.start(self._run)


def begin(name: str, body: Callable[[], Any]) -> Background:
    """Run ``body()`` in a separate fiber that starts at the running fiber's time.

    Functions of the program see a copy of its current context variables; most programs have none.
    """
    fiber = current.running()
    context = copy_context()
    operation = Background(name, partial(context.run, body) if context else body)
    rank = fiber.rank
    operation.fiber = type(rank.fiber)(rank, fiber.clock_ps)
    if rank.mpi.fabric.trace is not None:
        operation.entrance = rank.mpi.fabric.trace.continue_in_background(rank.number)
    rank.mpi.background += 1
    rank.private("fibers", set).add(operation.fiber)
    rank.key += 1
    kernel = rank.shard.kernel
    kernel.post(kernel.now_ps, rank.key, operation.launch, operation.fiber)
    return operation


def complete_pending(rank: Rank) -> None:
    """Wait, at the end of the running rank's program, for operations that outlast calls it has left."""
    for operation in (rank.extra or {}).get(PENDING_AGREEMENTS, {}).values():
        complete(operation)


def pick(comm: Communicator, operation: str, size_bytes: int = 0, commutative: bool = True) -> Callable[..., Any]:
    """Return the algorithm for one call that the machine's description selects.

    See `collectives.choose`. The selection for an operation also holds for its v- and w-forms and, of
    ``reduce_scatter``, for the block form, if they have that algorithm.
    """
    selection = comm.preference
    size = comm.context.size
    if not selection:
        return choose(operation, size, size_bytes, commutative, TUNED)
    key = operation, size, size_bytes, commutative
    algorithm = selection.picked.get(key)
    if algorithm is None:
        preference = preferred(comm, operation)
        if preference == FTCO:
            return comm.fabric.part(SurvivingAlgorithms)[operation]
        if preference == "nonoverlapping" and operation == "allreduce":  # its parts are selected, too
            reduction = choose("reduce", size, size_bytes, commutative, _plain(comm, "reduce"))
            algorithm = reduce_then_bcast(
                reduction, choose("bcast", size, size_bytes, preference=_plain(comm, "bcast"))
            )
        else:
            algorithm = choose(operation, size, size_bytes, commutative, preference)
        if len(selection.picked) >= _MOST_PICKED:
            selection.picked.clear()
        selection.picked[key] = algorithm
    return algorithm


def _plain(comm: Communicator, operation: str) -> str:
    """Return the algorithm selected for a part of another algorithm, which cannot be FTCO."""
    preference = preferred(comm, operation)
    return TUNED if preference == FTCO else preference


def preferred(comm: Communicator, operation: str) -> str:
    """Return the name of the algorithm selected for an operation; see `pick`."""
    selection = comm.preference
    preference = selection.get(operation) or selection.get(operation.removesuffix("_block").rstrip("vw"), TUNED)
    if operation not in selection and preference not in REGISTRY[operation]:
        return FTCO if preference == FTCO and operation in FTCO_OPERATIONS else TUNED
    return preference


def ftco_serves(comm: Communicator, operation: str) -> bool:
    """Return True if FTCO serves an operation."""
    return comm.preference.ftco and preferred(comm, operation) == FTCO


def survives(comm: Communicator, name: str) -> bool:
    """Return True if a call survives failures of members: FTCO serves its underlying operation."""
    if not comm.preference:
        return False
    method = name.rpartition(".")[2].lower().removesuffix("_init")
    operation = _MADE_OF.get(method) or method
    if operation not in REGISTRY:
        operation = operation.removeprefix("i")
    return operation in REGISTRY and ftco_serves(comm, operation)


_MADE_OF = {
    **dict.fromkeys(("dup", "idup", "create", "create_group", "disconnect"), "allreduce"),
    **dict.fromkeys(("create_cart", "create_graph"), "allreduce"),
    **dict.fromkeys(("split", "split_type", "sub"), "allgather"),
}
"""Calls that create or release communicators, and the operation by which their members agree."""


def timed(size_bytes: int, body: Callable[[], Any], ch: CollectiveChannel) -> Any:
    """Run ``body()`` in the running fiber, and `record` it."""
    fiber = current.running()
    start_ps = fiber.clock_ps
    try:
        result = body()
    except BaseException:
        leave(ch)
        raise
    record(ch.comm, ch, size_bytes, fiber.clock_ps - start_ps)
    return result


def leave(ch: CollectiveChannel) -> None:
    """Record that the running rank leaves a collective by an exception, which is not a mismatch."""
    calls = current.running().rank.private(ABANDONED, set)
    calls.add((ch.cid, ch.tag))
    if ch.local is not None:
        leave(ch.local)


def record(comm: Communicator, ch: CollectiveChannel, size_bytes: int, spent_ps: int) -> None:
    """Add a call on `comm` to the table of collectives: this rank's contribution, and the duration."""
    name = ch.note.name
    if comm.locks is not None:
        method = name.rpartition(".")[2]
        if method.islower():
            comm.locks.setdefault(method, SharedLock())
    calls = comm.fabric.calls
    label = _WORLD if comm.cid == WORLD_CID and comm.name is None else comm.label()  # hot path: most calls are on it
    key = (label, name, ch.algorithm)
    row = calls.get(key)
    if row is None:
        row = calls[key] = [0, 0, 0, 0]
    row[0] += 1
    row[1] += size_bytes
    row[2] += spent_ps
    if spent_ps > row[3]:
        row[3] = spent_ps
