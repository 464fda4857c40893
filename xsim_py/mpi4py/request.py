"""`MPI.Request`, `MPI.Prequest` and `MPI.Grequest`: pending operations.

A request names a `Task`: the operation of the layer below, and the handling of its outcome (unpack into a buffer,
unpickle, return a result). The wait functions accept lists of mixed kinds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.polling import found, unsuccessful_poll
from xsim_py.mpi.transport.message import Operation, Receive
from xsim_py.mpi.transport.p2p import complete
from xsim_py.process.ranks import current

from .commhandle import mailbox
from .handle import Handle, Null, handle_of, int_list, predefine_null
from .inside import task_of
from .request_lists import complete_all, complete_some, end_incomplete, statuses_for
from .request_tasks import GeneralizedOperation, PartitionedTask, Task, set_empty
from .status import Status, set_message

if TYPE_CHECKING:
    from .open_waits import OpenWait

__all__ = ["REQUEST_NULL", "Grequest", "Prequest", "Request", "Task"]


class AnyOf:
    """The reason why a fiber is parked: waiting for one of several operations."""

    __slots__ = ("operations",)

    def __init__(self, operations: list[Operation]) -> None:
        self.operations = operations

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        first = self.operations[0].describe()
        more = len(self.operations) - 1
        return f"one of {more + 1} requests; the first: {first}" if more else first


def _wait_for_one(tasks: Sequence[Task]) -> None:
    """Park until at least one of the tasks is complete."""
    fiber = current.running()
    fiber.sync()
    if any(task.is_done() for task in tasks):
        return
    operations = [task.operation for task in tasks if task.operation is not None]
    fabric = fiber.rank.mpi.fabric
    if fabric.failure_seen:
        _admit_wait(operations)
    while True:
        for operation in operations:
            operation.waiter = fiber
        fiber.park(AnyOf(operations))
        for operation in operations:
            operation.waiter = None
        if any(operation.done for operation in operations):
            return
        for operation in operations:
            fabric.guard.recheck(operation)


def _admit_wait(operations: Sequence[Operation]) -> None:
    """Reject a wait for operations that cannot complete before a failure is acknowledged."""
    fiber = current.running()
    for operation in operations:
        fiber.rank.mpi.fabric.guard.admit_wait(operation)


def _note_incomplete(tasks: Sequence[Task]) -> None:
    """Handle an unsuccessful test.

    Raise an error if tasks cannot complete before a failure is acknowledged.
    """
    fiber = current.running()
    if fiber.rank.mpi is not None and fiber.rank.mpi.fabric.failure_seen:
        _admit_wait([task.operation for task in tasks if not task.is_done() and task.operation is not None])
    _charge_poll(tasks[0])


def _charge_poll(task: Task) -> None:
    """Charge time for an unsuccessful test, so that a polling loop cannot stop the clock."""
    unsuccessful_poll(current.running(), task, task.operation)


def _note_complete() -> None:
    """Record that a test has found a completed operation which was incomplete when begun."""
    found(current.running().rank)


def _sync_clock() -> None:
    current.running().sync()


_NULL_TASK = Task(None)
_NULL_TASK.active = False


class Request(Handle):
    """Request handle."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()
    _null: ClassVar[Null] = Null("REQUEST_NULL")
    _error = c.ERR_REQUEST

    def __new__(cls, request: Request | None = None) -> Request:
        return cls._copy(request)

    def _task(self) -> Task:
        return _NULL_TASK if self._impl is self._null else self._impl

    def _completed(self, status: Status | None) -> Any:
        """Return the outcome; the request becomes null, or inactive if it is persistent."""
        task = self._task()
        if task is _NULL_TASK:
            set_empty(status)
            return None
        if task.start is None:
            self._impl = self._null
        try:
            return task.outcome(status)
        finally:
            operation = task.operation
            if task.start is not None:
                task.active = False
                task.operation = None
            if current.events is not None:
                current.events.completed(task, operation)

    def free(self) -> None:
        if self._impl is not self._null and self is not REQUEST_NULL:
            self.Free()

    # ------------------------------------------------------------------------------------------ one request

    def wait(self, status: Status | None = None) -> Any:
        return self._wait(status)

    def _wait(self, status: Status | None) -> Any:
        task = self._task()
        if task.active and task.operation is not None:
            complete(task.operation)
        return self._completed(status)

    def Wait(self, status: Status | None = None) -> bool:
        self._wait(status)
        return True

    def test(self, status: Status | None = None) -> tuple[bool, Any | None]:
        return self._test(status)

    def _test(self, status: Status | None) -> tuple[bool, Any | None]:
        task = self._task()
        _sync_clock()
        if not task.is_done():
            _note_incomplete((task,))
            return False, None
        if task.active and task.operation is not None:
            _note_complete()
            complete(task.operation)
        return True, self._completed(status)

    def Test(self, status: Status | None = None) -> bool:
        return self._test(status)[0]

    def Get_status(self, status: Status | None = None) -> bool:
        task = self._task()
        _sync_clock()
        if not task.is_done():
            _charge_poll(task)
            return False
        if task.active:
            _note_complete()
        _fill_status(task, status)
        return True

    def get_status(self, status: Status | None = None) -> bool:
        return self.Get_status(status)

    def Cancel(self) -> None:
        task: Task = self._live()
        operation = task.operation
        _sync_clock()
        if isinstance(operation, Receive) and not operation.done:
            if operation.comm.box.unpost(operation):
                operation.cancelled = operation.done = True
                fiber = current.running()
                operation.time_ps = fiber.clock_ps
        elif isinstance(operation, GeneralizedOperation):
            operation.cancel()

    def cancel(self) -> None:
        self.Cancel()

    def Free(self) -> None:
        task: Task = self._live()
        operation = task.operation
        if isinstance(operation, Receive) and not operation.done and task.finish is not None:
            finish = task.finish
            operation.detached = lambda message: finish(message.data)
        self._impl = self._null
        if isinstance(operation, GeneralizedOperation) and operation.done:
            operation.release()

    # --------------------------------------------------------------------------------------- several requests

    @classmethod
    def Waitany(cls, requests: Sequence[Request], status: Status | None = None) -> int:
        return Request.waitany(requests, status)[0]

    @classmethod
    def waitany(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, Any]:
        active = _active(requests)
        if not active:
            set_empty(status)
            return c.UNDEFINED, None
        open_wait = _open_wait("any", requests, active)
        if open_wait is not None:
            active = open_wait.active
        _wait_for_one([task_of(requests[index]) for index in active])
        index = _earliest(requests, active)
        if open_wait is not None:
            open_wait.record(index)
        return index, _wait(requests[index], status)

    @classmethod
    def Testany(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool]:
        index, flag, _ = Request.testany(requests, status)
        return index, flag

    @classmethod
    def testany(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool, Any | None]:
        active = _active(requests)
        if not active:
            set_empty(status)
            return c.UNDEFINED, True, None
        _sync_clock()
        open_wait = _open_wait("any", requests, active)
        index = _earliest(requests, active if open_wait is None else open_wait.active)
        if index < 0:
            _note_incomplete([task_of(requests[index]) for index in active])
            return c.UNDEFINED, False, None
        _note_complete()
        if open_wait is not None:
            open_wait.record(index)
        return index, True, _wait(requests[index], status)

    @classmethod
    def Get_status_any(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool]:
        active = _active(requests)
        if not active:
            set_empty(status)
            return c.UNDEFINED, True
        _sync_clock()
        index = _earliest(requests, active)
        if index < 0:
            _charge_poll(task_of(requests[active[0]]))
            return c.UNDEFINED, False
        _note_complete()
        _fill_status(task_of(requests[index]), status)
        return index, True

    @classmethod
    def get_status_any(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool]:
        return cls.Get_status_any(requests, status)

    @classmethod
    def Waitall(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        complete_all(requests, _tasks(requests), statuses)
        return True

    @classmethod
    def waitall(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[Any]:
        return complete_all(requests, _tasks(requests), statuses)

    @classmethod
    def Testall(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        return Request.testall(requests, statuses)[0]

    @classmethod
    def testall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[bool, list[Any] | None]:
        tasks = _tasks(requests)
        _sync_clock()
        if not all(task.is_done() for task in tasks):
            try:
                _note_incomplete(tasks)
            except errors.Exception as error:
                end_incomplete(requests, tasks, statuses, error)
            statuses_for(statuses, len(requests))
            return False, None
        _note_complete()
        return True, complete_all(requests, tasks, statuses)

    @classmethod
    def Get_status_all(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        tasks = _tasks(requests)
        _sync_clock()
        slots = statuses_for(statuses, len(requests))
        if not all(task.is_done() for task in tasks):
            _charge_poll(tasks[0])
            return False
        _note_complete()
        for i, task in enumerate(tasks):
            _fill_status(task, slots[i] if slots else None)
        return True

    @classmethod
    def get_status_all(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        return cls.Get_status_all(requests, statuses)

    @classmethod
    def Waitsome(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[int] | None:
        return Request.waitsome(requests, statuses)[0]

    @classmethod
    def waitsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        active = _active(requests)
        if not active:
            return None, None
        open_wait = _open_wait("some", requests, active)
        if open_wait is None or not open_wait.is_forced:
            _wait_for_one([task_of(requests[index]) for index in active])
        else:
            active = open_wait.active
            for index in active:
                _wait_for_one([task_of(requests[index])])
        return complete_some(requests, active, statuses, open_wait)

    @classmethod
    def Testsome(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[int] | None:
        return Request.testsome(requests, statuses)[0]

    @classmethod
    def testsome(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        active = _active(requests)
        if not active:
            return None, None
        _sync_clock()
        open_wait = _open_wait("some", requests, active)
        if open_wait is not None and open_wait.is_forced:
            forced = open_wait.active
            active = forced if all(task_of(requests[index]).is_done() for index in forced) else []
        if not any(task_of(requests[index]).is_done() for index in active):
            _note_incomplete([task_of(requests[index]) for index in active] or _tasks(requests))
        else:
            _note_complete()
        return complete_some(requests, active, statuses, open_wait)

    @classmethod
    def Get_status_some(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[int] | None:
        active = _active(requests)
        if not active:
            return None
        _sync_clock()
        done = [index for index in active if task_of(requests[index]).is_done()]
        if done:
            _note_complete()
        else:
            _charge_poll(task_of(requests[active[0]]))
        slots = statuses_for(statuses, len(done))
        for i, index in enumerate(done):
            _fill_status(task_of(requests[index]), slots[i] if slots else None)
        return done

    @classmethod
    def get_status_some(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[int] | None:
        return cls.Get_status_some(requests, statuses)


_wait = Request._wait


def _tasks(requests: Sequence[Request]) -> list[Task]:
    try:
        return [request._task() for request in requests]  # hot path: not by `task_of`
    except AttributeError:
        _refuse(next(request for request in requests if not isinstance(request, Request)), Request)


def _active(requests: Sequence[Request]) -> list[int]:
    return [index for index, task in enumerate(_tasks(requests)) if task.active]


def _earliest(requests: Sequence[Request], active: list[int]) -> int:
    """Return the index of the request that completed first.

    The result is -1 if none has. MPI leaves that choice open.
    """
    done = []
    for index in active:
        task = task_of(requests[index])
        if task.is_done():
            done.append((task.operation.time_ps if task.operation is not None else 0, index))
    return min(done)[1] if done else -1


def _open_wait(kind: str, requests: Sequence[Request], active: list[int]) -> OpenWait | None:
    """Return the choice of a wait, if there are several and the run has a schedule."""
    box = current.running().rank.mpi
    if box is None or box.chooser is None or len(active) < 2:
        return None
    from .open_waits import OpenWait

    return OpenWait(box.chooser, kind, requests, active)


def _fill_status(task: Task, status: Status | None) -> None:
    """Set the status of a complete task, which stays active (MPI 4.1, 3.7.6).

    Its data are delivered.
    """
    operation = task.operation
    task.deliver_before_completion()
    if status is None:
        return
    if task.active and isinstance(operation, Receive) and operation.message is not None:
        message = operation.message
        set_message(status, message.source, message.tag, message.size_bytes)
    elif task.active and isinstance(operation, GeneralizedOperation):
        set_empty(status)
        operation.ask(status)
    else:
        set_empty(status)
        if isinstance(operation, Receive) and operation.cancelled:
            status.Set_cancelled(True)


R = TypeVar("R", bound=Request)


def _narrow(cls: type[R], family: type[Request], request: Request | None) -> R:
    """Return another handle of a request of the kind `family`; a null one may be of any kind."""
    if isinstance(request, Request) and request and not isinstance(request, family):
        _refuse(request, family)
    return cls._copy(request)


def _refuse(request: object, family: type[Request]) -> NoReturn:
    got = type(request).__name__
    raise TypeError(
        f"Cannot convert {'mpi4py.MPI.' * isinstance(request, Request)}{got} to mpi4py.MPI.{family.__name__}"
    )


class Prequest(Request):
    """Persistent request handle."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()

    def __new__(cls, request: Request | None = None) -> Prequest:
        return _narrow(cls, Prequest, request)

    def Start(self) -> None:
        task: Task = self._live()
        if task.start is None or task.active:
            errors.fail(c.ERR_REQUEST, "the request is not persistent, or is active already")
        task.operation = task.start()
        task.active = True

    @classmethod
    def Startall(cls, requests: list[Prequest]) -> None:
        _tasks(requests)
        for request in requests:
            Prequest.Start(request)

    def Pready(self, partition: int) -> None:
        self._mark((partition,))

    def Pready_range(self, partition_low: int, partition_high: int) -> None:
        self._mark(range(operator.index(partition_low), operator.index(partition_high) + 1))

    def Pready_list(self, partitions: Sequence[int]) -> None:
        self._mark(int_list(partitions))

    def _mark(self, partitions: Sequence[int]) -> None:
        task = self._partitioned(sends=True)
        if not task.active:
            errors.fail(c.ERR_REQUEST, "the partitioned request has not been started")
        for partition in partitions:
            _check_partition(task, partition)
            if task.outgoing is not None:
                task.outgoing.mark(partition)

    def Parrived(self, partition: int) -> bool:
        task = self._partitioned(sends=False)
        _check_partition(task, partition)
        if not task.active or task.incoming is None:
            return True
        _sync_clock()
        arrived = task.incoming.arrived[partition]
        if not arrived:
            if task.is_done():
                task.raise_error()
            _note_incomplete((task,))
        elif task.is_done():
            _note_complete()
        return arrived

    def _partitioned(self, *, sends: bool) -> PartitionedTask:
        task = self._live()
        if not isinstance(task, PartitionedTask) or task.sends is (not sends):
            errors.fail(c.ERR_REQUEST, f"not a partitioned request that {'sends' if sends else 'receives'}")
        return task


def persistent(task: Task, start: Callable[[], Operation | None]) -> Prequest:
    """Return a request whose operation is begun by ``start()``, possibly repeatedly."""
    task.start = start
    task.active = False
    return handle_of(Prequest, task)


def _check_partition(task: PartitionedTask, partition: int) -> None:
    if not 0 <= operator.index(partition) < task.partitions:
        errors.fail(c.ERR_ARG, f"partition {partition} is not in 0..{task.partitions - 1}")


class Grequest(Request):
    """Generalized request handle."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()

    def __new__(cls, request: Request | None = None) -> Grequest:
        return _narrow(cls, Grequest, request)

    @classmethod
    def Start(
        cls,
        query_fn: Callable[..., None] | None = None,
        free_fn: Callable[..., None] | None = None,
        cancel_fn: Callable[..., None] | None = None,
        args: tuple[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Grequest:
        mailbox()  # a program may wait for it before it has used any communicator
        return cls._make(Task(GeneralizedOperation(query_fn, free_fn, cancel_fn, args, kwargs)))

    def Complete(self) -> None:
        self.complete()

    def complete(self, obj: object = None) -> None:
        task: Task = self._live()
        operation = task.operation
        if not isinstance(operation, GeneralizedOperation):
            errors.fail(c.ERR_REQUEST, "not a generalized request")
        fiber = current.running()
        operation.result = obj
        operation.time_ps = fiber.clock_ps
        operation.done = True
        if operation.waiter is not None:  # another thread
            rank = fiber.rank
            rank.key += 1
            rank.shard.kernel.post(fiber.clock_ps, rank.key, Operation.complete, operation)


REQUEST_NULL: Request = predefine_null(Request, 0x180)
