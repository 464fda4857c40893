"""Protocols by which the transport meets those who are built upon it; it knows nothing else of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank

    from .message import Message, Operation


class ControlHandler(NamedTuple):
    """The part of the MPI library that takes control messages of one kind.

    Attributes
    ----------
    name : str
        How a trace calls it.
    take : callable
        Called with the rank that such a message has come to, and the message.
    bounced : callable or None
        Called with the sender, the number of a dead rank, and the content of the message that came there; None: the
        sender need not know.
    """

    name: str
    take: Callable[[Rank, Message], None]
    bounced: Callable[[Rank, int, Any], None] | None = None


class LibraryPart:
    """A part of the MPI library of a shard that control messages or events are for."""

    def control(self) -> Mapping[int, ControlHandler]:
        """Return what takes its control messages, by their tags."""
        return {}

    def events(self) -> Mapping[str, Callable[[Any], None]]:
        """Return what handles its events that may come from other shards, by their names."""
        return {}


class Waiter(Protocol):
    """Waits for an operation: a fiber, or several operations together."""

    def resume(self) -> None:
        """Go on: the operation is complete."""

    def interrupt(self) -> None:
        """Go on though it is not, and see whether to wait any longer."""


class Endpoint(Protocol):
    """One rank's side of a communicator, as far as messages need it.

    Attributes
    ----------
    box : Mailbox
        The rank's.
    fabric : Fabric
        Carries its messages.
    cid, me : int
        The context's number, and the rank's in it.
    remote, whom : sequence of int
        Whom ranks in calls mean, as ranks of the whole run; `whom` is the quicker one.
    """

    box: Any
    fabric: Any
    cid: int
    me: int
    remote: Sequence[int]
    whom: Sequence[int]

    @property
    def shown(self) -> Endpoint:
        """The communicator that reports name for this one."""

    def named(self, place: int) -> int:
        """Return how reports call one of the ranks that calls mean."""

    def label(self) -> str:
        """Return how reports call it."""

    def involves(self, number: int) -> bool:
        """Return whether a collective on it needs this rank of the whole run."""

    def expects(self, number: int) -> bool:
        """Return whether a receive from any source may get a message of this rank of the whole run."""

    def report(self, error: Any) -> bool:
        """Let the error handler see an error; return whether that has dealt with it."""


class Guard(Protocol):
    """Knows which operations can not be completed; it is asked only once there has been trouble (`Fabric.troubled`)."""

    def admit(self, comm: Any, peer: int | None, *, collective: bool = False, survives: bool = False) -> None:
        """Raise what forbids a call to begin that sends to `peer` or receives from it, a rank of the whole run."""

    def refusal(
        self, comm: Any, peer: int | None, *, collective: bool = False, survives: bool = False
    ) -> BaseException | None:
        """Return what `admit` raises, if anything."""

    def admit_receive(self, comm: Any, source: int, note: Any) -> None:
        """Raise what forbids a blocking receive to begin."""

    def admit_wait(self, operation: Operation) -> None:
        """Raise what forbids to wait for an operation."""

    def watch(self, operation: Any) -> None:
        """Take care that an operation which begins to wait does not wait for ever."""

    def looked(self, fiber: Fiber, since_ps: int, depends_on: Callable[[int], bool]) -> None:
        """Let the rank learn what an unsuccessful look tells, the latest of a series since that time."""

    def pending(self, operation: Operation) -> BaseException | None:
        """Return what `admit_wait` raises, if anything."""

    def lost(self, rank: Rank, message: Message) -> BaseException | None:
        """Return why the data of a rendezvous will not come, if the receiver knows that."""

    def recheck(self, operation: Any) -> None:
        """Raise what forbids to wait on for an operation that is not complete though its fiber was woken."""

    def give_up(self, operation: Any) -> NoReturn:
        """Raise what has ended the operation of a blocking call."""


class Deferral(Protocol):
    """Puts off what would disturb a rank whose collective is computed for all ranks at once."""

    def put_off_for(self, rank: Rank, handler: Callable[[Any], object], argument: Any) -> bool:
        """Return whether the library's work on a rank is put off until that waits in no such call."""
