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

from .alias import Alias, LocalError, alias_of, run_attempt, until_agreed
from .groups import keep_group

__all__ = ["install_files"]

_file, _do, _open = File._file, File._do, manage.open_file
_COLLECTIVE = ("set_size", "preallocate", "set_view", "set_atomicity", "close")


class AliasedFile:
    """A file of the program, and its current replacement."""

    __slots__ = ("alias", "current", "inner", "report_name")

    def __init__(self, alias: Alias, current: OpenFile, inner: Communicator) -> None:
        self.alias = alias  # of the communicator on which it was opened
        self.current = current  # the current file, over `inner`
        self.inner = inner
        # Of `current` in reports, with ranks of the communicator on which it was opened.
        self.report_name = alias.report_name_for(manage.title(current.path, alias.outer.context.size))
        self.report_name.counted = current.comm.collectives
        self.report_name.apply_to(current.comm)

    def on_inner(self, inner: Communicator) -> OpenFile:
        """Return the file over an inner communicator, transferred if that has changed.

        It is not opened again: its name may belong to a different file by now, or to none.
        """
        if inner is not self.inner:
            self.current, self.inner = manage.reopened_for(self.current, inner), inner
            self.report_name.apply_to(self.current.comm)
        return self.current

    def run_collective(self, act: Callable[[OpenFile], Any]) -> Any:
        """Make a collective call among the survivors; a failed attempt does not move the pointer."""
        position = self.current.position

        def restore() -> None:
            self.current.position = position

        result = self.alias.run_collective(
            lambda inner: act(self.on_inner(inner)), restore=restore, begun=lambda: self.current.comm.collectives
        )
        self.report_name.done(self.current.comm)
        return result


def _aliased_files() -> dict[OpenFile, AliasedFile]:
    found: dict[OpenFile, AliasedFile] = of_process("aliased files", dict)
    return found


def open_file(comm: Communicator, path: str, amode: int, hints: Any) -> OpenFile:
    """Open a file together with the survivors."""
    alias = alias_of(comm)
    absent = True  # as far as survivors know, no attempt of this call has created the file
    opened: list[Disk] = []

    def act() -> OpenFile | LocalError:
        inner, mode = alias.prepared(), amode if absent else amode & ~c.MODE_EXCL
        return run_attempt(lambda: _open(inner, path, mode, hints, opened), lambda: inner.children)

    def agreed(success: bool) -> bool:
        nonlocal absent
        success, absent = alias.agree(success, absent and not opened)
        return success

    def restore() -> None:
        while opened:
            opened.pop().close()

    created = until_agreed(comm, act, agreed, restore)
    assert created is not None
    _aliased_files()[created] = AliasedFile(alias, created, alias.inner)
    return created


def current_file(self: File) -> OpenFile:
    """Return the current replacement of the program's file."""
    first = _file(self)
    found = _aliased_files().get(first)
    return first if found is None else found.current


def do(self: Any, call: FileCall, offset: int, buf: Any, status: Any) -> None:
    """Read or write, together with the survivors if the call is collective."""
    if not call.collective:
        _do(self, call, offset, buf, status)
        return
    elements = message(buf, writable=not call.writing)
    size = _aliased_files()[_file(self)].run_collective(
        lambda file: access.prepare(file, call, int(offset), elements)()
    )
    face._fill(status, size or 0)


def _shared(name: str) -> Callable[..., Any]:
    real = getattr(manage, name)

    def function(file: OpenFile, *args: Any) -> Any:
        for first, each in list(_aliased_files().items()):
            if each.current is file:
                if name == "close":
                    del _aliased_files()[first]
                return each.run_collective(lambda current: real(current, *args))
        return real(file, *args)

    function.__name__ = name
    return function


def install_files(patches: Patches) -> None:
    """Route files of programs through the layer."""
    patches.set(manage, "open_file", open_file)
    for name in _COLLECTIVE:
        patches.set(manage, name, _shared(name))
    patches.set(File, "_file", current_file)
    patches.set(File, "_do", do)
    keep_group(patches, File, lambda self: _aliased_files()[_file(self)].alias)
