"""One rank's side of an open file, and joint decisions of its ranks."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.calls import Background, CollectiveChannel, Note, channel, pick
from xsim_py.mpi.errors import fail
from xsim_py.mpi.rma.window import Window

from .disk import Disk
from .hints import Hints
from .view import View, plain_view

if TYPE_CHECKING:
    from xsim_py.mpi.comm import Communicator

_VERDICT = struct.Struct("<qq")


class Split:
    """A pending split collective operation: its call without ``_begin``, and its background operation."""

    __slots__ = ("name", "operation")

    def __init__(self, name: str, operation: Background) -> None:
        self.name = name
        self.operation = operation


class OpenFile:
    """A file, from the point of view of one of the ranks that opened it."""

    __slots__ = (
        "amode",
        "atomic",
        "closed",
        "comm",
        "disk",
        "hints",
        "path",
        "pointer",
        "position",
        "split",
        "view",
    )

    def __init__(self, comm: Communicator, path: str, amode: int, disk: Disk, hints: Hints) -> None:
        self.comm = comm  # private to the file: the members, the messages of its collective calls, the error handler
        self.path = path  # absolute
        self.amode = amode  # the access mode
        self.disk = disk
        self.hints = hints
        self.view: View = plain_view()  # the bytes that this rank sees
        self.position = 0  # the individual file pointer, in etypes of the view
        self.pointer: Window  # the shared file pointer: eight bytes of memory on rank 0
        self.atomic = False  # whether each access of a call is atomic
        self.split: Split | None = None  # the pending split collective operation
        self.closed = False  # whether it has been closed; another handle may still refer to it

    def check_writable(self, call: str) -> None:
        """Raise an error if the file was opened for reading only."""
        if self.amode & c.MODE_RDONLY:
            fail(c.ERR_READ_ONLY, f"{call} of a file that was opened for reading")

    def check_readable(self, call: str) -> None:
        """Raise an error if the file was opened for writing only."""
        if self.amode & c.MODE_WRONLY:
            fail(c.ERR_ACCESS, f"{call} of a file that was opened for writing")

    def check_not_sequential(self, call: str) -> None:
        """Raise an error if the file is accessed sequentially, for calls that need a position."""
        if self.amode & c.MODE_SEQUENTIAL:
            fail(c.ERR_UNSUPPORTED_OPERATION, f"{call} of a file that is accessed sequentially")


def channels(comm: Communicator, name: str, count: int) -> list[CollectiveChannel]:
    """Return the channels of a call that consists of several collectives.

    They are created at once, even unused ones.
    """
    note = Note(name)
    return [channel(comm, note, check=False) for _ in range(count)]


def decide(comm: Communicator, name: str, mine: bytes, act: Callable[[Sequence[Any]], int]) -> int:
    """Run an action on rank 0, once all ranks have entered, and return its result to all.

    `mine` is the argument of this rank, which has the same length on all ranks. `act` is called on rank 0 with the
    arguments of all, in the order of ranks (None for a failed one); it returns a number, or raises an MPI error.
    """
    gather_ch, result_ch = channels(comm, name, 2)
    values = pick(comm, "gather", len(mine))(gather_ch, mine, 0)
    verdict = None
    if comm.me == 0:
        try:
            verdict = _VERDICT.pack(c.SUCCESS, act(values))
        except errors.Exception as error:
            _ = pick(comm, "bcast", _VERDICT.size)(
                result_ch, _VERDICT.pack(error.Get_error_class(), 0), 0, _VERDICT.size
            )
            raise
    code, value = _VERDICT.unpack(pick(comm, "bcast", _VERDICT.size)(result_ch, verdict, 0, _VERDICT.size))
    if code:
        fail(code, f"{name}: as rank 0 reports")
    return int(value)
