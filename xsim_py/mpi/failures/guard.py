"""The guard that calls consult after a failure or a revocation before they begin or wait.

The order of checks is Open MPI's for a request: complete, revoked, collective on a communicator with a failed member,
any source, failed peer.

A rejected call takes no time, but a program may repeat it until it is notified of another event. So it follows the rule
for clock readings (see `process.python.clock`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.transport.message import Message, Operation, Receive, needs_all
from xsim_py.process.python import clock
from xsim_py.process.ranks import current

from .deaths import Deaths, is_open_receive
from .knowledge import is_revoked, revoked_error

if TYPE_CHECKING:
    from xsim_py.mpi.comm import Communicator
    from xsim_py.process.ranks.rank import Rank

    from .detector import Detector


class FailureGuard:
    """Rejects calls that the calling rank knows cannot complete; see `transport.protocols.Guard`."""

    def __init__(self, deaths: Deaths, detector: Detector) -> None:
        self._deaths = deaths
        self.watch = detector.watch
        self.polled = detector.polled

    def admit(self, comm: Communicator, peer: int | None, *, collective: bool = False, survives: bool = False) -> None:
        """Raise the `refusal` of a call, if there is one."""
        error = self.refusal(comm, peer, collective=collective, survives=survives)
        if error is not None:
            self._raise(comm, error)

    def refusal(
        self, comm: Communicator, peer: int | None, *, collective: bool = False, survives: bool = False
    ) -> errors.Exception | None:
        """Return why a call cannot complete, if this rank knows that, else None.

        `peer` is the world rank that it sends to or receives from; None if there is no such rank. `survives` tells
        whether the call tolerates failed members.
        """
        state = comm.box.knowledge
        if state is None:
            return None
        outer = comm.outer or comm
        if is_revoked(outer):
            return revoked_error(outer)
        if not state.known or survives:
            return None
        if collective:
            number = next(iter(outer.failed_members()), None)
        else:
            number = peer if peer in state.known else None
        return None if number is None else self._deaths.error(number)

    def admit_send(self, comm: Communicator, peer: int, note: object, name: str) -> bool:
        """Raise the `refusal` of a send."""
        self.admit(comm, peer, collective=needs_all(note))
        return True

    def admit_receive(self, comm: Communicator, source: int, note: object, name: str) -> Message | None:
        """Raise the `refusal` of a blocking receive."""
        error = self.receive_refusal(comm, source, note)
        if error is not None:
            self._raise(comm, error)
        return None

    def receive_refusal(self, comm: Communicator, source: int, note: object) -> errors.Exception | None:
        """Return the `refusal` of a blocking receive.

        A receive from any source also fails while a failure is not acknowledged.
        """
        if note is not None or source >= 0:
            return self.refusal(comm, comm.remote[source], collective=needs_all(note))
        number = _unacknowledged(comm)
        return self.refusal(comm, None) or (None if number is None else self._deaths.error(number))

    def admit_wait(self, operation: Operation) -> None:
        """Raise an error if a receive from any source needs an acknowledgement; it stays active."""
        error = self.pending(operation)
        if error is not None:
            comm: Communicator = operation.comm  # type: ignore[attr-defined]
            self._raise(comm, error)

    def pending(self, operation: Operation) -> errors.Exception | None:
        """Return why a receive from any source cannot complete without an acknowledgement, or None."""
        if not isinstance(operation, Receive) or not is_open_receive(operation):
            return None
        comm: Any = operation.comm
        number = _unacknowledged(comm)
        return None if number is None else self._deaths.error(number, c.ERR_PROC_FAILED_PENDING)

    def recheck(self, operation: Operation) -> None:
        """Raise an error if an operation must not wait on after its fiber was woken.

        Otherwise it continues: the program may have begun to wait, and acknowledged the failure, in the same event.
        """
        _catch_up()
        self.admit_wait(operation)

    def give_up(self, operation: Any) -> Message | None:
        """End a blocking call's operation with its `error_of`."""
        self._raise(operation.comm, self.error_of(operation))

    def error_of(self, operation: Any) -> errors.Exception:
        """Return the error of a blocking call's operation, or that of an unacknowledged failure, which ends it."""
        _catch_up()
        comm = operation.comm.outer or operation.comm
        if operation.error is None:
            comm.box.give_up(operation)
            number = _unacknowledged(comm)
            assert number is not None
            operation.error = self._deaths.error(number)
        error: errors.Exception = operation.error
        return error

    def tolerates(self, operation: Operation, comm: Communicator | None = None, *, receives: bool = False) -> bool:
        """Return False: the error is raised."""
        return False

    def lost(self, rank: Rank, message: Message) -> errors.Exception | None:
        """Return why the data of a rendezvous will not arrive.

        None if the receiver does not know that the sender has failed.
        """
        state = rank.mpi.knowledge
        return None if state is None or message.origin not in state.known else self._deaths.error(message.origin)

    @staticmethod
    def _raise(comm: Communicator, error: errors.Exception) -> NoReturn:
        clock.read_ps()
        comm.report(error)
        raise error


def _catch_up() -> None:
    """Advance the running fiber's clock to the event that woke it."""
    fiber = current.running()
    fiber.clock_ps = max(fiber.clock_ps, fiber.rank.shard.kernel.now_ps)


def _unacknowledged(comm: Communicator) -> int | None:
    """Return an unacknowledged failed rank for which a receive from any source may wait.

    None if this rank knows of no such failure.
    """
    state = comm.box.knowledge
    if state is None or not state.known:
        return None
    return next((n for n in comm.failed_members()[comm.acknowledged :] if comm.context.is_remote(n)), None)
