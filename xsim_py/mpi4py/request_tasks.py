"""Tasks: the operation of a request, and the handling of its outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.calls import Background
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.partitioned import Incoming, Outgoing
from xsim_py.mpi.transport.call_sites import blame_sender
from xsim_py.mpi.transport.message import Message, Operation, Receive, Send
from xsim_py.mpi.transport.protocols import Endpoint
from xsim_py.process.output.tracebacks import report

from .status import Status, set_message

__all__ = ["GeneralizedOperation", "MessageTask", "PartitionedTask", "Task", "set_empty"]


class Task:
    """The operation of a request, and the handling of its outcome."""

    __slots__ = ("active", "comm", "finish", "null_source", "operation", "start")

    def __init__(
        self,
        operation: Operation | None,
        finish: Callable[[Any], Any] | None = None,
        comm: Communicator | None = None,
        *,
        null_source: bool = False,
    ) -> None:
        self.operation = operation  # the pending one; None if it was complete from the start, or is inactive
        # Takes the received data, or the result of a background call, and returns the result of ``wait``.
        self.finish = finish
        self.comm = comm  # whose error handler is used
        # For a persistent request: starts it again, and returns the operation.
        self.start: Callable[[], Operation | None] | None = None
        self.active = True  # False for a persistent request that is not started
        self.null_source = null_source  # whether it represents a receive from ``PROC_NULL``, as its status then shows

    def is_done(self) -> bool:
        """Return True if the task is complete; an inactive one always is."""
        return not self.active or self.operation is None or self.operation.done

    def outcome(self, status: Status | None) -> Any:
        """After completion: fill the status, deliver the data, report errors, and return the result."""
        operation = self.operation
        if not self.active:
            set_empty(status)
            return None
        if operation is not None and operation.error is not None:
            return self._failed(operation, status)
        if isinstance(operation, Receive):
            return self._received(operation, status)
        if isinstance(operation, Background):
            return self._background(operation, status)
        if isinstance(operation, GeneralizedOperation):
            return operation.outcome(status)
        if operation is None and self.null_source:
            if status is not None:
                set_message(status, c.PROC_NULL, c.ANY_TAG, 0)
            return None
        set_empty(status)
        return self.finish(None) if operation is not None and self.finish is not None else None

    def deliver_before_completion(self) -> None:
        """After a successful status query: deliver the data, which completion then does not repeat."""
        operation, finish = self.operation, self.finish
        if not self.active or operation is None or operation.error is not None or finish is None:
            return
        if isinstance(operation, GeneralizedOperation) or isinstance(finish, _Delivered):
            return
        data = operation.result if isinstance(operation, Background) else None
        message = operation.message if isinstance(operation, Receive) else data
        if isinstance(message, Message):
            data = message.data
        elif isinstance(operation, Receive):
            return  # cancelled
        try:
            self.finish = _Delivered(self, finish, finish(data))
        except errors.Exception:
            return  # completion raises it

    def _received(self, operation: Receive, status: Status | None) -> object:
        message = operation.message
        if message is None:
            if status is not None:
                set_message(status, c.ANY_SOURCE, c.ANY_TAG, 0)
                status.Set_cancelled(True)
            return None
        if status is not None:
            set_message(status, message.source, message.tag, message.size_bytes)
        if self.finish is None:
            return None
        return deliver(operation.comm, self.finish, message)

    def _failed(self, operation: Any, status: Status | None) -> None:
        """Raise an error that occurred in the operation, and pass it to the error handler."""
        error = operation.error
        set_empty(status)
        comm = self.comm if self.comm is not None else getattr(operation, "comm", None)
        if isinstance(error, errors.Exception):
            if status is not None:
                status.Set_error(error.Get_error_class())
            if comm is not None and comm.report(error):
                return
        raise error

    def _background(self, operation: Background, status: Status | None) -> object:
        set_empty(status)
        message = operation.result
        if isinstance(message, Message):
            if status is not None:
                set_message(status, message.source, message.tag, message.size_bytes)
            assert self.comm is not None
            assert self.finish is not None
            return deliver(self.comm, self.finish, message)
        return self.finish(operation.result) if self.finish is not None else operation.result


class MessageTask(Task):
    """The task of a message: a layer may tolerate the failure of its peer."""

    __slots__ = ()

    def _failed(self, operation: Any, status: Status | None) -> None:
        set_empty(status)
        comm = self.comm if self.comm is not None else operation.comm
        receives = self.finish is not None and not isinstance(operation, Send)
        if not comm.fabric.guard.tolerates(operation, comm, receives=receives):
            super()._failed(operation, status)
        elif receives and status is not None:
            set_message(status, c.PROC_NULL, c.ANY_TAG, 0)


class _Delivered:
    """A stand-in for the delivery function of a task whose data have been delivered.

    It stays until the task is completed.
    """

    def __init__(self, task: Task, finish: Callable[[Any], Any], value: object) -> None:
        self.task = task
        self.finish = finish
        self.value = value

    def __call__(self, data: object) -> object:
        self.task.finish = self.finish  # a persistent request is started again
        return self.value


class PartitionedTask(Task):
    """The task of a partitioned request, with its started transfer if there is a peer."""

    __slots__ = ("incoming", "outgoing", "partitions", "sends", "tag")

    partitions: int
    """The number on this side."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.outgoing: Outgoing | None = None  # takes the partitions that are ready
        self.incoming: Incoming | None = None  # knows the partitions that have arrived
        self.tag = c.ANY_TAG
        self.sends: bool | None = None  # whether partitions are sent rather than received; None if there is no peer

    def is_done(self) -> bool:
        """Return True if complete, or if completion is the next event.

        The latter is true when all partitions have arrived.
        """
        return super().is_done() or (self.incoming is not None and all(self.incoming.arrived))

    def _background(self, operation: Background, status: Status | None) -> object:
        result = super()._background(operation, status)
        if status is not None and self.incoming is not None:
            set_message(status, self.incoming.stream.peer, self.tag, self.incoming.received_bytes)
        return result

    def raise_error(self) -> None:
        """Raise the error that has ended the task; its completion raises it again."""
        if self.operation is not None and self.operation.error is not None:
            self._failed(self.operation, None)


