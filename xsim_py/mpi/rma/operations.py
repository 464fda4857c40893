"""Operations on the memory of other ranks (MPI 4.1, 12.3), begun by the running fiber."""

from __future__ import annotations

from collections.abc import Callable

from xsim_py.mpi import constants as c
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi.handles import number_of
from xsim_py.mpi.op import ReductionOp
from xsim_py.mpi.transport.message import Operation
from xsim_py.process.ranks import current

from .packets import (
    ACCUMULATE,
    FETCH,
    GET,
    PUT,
    SWAP,
    RmaPacket,
    TargetPlace,
    basic_type,
    check_operation,
    place_of,
)
from .waits import Departure
from .window import Transfer, Window

_MANY = 1000
"""The number of pending atomic operations beyond which a rank polls, so that virtual time advances."""

_SWAPPED = ("integer", "fortran integer", "logical", "byte")


def send_packet(window: Window, target: int, packet: RmaPacket, size_bytes: int) -> int:
    """Send a packet from the running fiber, which pays the overhead.

    Return when its last byte has left. A small packet is copied, so that its buffer can be reused at once; then the
    result is 0.
    """
    fiber = current.running()
    rank = fiber.rank
    to = window.comm.ranks[target]
    fabric = window.comm.fabric
    if fabric.failure_seen:
        fabric.guard.admit(window.comm, to)
    link = fabric.link(rank.number, to)
    cost = link.cache.get(size_bytes) or link.cost(size_bytes)
    fiber.clock_ps += cost.send_ps
    fiber.sync()  # the NIC serves requests in time order, such as a reply from this rank's memory
    left_ps = window.service.inject(rank, to, packet, size_bytes)
    return 0 if cost.eager else left_ps


def _target(window: Window, target: int, datatype: Type, displacement: int, count: int, call: str) -> TargetPlace:
    """Check the arguments of an operation at its target; return the location there."""
    if not 0 <= target < len(window.comm.ranks):
        fail(c.ERR_RANK, f"{call}: rank {target} is not in 0..{len(window.comm.ranks) - 1}")
    if count < 0:
        fail(c.ERR_COUNT, f"{call}: {count} elements")
    if displacement < 0 and window.flavor != c.WIN_FLAVOR_DYNAMIC:
        fail(c.ERR_DISP, f"{call}: displacement {displacement}")
    window.epochs.operate(target, call)
    place = place_of(datatype, displacement, count)
    if window.flavor != c.WIN_FLAVOR_DYNAMIC and place.low != place.high:
        size = window.shape.sizes[target]
        origin = displacement * window.shape.units[target]
        if origin + place.low < 0 or origin + place.high > size:
            first, last = origin + place.low, origin + place.high
            fail(c.ERR_RMA_RANGE, f"{call}: bytes {first} to {last} of a window of {size} bytes at rank {target}")
    return place


def _start(
    window: Window, kind: int, target: int, place: TargetPlace, data: bytes,
    operation: str = "", basic: int = 0, transfer: Transfer | None = None,
) -> int:  # fmt: skip
    """Start an operation; return when its data have left, 0 if the buffer can be reused at once."""
    mode = 0
    if window.epochs.all_locked and target not in window.acquired and target not in window.unchecked:
        window.acquired.add(target)  # the first operation of the epoch requests the lock
        mode = c.LOCK_SHARED
    if window.comm.fabric.failure_seen:
        window.comm.fabric.guard.admit(window.comm, window.comm.ranks[target])
    if kind in (FETCH, SWAP) and window.arriving[target] >= _MANY:
        current.running().clock_ps += window.comm.fabric.settings.mpi.poll_time_ps
    window.count_started(target, transfer)
    ticket = window.ticket if transfer is not None else 0
    packet = RmaPacket(kind, window.comm.cid, window.comm.me, ticket, place, data, operation, basic, mode)
    left_ps = send_packet(window, target, packet, len(data))
    if left_ps:
        window.left_ps[target] = left_ps
    return left_ps


def _fits(size_bytes: int, room_bytes: int, call: str) -> None:
    if size_bytes > room_bytes:
        fail(c.ERR_TRUNCATE, f"{call}: {size_bytes} bytes for a buffer of {room_bytes}")


