"""Files under the layer: each process keeps its open file, view and pointer after a repair.

Calls of a single process use the open file; collective calls run among the survivors. The shared pointer is not
covered: it is stored at one process, and is lost with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xsim_py.mpi import constants as c
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.io import access, manage
from xsim_py.mpi.io.access import FileCall
from xsim_py.mpi.io.disk import Disk
from xsim_py.mpi.io.openfile import OpenFile
from xsim_py.mpi.per_process import of_process
from xsim_py.mpi4py import file as face
from xsim_py.mpi4py.bufspec import message
from xsim_py.mpi4py.file import File
from xsim_py.process.ranks.patches import Patches

from .alias import Alias, Trouble, alias_of, attempted, until_agreed
from .groups import keep_group

__all__ = ["install_files"]

_file, _do, _open = File._file, File._do, manage.open_file
_COLLECTIVE = ("set_size", "preallocate", "set_view", "set_atomicity", "close")


class HandedOn:
    """A file of the program, and its current replacement.

    Attributes
    ----------
    alias : Alias
        The alias of the communicator on which it was opened.
    report_name : Guise
        The name of `now` in reports, with ranks of that communicator.
    now : OpenFile
        The current file, over an inner communicator.
    under : Communicator
        That communicator.
    """

    __slots__ = ("alias", "now", "report_name", "under")

    def __init__(self, alias: Alias, now: OpenFile, under: Communicator) -> None:
        self.alias = alias
        self.now = now
        self.under = under
        self.report_name = alias.guise_named(manage.title(now.path, alias.outer.context.size))
        self.report_name.counted = now.comm.collectives
        self.report_name.apply_to(now.comm)

    def over(self, inner: Communicator) -> OpenFile:
        """Return the file over an inner communicator, transferred if that has changed.

        It is not opened again: its name may belong to a different file by now, or to none.
        """
        if inner is not self.under:
            self.now, self.under = manage.reopened_for(self.now, inner), inner
            self.report_name.apply_to(self.now.comm)
        return self.now

    def together(self, act: Callable[[OpenFile], Any]) -> Any:
        """Make a collective call among the survivors; a failed attempt does not move the pointer."""
        position = self.now.position

        def again() -> None:
            self.now.position = position

        result = self.alias.together(
            lambda inner: act(self.over(inner)), again=again, begun=lambda: self.now.comm.collectives
        )
        self.report_name.done(self.now.comm)
        return result


def _reopened() -> dict[OpenFile, HandedOn]:
    found: dict[OpenFile, HandedOn] = of_process("files that are reopened", dict)
    return found


def open_file(comm: Communicator, path: str, amode: int, hints: Any) -> OpenFile:
    """Open a file together with the survivors."""
    alias = alias_of(comm)
    absent = True  # as far as survivors know, no attempt of this call has created the file
    opened: list[Disk] = []

    def act() -> OpenFile | Trouble:
        inner, mode = alias.prepared(), amode if absent else amode & ~c.MODE_EXCL
        return attempted(lambda: _open(inner, path, mode, hints, opened), lambda: inner.children)

    def agreed(well: bool) -> bool:
        nonlocal absent
        well, absent = alias.agree(well, absent and not opened)
        return well

    def again() -> None:
        while opened:
            opened.pop().close()

    made = until_agreed(comm, act, agreed, again)
    assert made is not None
    _reopened()[made] = HandedOn(alias, made, alias.inner)
    return made


def newest(self: File) -> OpenFile:
    """Return the current replacement of the program's file."""
    first = _file(self)
    found = _reopened().get(first)
    return first if found is None else found.now


def do(self: Any, call: FileCall, offset: int, buf: Any, status: Any) -> None:
    """Read or write, together with the survivors if the call is collective."""
    if not call.collective:
        _do(self, call, offset, buf, status)
        return
    elements = message(buf, writable=not call.writing)
    size = _reopened()[_file(self)].together(lambda file: access.prepare(file, call, int(offset), elements)())
    face._fill(status, size or 0)


def _shared(name: str) -> Callable[..., Any]:
    real = getattr(manage, name)

    def function(file: OpenFile, *args: Any) -> Any:
        for first, each in list(_reopened().items()):
            if each.now is file:
                if name == "close":
                    del _reopened()[first]
                return each.together(lambda now: real(now, *args))
        return real(file, *args)

    function.__name__ = name
    return function


def install_files(patches: Patches) -> None:
    """Route files of programs through the layer."""
    patches.set(manage, "open_file", open_file)
    for name in _COLLECTIVE:
        patches.set(manage, name, _shared(name))
    patches.set(File, "_file", newest)
    patches.set(File, "_do", do)
    keep_group(patches, File, lambda self: _reopened()[_file(self)].alias)
