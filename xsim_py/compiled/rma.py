"""Windows: their memory is the program's, or for shared windows a file that the simulator and all its programs map."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.mpi import constants as c
from xsim_py.mpi.errors import fail
from xsim_py.mpi.memory import address_of
from xsim_py.mpi.rma import create
from xsim_py.mpi4py.inside import window_of
from xsim_py.process.ranks import current

from .by_hand import MAKERS, MPI, Body, Given, by_hand
from .calls import bind, write_handle, write_integers
from .child import BadAddress, Child
from .convert import CParameter, RemoteMemory

if TYPE_CHECKING:
    from xsim_py.mpi.rma.window import Window

_MAP, _UNMAP = 8, 9  # callbacks.c
_VALUES = struct.Struct("=qiii")
_VALUE_AT = {c.WIN_SIZE: 0, c.WIN_DISP_UNIT: 8, c.WIN_CREATE_FLAVOR: 12, c.WIN_MODEL: 16}

create.shares_files = True


class _Exposed(RemoteMemory):
    """Memory that other programs access by windows."""

    __slots__ = ()

    def __getitem__(self, part: slice) -> bytearray:
        """Return a copy of a part."""
        with _in_range():
            return super().__getitem__(part)

    def __setitem__(self, part: slice, data: bytes) -> None:
        """Store a part."""
        with _in_range():
            super().__setitem__(part, data)

    def change(self, first: int, old: bytes, new: bytearray) -> None:
        """Store the bytes that differ."""
        with _in_range():
            super().change(first, old, new)


@contextmanager
def _in_range() -> Iterator[None]:
    try:
        yield
    except BadAddress as error:
        fail(c.ERR_RMA_RANGE, str(error))


class _Kept:
    """Addresses of a window's data in the program: its attributes, and its shared memory; 0 if there are none."""

    __slots__ = ("mapped", "values")

    def __init__(self) -> None:
        self.values = self.mapped = 0


class RemoteWin(MPI.Win):  # type: ignore[misc]
    """A window of a compiled program."""

    __slots__ = ()

    @staticmethod
    def _exposed(memory: Any) -> Any:
        return memory

    @staticmethod
    def _shown(memory: Any) -> Any:
        return memory

    @staticmethod
    def _allocated(size: int) -> _Exposed:
        child = _running()
        return _Exposed(child, _obtained(child, size), size)

    def Get_attr(self, keyval: int) -> Any:
        """Return an attribute as a pointer; those of MPI itself point to an integer, except the base."""
        if keyval not in _VALUE_AT and keyval != c.WIN_BASE:
            return super().Get_attr(keyval)
        child, window = _running(), window_of(self)
        if keyval == c.WIN_BASE:
            return _base(window, window.comm.me)
        kept = _kept(window)
        if not kept.values:
            kept.values = _obtained(child, _VALUES.size)
            child.write(kept.values, _VALUES.pack(len(window.memory), window.unit, window.flavor, c.WIN_UNIFIED))
        return kept.values + _VALUE_AT[keyval]

    def Free(self) -> None:
        """Free the window, and what it has in the program's memory."""
        child, window = _running(), window_of(self)
        kept, memory = _kept(window), window.memory
        super().Free()
        if kept.values:
            child.release(kept.values)
        if window.flavor == c.WIN_FLAVOR_ALLOCATE:
            child.release(memory.address)
        elif kept.mapped:
            child.call_back(_UNMAP, 0, kept.mapped, max(sum(window.shape.sizes), 1))


def _running() -> Child:
    found: Child = current.running().rank.private("child", dict)
    return found


def _kept(window: Window) -> _Kept:
    if not isinstance(window.origin, _Kept):
        window.origin = _Kept()
    return window.origin


def _obtained(child: Child, size: int) -> int:
    """Return the address of new memory in the program."""
    return child.obtain(size) or fail(c.ERR_NO_MEM, f"{size} bytes of memory")


def _base(window: Window, place: int) -> int:
    """Return the address of a rank's memory in the running rank's program."""
    if window.flavor == c.WIN_FLAVOR_SHARED:
        return _kept(window).mapped + sum(window.shape.sizes[:place])
    return address_of(window.memory) if place == window.comm.me else 0


