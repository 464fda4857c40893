"""Envelopes, and the operations that wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from xsim_py.mpi.constants import ANY_SOURCE, ANY_TAG

from .call_sites import portable, tag_of_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from .protocols import Endpoint, Waiter

Row: TypeAlias = tuple[int, int, int, bytes, int, int, int, int, int, int, int, Any]
"""The fields of a message except for its arrival time, in the order of `Message.row`."""

observed: Callable[[Any], None] | None = None
"""Called with each message and operation that a program has seen to be complete, in watched runs only."""

departed: Callable[[Message], None] | None = None
"""Called with each message that a program sends, in watched runs only."""

EAGER, SYNCHRONOUS, RENDEZVOUS, CONTROL = 0, 1, 2, 3
"""The kinds of messages. Control messages are sent from MPI library to MPI library: no program receives them."""


def needs_all(note: object) -> bool:
    """Return True if an operation with this note fails with any member: a collective of the MPI library."""
    return getattr(note, "joint", False)


class Message:
    """An envelope, with its data unless they follow by rendezvous."""

    __slots__ = (
        "arrival_ps",
        "check",
        "cid",
        "data",
        "kind",
        "note",
        "origin",
        "overhead_ps",
        "serial",
        "size_bytes",
        "source",
        "tag",
        "taken",
        "ticket",
        "to",
    )

    arrival_ps: int
    """When all of it has arrived."""
    cid: int
    """The context: the communicator, and whether it is for collectives."""
    source: int
    """The rank in the communicator, as the receiver matches it."""
    tag: int
    """The tag, as the receiver matches it."""
    data: bytes
    """The packed data."""
    size_bytes: int
    """The size of the data, even before they arrive."""
    kind: int
    """EAGER, SYNCHRONOUS, RENDEZVOUS or CONTROL."""
    overhead_ps: int
    """The receiver's overhead."""
    to: int
    """The receiver, as a world rank."""
    origin: int
    """The sender, as a world rank."""
    ticket: int
    """The sender's number of the operation, if it needs a reply.

    Else, for a message of the program, the offset in the code `note` that sent it.
    """
    check: int
    """A checksum of the data, for the digest; 0 for pickled objects, whose bytes may depend on the hash seed."""
    note: Any
    """For a collective, its description, to detect ranks in different ones; for a control message, its content.

    For a message of the program, the code that sent it, or its source location (see `call_sites`).
    """
    serial: int
    """The order among the rank's kept messages; set, like `taken`, when it is kept."""
    taken: bool
    """Whether it has been taken."""

    def __init__(self, arrival_ps: int, row: Row) -> None:
        """Make a message from its arrival time and the result of `row`."""
        self.arrival_ps = arrival_ps
        (
            self.cid,
            self.source,
            self.tag,
            self.data,
            self.size_bytes,
            self.kind,
            self.overhead_ps,
            self.to,
            self.origin,
            self.ticket,
            self.check,
            self.note,
        ) = row

    @classmethod
    def control(
        cls, origin: int, to: int, tag: int, what: object, size_bytes: int, *, arrival_ps: int = 0, overhead_ps: int = 0
    ) -> Message:
        """Return a control message with the content `what`."""
        return cls(arrival_ps, (0, origin, tag, b"", size_bytes, CONTROL, overhead_ps, to, origin, 0, 0, what))

    def row(self) -> Row:
        """Return the fields that recreate this message, with its arrival time, possibly in another process."""
        return (
            self.cid,
            self.source,
            self.tag,
            self.data,
            self.size_bytes,
            self.kind,
            self.overhead_ps,
            self.to,
            self.origin,
            self.ticket,
            self.check,
            portable(self),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Message, (self.arrival_ps, self.row())


class Operation:
    """An action that completes at a virtual time, and that fibers may wait for."""

    __slots__ = ("done", "error", "overhead_ps", "time_ps", "waiter")

    def __init__(self) -> None:
        self.done = False  # set by the simulator at the time of completion, never earlier
        self.time_ps = 0  # the time of completion
        self.overhead_ps = 0  # the CPU time of its completion
        self.waiter: Waiter | None = None  # the object to ``resume()``
        self.error: BaseException | None = None  # why it could not complete; raised where the program completes it

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        raise NotImplementedError

    def depends_on(self, number: int) -> bool:
        """Return True if it cannot complete, or not for certain, without this world rank."""
        raise NotImplementedError

    def complete(self) -> None:
        """Mark as done and resume the waiting fiber. An event handler: its time is `time_ps`."""
        self.done = True
        waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            waiter.resume()


class Receive(Operation):
    """A receive: posted, or matched and waiting for its data."""

    __slots__ = (
        "cancelled",
        "cid",
        "comm",
        "detached",
        "message",
        "name",
        "note",
        "post_ps",
        "serial",
        "source",
        "tag",
    )

    def __init__(
        self, comm: Endpoint, cid: int, source: int, tag: int, post_ps: int, name: str, note: object = None
    ) -> None:
        # Not `super().__init__`: a receive is posted for nearly every message.
        self.done = self.cancelled = False
        self.time_ps = self.overhead_ps = self.serial = 0  # `serial`: its order among the rank's posted receives
        self.waiter = self.error = None
        self.message: Message | None = None  # the matched one
        self.detached: Any = None  # called with the message if the request was freed (MPI_Request_free)
        self.comm = comm
        self.cid = cid  # the context that it receives on
        self.source = source
        self.tag = tag
        self.post_ps = post_ps  # when it was posted
        self.name = name
        self.note = note

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        if self.note is not None:
            return f"{self.note} on {self.comm.shown.label()}, for a message of rank {self.comm.named(self.source)}"
        source = "any source" if self.source == ANY_SOURCE else f"rank {self.source}"
        tag = "any tag" if self.tag == ANY_TAG else f"tag {tag_of_program(self.tag)}"
        what = "the data of a matched message" if self.message is not None else "a message"
        return f"{self.name} on {self.comm.label()}: {what} from {source}, {tag}"

    def depends_on(self, number: int) -> bool:
        """Return True if it cannot complete without this world rank; see `Operation`."""
        comm = self.comm
        if needs_all(self.note):
            return comm.involves(number)
        if self.message is not None:  # it needs this message from now on, even if any would have done
            return self.message.origin == number
        if self.source == ANY_SOURCE:
            return comm.expects(number)
        return comm.remote[self.source] == number


class Send(Operation):
    """A send that is incomplete when it starts: rendezvous, or synchronous."""

    __slots__ = ("buffered", "comm", "data", "dest", "name", "note", "post_ps", "tag", "ticket", "to")

    def __init__(self, comm: Endpoint, dest: int, tag: int, data: bytes, name: str, post_ps: int) -> None:
        super().__init__()
        self.post_ps = post_ps
        self.comm = comm
        self.dest = dest
        self.tag = tag
        self.data = data
        self.name = name
        self.note: Any = None
        self.buffered = False
        self.to = comm.remote[dest]
        self.ticket = 0

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        if self.note is not None:
            return f"{self.note} on {self.comm.shown.label()}, sending to rank {self.comm.named(self.dest)}"
        return f"{self.name} on {self.comm.label()}: rank {self.dest} to receive {len(self.data)} bytes, tag {self.tag}"

    def depends_on(self, number: int) -> bool:
        """Return True if it cannot complete without this world rank; see `Operation`."""
        return self.comm.involves(number) if needs_all(self.note) else self.to == number
