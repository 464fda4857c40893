"""A compiled program, as `Program` is a Python program."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from xsim_py import mpi4py
from xsim_py.mpi4py.options import note_import
from xsim_py.process.programs import program as programs
from xsim_py.process.programs.program import Program
from xsim_py.process.ranks.meter import metered
from xsim_py.process.ranks.patches import Patches
from xsim_py.process.ranks.rank import Rank

from .build import library
from .elf import is_executable, refuse_unusable

__all__ = ["Executable", "register"]


class Executable(Program):
    """An executable of Linux, which a process of each rank executes."""

    about_storage = (
        "compiled programs read and write the host's files, in no virtual time; only files of MPI_File_open are on the"
        " simulated storage"
    )

    def _load_executable(self, target: object) -> None:
        from .by_hand import load
        from .calls import call
        from .child import ProgramCalls

        path = Path(self.start, str(target))
        refuse_unusable(os.fspath(path), str(target))
        self.file = os.path.abspath(path)
        self.folder = path.resolve().parent
        load()
        library()
        self._new_calls = partial(ProgramCalls, call)
        self._calls, self._run = self._new_calls(), cast("Patches | None", None)  # those of a run

    def run(self, rank: Rank) -> None:
        """Run the program in a process of the rank, which is the running one."""
        from .child import Child

        if self._run is not Patches.latest:
            self._calls, self._run = self._new_calls(), Patches.latest
        mpi4py.rc.errors = "default"
        note_import()
        words = [self.name, *map(str, self.args)]
        start = metered(Child, charge=False)
        start(rank, words, dict(os.environ), os.getcwd(), self._calls).run()


def _foreign(target: Any, *, args: Sequence[Any], start: str | None = None) -> Program | None:
    """Return the program of a file that is an executable of Linux, by its first bytes; None for others."""
    if not isinstance(target, str | os.PathLike) or not is_executable(Path(start or "", target)):
        return None
    return Executable(target, kind="executable", args=args, start=start)


def register() -> None:
    """Let executables be programs of a run."""
    programs.foreign = _foreign
