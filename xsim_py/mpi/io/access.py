"""Reading and writing (MPI 4.1, 14.4): the common part of the many calls.

A call has a position (an explicit offset, the individual pointer, the shared pointer, or the order of ranks), is for
one rank or collective, and is blocking or in the background. `prepare` evaluates what depends on the time of the call
(pointer, data, the numbers of its messages); the function that it returns does the rest, in any fiber.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xsim_py.mpi import constants as c
from xsim_py.mpi.calls import CollectiveChannel, begin, timed
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi.transport.p2p import complete
from xsim_py.process.ranks import current

from . import independent, pointers, twophase
from .openfile import OpenFile, Split, channels
from .representation import from_file, in_file, to_file
from .view import View

AT, INDIVIDUAL, SHARED, ORDERED = range(4)
"""The position of a call: an explicit offset, or a pointer. ORDERED is the shared one, in the order of ranks."""


class FileCall(NamedTuple):
    """One of the calls."""

    name: str
    """Its name in mpi4py, with the class; without ``_begin`` or ``_end``."""
    writing: bool
    where: int
    """AT, INDIVIDUAL, SHARED or ORDERED."""
    collective: bool
    """Whether all ranks must call it."""


def prepare(file: OpenFile, call: FileCall, offset: int, elements: Any) -> Callable[[], int]:
    """Check a call and evaluate its arguments.

    `offset` is that of a call AT, in etypes. `elements` is the program's buffer: ``datatype``, ``count``, ``nbytes``,
    ``pack()`` and ``unpack(data)``. The result executes the call, and returns the number of bytes of memory.
    """
    (file.check_writable if call.writing else file.check_readable)(call.name)
    if call.where in (AT, INDIVIDUAL):
        file.check_not_sequential(call.name)
    if call.where == AT and offset < 0:
        fail(c.ERR_ARG, f"{call.name}: offset {offset}")
    view, datatype = file.view, elements.datatype
    size = elements.count * in_file(view.representation, datatype).size
    etypes, rest = divmod(size, view.unit) if view.unit else (0, size)
    if rest:
        fail(c.ERR_IO, f"{call.name}: {size} bytes are not whole etypes of {view.unit} bytes")
    data = to_file(view.representation, datatype, elements.pack()) if call.writing else b""
    chs = channels(file.comm, call.name, twophase.CHANNELS + 2 * (call.where == ORDERED)) if call.collective else []
    if call.where == INDIVIDUAL:
        offset = file.position
        file.position += etypes

    accessed = None if current.events is None else current.events.accessing(file)

    def body() -> int:
        start = _start(file, call, offset, etypes, chs) * view.unit
        if accessed is not None and etypes:
            accessed(view.pieces(start, size), call.writing)
        if call.writing:
            _write(file, view, start, data, chs)
            return int(elements.nbytes)
        return _read(file, view, start, size, chs, elements)

    if not call.collective:
        return body
    chs[0].algorithm = "two_phase"
    return lambda: int(timed(int(elements.nbytes), body, chs[0]))


def _start(file: OpenFile, call: FileCall, offset: int, etypes: int, chs: list[CollectiveChannel]) -> int:
    """Return the offset at which a call begins, in etypes; the shared pointer is evaluated now."""
    if call.where == SHARED:
        return pointers.fetch_and_add(file.pointer, etypes, call.name)
    if call.where == ORDERED:
        gather_ch, scatter_ch = chs[twophase.CHANNELS :]
        return pointers.in_order(file.pointer, gather_ch, scatter_ch, etypes)
    return offset


def _write(file: OpenFile, view: View, start: int, data: bytes, chs: list[CollectiveChannel]) -> None:
    pieces = view.pieces(start, len(data))
    if chs:
        twophase.write(file, chs, pieces, data)
    else:
        independent.write_alone(file, pieces, data)


def _read(file: OpenFile, view: View, start: int, size: int, chs: list[CollectiveChannel], elements: Any) -> int:
    pieces = view.pieces(start, size)
    data = twophase.read(file, chs, pieces) if chs else independent.read_alone(file, pieces)
    datatype: Type = elements.datatype
    return int(elements.unpack(from_file(view.representation, datatype, data)))


# ----------------------------------------------------------------------------------------------- split collectives


def begin_split(file: OpenFile, call: FileCall, offset: int, elements: object) -> None:
    """Begin a split collective call, which continues by itself.

    A file has at most one of them at a time.
    """
    if file.split is not None:
        fail(c.ERR_IO, f"{call.name}_begin: {file.split.name} has begun but not ended")
    body = prepare(file, call, offset, elements)
    file.split = Split(call.name, begin(f"{call.name}_begin", body))


def end_split(file: OpenFile, name: str) -> int:
    """End a split collective call; return the number of bytes of memory that were transferred."""
    split = file.split
    if split is None or split.name != name:
        begun = "nothing" if split is None else split.name
        fail(c.ERR_IO, f"{name}_end: {begun} has begun")
    file.split = None
    complete(split.operation)
    if split.operation.error is not None:
        raise split.operation.error
    return int(split.operation.result)
