"""Checks of file calls: collective opens and accesses, and buffers in use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import shown
from xsim_py.findings import REQUEST_LIFECYCLE
from xsim_py.mpi.io.representation import in_file
from xsim_py.mpi4py.inside import impl_of, live_impl, null_of

from . import buffers, collectives
from .records import CollectiveCall
from .requests import end_uses, of_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from .monitor import After, Monitor, MpiCall

_TOGETHER = ("Set_size", "Preallocate", "Sync", "Seek_shared", "Set_atomicity")
_COLLECTIVE_SUFFIXES = ("_all", "_at_all", "_ordered")


def _open(
    monitor: Monitor,
    call: MpiCall,
    cls: object,
    comm: object,
    filename: str | bytes | os.PathLike[str],
    amode: int,
    info: object,
) -> None:
    """Check ``File.Open``, for which all members pass the same file and mode."""
    entry = CollectiveCall(call.rank.number, call.title, call.place)
    entry.same = f"file {shown(os.path.realpath(os.fsdecode(filename)), monitor.start)} with mode {int(amode)}"
    collectives.enter(monitor, call, comm, entry)
    call.rank.steps.add([entry], [entry], True)


def _collective(monitor: Monitor, call: MpiCall, file: object, *args: object) -> None:
    """Check a call that all ranks which have opened the file make."""
    _join(monitor, call, file)


def _blocking_transfer(name: str) -> Callable[..., After | None]:
    """Return the check of a blocking read or write."""
    reads, is_collective, place = name.startswith("Write"), name.endswith(_COLLECTIVE_SUFFIXES), int("_at" in name)

    def follow(monitor: Monitor, call: MpiCall, file: object, *args: object) -> After | None:
        after = None
        if call.rank.buffers or call.rank.exposed:
            after = buffers.overlapping(monitor, call, args[place], reads=reads)
        if is_collective:
            _join(monitor, call, file)
        return after

    return follow


def _join(monitor: Monitor, call: MpiCall, file: object, same: str = "") -> None:
    """Compare a call with those of the other ranks that have opened the file."""
    opened = impl_of(file)
    if opened is null_of(file) or opened.closed:
        return
    entry = CollectiveCall(call.rank.number, call.title, call.place, same=same)
    collectives.join_collective(monitor, call, opened.comm, entry)
    call.rank.steps.add([entry], [entry], True)


def _view(
    monitor: Monitor,
    call: MpiCall,
    file: object,
    disp: int,
    etype: object,
    filetype: object,
    datarep: str | None,
    info: object,
) -> None:
    """Check ``Set_view``, for which all members pass etypes of equal extent."""
    try:
        extent = in_file(datarep or "native", live_impl(etype)).extent
    except Exception:  # the call itself reports the error
        return
    _join(monitor, call, file, f"an etype of {extent} bytes")


def _nonblocking_transfer(*, reads: bool) -> Callable[..., After | None]:
    """Return the check of a call that begins a nonblocking or split read or write."""

    def follow(monitor: Monitor, call: MpiCall, file: object, *args: object) -> After | None:
        _check_pending_split(monitor, call, file)
        used = (buffers.guard_send_buffer if reads else buffers.guard_receive_buffer)(monitor, call, args[-1])

        def begun(request: object) -> None:
            record: Any = of_request(monitor, call, request)
            if record is None and call.name.endswith("_begin"):
                record = buffers.NoRequest(call)
                monitor.signals[call.rank.number, "split", id(impl_of(file))] = record, impl_of(file)
            if used is not None and record is not None:
                used.begin(record)

        return begun

    return follow


def _check_pending_split(monitor: Monitor, call: MpiCall, file: object) -> None:
    """Find a split call on a file that already has one pending.

    At most one is allowed (MPI 4.1, 14.4.5).
    """
    before = monitor.signals.get((call.rank.number, "split", id(impl_of(file))))
    if before is not None and call.name.endswith("_begin"):
        text = f"{call.title} is called before {before[0].title} of the same file has ended"
        where = f"{monitor.where(before[0].place)}: {before[0].title}"
        _if_uncaught(monitor, call, text, where)


def _end_split(monitor: Monitor, call: MpiCall, file: object, *args: object) -> After | None:
    """Check the second half of a split call, after which the buffer is free again."""
    key = call.rank.number, "split", id(impl_of(file))
    begun = monitor.signals.get(key)
    if begun is None or begun[0].title.removesuffix("_begin") != call.title.removesuffix("_end"):
        text = f"{call.title} does not match {begun[0].title if begun else 'any begun call'}"
        _if_uncaught(monitor, call, text)
        return None
    del monitor.signals[key]
    return lambda _: end_uses(begun[0])


def _if_uncaught(monitor: Monitor, call: MpiCall, text: str, *details: str) -> None:
    """Keep an error that the call will raise, for a report if the program does not catch it."""
    code, offset, _ = call.place
    monitor.raised[call.rank.number, code, offset] = call.place, REQUEST_LIFECYCLE, text, details


def unfinished(monitor: Monitor, number: int) -> None:
    """Find unfinished split calls of a rank, even if the file is closed (MPI 4.1, 14.2.2)."""
    for key, begun in monitor.signals.items():
        if key[:2] == (number, "split"):
            text = f"{begun[0].title} is never ended"
            monitor.note(REQUEST_LIFECYCLE, begun[0].place, text, number)


_BEGUN = ("", "_at", "_shared", "_all", "_at_all")
_AT_ONCE = (*_BEGUN, "_ordered")

CHECKS: dict[str, Callable[..., Any]] = {
    "Open": _open,
    "Set_view": _view,
    **dict.fromkeys(_TOGETHER, _collective),
    **{(name := f"{verb}{suffix}"): _blocking_transfer(name) for verb in ("Read", "Write") for suffix in _AT_ONCE},
    **{f"Iread{suffix}": _nonblocking_transfer(reads=False) for suffix in _BEGUN},
    **{f"Iwrite{suffix}": _nonblocking_transfer(reads=True) for suffix in _BEGUN},
    **{f"Read{suffix}_begin": _nonblocking_transfer(reads=False) for suffix in _COLLECTIVE_SUFFIXES},
    **{f"Write{suffix}_begin": _nonblocking_transfer(reads=True) for suffix in _COLLECTIVE_SUFFIXES},
    **{f"{verb}{suffix}_end": _end_split for verb in ("Read", "Write") for suffix in _COLLECTIVE_SUFFIXES},
}
"""The check of each method of a file."""
