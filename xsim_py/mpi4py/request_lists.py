"""Calls that complete several requests together: their outcomes, statuses and errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.calls import wait_all
from xsim_py.mpi.transport.message import Operation
from xsim_py.process.ranks import current

from .inside import completion_of, task_of
from .request_tasks import Task
from .status import Status

if TYPE_CHECKING:
    from .open_waits import OpenWait
    from .request import Request

__all__ = ["complete_all", "complete_some", "end_incomplete", "statuses_for"]


def complete_all(requests: Sequence[Request], tasks: Sequence[Task], statuses: list[Status] | None) -> list[Any]:
    """Wait for all requests, and return their outcomes."""
    try:
        wait_all(_operations(tasks))
    except errors.Exception as error:
        end_incomplete(requests, tasks, statuses, error)
    return _collect(requests, range(len(requests)), statuses_for(statuses, len(requests)))


def _operations(tasks: Iterable[Task]) -> list[Operation]:
    return [task.operation for task in tasks if task.active and task.operation is not None]


def end_incomplete(
    requests: Sequence[Request], tasks: Sequence[Task], statuses: list[Status] | None, cause: errors.Exception
) -> NoReturn:
    """End a call for requests of which some cannot complete before a failure is acknowledged.

    Complete requests are completed; the statuses describe each (MPI 4.1, 3.7.5), filled as by Open MPI.
    """
    done = [task.is_done() for task in tasks]
    wait_all(_operations(task for task, is_done in zip(tasks, done, strict=True) if is_done))
    guard = current.running().rank.mpi.fabric.guard
    slots = statuses_for(statuses, len(requests))
    for i, (request, task) in enumerate(zip(requests, tasks, strict=True)):
        status = slots[i] if slots is not None else None
        code = c.SUCCESS
        if not done[i]:
            code = c.ERR_PENDING if guard.pending(task.operation) is None else c.ERR_PROC_FAILED_PENDING
        else:
            try:
                completion_of(request)(status)
            except errors.Exception as error:
                code = error.Get_error_class()
        if status is not None:
            status.Set_error(code)
    raise errors.in_status([cause])


def complete_some(
    requests: Sequence[Request], active: list[int], statuses: list[Status] | None, open_wait: OpenWait | None
) -> tuple[list[int], list[Any]]:
    """Complete the active requests that are done; return their indices and outcomes."""
    done = [index for index in active if task_of(requests[index]).is_done()]
    if done and open_wait is not None:
        open_wait.record(sum(1 << index for index in done))
    wait_all([op for index in done if (op := task_of(requests[index]).operation) is not None])
    return done, _collect(requests, done, statuses_for(statuses, len(done)))


def _collect(requests: Sequence[Request], indices: Sequence[int], statuses: Sequence[Status] | None) -> list[Any]:
    """Return the outcomes of completed requests.

    Raise errors after collecting all of them (ERR_IN_STATUS).
    """
    results = []
    failures: dict[int, errors.Exception] = {}
    for place, index in enumerate(indices):
        status = statuses[place] if statuses is not None else None
        try:
            results.append(completion_of(requests[index])(status))
        except errors.Exception as error:
            failures[place] = error
            results.append(None)
    if failures:
        for place, status in enumerate(statuses[: len(indices)] if statuses is not None else ()):
            status.Set_error(failures[place].Get_error_class() if place in failures else c.SUCCESS)
        raise errors.in_status(failures.values())
    return results


def statuses_for(statuses: Sequence[Status] | None, count: int) -> Sequence[Status] | None:
    """Return statuses for all requests.

    A list is extended in place as in mpi4py, other sequences are copied.
    """
    if statuses is None or len(statuses) >= count:
        return statuses
    more = [Status() for _ in range(count - len(statuses))]
    if isinstance(statuses, list):
        statuses.extend(more)
        return statuses
    return [*statuses, *more]
