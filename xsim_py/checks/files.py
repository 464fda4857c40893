"""Checks of file calls: members open and access a file together, and leave alone what is being read and written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import shown
from xsim_py.mpi.constants import MODE_RDONLY
from xsim_py.mpi.io.representation import in_file
from xsim_py.mpi4py.datatype import INSTANCES

from . import buffers, collectives
from .requests import of_request
from .sides import CollectiveCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from .around import After
    from .monitor import Monitor, MpiCall

_TOGETHER = ("Set_size", "Preallocate", "Sync", "Seek_shared", "Set_atomicity")
_MADE_BY_ALL = ("_all", "_at_all", "_ordered")


def _open(
    monitor: Monitor,
    call: MpiCall,
    cls: Any,
    comm: Any,
    filename: Any,
    amode: int = MODE_RDONLY,
    *_: Any,
    **__: Any,
) -> None:
    """Follow ``File.Open``, in which all members say how the file is to be used."""
    said = CollectiveCall(call.rank.number, call.title, call.place)
    said.same = f"file {shown(os.path.realpath(os.fsdecode(filename)), monitor.start)} with mode {int(amode)}"
    collectives.enter(monitor, call, comm, said)
    call.rank.steps.take([said], [said], True)


def _together(monitor: Monitor, call: MpiCall, file: Any, *args: Any, **kwargs: Any) -> None:
    """Follow a call that all who have opened the file make."""
    _meet(monitor, call, file)


def _moves(name: str) -> Callable[..., After | None]:
    """Return what follows a call that writes what is in a buffer, or reads into one, before it returns."""
    reads, together, place = name.startswith("Write"), name.endswith(_MADE_BY_ALL), int("_at" in name)

    def follow(monitor: Monitor, call: MpiCall, file: Any, *args: Any, **kwargs: Any) -> After | None:
        after = None
        if call.rank.buffers or call.rank.exposed:
            buf = args[place] if len(args) > place else kwargs.get("buf")
            after = buffers.overlapping(monitor, call, buf, reads=reads)
        if together:
            _meet(monitor, call, file)
        return after

    return follow


def _meet(monitor: Monitor, call: MpiCall, file: Any, same: str = "") -> None:
    """Compare a call with those of the others who have opened the file."""
    opened = file._impl
    if opened is file._null or opened.closed:
        return
    said = CollectiveCall(call.rank.number, call.title, call.place, same=same)
    collectives.meet(monitor, call, opened.comm, said)
    call.rank.steps.take([said], [said], True)


def _view(
    monitor: Monitor,
    call: MpiCall,
    file: Any,
    disp: int = 0,
    etype: Any = INSTANCES["BYTE"],
    filetype: Any = None,
    datarep: str | None = "native",
    info: Any = None,
) -> None:
    """Follow ``Set_view``, for which all members have etypes of one extent."""
    try:
        extent = in_file(datarep or "native", etype._live()).extent
    except Exception:  # the call itself will say what is wrong
        return
    _meet(monitor, call, file, f"an etype of {extent} bytes")


def _begins(*, reads: bool) -> Callable[..., After | None]:
    """Return what follows a call that begins to write what it reads, or to read into what it writes."""

    def follow(monitor: Monitor, call: MpiCall, file: Any, *args: Any, **kwargs: Any) -> After | None:
        buf = kwargs["buf"] if "buf" in kwargs else args[-1]
        used = (buffers.lent if reads else buffers.awaited)(monitor, call, buf)

        def begun(request: Any) -> None:
            record = of_request(monitor, call, request)
            if used is not None and record is not None:
                used.begin(record)
            elif used is not None:  # of the two halves of a split call
                used.begin(buffers.Unnamed(call))
                monitor.signals[call.rank.number, "split", id(file._impl)] = used

        return begun

    return follow


def _ends(monitor: Monitor, call: MpiCall, file: Any, *args: Any, **kwargs: Any) -> After | None:
    """Follow the second half of a split call, after which the buffer is free again."""
    used = monitor.signals.pop((call.rank.number, "split", id(file._impl)), None)
    return None if used is None else lambda _: used.end()


_BEGUN = ("", "_at", "_shared", "_all", "_at_all")
_AT_ONCE = (*_BEGUN, "_ordered")

ADVICE: dict[str, Callable[..., Any]] = {
    "Open": _open,
    "Set_view": _view,
    **dict.fromkeys(_TOGETHER, _together),
    **{(name := f"{verb}{suffix}"): _moves(name) for verb in ("Read", "Write") for suffix in _AT_ONCE},
    **{f"Iread{suffix}": _begins(reads=False) for suffix in _BEGUN},
    **{f"Iwrite{suffix}": _begins(reads=True) for suffix in _BEGUN},
    **{f"Read{suffix}_begin": _begins(reads=False) for suffix in _MADE_BY_ALL},
    **{f"Write{suffix}_begin": _begins(reads=True) for suffix in _MADE_BY_ALL},
    **{f"{verb}{suffix}_end": _ends for verb in ("Read", "Write") for suffix in _MADE_BY_ALL},
}
"""Each method of a file, with the function that follows it."""
