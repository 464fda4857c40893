"""Messages under the layer: a failed peer acts like ``PROC_NULL``, or is an error.

The options select which; a third choice ends the caller. Messages use the program's communicator, which is never
revoked or replaced. So a repair needs no new requests: a message sent before it can be received after it.
"""

from __future__ import annotations

from typing import Any

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.failures.guard import FailureGuard
from xsim_py.mpi.transport.message import EAGER, Message, Operation, Send
from xsim_py.process.python import clock

from .alias import give_up, is_failure, options_of, raise_on

__all__ = ["TolerantGuard"]


class TolerantGuard(FailureGuard):
    """Lets messages of the program continue without a failed peer.

    The library's own messages have a note, that of their collective.
    """

    def admit_send(self, comm: Communicator, peer: int, note: object, name: str) -> bool:
        """Return True if the receiver of a send is not known to have failed."""
        if hasattr(note, "joint"):
            return super().admit_send(comm, peer, note, name)
        error = self.refusal(comm, peer)
        if error is not None:
            _continue_without(comm, "send", name, error)
        return error is None

    def admit_receive(self, comm: Communicator, source: int, note: object, name: str) -> Message | None:
        """Return an empty message as from ``PROC_NULL`` if the sender is known to have failed."""
        if note is not None:
            return super().admit_receive(comm, source, note, name)
        error = self.receive_refusal(comm, source, None)
        return None if error is None else _received_instead(comm, source, name, error)

    def give_up(self, operation: Any) -> Message | None:
        """Return an empty message as from ``PROC_NULL`` if the sender has failed; None after an acknowledgement."""
        if getattr(operation, "note", None) is not None:
            return super().give_up(operation)
        return _received_instead(operation.comm, operation.source, operation.name, self.error_of(operation))

    def admit_wait(self, operation: Operation) -> None:
        """Acknowledge a failure that blocks a receive from any source; continue, or raise it once."""
        error = self.pending(operation)
        if error is not None:
            _acknowledge(operation.comm, error)  # type: ignore[attr-defined]

    def tolerates(self, operation: Any, comm: Communicator | None = None, *, receives: bool = False) -> bool:
        """Return True if the peer of a message has failed."""
        error = operation.error
        if comm is None and (not isinstance(operation, Send) or operation.note is not None):
            return False
        if not isinstance(error, errors.Exception) or not is_failure(error):
            return False
        name = getattr(operation, "name", "a request")
        _continue_without(comm or operation.comm, "recv" if receives else "send", name, error)
        return True


def _continue_without(comm: Communicator, option: str, name: str, error: errors.Exception) -> None:
    """Continue without a failed peer according to an option; raise errors other than failures."""
    clock.read_ps()
    how = getattr(options_of(comm), option)
    if how == "raise" or not is_failure(error):
        raise_on(comm, error)
    else:
        give_up(comm, how, name, str(error))


def _received_instead(comm: Communicator, source: int, name: str, error: errors.Exception) -> Message | None:
    """Return what a receive or probe finds instead of a message; None if it continues."""
    if source == c.ANY_SOURCE and is_failure(error):
        _acknowledge(comm, error)
        return None
    _continue_without(comm, "recv", name, error)
    return Message(0, (comm.cid, c.PROC_NULL, c.ANY_TAG, b"", 0, EAGER, 0, comm.me, comm.me, 0, 0, None))


def _acknowledge(comm: Communicator, error: errors.Exception) -> None:
    """Acknowledge the failures that block a receive from any source; continue, or raise the error once."""
    comm.acknowledge(None)
    if options_of(comm).any_source == "raise":
        raise_on(comm, error)