def put(window: Window, data: bytes, target: int, where: tuple[Type, int, int], call: str) -> int:
    """Start MPI_Put; return when the data have left, 0 if the buffer can be reused at once.

    `where` has the type of the elements at the target, the displacement and the count.
    """
    place = _target(window, target, *where, call)
    _fits(len(data), place.total_bytes, call)
    return _start(window, PUT, target, place, data)


def get(
    window: Window, unpack: Callable[[bytes], object], room_bytes: int, target: int,
    where: tuple[Type, int, int], call: str,
) -> Transfer:  # fmt: skip
    """Start MPI_Get."""
    place = _target(window, target, *where, call)
    _fits(place.total_bytes, room_bytes, call)
    transfer = Transfer(target, unpack)
    _start(window, GET, target, place, b"", transfer=transfer)
    return transfer


def accumulate(
    window: Window, data: bytes, target: int, where: tuple[Type, int, int], operation: ReductionOp, call: str
) -> int:
    """Start MPI_Accumulate; the result is that of `put`."""
    if operation.name == "NO_OP":
        fail(c.ERR_OP, f"{call}: NO_OP is for operations that return something")
    basic = _combining(operation, where, call)
    place = _target(window, target, *where, call)
    _same_size(len(data), place.total_bytes, call)
    return _start(window, ACCUMULATE, target, place, data, operation.name, basic)


def fetch(
    window: Window, data: bytes, unpack: Callable[[bytes], object], room_bytes: int, target: int,
    where: tuple[Type, int, int], operation: ReductionOp, call: str,
) -> Transfer:  # fmt: skip
    """Start MPI_Get_accumulate or MPI_Fetch_and_op."""
    basic = _combining(operation, where, call)
    place = _target(window, target, *where, call)
    _fits(place.total_bytes, room_bytes, call)
    if operation.name == "NO_OP":
        data = b""
    else:
        _same_size(len(data), place.total_bytes, call)
    transfer = Transfer(target, unpack)
    _start(window, FETCH, target, place, data, operation.name, basic, transfer)
    return transfer


def compare_and_swap(
    window: Window, data: bytes, compare: bytes, unpack: Callable[[bytes], object], target: int,
    where: tuple[Type, int, int], call: str,
) -> Transfer:  # fmt: skip
    """Start MPI_Compare_and_swap."""
    if not where[0].is_predefined or where[0].kind not in _SWAPPED:
        fail(c.ERR_TYPE, f"{call} needs integers, logicals or bytes, got {where[0].name or 'a derived datatype'}")
    place = _target(window, target, *where, call)
    transfer = Transfer(target, unpack)
    _start(window, SWAP, target, place, compare + data, transfer=transfer)
    return transfer


def _combining(operation: ReductionOp, where: tuple[Type, int, int], call: str) -> int:
    """Return the handle of the elements' predefined type, after checking that the operation supports it."""
    if operation.function is not None or not operation.name:
        fail(c.ERR_OP, f"{call} needs a predefined operation")
    basic = basic_type(where[0])
    if where[2]:
        check_operation(operation.name, basic)
    return 0 if basic is None else number_of(basic)


def _same_size(size_bytes: int, room_bytes: int, call: str) -> None:
    if size_bytes != room_bytes:
        fail(c.ERR_TRUNCATE, f"{call}: {size_bytes} bytes at the origin, {room_bytes} at the target")


# ------------------------------------------------------------------------------------------ operations of requests


def departure_of(window: Window, left_ps: int, name: str) -> Operation | None:
    """Return an operation that completes when the data of another have left; None if they have."""
    if not left_ps:
        return None
    operation = Departure(name, left_ps)
    rank = window.comm.box.rank
    rank.key += 1
    window.comm.fabric.kernel.post(left_ps, rank.key, Operation.complete, operation)
    return operation


def result_of(window: Window, transfer: Transfer, name: str) -> Operation:
    """Return an operation that completes when the result of another has arrived."""
    return window.begin_wait(name, "an answer of", lambda: transfer.done, lambda: (transfer.target,))
