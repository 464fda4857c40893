"""Files under the layer: each process keeps its open file, view and pointer after a repair.

Calls of a single process use the open file; collective calls run among the survivors. The shared pointer is not
covered: it is stored at one process, and is lost with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from xsim_py.mpi import constants as c
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.io import manage
from xsim_py.mpi.io.disk import Disk
from xsim_py.mpi.io.openfile import OpenFile
from xsim_py.mpi.per_process import of_process
from xsim_py.mpi4py.comm import Intracomm
from xsim_py.mpi4py.errhandling import Reporting
from xsim_py.mpi4py.file import File

from .alias import Alias, LocalError, alias_of, run_attempt, unreported, until_agreed

__all__ = ["COVERED", "is_uncovered"]


class AliasedFile:
    """A file of the program, and the inner communicator over which it is open."""

    __slots__ = ("alias", "file", "inner", "report_name")

    def __init__(self, alias: Alias, file: OpenFile) -> None:
        self.alias = alias  # of the communicator on which it was opened
        self.file = file
        self.inner = alias.inner
        # Its name in reports, with ranks of the communicator on which it was opened.
        self.report_name = alias.report_name_for(manage.title(file.path, alias.outer.context.size))
        self.report_name.counted = file.comm.collectives
        self.report_name.apply_to(file.comm)

    def run_collective(self, act: Callable[[OpenFile], Any]) -> None:
        """Make a collective call among the survivors; a failed attempt does not move the pointer."""
        file, position = self.file, self.file.position

        def attempt(inner: Communicator) -> None:
            if inner is not self.inner:  # it is not opened again: its name may belong to another file by now
                manage.reopen_for(file, inner)
                self.inner = inner
                self.report_name.apply_to(file.comm)
            with unreported(file.comm):
                act(file)

        def restore() -> None:
            file.position = position

        self.alias.run_collective(attempt, restore=restore, begun=lambda: file.comm.collectives)
        self.report_name.done(file.comm)


def _aliased_files() -> dict[OpenFile, AliasedFile]:
    found: dict[OpenFile, AliasedFile] = of_process("aliased files", dict)
    return found


def _open(go: Callable[..., Any], cls: type[File], comm: object, *args: Any) -> object:
    return cls._opened(_open_file, comm, *args) if isinstance(comm, Intracomm) else go(cls, comm, *args)


def _open_file(comm: Communicator, path: str, amode: int, hints: Any) -> OpenFile:
    """Open a file together with the survivors."""
    alias = alias_of(comm)
    absent = True  # as far as survivors know, no attempt of this call has created the file
    opened: list[Disk] = []

    def act() -> OpenFile | LocalError:
        inner, mode = alias.prepared(), amode if absent else amode & ~c.MODE_EXCL
        return run_attempt(lambda: manage.open_file(inner, path, mode, hints, opened), lambda: inner.children)

    def agreed(success: bool) -> bool:
        nonlocal absent
        success, absent = alias.agree(success, absent and not opened)
        return success

    def restore() -> None:
        while opened:
            opened.pop().close()

    created = until_agreed(comm, act, agreed, restore)
    assert created is not None
    _aliased_files()[created] = AliasedFile(alias, created)
    return created


def _close(go: object, self: Any) -> None:
    """Close the file, when all survivors have called it."""
    file = self._file()
    with Reporting(file.comm):
        self._impl = self._null
        _aliased_files().pop(file).run_collective(manage.close)


def _among_survivors(go: Callable[..., Any], self: Any, *args: object) -> None:
    _aliased_files()[self._file()].run_collective(lambda file: go(self, *args))


def is_uncovered(name: str) -> bool:
    """Return True for methods of files that are rejected: split, with the shared pointer, or in the background."""
    return name.endswith(("_begin", "_end", "_shared", "_ordered")) or (name.startswith("I") and name.endswith("_all"))


COVERED: Final[dict[str, Callable[..., Any]]] = {
    "File.Open": _open,
    "File.Close": _close,
    "File.free": lambda go, self: _close(go, self) if self else None,
    **{
        f"File.{name}": _among_survivors
        for name in (
            *("Set_size", "Preallocate", "Set_view", "Set_atomicity"),
            *("Read_all", "Read_at_all", "Write_all", "Write_at_all"),
        )
    },
}
