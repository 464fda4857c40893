"""Runs of an exploration, each in whatever process does it: what goes in, and what is kept of what comes out."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import chdir, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from xsim_py.atomic_files import scratch_folder
from xsim_py.errors import ConfigError
from xsim_py.input_files import is_file
from xsim_py.parameters import assignment
from xsim_py.workers import Crash, Pool, cores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xsim_py.report import Result
    from xsim_py.schedules import MadeChoice

_LABEL: Final = re.compile(r"\[(\d+)\] ")
_LABELS: Final = re.compile(r"^\[[\d, -]+\] ", re.MULTILINE)
_TRACE: Final = re.compile(r"^(\s*trace\s*=\s*)(.+)$")
_SAID: Final = 4000
LEAST_LIMIT_S: Final = 10.0
_TIMES_LONGER: Final = 20
_FUNCTION: Final = "xsim_py.explore.runs:do"


class Call(NamedTuple):
    """An MPI call that a rank makes."""

    rank: int
    name: str
    ordinal: int
    """From 1: which of the rank's calls of that name it is."""
    place: str
    """The line of the program, ``file:line``."""
    lasted_ps: int | None
    """None where it did not return."""


class RunTask(NamedTuple):
    """One run of an exploration, with all that it needs."""

    arguments: Mapping[str, Any]
    """For `xsim_py.simulate`."""
    lists_calls: bool = False
    folder: str | None = None
    """Where to run; None for an empty folder of its own."""


class Seen(NamedTuple):
    """A run as it is kept: how it ended and what it printed."""

    ended: str
    """As in `Result`; or ``crashed``, where the process of the simulator died."""
    exit_status: int
    lines: tuple[tuple[int, str], ...]
    """What was printed to standard output: the rank, and the line."""
    said: str
    """The report; without one, what was printed to standard error last."""
    digest: str = ""
    virtual_time_ps: int = 0
    died: tuple[tuple[int, str], ...] = ()
    """The ranks that failed, each with the cause."""
    calls: tuple[Call, ...] = ()
    findings: tuple[str, ...] = ()
    """What the checks have found, where the run was checked."""
    choices: tuple[MadeChoice, ...] = ()
    """What the ranks have chosen, where the run has a schedule."""
    values: str = ""
    """What a function returned, as text."""
    messages: int = 0
    polls: bool = False
    """True if a rank has looked for something that was not there yet."""

    @property
    def texts(self) -> frozenset[str]:
        """The lines that were printed, whoever has printed them and how often."""
        return frozenset(text for _, text in self.lines)


def do(task: RunTask) -> Seen | ConfigError:
    """Make a run, and return what came of it; or why its input cannot be used."""
    from xsim_py.run import simulate

    stdout, stderr = io.StringIO(), io.StringIO()
    with standing(task.folder):
        try:
            result = simulate(**task.arguments, label=True, trace=task.lists_calls, stdout=stdout, stderr=stderr)
        except ConfigError as error:
            return error
    if result.ended == "interrupted":
        raise KeyboardInterrupt
    return seen(result, stdout.getvalue(), stderr.getvalue(), lists_calls=task.lists_calls)


def seen(result: Result, stdout: str, stderr: str, *, lists_calls: bool = False) -> Seen:
    """Return what is kept of a result, and of what was printed with labels."""
    rank, lines = 0, []
    for line in stdout.splitlines():
        if match := _LABEL.match(line):
            rank = int(match[1])
        lines.append((rank, line[match.end() :] if match else line))
    return Seen(
        result.ended,
        result.exit_status,
        tuple(lines),
        "\n".join(filter(None, [str(result.report).strip(), _LABELS.sub("", stderr).strip()[-_SAID:]]))[:_SAID],
        str(result.digest),
        result.virtual_time_ps,
        tuple((each["rank"], each["cause"]) for each in result.failures),
        tuple(_calls(result)) if lists_calls else (),
        tuple(map(str, getattr(result, "findings", ()))),
        tuple(result.choices),
        repr(result.values) if any(value is not None for value in result.values) else "",
        result.messages,
        result.polls,
    )