@by_hand
def Win_create(child: Child, given: Given) -> None:
    base, size, unit, info, comm, win = given
    if size < 0:
        fail(c.ERR_SIZE, f"a window of {size} bytes")
    _create(child, win, RemoteWin.Create, _Exposed(child, base, size), (unit, info, comm))


@by_hand
def Win_allocate(child: Child, given: Given) -> None:
    window = _create(child, given[5], RemoteWin.Allocate, given[0], given[1:4])
    write_integers(child, given[4], [_base(window, window.comm.me)], "q")


@by_hand
def Win_allocate_shared(child: Child, given: Given) -> None:
    window = _create(child, given[5], RemoteWin.Allocate_shared, given[0], given[1:4])
    _kept(window).mapped = _mapped(child, window.segment)
    write_integers(child, given[4], [_base(window, window.comm.me)], "q")


@by_hand
def Win_create_dynamic(child: Child, given: Given) -> None:
    info, comm, win = given
    made = RemoteWin.Create_dynamic(child.handles.get(info, MPI.Info), child.handles.get(comm, MPI.Comm))
    write_handle(child, win, made)


def _create(child: Child, place: int, make: Any, memory: object, others: tuple[int, ...]) -> Any:
    """Create a window by one of three methods, write its handle, and return the object behind it."""
    unit, info, comm = others
    made = make(memory, unit, child.handles.get(info, MPI.Info), child.handles.get(comm, MPI.Comm))
    write_handle(child, place, made)
    return window_of(made)


def _mapped(child: Child, segment: Any) -> int:
    """Map the memory of a shared window into the program, and return its address."""
    with current.outside(), ExitStack() as opened:
        file = segment.file or opened.enter_context(open(segment.path, "r+b"))
        address = child.call_back(_MAP, 0, os.getpid(), file.fileno(), len(segment.memory))
    return address or fail(c.ERR_NO_MEM, f"the program cannot map a shared window of {len(segment.memory)} bytes")


def _shared_query(parameters: list[CParameter]) -> Body:
    def function(child: Child, given: Given) -> None:
        number, place, size, unit, base = given
        win = child.handles.get(number, RemoteWin)
        memory, its_unit = win.Shared_query(place)
        window = window_of(win)
        if place == c.PROC_NULL:
            place = next((other for other, each in enumerate(window.shape.sizes) if each), 0)
        write_integers(child, size, [len(memory)], "q")
        write_integers(child, unit, [its_unit], parameters[3].code)
        write_integers(child, base, [_base(window, place)], "q")

    return function


@by_hand
def Win_get_attr(child: Child, given: Given) -> None:
    found = child.handles.get(given[0], RemoteWin).Get_attr(given[1])
    write_integers(child, given[2], [] if found is None else [found], "q")
    write_integers(child, given[3], [found is not None], "i")


@by_hand
def Win_attach(child: Child, given: Given) -> None:
    child.handles.get(given[0], RemoteWin).Attach(_Exposed(child, given[1], given[2]))


@by_hand
def Win_detach(child: Child, given: Given) -> None:
    child.handles.get(given[0], RemoteWin).Detach(_Exposed(child, given[1], 0))


@by_hand
def Alloc_mem(child: Child, given: Given) -> None:
    if given[0] < 0:
        fail(c.ERR_ARG, f"{given[0]} bytes of memory")
    write_integers(child, given[2], [_obtained(child, given[0])], "q")


@by_hand
def Free_mem(child: Child, given: Given) -> None:
    child.release(given[0])


def _fetching(name: str, parameters: list[CParameter]) -> Body:
    """Return a function that ignores the origin if the operation is MPI_NO_OP (MPI 5.0, 12.3.4)."""
    function = bind(name, parameters)
    assert function is not None
    places = {each.name: i for i, each in enumerate(parameters)}
    same = [(places[f"origin_{part}"], places[f"result_{part}"]) for part in _PARTS if f"result_{part}" in places]

    def fetch(child: Child, given: Given) -> None:
        if given[places["op"]] == _NO_OP:
            changed = [*given]
            for origin, result in same:
                changed[origin] = given[result]
            given = tuple(changed)
        function(child, given)

    return fetch


_PARTS = ("addr", "count", "datatype")
_NO_OP = MPI.NO_OP.toint()
MAKERS.update({name: partial(_fetching, name) for name in ("Fetch_and_op", "Get_accumulate", "Rget_accumulate")})
MAKERS["Win_shared_query"] = _shared_query
