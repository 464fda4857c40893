"""Waiting for requests, and their statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .by_hand import MPI, by_hand
from .calls import integers, write_integers
from .convert import STATUS_BYTES, null_number, read_status, write_status

if TYPE_CHECKING:
    from .child import Child


def _requests(child: Child, address: int, count: int) -> tuple[list[int], list[Any]]:
    numbers = integers(child, address, count, "q")
    return numbers, [child.handles.get(number, MPI.Request) for number in numbers]


def _settle(child: Child, address: int, numbers: list[int], requests: list[Any]) -> None:
    """Set completed requests to null in the program's memory."""
    null = null_number(MPI.Request)
    for i, (number, request) in enumerate(zip(numbers, requests, strict=True)):
        if number != null and not request:
            child.handles.drop(number)
            write_integers(child, address + 8 * i, [null], "q")


def _write_statuses(child: Child, address: int, statuses: list[Any] | None) -> None:
    for i, status in enumerate(statuses or ()):
        write_status(child, address + STATUS_BYTES * i, status, with_error=True)


@by_hand
def Wait(child: Child, given: tuple[int, ...]) -> None:
    numbers, requests = _requests(child, given[0], 1)
    status = MPI.Status() if given[1] else None
    try:
        requests[0].Wait(status)
    finally:
        _settle(child, given[0], numbers, requests)
    if status is not None:
        write_status(child, given[1], status)


@by_hand
def Test(child: Child, given: tuple[int, ...]) -> None:
    numbers, requests = _requests(child, given[0], 1)
    status = MPI.Status() if given[2] else None
    try:
        done = requests[0].Test(status)
    finally:
        _settle(child, given[0], numbers, requests)
    write_integers(child, given[1], [done], "i")
    if done and status is not None:
        write_status(child, given[2], status)


@by_hand
def Waitall(child: Child, given: tuple[int, ...]) -> None:
    numbers, requests = _requests(child, given[1], given[0])
    statuses = [MPI.Status() for _ in requests] if given[2] else None
    try:
        MPI.Request.Waitall(requests, statuses)
    finally:
        _settle(child, given[1], numbers, requests)
        _write_statuses(child, given[2], statuses)


@by_hand
def Waitany(child: Child, given: tuple[int, ...]) -> None:
    numbers, requests = _requests(child, given[1], given[0])
    status = MPI.Status() if given[3] else None
    try:
        index = MPI.Request.Waitany(requests, status)
    finally:
        _settle(child, given[1], numbers, requests)
    write_integers(child, given[2], [index], "i")
    if status is not None:
        write_status(child, given[3], status)


@by_hand
def Start(child: Child, given: tuple[int, ...]) -> None:
    _requests(child, given[0], 1)[1][0].Start()


@by_hand
def Startall(child: Child, given: tuple[int, ...]) -> None:
    MPI.Prequest.Startall(_requests(child, given[1], given[0])[1])


@by_hand
def Request_free(child: Child, given: tuple[int, ...]) -> None:
    numbers, requests = _requests(child, given[0], 1)
    requests[0].Free()
    _settle(child, given[0], numbers, requests)


@by_hand
def Get_count(child: Child, given: tuple[int, ...]) -> None:
    count = read_status(child, given[0]).Get_count(child.handles.get(given[1], MPI.Datatype))
    write_integers(child, given[2], [count], "i")