def _calls(result: Result) -> Iterator[Call]:
    """Yield the calls of a traced run; those that take no time and ask nobody, such as ``Get_rank``, are left out."""
    assert result.trace is not None
    counts: dict[tuple[int, str], int] = {}
    for span in result.trace.spans:
        ordinal = counts[span.rank, span.name] = counts.get((span.rank, span.name), 0) + 1
        lasted_ps = None if span.end_ps is None or span.detail == "did not return" else span.end_ps - span.start_ps
        yield Call(span.rank, span.name, ordinal, span.place, lasted_ps)


@contextmanager
def standing(folder: str | None) -> Iterator[None]:
    """Be in a folder, or in an empty one that goes: runs at the same time must not write into each other's files."""
    with nullcontext(folder) if folder else scratch_folder(tempfile.gettempdir()) as place, chdir(place):
        yield


def told(program: Any, kind: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `simulate`, with failures as a list and entries of the machine as a mapping.

    Files are named by their whole paths, for runs stand in other folders.
    """
    fail, entries = options.get("fail") or (), options.get("set") or {}
    machine = options.get("machine", "gige")
    options = {
        **options,
        "machine": os.path.abspath(machine) if isinstance(machine, str | Path) and is_file(machine) else machine,
        "fail": [_TRACE.sub(_whole, text) for text in ([fail] if isinstance(fail, str) else fail)],
        "set": dict(entries) if isinstance(entries, Mapping) else dict(map(assignment, entries)),
    }
    if isinstance(program, str | Path) and kind in (None, "script"):
        program = str(Path(program).absolute())
    return {"program": program, "kind": kind, **options}


def with_limit(arguments: Mapping[str, Any], took_s: float) -> Mapping[str, Any]:
    """Return the arguments of further runs with a limit on the wall clock, for a program may poll for ever.

    It is far above what the first run took. Functions have none: it could be that they are not run in the main thread.
    """
    if arguments.get("wall_limit") is not None or callable(arguments["program"]):
        return arguments
    return {**arguments, "wall_limit": max(LEAST_LIMIT_S, _TIMES_LONGER * took_s)}


def _whole(match: re.Match[str]) -> str:
    return match[1] + os.path.abspath(match[2])


class Runner:
    """Does runs as they are submitted, on so many cores; those of a function in this process, which alone has it.

    Parameters
    ----------
    program : str, path or callable
        What is to run.
    jobs : int, optional
        How many runs at once; default: as many as there are cores. 0: one after the other, in this process.
    """

    def __init__(self, program: Any, jobs: int | None = None) -> None:
        in_others = in_workers(program) and jobs != 0
        self._pool = Pool(_FUNCTION, jobs or cores(), imports=("xsim_py.run",)) if in_others else None
        self._todo: deque[tuple[int, RunTask]] = deque()
        self._submitted = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *told: object) -> None:
        if self._pool is not None:
            self._pool.__exit__(*told)

    def submit(self, task: RunTask) -> int:
        """Have a run made; return its number."""
        if self._pool is not None:
            return self._pool.submit(task)
        self._todo.append((self._submitted, task))
        self._submitted += 1
        return self._submitted - 1

    def results(self) -> Generator[tuple[int, Seen]]:
        """Yield the number of each run that is done, and what was seen, until none is left; more may be submitted.

        Raises
        ------
        ConfigError
            The input of a run cannot be used.
        """
        results = self._here() if self._pool is None else self._pool.results()
        for number, result in results:
            if isinstance(result, ConfigError):
                raise result
            yield number, _crashed(result) if isinstance(result, Crash) else result

    def one(self, task: RunTask) -> Seen:
        """Make one run, while no other is under way."""
        self.submit(task)
        ((_, result),) = self.results()
        return result

    def _here(self) -> Generator[tuple[int, Any]]:
        while self._todo:
            number, task = self._todo.popleft()
            yield number, do(task)


def in_workers(program: Any) -> bool:
    """Return whether other processes can have a program."""
    return not callable(program)


def _crashed(crash: Crash) -> Seen:
    return Seen("wall limit" if crash.was_stuck else "crashed", crash.exit_status, (), crash.said)


Progress = Callable[[int, int, int], None]
"""Takes how many runs are done, how many are planned, and how many of those done are not good."""
