"""Checks of invalid arguments that the library accepts, or rejects only on arrival of a message."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from xsim_py.findings import INVALID_PARAMETER, PARAMETER_MATCHING
from xsim_py.mpi4py.bufspec import UserBuffer, message
from xsim_py.mpi4py.datatype import INSTANCES

from . import buffers
from .commuting import created
from .signatures import LIKE_BYTES, described, of_elements, same

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xsim_py.mpi.datatype import Type

    from .monitor import After, Monitor, MpiCall

BYTE = INSTANCES["BYTE"]


def fits(monitor: Monitor, call: MpiCall, buf: object) -> None:
    """Find a receive of more elements than its memory holds; short messages hide the error.

    Also find a receive of overlapping elements, whose final value MPI leaves undefined (MPI 4.1, 5.1.11).
    """
    if type(buf) not in (list, tuple):
        return  # without a count, the whole buffer is used
    try:
        parsed = message(buf, writable=False)
    except Exception:  # the call itself reports the error
        return
    core, count = parsed.datatype, parsed.count
    if not count or not core.size:
        return
    needed, room = parsed.offset + (count - 1) * core.extent + core.true_lb + core.true_extent, len(parsed.memory)
    if needed > room:
        text = f"{call.title} may receive {needed:,} bytes, but its buffer has only {room:,}"
        monitor.note(INVALID_PARAMETER, call.place, text, call.rank.number)
    once(monitor, call, [(start, end, 0) for start, end in buffers.pieces_from(0, core, count)])


def once(monitor: Monitor, call: MpiCall, pieces: list[tuple[int, int, int]]) -> None:
    """Find a byte that a call would write more than once (MPI 4.1, 5.1.11, 6.5 and 6.8)."""
    for (_, end, one), (start, _, other) in pairwise(sorted(pieces)):
        if end > start:
            why = "its datatype has bytes twice" if one == other else f"blocks {one} and {other} have bytes in common"
            text = f"{call.title} is to receive {'elements' if one == other else 'blocks'} that overlap: {why}"
            monitor.note(INVALID_PARAMETER, call.place, text, call.rank.number)
            return


def subarray(
    monitor: Monitor,
    call: MpiCall,
    datatype: object,
    sizes: Sequence[int],
    subsizes: Sequence[int],
    starts: Sequence[int],
    order: int,
) -> None:
    """Find a subarray that exceeds its array (MPI 4.1, 5.1.3)."""
    for axis, (size, part, start) in enumerate(zip(sizes, subsizes, starts, strict=False)):
        if not (0 <= part <= size and 0 <= start <= size - part):
            text = f"{call.title}: {part} elements from {start} on are out of range for size {size} (axis {axis})"
            monitor.note(INVALID_PARAMETER, call.place, text, call.rank.number)


def of_target(monitor: Monitor, call: MpiCall, origin: UserBuffer, core: Type, count: int) -> None:
    """Find window accesses whose origin and target have different basic types."""
    mine, theirs = of_elements(origin.datatype, origin.count), of_elements(core, count)
    if not same(mine, theirs) and not LIKE_BYTES.issuperset(name for name, _ in mine + theirs):
        text = f"{call.title} has {described(mine)} at the origin but {described(theirs)} at the target"
        monitor.note(PARAMETER_MATCHING, call.place, text, call.rank.number)


def _pack(
    monitor: Monitor, call: MpiCall, datatype: object, inbuf: object, outbuf: object, position: int, comm: object
) -> After | None:
    """Check the buffers of ``Pack``."""
    return _from_to(monitor, call, [inbuf, datatype], _part(outbuf, position, inbuf, datatype))


def _unpack(
    monitor: Monitor, call: MpiCall, datatype: object, inbuf: object, position: int, outbuf: object, comm: object
) -> After | None:
    """Check the buffers of ``Unpack``."""
    return _from_to(monitor, call, _part(inbuf, position, outbuf, datatype), [outbuf, datatype])


def _part(packed: object, position: int, buf: object, datatype: object) -> object:
    """Return the part of a packed buffer for the elements of another buffer.

    The result is None if there is no such part.
    """
    try:
        size_bytes = message([buf, datatype], writable=False).nbytes
    except Exception:  # the call itself reports the error
        return None
    return [packed, (size_bytes, position), BYTE]


def _reduce_local(monitor: Monitor, call: MpiCall, op: object, inbuf: object, inoutbuf: object) -> After | None:
    """Check the buffers of ``Reduce_local``."""
    return _from_to(monitor, call, inbuf, inoutbuf)


def _from_to(monitor: Monitor, call: MpiCall, inbuf: object, outbuf: object) -> After | None:
    """Check the buffers of a call that reads one and writes another."""
    buffers.overlapping(monitor, call, inbuf, reads=True)
    buffers.check_disjoint(monitor, call, inbuf, outbuf, "input and output")
    return buffers.overlapping(monitor, call, outbuf)


CHECKS: dict[str, Callable[..., Any]] = {
    "Create": created,
    "Create_subarray": subarray,
    "Pack": _pack,
    "Unpack": _unpack,
    "Reduce_local": _reduce_local,
}
"""The check of each method of a datatype or operation."""
