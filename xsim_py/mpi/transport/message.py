"""Envelopes, and the operations that wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.mpi.constants import ANY_SOURCE, ANY_TAG

from .call_sites import portable, tag_of_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from .protocols import Endpoint, Waiter

observed: Callable[[Any], None] | None = None
"""It is told of each message and operation that a program has seen to be complete, in runs that are watched only."""

departed: Callable[[Message], None] | None = None
"""It is told of each message that a program sends, in runs that are watched only."""

EAGER, SYNCHRONOUS, RENDEZVOUS, CONTROL = 0, 1, 2, 3
"""The kinds of a message. A control message goes from MPI library to MPI library: no program receives it."""


def needs_all(note: Any) -> bool:
    """Return True if what says this of itself fails with any member: a collective of the MPI library."""
    return getattr(note, "joint", False)


class Message:
    """An envelope, with its data unless that follows by rendezvous.

    Attributes
    ----------
    cid : int
        The context: which communicator, and whether a collective.
    source, tag : int
        As the receiver matches them; the source is a rank in the communicator.
    data : bytes
        Packed.
    size_bytes : int
        Of the data, also before it is here.
    kind : int
        EAGER, SYNCHRONOUS, RENDEZVOUS or CONTROL.
    arrival_ps : int
        When all of it is here.
    overhead_ps : int
        What taking it costs the receiver.
    to, origin : int
        Ranks in the whole run.
    ticket : int
        What the sender calls the operation, if it wants an answer; else, of a message of the program, where in the
        code `note` it was sent.
    check : int
        A check sum of the data, for the digest; 0 for pickled objects, whose bytes may depend on the hash seed.
    note : object
        What a collective says about itself, to find out that ranks are in different ones; what a control
        message says; of a message of the program, the code that has sent it, or where it was sent (see `places`).
    serial, taken : int, bool
        Which of the rank's kept messages came first, and whether it is gone; set when it is kept.
    """

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

    serial: int
    taken: bool

    def __init__(
        self,
        arrival_ps: int,
        cid: int,
        source: int,
        tag: int,
        data: bytes,
        size_bytes: int,
        kind: int,
        overhead_ps: int,
        to: int,
        origin: int,
        ticket: int,
        check: int,
        note: Any,
    ) -> None:
        self.cid = cid
        self.source = source
        self.tag = tag
        self.data = data
        self.size_bytes = size_bytes
        self.kind = kind
        self.arrival_ps = arrival_ps
        self.overhead_ps = overhead_ps
        self.to = to
        self.origin = origin
        self.ticket = ticket
        self.check = check
        self.note = note

    @classmethod
    def control(
        cls, origin: int, to: int, tag: int, what: Any, size_bytes: int, *, arrival_ps: int = 0, overhead_ps: int = 0
    ) -> Message:
        """Make a control message that says `what`."""
        return cls(arrival_ps, 0, origin, tag, b"", size_bytes, CONTROL, overhead_ps, to, origin, 0, 0, what)

    def row(self) -> tuple[Any, ...]:
        """Return what makes this message again, together with its time of arrival, in another process perhaps."""
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
        return Message, (self.arrival_ps, *self.row())


class Operation:
    """Something that completes at a virtual time, and that fibers may wait for.

    Attributes
    ----------
    done : bool
        Set by the simulator at the time of completion, never earlier.
    time_ps : int
        That time.
    overhead_ps : int
        What completing it costs the rank's processor.
    waiter : Waiter or None
        What to ``resume()``.
    error : Exception or None
        Why it could not be completed; raised where the program completes it.
    """

    __slots__ = ("done", "error", "overhead_ps", "time_ps", "waiter")

    def __init__(self) -> None:
        self.done = False
        self.time_ps = 0
        self.overhead_ps = 0
        self.waiter: Waiter | None = None
        self.error: BaseException | None = None

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        raise NotImplementedError

    def depends_on(self, number: int) -> bool:
        """Return whether it can not complete, or not for sure, without a certain rank of the whole run."""
        raise NotImplementedError

    def complete(self) -> None:
        """Mark as done and let the waiting fiber go on. An event handler: its time is `time_ps`."""
        self.done = True
        waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            waiter.resume()


class Receive(Operation):
    """A receive: posted, or matched and waiting for its data.

    Attributes
    ----------
    cid : int
        The context that it receives on.
    post_ps : int
        When it was posted.
    serial : int
        Which of the rank's posted receives came first.
    message : Message or None
        What it got.
    cancelled : bool
        Whether it was taken back.
    detached : callable or None
        Takes the message, where nobody waits for it any more (MPI_Request_free).
    """

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
        self, comm: Endpoint, cid: int, source: int, tag: int, post_ps: int, name: str, note: Any = None
    ) -> None:
        # Not `super().__init__`: a receive is posted for nearly every message.
        self.done = self.cancelled = False
        self.time_ps = self.overhead_ps = self.serial = 0
        self.waiter = self.error = None
        self.message: Message | None = None
        self.detached: Any = None
        self.comm = comm
        self.cid = cid
        self.source = source
        self.tag = tag
        self.post_ps = post_ps
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
        """Return whether it can not complete without a certain rank; see `Operation`."""
        comm = self.comm
        if needs_all(self.note):
            return comm.involves(number)
        if self.message is not None:  # from now on it is about this message, even if any would have done
            return self.message.origin == number
        if self.source == ANY_SOURCE:
            return comm.expects(number)
        return comm.remote[self.source] == number


class Send(Operation):
    """A send that is not complete when it starts: rendezvous, or synchronous."""

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
        """Return whether it can not complete without a certain rank; see `Operation`."""
        return self.comm.involves(number) if needs_all(self.note) else self.to == number


class HungProcess(NamedTuple):
    """A process that has stood still, and was perhaps taken for dead."""

    time_ps: int
    rank: int
    until_ps: int
    killed: bool
    """It was taken for dead, and killed when it came back."""
    cause: str
    """The hang, as it was written."""


class FlippedData(NamedTuple):
    """A bit that has changed: in a message to rank `dest`, or in an array of the rank's."""

    time_ps: int
    rank: int
    dest: int | None
    array: str | None
    bit: int
    """Bit ``bit % 8`` of byte ``bit // 8``."""
    size_bytes: int
    cause: str
    """The flip, as it was written."""
