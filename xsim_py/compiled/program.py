"""A compiled program, as `Program` is a Python program."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xsim_py.mpi4py.options import Options, use
from xsim_py.process.programs import program as programs
from xsim_py.process.programs.program import Program
from xsim_py.process.ranks.meter import metered
from xsim_py.process.ranks.patches import Patches
from xsim_py.process.ranks.rank import Rank

from .build import library
from .elf import is_executable, is_fast, refuse_unusable

if TYPE_CHECKING:
    from .child import ProgramCalls

__all__ = ["Executable", "FastProgram", "register"]


_OPTIONS = Options(errors="default")


class Executable(Program):
    """An executable of Linux, which a process of each rank executes."""

    def _load_executable(self, target: object) -> None:
        from .by_hand import load

        path = Path(self.start, str(target))
        self.file = os.path.abspath(path)
        self.folder = path.resolve().parent
        self._prepare(self.file, str(target))
        load()
        self._calls, self._run = cast("Any", None), cast("Patches | None", None)  # those of a run

    def _prepare(self, file: str, name: str) -> None:
        """Check the file, and set how a rank is started."""
        from .calls import call
        from .child import Child, ProgramCalls

        refuse_unusable(file, name)
        library()
        self._new_calls: Callable[[], ProgramCalls] = partial(ProgramCalls, call)
        self._child: Any = metered(Child, charge=False)

    def run(self, rank: Rank) -> None:
        """Run the program in a process of the rank, which is the running one."""
        if self._run is not Patches.latest:
            self._calls, self._run = self._new_calls(), Patches.latest
        use(_OPTIONS)
        words = [self.name, *map(str, self.args)]
        self._child(rank, words, self._calls).run()


class FastProgram(Executable):
    """A program that runs in the process of the simulator."""

    about_storage = (
        "programs of `xsim cc --fast` read and write the host's files, in no virtual time; only files of MPI_File_open"
        " are on the simulated storage: compile without --fast"
    )

    def _prepare(self, file: str, name: str) -> None:
        from .calls import call
        from .fast import FastCalls, FastChild, refuse_unusable

        refuse_unusable(file, name)
        self._new_calls = partial(FastCalls, call, file)
        self._child = metered(FastChild, charge=False)


def _foreign(target: Any, *, args: Sequence[Any], start: str | None = None) -> Program | None:
    """Return the program of a file that is an executable of Linux, by its first bytes; None for others."""
    if not isinstance(target, str | os.PathLike) or not is_executable(Path(start or "", target)):
        return None
    make = FastProgram if is_fast(Path(start or "", target)) else Executable
    return make(target, kind="executable", args=args, start=start)


def register() -> None:
    """Let executables be programs of a run."""
    programs.foreign = _foreign
