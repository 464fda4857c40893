"""Waiting for requests, and their statuses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi4py.inside import task_of

from .by_hand import MPI, Given, by_hand, register
from .calls import integers, write_handle, write_integers
from .convert import STATUS_BYTES, new_status, null_number, write_status

if TYPE_CHECKING:
    from .child import Child


def _requests(child: Child, address: int, count: int) -> tuple[Sequence[int], list[Any]]:
    numbers = child.sent(count) or integers(child, address, count, "q")
    return numbers, [child.handles.get(number, MPI.Request) for number in numbers]


def _settle(child: Child, address: int, numbers: Sequence[int], requests: list[Any]) -> None:
    """Set completed requests to null in the program's memory."""
    null = null_number(MPI.Request)
    done = [i for i, number in enumerate(numbers) if number != null and not requests[i]]
    for i in done:
        child.handles.drop(numbers[i])
    if len(done) == len(numbers):
        write_integers(child, address, [null] * len(done), "q")
    else:
        for i in done:
            write_integers(child, address + 8 * i, [null], "q")


def _write_statuses(child: Child, address: int, statuses: list[Any] | None) -> None:
    for i, status in enumerate(statuses or ()):
        write_status(child, address + STATUS_BYTES * i, status)


@by_hand
def Wait(child: Child, given: Given) -> None:
    numbers, requests = _requests(child, given[0], 1)
    status = new_status() if given[1] else None
    try:
        requests[0].Wait(status)
    finally:
        _settle(child, given[0], numbers, requests)
    if status is not None:
        write_status(child, given[1], status)


@by_hand
def Test(child: Child, given: Given) -> None:
    numbers, requests = _requests(child, given[0], 1)
    status = new_status() if given[2] else None
    try:
        done = requests[0].Test(status)
    finally:
        _settle(child, given[0], numbers, requests)
    write_integers(child, given[1], [done], "i")
    if done and status is not None:
        write_status(child, given[2], status)


def _all(method: str, child: Child, given: Given) -> None:
    count, address, flag, place = given if len(given) == 4 else (*given[:2], 0, given[2])
    numbers, requests = _requests(child, address, count)
    statuses = [MPI.Status() for _ in requests] if place else None
    done = True
    try:
        done = getattr(MPI.Request, method)(requests, statuses)
    finally:
        if done:
            _settle(child, address, numbers, requests)
            _write_statuses(child, place, statuses)
        write_integers(child, flag, [done], "i")


def _any(method: str, child: Child, given: Given) -> None:
    count, address, index_at, flag, place = given if len(given) == 5 else (*given[:3], 0, given[3])
    numbers, requests = _requests(child, address, count)
    status = new_status()
    active = _active(requests)
    index, done = c.UNDEFINED, True
    try:
        found = getattr(MPI.Request, method)(requests, status)
        index, done = found if isinstance(found, tuple) else (found, True)
    except errors.Exception:
        index = min(active - _active(requests), default=c.UNDEFINED)
        raise
    finally:
        _settle(child, address, numbers, requests)
        write_integers(child, index_at, [index], "i")
        write_integers(child, flag, [done], "i")
    if done and place:
        write_status(child, place, status)


def _some(method: str, child: Child, given: Given) -> None:
    count, address, count_at, indices_at, place = given
    numbers, requests = _requests(child, address, count)
    statuses: list[Any] | None = [] if place else None
    active = _active(requests)
    indices: Any = None
    try:
        indices = getattr(MPI.Request, method)(requests, statuses)
    except errors.Exception:
        indices = sorted(active - _active(requests))
        raise
    finally:
        _settle(child, address, numbers, requests)
        write_integers(child, count_at, [c.UNDEFINED if indices is None else len(indices)], "i")
        write_integers(child, indices_at, indices or (), "i")
        _write_statuses(child, place, statuses and statuses[: len(indices or ())])


def _active(requests: list[Any]) -> set[int]:
    """Return the indices of requests that are active."""
    return {i for i, request in enumerate(requests) if request and task_of(request).active}


for _body, _name in ((_all, "all"), (_any, "any"), (_some, "some")):
    for _call in ("Wait", "Test", "Request_get_status_"):
        register(_call + _name, partial(_body, _call.removeprefix("Request_").capitalize() + _name))


@by_hand
def Improbe(child: Child, given: Given) -> None:
    source, tag, comm, flag, message, place = given
    status = new_status()
    found = child.handles.get(comm, MPI.Comm).Improbe(source, tag, status)
    write_integers(child, flag, [found is not None], "i")
    if found is not None:
        write_handle(child, message, found)
        if place:
            write_status(child, place, status)


@by_hand
def Start(child: Child, given: Given) -> None:
    _requests(child, given[0], 1)[1][0].Start()


@by_hand
def Startall(child: Child, given: Given) -> None:
    MPI.Prequest.Startall(_requests(child, given[1], given[0])[1])


@by_hand
def Request_free(child: Child, given: Given) -> None:
    numbers, requests = _requests(child, given[0], 1)
    requests[0].Free()
    _settle(child, given[0], numbers, requests)