def deliver(comm: Endpoint, finish: Callable[[Any], Any], message: Message) -> object:
    """Deliver a message to the user's buffer.

    An error (truncation) goes to the communicator's handler.
    """
    try:
        return finish(message.data)
    except errors.Exception as error:
        blame_sender(error, message)
        if not comm.report(error):
            raise
        return None


def set_empty(status: Status | None) -> None:
    """Fill a status as MPI does for an empty result."""
    if status is not None:
        set_message(status, c.ANY_SOURCE, c.ANY_TAG, 0)
        status.error = c.SUCCESS


class GeneralizedOperation(Operation):
    """A generalized request: completed by the program itself (MPI 4.1, 13.2)."""

    __slots__ = ("args", "cancel_fn", "free_fn", "kwargs", "query_fn", "result")

    def __init__(
        self,
        query_fn: Callable[..., object] | None,
        free_fn: Callable[..., object] | None,
        cancel_fn: Callable[..., object] | None,
        args: Any,
        kwargs: Any,
    ) -> None:
        super().__init__()
        self.query_fn = query_fn
        self.free_fn = free_fn
        self.cancel_fn = cancel_fn
        self.args = tuple(args) if args is not None else ()
        self.kwargs = dict(kwargs) if kwargs is not None else {}
        self.result: object = None

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return "a generalized request, for this rank to call Grequest.Complete"

    def outcome(self, status: Status | None) -> object:
        """Let the program fill the status and free its resources; return the result."""
        if status is None:
            status = Status()
        set_empty(status)
        try:
            self.ask(status)
        finally:
            self.release()
        return self.result

    def ask(self, status: Status) -> None:
        """Let the program fill a status."""
        if self.query_fn is not None:
            self._call(self.query_fn, status)

    def release(self) -> None:
        """Let the program free its resources."""
        if self.free_fn is not None:
            self._call(self.free_fn)

    def cancel(self) -> None:
        """Tell the program that the operation is cancelled."""
        if self.cancel_fn is not None:
            self._call(self.cancel_fn, self.done)

    def _call(self, function: Callable[..., object], *first: object) -> None:
        """Call one of the program's functions.

        Its exception is printed and becomes an MPI error, as in mpi4py.
        """
        try:
            function(*first, *self.args, **self.kwargs)
        except errors.ReturnedError:
            raise
        except errors.Exception as error:
            report(error)
            raise
        except Exception as problem:
            report(problem)
            raise errors.error(c.ERR_OTHER, f"a generalized request's function raised {problem!r}") from problem
