"""Point-to-point calls under the layer: a failed peer acts like ``PROC_NULL``, or is an error.

The options select which; a third choice ends the caller. Messages use the program's communicator, which is never
revoked or replaced. So a repair needs no new requests: a message sent before it can be received after it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.failures.guard import FailureGuard
from xsim_py.mpi.transport import p2p as transport
from xsim_py.mpi.transport.message import EAGER, Message, Send
from xsim_py.mpi4py import p2p, probes
from xsim_py.mpi4py.request_tasks import Task, set_empty
from xsim_py.mpi4py.status import Status
from xsim_py.process.ranks.patches import Patches

from . import alias as layer
from .alias import attempt_call, give_up, is_failure, raise_on

__all__ = ["install_messages"]

_ANY, _NULL = c.ANY_SOURCE, c.PROC_NULL
_start_send, _wait, _receive = transport.start_send, transport.wait, transport.receive
_probe, _iprobe = probes.probe, probes.iprobe
_admit_wait: Final = FailureGuard.admit_wait


def _continue_without(comm: Communicator, option: str, name: str, error: errors.Exception) -> None:
    """Continue without a failed peer according to an option; raise errors other than failures."""
    how = getattr(layer.settings, option)
    if how == "raise" or not is_failure(error):
        raise_on(comm, error)
    else:
        give_up(comm, how, name, str(error))


def start_send(
    comm: Any, dest: int, tag: int, data: bytes, cid: int, mode: int, name: str, check: bool, about: Any
) -> Send | None:
    """Begin a send, unless the receiver is known to have failed."""
    send, error = attempt_call(comm, _start_send, comm, dest, tag, data, cid, mode, name, check, about)
    if error is not None:
        _continue_without(comm, "send", name, error)
    return send


def wait(operation: Any) -> None:
    """Wait for the completion of a send or the failure of its receiver."""
    _, error = attempt_call(operation.comm, _wait, operation)
    if error is not None:
        _continue_without(operation.comm, "send", operation.name, error)


def receive(comm: Any, source: int, tag: int, cid: int, name: str, note: Any = None) -> Message:
    """Receive, or return an empty message as from ``PROC_NULL`` if the sender has failed."""
    found = _find(comm, source, name, _receive, comm, source, tag, cid, name, note)
    return found or Message(0, cid, _NULL, c.ANY_TAG, b"", 0, EAGER, 0, comm.me, comm.me, 0, 0, None)


def probe(comm: Any, source: int, tag: int, status: Status | None, name: str, *, matched: bool) -> Any:
    """Wait for a message; find ``PROC_NULL`` instead if the sender has failed."""
    found = _find(comm, source, name, partial(_probe, matched=matched), comm, source, tag, status, name)
    return _set_null(status) if found is None else found


def iprobe(comm: Any, source: int, tag: int, status: Status | None, *, matched: bool) -> Any:
    """Look for a message; find ``PROC_NULL`` instead if the sender has failed."""

    def look() -> tuple[Any]:
        return (_iprobe(comm, source, tag, status, matched=matched),)  # which may be None

    found = _find(comm, source, "Comm.Iprobe", look)
    if found is None:
        _set_null(status)
        return False
    return found[0]


def _find(comm: Communicator, source: int, name: str, function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a receive or probe, or None to continue without a failed source."""
    while True:
        found, error = attempt_call(comm, function, *args)
        if error is None:
            return found
        if source != _ANY:
            _continue_without(comm, "recv", name, error)
            return None
        if is_failure(error):
            comm.acknowledge(None)
        if not is_failure(error) or layer.settings.any_source == "raise":
            raise_on(comm, error)
            return None


def _set_null(status: Status | None) -> None:
    if status is not None:
        status._set(_NULL, c.ANY_TAG, 0)


def admit_wait(self: FailureGuard, operation: Any) -> None:
    """Acknowledge a failure that blocks a receive from any source; continue, or raise it once."""
    comm = getattr(operation, "comm", None)
    if comm is None:
        _admit_wait(self, operation)
        return
    _, error = attempt_call(comm, _admit_wait, self, operation)
    if error is not None:
        comm.acknowledge(None)
        if layer.settings.any_source == "raise":
            raise_on(comm, error)


class TolerantTask(Task):
    """The task of a request whose peer may have failed by its completion."""

    __slots__ = ()

    def _failed(self, operation: Any, status: Status | None) -> None:
        """Complete it according to the options, or raise its error."""
        error = operation.error
        comm = self.comm if self.comm is not None else operation.comm
        if not isinstance(error, errors.Exception) or not is_failure(error):
            super()._failed(operation, status)
            return
        set_empty(status)
        is_send = isinstance(operation, Send) or self.finish is None
        _continue_without(comm, "send" if is_send else "recv", getattr(operation, "name", "a request"), error)
        if not is_send:
            _set_null(status)


def install_messages(patches: Patches) -> None:
    """Route all messages of programs through the layer."""
    for name, function in (
        ("start_send", start_send),
        ("wait", wait),
        ("receive", receive),
        ("probe", probe),
        ("iprobe", iprobe),
        ("Task", TolerantTask),
    ):
        for module in (p2p, probes):
            if hasattr(module, name):
                patches.set(module, name, function)
    patches.set(FailureGuard, "admit_wait", admit_wait)
