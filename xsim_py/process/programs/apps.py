"""Jobs of several programs, each for some of the ranks: ``mpiexec -n 2 a.py : -n 3 b.py``."""

from __future__ import annotations

import inspect
import os
import threading
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from xsim_py.parameters import RunParameters
from xsim_py.process.ranks.rank import Rank

from .program import Program


class App(NamedTuple):
    """One of the programs of a job, and how many ranks run it.

    Attributes
    ----------
    program : path, str, callable or Program
        A script; a module's name or Python text, as `kind` says; or a function, which each rank calls with `args`.
    ranks : int
        How many ranks run it.
    args : sequence
        Its arguments.
    kind : str, optional
        ``script``, ``module``, ``code`` or ``callable``; by default a callable is one and everything else a script.
    env : mapping of str to str, optional
        Variables that its ranks find in their environment besides those of the simulator.
    """

    program: Any
    ranks: int
    args: Sequence[Any] = ()
    kind: str | None = None
    env: Mapping[str, str] | None = None

    def load(self) -> Program:
        """Find and compile the program."""
        if isinstance(self.program, Program):
            return self.program
        kind = self.kind or ("callable" if callable(self.program) else "script")
        return Program(self.program, kind=kind, args=self.args)


class Apps:
    """Several programs, each for some ranks of one COMM_WORLD; for the simulator, a `Program`.

    Parameters
    ----------
    apps : sequence of App
        In the order of their ranks.

    Attributes
    ----------
    firsts : tuple of int
        The first rank of each of them.
    start : str
        The directory in which the job starts.
    programs : list of Program
        Those that the ranks run.

    Raises
    ------
    ConfigError
        One of the programs cannot be found, read or compiled.
    """

    namespace: dict[str, Any] | None = None
    is_watched = True  # see `Program`

    def __init__(self, apps: Sequence[App]) -> None:
        self.start = os.getcwd()
        self.firsts = tuple(accumulate((app.ranks for app in apps[:-1]), initial=0))
        self.programs = [app.load() for app in apps]
        self._environments = [app.env for app in apps]
        self.name = " : ".join(program.name for program in self.programs)
        self.has_value = any(program.has_value for program in self.programs)

    def run(self, rank: Rank) -> None:
        """Run the program of `rank`, which is the one that is running now, where and with what it is to find."""
        place = bisect_right(self.firsts, rank.number) - 1
        program, variables = self.programs[place], self._environments[place]
        if program.start != self.start:
            os.chdir(program.start)
        if variables:
            os.environ.update(variables)
        program.run(rank)


def load(program: Any, asked: RunParameters) -> Program | Apps:
    """Find and compile what `simulate` is to run."""
    if isinstance(program, list | tuple):
        return Apps(program)
    return App(program, asked.ranks, asked.args, asked.kind).load()


def wrong(program: Any, ranks: Any, *, wall_limit: Any) -> list[str]:
    """Return what is wrong with a program that `simulate` is to run on so many ranks, and with the thread."""
    problems = _wrong(program, ranks)
    if wall_limit is not None and threading.current_thread() is not threading.main_thread():
        problems.append("wall_limit: a wall limit needs the main thread, and simulate() was called in another")
    return problems


def _wrong(program: Any, ranks: Any) -> list[str]:
    if not (isinstance(program, list | tuple) and program and all(isinstance(app, App) for app in program)):
        return _wrong_program(program)
    problems = [
        f"ranks: {app.ranks!r} of an App is not a whole number above zero" for app in program if not _counts(app)
    ]
    problems += [problem for app in program for problem in _wrong_program(app.program)]
    told = 0 if problems else sum(app.ranks for app in program)
    return problems or ([f"ranks: the programs have {told}, not {ranks}"] if told != ranks else [])


def _counts(app: App) -> bool:
    return isinstance(app.ranks, int) and app.ranks > 0


def _wrong_program(program: Any) -> list[str]:
    if inspect.isgeneratorfunction(program) or inspect.iscoroutinefunction(program):
        return [f"program: a call of {program.__name__} only makes a generator or coroutine, which nobody runs"]
    if not callable(program) and not isinstance(program, str | os.PathLike | Program):
        return [f"program: {program!r} is neither a path nor a function, nor a list of App"]
    return []
