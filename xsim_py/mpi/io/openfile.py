"""One rank's side of an open file, and how the ranks of a file decide something together."""

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
    """A split collective operation that has begun: its call without ``_begin``, and what does it meanwhile."""

    __slots__ = ("name", "operation")

    def __init__(self, name: str, operation: Background) -> None:
        self.name = name
        self.operation = operation


class OpenFile:
    """A file, as one of the ranks that have opened it together has it.

    Attributes
    ----------
    comm : Communicator
        Its own: the members, the messages of its collective calls, the error handler.
    path : str
        Where it is, as an absolute path.
    amode : int
        The access mode.
    disk : Disk
        What reads and writes.
    hints : Hints
        How.
    view : View
        Which bytes this rank sees.
    position : int
        The individual file pointer, in etypes of the view.
    pointer : Window
        The shared file pointer: eight bytes of memory at rank 0.
    atomic : bool
        Whether what one call accesses is one whole.
    split : Split or None
        The split collective operation that goes on.
    closed : bool
        Whether it has been closed; another handle may name it still.
    """

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
        self.comm = comm
        self.path = path
        self.amode = amode
        self.disk = disk
        self.hints = hints
        self.view: View = plain_view()
        self.position = 0
        self.pointer: Window
        self.atomic = False
        self.split: Split | None = None
        self.closed = False

    def check_writable(self, call: str) -> None:
        """Refuse to write a file that was opened for reading."""
        if self.amode & c.MODE_RDONLY:
            fail(c.ERR_READ_ONLY, f"{call} of a file that was opened for reading")

    def check_readable(self, call: str) -> None:
        """Refuse to read a file that was opened for writing."""
        if self.amode & c.MODE_WRONLY:
            fail(c.ERR_ACCESS, f"{call} of a file that was opened for writing")

    def check_not_sequential(self, call: str) -> None:
        """Refuse what needs a place in the file, where that is accessed from its begin to its end only."""
        if self.amode & c.MODE_SEQUENTIAL:
            fail(c.ERR_UNSUPPORTED_OPERATION, f"{call} of a file that is accessed sequentially")


def channels(comm: Communicator, name: str, count: int) -> list[CollectiveChannel]:
    """The channels of one call that is made of several collectives; taken all at once, whichever it will need."""
    note = Note(name)
    return [channel(comm, note, check=False) for _ in range(count)]


def decide(comm: Communicator, name: str, mine: bytes, act: Callable[[Sequence[Any]], int]) -> int:
    """Let rank 0 do something, once all ranks are here, and tell all what came of it.

    Parameters
    ----------
    mine : bytes
        What this rank says; equally many bytes at all.
    act : callable
        Gets what all say, in the order of ranks (None of one that is dead), and returns a number, or raises an MPI
        error. Called at rank 0.

    Returns
    -------
    int
        The number.
    """
    gathering, telling = channels(comm, name, 2)
    said = pick(comm, "gather", len(mine))(gathering, mine, 0)
    verdict = None
    if comm.me == 0:
        try:
            verdict = _VERDICT.pack(c.SUCCESS, act(said))
        except errors.Exception as error:
            _ = pick(comm, "bcast", _VERDICT.size)(telling, _VERDICT.pack(error.Get_error_class(), 0), 0, _VERDICT.size)
            raise
    code, value = _VERDICT.unpack(pick(comm, "bcast", _VERDICT.size)(telling, verdict, 0, _VERDICT.size))
    if code:
        fail(code, f"{name}: as rank 0 reports")
    return int(value)
