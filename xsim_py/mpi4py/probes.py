"""Probes, and `MPI.Message`, a message matched by a probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from xsim_py.mpi import constants as c
from xsim_py.mpi.calls import refused
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.polling import detect_by_polling, end_poll, unsuccessful_poll
from xsim_py.mpi.transport.mailbox import Probe
from xsim_py.mpi.transport.message import EAGER, RENDEZVOUS, Receive
from xsim_py.mpi.transport.message import Message as Envelope
from xsim_py.process.ranks import current
from xsim_py.process.ranks.fiber import Fiber
from xsim_py.schedules import FREE

from .bufspec import receiver
from .handle import Handle, Null, handle_of, predefine, predefine_null
from .inside import comm_of, impl_of
from .pickling import load
from .plain_arguments import Comm, integer
from .request import Request
from .request_tasks import MessageTask
from .status import Status, set_message

if TYPE_CHECKING:
    from xsim_py.mpi.transport.choices import OpenChoice

__all__ = ["MESSAGE_NO_PROC", "MESSAGE_NULL", "NULL_TARGET", "TAG_LIMIT", "Message", "iprobe", "probe", "valid_source"]

ANY_SOURCE, ANY_TAG, PROC_NULL = c.ANY_SOURCE, c.ANY_TAG, c.PROC_NULL
TAG_LIMIT = 2**31 - 1

NULL_TARGET = receiver(bytearray())
"""The target of receives from PROC_NULL: mpi4py ignores the buffer argument if the peer is PROC_NULL."""


def valid_source(comm: Communicator, source: int, tag: int, *, waits: bool = True) -> bool:
    if not 0 <= tag <= TAG_LIMIT and tag != ANY_TAG:
        comm.reject(c.ERR_TAG, f"tag {tag} is not in 0..{TAG_LIMIT}, nor ANY_TAG")
        return False
    if 0 <= source < len(comm.remote) or source == ANY_SOURCE:
        return True
    if source != PROC_NULL:
        comm.reject(c.ERR_RANK, f"rank {source} is not in 0..{len(comm.remote) - 1}, nor ANY_SOURCE")
    elif waits and comm.fabric.failure_seen:
        comm.fabric.guard.admit(comm, None)
    return False


def _begin(comm: Communicator, source: int, tag: int, status: Status | None) -> Fiber | None:
    """Return the probing rank, at its own time; for PROC_NULL set `status` and return None."""
    if not valid_source(comm, source, tag):
        _set_null(status)
        return None
    fiber = current.running()
    fiber.sync()
    return fiber


def _set_null(status: Status | None) -> None:
    if status is not None:
        set_message(status, PROC_NULL, ANY_TAG, 0)


def _found_message(
    comm: Communicator, message: Envelope, status: Status | None, choice: OpenChoice | None, *, matched: bool
) -> Envelope:
    chooser = comm.box.chooser
    if choice is not None and chooser is not None:
        chooser.probed(choice, message, taken=matched)
    if matched:
        comm.box.remove(message)
    if status is not None:
        set_message(status, message.source, message.tag, message.size_bytes)
    return message


def probe(
    comm: Communicator, source: int, tag: int, status: Status | None, name: str, *, matched: bool
) -> Envelope | None:
    """Wait for a matching message; return None for PROC_NULL."""
    source, tag = integer(source), integer(tag)
    fiber = _begin(comm, source, tag, status)
    if fiber is None:
        return None
    box = comm.box
    guard = comm.fabric.guard
    if comm.fabric.failure_seen and guard.admit_receive(comm, source, None, name) is not None:
        _set_null(status)
        return None
    choice, wanted = None, source
    if source == ANY_SOURCE and box.chooser is not None:
        choice = box.chooser.begin("probe", comm.cid, tag, len(comm.remote), takes=matched)
        wanted = choice.forced if choice.forced < choice.count else FREE
    message = box.look(comm.cid, wanted, tag)
    if message is None:
        waiting = Probe(comm, comm.cid, wanted, tag, fiber, name)
        if box.probes is None:
            box.probes = []
        box.probes.append(waiting)
        if comm.fabric.failure_seen:
            guard.watch(waiting)
        fiber.park(waiting)
        message = waiting.message
        if message is None:
            if guard.give_up(waiting) is None:
                return probe(comm, source, tag, status, name, matched=matched)
            _set_null(status)
            return None
        if comm.fabric.trace is not None and message.arrival_ps > fiber.clock_ps:
            comm.fabric.waited(message, fiber.clock_ps, message.arrival_ps)
        fiber.clock_ps = max(fiber.clock_ps, message.arrival_ps)
    return _found_message(comm, message, status, choice, matched=matched)


def iprobe(comm: Communicator, source: int, tag: int, status: Status | None, *, matched: bool) -> object:
    """Return a matching message that has arrived; None if there is none yet.

    The result is False for PROC_NULL.

    As in Open MPI, messages of a failed process can be found even if its failure is known.
    """
    source, tag = integer(source), integer(tag)
    fiber = _begin(comm, source, tag, status)
    if fiber is None:
        return False
    if comm.fabric.failure_seen:
        comm.fabric.guard.admit(comm, None)
    chooser = comm.box.chooser if source == ANY_SOURCE else None
    count = len(comm.remote)
    if chooser is not None and not FREE <= chooser.next_forced() < count:  # not a rank: ask for none from now on
        chooser.begin("probe", comm.cid, tag, count)
    message = comm.box.look(comm.cid, source if chooser is None else chooser.next_forced(), tag)
    if message is None:
        name = "Comm.Improbe" if matched else "Comm.Iprobe"
        probe_record: Any = Probe(comm, comm.cid, source, tag, fiber, name)
        detect_by_polling(comm, source, probe_record.depends_on)
        if comm.fabric.failure_seen and comm.fabric.guard.admit_receive(comm, source, None, name) is not None:
            _set_null(status)
            return False
        unsuccessful_poll(fiber, (comm.cid, source, tag), probe_record)
        return None
    end_poll(comm, source)
    choice = None if chooser is None else chooser.begin("probe", comm.cid, tag, count, takes=matched)
    return _found_message(comm, message, status, choice, matched=matched)


class Message(Handle):
    """Matched message."""

    __module__ = "mpi4py.MPI"
    __slots__ = ("_communicator",)
    _null: ClassVar[Null] = Null("MESSAGE_NULL")
    _error = c.ERR_REQUEST

    _communicator: Communicator

    def __new__(cls, message: Message | None = None) -> Message:
        self = cls._copy(message)
        if message is not None and message and impl_of(message) is not _NO_PROC:
            self._communicator = message._communicator
        return self

    @classmethod
    def _of(cls, comm: Communicator, envelope: object) -> Message:
        self: Message = cls._make(envelope or _NO_PROC)
        if envelope:
            self._communicator = comm
        return self

    def free(self) -> None:
        self._set_null()

    @classmethod
    def Probe(cls, comm: Comm, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message:
        return cls._of(comm_of(comm), probe(comm_of(comm), source, tag, status, "Message.Probe", matched=True))

    @classmethod
    def Iprobe(
        cls, comm: Comm, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message | None:
        envelope = iprobe(comm_of(comm), source, tag, status, matched=True)
        return None if envelope is None else cls._of(comm_of(comm), envelope)

    @classmethod
    def probe(cls, comm: Comm, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message:
        return cls.Probe(comm, source, tag, status)

    @classmethod
    def iprobe(
        cls, comm: Comm, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Message | None:
        return cls.Iprobe(comm, source, tag, status)

    def _receive(self, finish: Callable[[Any], Any], name: str) -> Request:
        """Begin to receive this message; the handle becomes null."""
        envelope = self._live()
        if envelope is _NO_PROC:
            self._set_null()
            return handle_of(Request, MessageTask(None, null_source=True))
        self._impl = self._null
        fiber = current.running()
        comm = self._communicator
        operation = Receive(comm, comm.cid, envelope.source, envelope.tag, fiber.clock_ps, name)
        if envelope.kind == EAGER:
            operation.message = envelope
            operation.time_ps = envelope.arrival_ps
            operation.overhead_ps = envelope.overhead_ps
            operation.done = True
        else:
            refusal = refused(comm, envelope.origin if envelope.kind == RENDEZVOUS else None)
            if refusal is not None:
                return handle_of(Request, MessageTask(refusal, comm=comm))
            comm.fabric.matched(fiber.rank, operation, envelope, fiber.clock_ps)
            if comm.fabric.failure_seen and not operation.done:
                comm.fabric.guard.watch(operation)
        return handle_of(Request, MessageTask(operation, finish))

    def Recv(self, buf: object, status: Status | None = None) -> None:
        self.Irecv(buf).Wait(status)

    def Irecv(self, buf: object) -> Request:
        target = NULL_TARGET if self._impl is _NO_PROC else receiver(buf)
        return self._receive(target.unpack, "Message.Irecv")

    def recv(self, status: Status | None = None) -> Any:
        return self.irecv().wait(status)

    def irecv(self) -> Request:
        return self._receive(load, "Message.irecv")


message_of = Message._of
_NO_PROC = Null("MESSAGE_NO_PROC")
MESSAGE_NULL: Message = predefine_null(Message, 0x128)
MESSAGE_NO_PROC: Message = predefine(Message, "MESSAGE_NO_PROC", _NO_PROC, 0x129)
