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

from .program import Program, program


class App(NamedTuple):
    """One program of a job, with its number of ranks.

    Attributes
    ----------
    program : path, str, callable or Program
        A script; a module's name or Python text, according to `kind`; or a function, which each rank calls with `args`.
    ranks : int
        Number of ranks that run it.
    args : sequence
        Its command-line arguments, or the arguments of the function.
    kind : str, optional
        ``script``, ``module``, ``code`` or ``callable``; default: callables are called, everything else is a script.
    env : mapping of str to str, optional
        Environment variables of its ranks, in addition to those of the simulator.
    """

    program: object
    ranks: int
    args: Sequence[Any] = ()
    kind: str | None = None
    env: Mapping[str, str] | None = None

    def load(self) -> Program:
        """Find and compile the program."""
        if isinstance(self.program, Program):
            return self.program
        kind = self.kind or ("callable" if callable(self.program) else "script")
        return program(self.program, kind=kind, args=self.args)


class Apps:
    """Several programs, each for some ranks of one COMM_WORLD, with the interface of `Program`.

    The programs are in rank order. Raises a `ConfigError` if one cannot be found, read or compiled.
    """

    namespace: dict[str, Any] | None = None
    is_watched = True  # see `Program`

    def __init__(self, apps: Sequence[App]) -> None:
        self.start = os.getcwd()  # the directory in which the job starts
        self.firsts = tuple(accumulate((app.ranks for app in apps[:-1]), initial=0))  # first rank of each
        self.programs = [app.load() for app in apps]
        self._environments = [app.env for app in apps]
        self.name = " : ".join(program.name for program in self.programs)
        self.has_value = any(program.has_value for program in self.programs)

    def run(self, rank: Rank) -> None:
        """Run the program of the running rank, in its directory and with its environment."""
        place = bisect_right(self.firsts, rank.number) - 1
        program, variables = self.programs[place], self._environments[place]
        if program.start != self.start:
            os.chdir(program.start)
        if variables:
            os.environ.update(variables)
        program.run(rank)


def load(given: object, settings: RunParameters) -> Program | Apps:
    """Find and compile the program or programs of `simulate`."""
    if isinstance(given, list | tuple):
        return Apps(given)
    return App(given, settings.ranks, settings.args, settings.kind).load()


def wrong(program: object, ranks: object, *, wall_limit: object) -> list[str]:
    """Return the problems of a program, of its number of ranks, and of the calling thread."""
    problems = _wrong(program, ranks)
    if wall_limit is not None and threading.current_thread() is not threading.main_thread():
        problems.append("wall_limit: a wall limit needs the main thread, and simulate() was called in another")
    return problems


def _wrong(program: object, ranks: object) -> list[str]:
    if not (isinstance(program, list | tuple) and program and all(isinstance(app, App) for app in program)):
        return _wrong_program(program)
    problems = [
        f"ranks: expected a positive integer for an App, got {app.ranks!r}"
        for app in program
        if not (isinstance(app.ranks, int) and app.ranks > 0)
    ]
    problems += [problem for app in program for problem in _wrong_program(app.program)]
    total = 0 if problems else sum(app.ranks for app in program)
    return problems or ([f"ranks: the programs have {total}, not {ranks}"] if total != ranks else [])


def _wrong_program(program: object) -> list[str]:
    if inspect.isgeneratorfunction(program) or inspect.iscoroutinefunction(program):
        return [f"program: {program.__name__} is a generator or coroutine function; give a plain function"]
    if not callable(program) and not isinstance(program, str | os.PathLike | Program):
        return [f"program: expected a path, a function or a list of App, got {program!r}"]
    return []
