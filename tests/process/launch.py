"""Writes a program into a folder and simulates it."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from xsim_py import simulate
from xsim_py.report import Result

PRELUDE = "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\nrank = comm.rank\n"


@dataclass(frozen=True)
class Launched:
    """What came of it."""

    result: Result
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, given by their paths in the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")


def launch(folder: Path, text: str, *, ranks: int = 1, files: Mapping[str, str] | None = None, **told: Any) -> Launched:
    """Simulate `text`, which finds ``MPI``, ``comm`` and ``rank``, in a folder with further `files`."""
    write(folder, {"prog.py": PRELUDE + dedent(text), **(files or {})})
    return simulated(folder / "prog.py", ranks=ranks, **told)


def simulated(program: Any, **told: Any) -> Launched:
    """Simulate, and catch what is printed."""
    stdout, stderr = io.StringIO(), io.StringIO()
    result = simulate(program, stdout=stdout, stderr=stderr, **told)
    return Launched(result, stdout.getvalue(), stderr.getvalue())
