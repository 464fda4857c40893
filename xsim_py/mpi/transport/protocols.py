"""Protocols between the transport and the parts built on it, about which it knows nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from xsim_py.mpi.errors import Exception
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank

    from .message import Message, Operation


class ControlHandler(NamedTuple):
    """The handler of one kind of control messages in the MPI library."""

    name: str
    """Its name in traces."""
    take: Callable[[Rank, Message], None]
    """Called with the receiving rank, and the message."""
    bounced: Callable[[Rank, int, Any], None] | None = None
    """Called with the sender, the number of a failed rank, and the content of the message that reached it.

    None: the sender need not know.
    """


class LibraryPart:
    """A part of the MPI library of a shard that receives control messages or events."""

    def control(self) -> Mapping[int, ControlHandler]:
        """Return the handlers of its control messages, by tag."""
        return {}

    def events(self) -> Mapping[str, Callable[[Any], None]]:
        """Return the handlers of its events from other shards, by name."""
        return {}


class Waiter(Protocol):
    """The waiter of an operation: a fiber, or several operations together."""

    def resume(self) -> None:
        """Resume: the operation is complete."""

    def interrupt(self) -> None:
        """Wake up before completion, and check whether to wait any longer."""


class Endpoint(Protocol):
    """One rank's side of a communicator, as needed for messages."""

    box: Any
    """The rank's `Mailbox`."""
    fabric: Any
    """The `Fabric` that transports its messages."""
    cid: int
    """The context's number."""
    me: int
    """The rank in the context."""
    remote: Sequence[int]
    """The world ranks of ranks in calls; `peer_ranks` is the faster one."""
    peer_ranks: Sequence[int]

    @property
    def shown(self) -> Endpoint:
        """The communicator to name in reports."""

    def named(self, place: int) -> int:
        """Return the name in reports of a rank in calls."""

    def label(self) -> str:
        """Return the name in reports."""

    def involves(self, number: int) -> bool:
        """Return True if a collective on it needs this world rank."""

    def expects(self, number: int) -> bool:
        """Return True if a receive from any source may get a message of this world rank."""

    def report(self, error: Exception) -> bool:
        """Call the error handler; return True if it has handled the error."""


class Guard(Protocol):
    """Knows which operations cannot complete.

    It is consulted only after a failure or revocation (`Fabric.failure_seen`).
    """

    def admit(self, comm: Any, peer: int | None, *, collective: bool = False, survives: bool = False) -> None:
        """Raise an error if a call that sends to or receives from `peer` (a world rank) must not begin."""

    def refusal(
        self, comm: Any, peer: int | None, *, collective: bool = False, survives: bool = False
    ) -> BaseException | None:
        """Return the error that `admit` raises, or None."""

    def admit_send(self, comm: Any, peer: int, note: object, name: str) -> bool:
        """Return True if a send to a world rank may begin, False to skip it; or raise an error.

        `note` is the description of a collective, or else the place of the call in the program.
        """

    def admit_receive(self, comm: Any, source: int, note: object, name: str) -> Message | None:
        """Return None if a blocking receive or probe may begin, or what it finds instead; or raise an error."""

    def admit_wait(self, operation: Operation) -> None:
        """Raise an error if waiting for an operation is futile."""

    def watch(self, operation: object) -> None:
        """Ensure that an operation that begins to wait does not wait indefinitely."""

    def polled(self, fiber: Fiber, since_ps: int, depends_on: Callable[[int], bool]) -> None:
        """Update the rank's knowledge after an unsuccessful poll, the latest of a series since that time."""

    def pending(self, operation: Operation) -> BaseException | None:
        """Return the error that `admit_wait` raises, or None."""

    def lost(self, rank: Rank, message: Message) -> BaseException | None:
        """Return why the data of a rendezvous will not arrive, if the receiver knows that."""

    def recheck(self, operation: Operation) -> None:
        """Raise an error if an incomplete operation whose fiber was woken cannot complete."""

    def give_up(self, operation: Any) -> Message | None:
        """Raise the error that has ended the operation of a blocking receive or probe.

        Or return the message that it finds instead, or None if it begins again.
        """

    def tolerates(self, operation: Operation, comm: Any = None, *, receives: bool = False) -> bool:
        """Return True if the program continues after the error of a complete operation; or raise an error.

        `comm` is the communicator of a request, and `receives` tells whether it is one for a receive.
        """


class Deferral(Protocol):
    """The deferral of disturbances of a rank in a vectorised collective."""

    def defer_for(self, rank: Rank, handler: Callable[[Any], object], argument: object) -> bool:
        """Return True if library work on a rank is deferred until it waits in no such call."""
