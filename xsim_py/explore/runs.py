"""Execution of an exploration's runs, in this or other processes."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import chdir, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from xsim_py.atomic_files import scratch_folder
from xsim_py.errors import ConfigError
from xsim_py.input_files import is_file
from xsim_py.parameters import assignment
from xsim_py.workers import Crash, Pool, cores

if TYPE_CHECKING:
    from xsim_py.report import Result
    from xsim_py.schedules import MadeChoice

_LABEL: Final = re.compile(r"\[(\d+)\] ")
_LABELS: Final = re.compile(r"^\[[\d, -]+\] ", re.MULTILINE)
_TRACE: Final = re.compile(r"^(\s*trace\s*=\s*)(.+)$")
_MAX_TEXT: Final = 4000
LEAST_LIMIT_S: Final = 10.0
_TIMES_LONGER: Final = 20
_FUNCTION: Final = "xsim_py.explore.runs:execute"


class Call(NamedTuple):
    """An MPI call of a rank."""

    rank: int
    name: str
    ordinal: int
    """The number of this call among the rank's calls of that name, from 1."""
    place: str
    """The calling line of the program, ``file:line``."""
    lasted_ps: int | None
    """The virtual duration; None if the call did not return."""


class RunTask(NamedTuple):
    """One run of an exploration, with everything it needs."""

    arguments: Mapping[str, Any]
    """The arguments of `xsim_py.simulate`."""
    lists_calls: bool = False
    folder: str | None = None
    """The working directory; None for a separate temporary one."""


class RunSummary(NamedTuple):
    """The stored result of a run: how it ended and what it printed."""

    ended: str
    """As in `Result`; or ``crashed`` if the simulator process died."""
    exit_status: int
    lines: tuple[tuple[int, str], ...]
    """The lines of standard output, each with its rank."""
    report: str
    """The report, followed by the end of standard error."""
    digest: str = ""
    virtual_time_ps: int = 0
    died: tuple[tuple[int, str], ...] = ()
    """The failed ranks, each with the cause."""
    calls: tuple[Call, ...] = ()
    findings: tuple[str, ...] = ()
    """The findings, if the run was checked."""
    choices: tuple[MadeChoice, ...] = ()
    """The ranks' choices, if the run has a schedule."""
    values: str = ""
    """The return values of a function, as text."""
    messages: int = 0
    polls: bool = False
    """True if a rank has polled unsuccessfully for something."""

    @property
    def texts(self) -> frozenset[str]:
        """The set of printed lines, regardless of rank and multiplicity."""
        return frozenset(text for _, text in self.lines)


def execute(task: RunTask) -> RunSummary | ConfigError:
    """Execute a run and return its result, or the reason why its input is invalid."""
    from xsim_py.run import simulate

    stdout, stderr = io.StringIO(), io.StringIO()
    with working_in(task.folder):
        try:
            result = simulate(**task.arguments, label=True, trace=task.lists_calls, stdout=stdout, stderr=stderr)
        except ConfigError as error:
            return error
    if result.ended == "interrupted":
        raise KeyboardInterrupt
    return summary_of(result, stdout.getvalue(), stderr.getvalue(), lists_calls=task.lists_calls)


def summary_of(result: Result, stdout: str, stderr: str, *, lists_calls: bool = False) -> RunSummary:
    """Return the stored form of a result and its labelled output."""
    rank, lines = 0, []
    for line in stdout.splitlines():
        if match := _LABEL.match(line):
            rank = int(match[1])
        lines.append((rank, line[match.end() :] if match else line))
    return RunSummary(
        result.ended,
        result.exit_status,
        tuple(lines),
        "\n".join(filter(None, [str(result.report).strip(), _LABELS.sub("", stderr).strip()[-_MAX_TEXT:]]))[:_MAX_TEXT],
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
    """Yield the calls of a traced run, except local ones of no duration such as ``Get_rank``."""
    assert result.trace is not None
    counts: dict[tuple[int, str], int] = {}
    for span in result.trace.spans:
        ordinal = counts[span.rank, span.name] = counts.get((span.rank, span.name), 0) + 1
        lasted_ps = None if span.end_ps is None or span.detail == "did not return" else span.end_ps - span.start_ps
        yield Call(span.rank, span.name, ordinal, span.place, lasted_ps)


@contextmanager
def working_in(folder: str | None) -> Iterator[None]:
    """Change to a directory, or to a temporary one.

    Concurrent runs must not write into each other's files.
    """
    with nullcontext(folder) if folder else scratch_folder(tempfile.gettempdir()) as place, chdir(place):
        yield


def simulate_arguments(program: object, kind: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `simulate`, with failures as a list and machine keys as a mapping.

    File names become absolute, because runs have other working directories.
    """
    fail, entries = options.get("fail") or (), options.get("set") or {}
    machine = options.get("machine", "gige")
    options = {
        **options,
        "machine": os.path.abspath(machine) if isinstance(machine, str | Path) and is_file(machine) else machine,
        "fail": [_TRACE.sub(_absolute, text) for text in ([fail] if isinstance(fail, str) else fail)],
        "set": dict(entries) if isinstance(entries, Mapping) else dict(map(assignment, entries)),
    }
    if isinstance(program, str | Path) and kind in (None, "script"):
        program = str(Path(program).absolute())
    return {"program": program, "kind": kind, **options}


def with_limit(arguments: Mapping[str, Any], took_s: float) -> Mapping[str, Any]:
    """Return the arguments of further runs with a wall-clock limit, for programs that poll.

    The limit is far above the time of the first run. Functions have none: they may not run in the main thread.
    """
    if arguments.get("wall_limit") is not None or callable(arguments["program"]):
        return arguments
    return {**arguments, "wall_limit": max(LEAST_LIMIT_S, _TIMES_LONGER * took_s)}


def _absolute(match: re.Match[str]) -> str:
    return match[1] + os.path.abspath(match[2])


class Runner:
    """Executes submitted runs in parallel, by default one per core.

    Those of a function stay in this process, because others cannot import it; with 0 `jobs`, all do, one after the
    other.
    """

    def __init__(self, program: object, jobs: int | None = None) -> None:
        in_others = in_workers(program) and jobs != 0
        self._pool = Pool(_FUNCTION, jobs or cores(), imports=("xsim_py.run",)) if in_others else None
        self._todo: deque[tuple[int, RunTask]] = deque()
        self._submitted = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        if self._pool is not None:
            self._pool.__exit__(*args)

    def submit(self, task: RunTask) -> int:
        """Submit a run; return its number."""
        if self._pool is not None:
            return self._pool.submit(task)
        self._todo.append((self._submitted, task))
        self._submitted += 1
        return self._submitted - 1

    def results(self) -> Generator[tuple[int, RunSummary]]:
        """Yield the number and result of each completed run until none is pending.

        More may be submitted. Raise ConfigError if the input of a run is invalid.
        """
        results = self._run_here() if self._pool is None else self._pool.results()
        for number, result in results:
            if isinstance(result, ConfigError):
                raise result
            yield number, _crashed(result) if isinstance(result, Crash) else result

    def one(self, task: RunTask) -> RunSummary:
        """Execute one run while no other is pending."""
        self.submit(task)
        ((_, result),) = self.results()
        return result

    def _run_here(self) -> Generator[tuple[int, Any]]:
        while self._todo:
            number, task = self._todo.popleft()
            yield number, execute(task)


def in_workers(program: object) -> bool:
    """Return True if a program can run in other processes."""
    return not callable(program)


def _crashed(crash: Crash) -> RunSummary:
    return RunSummary("wall limit" if crash.was_hanging else "crashed", crash.exit_status, (), crash.said)


Progress = Callable[[int, int, int], None]
"""Takes the numbers of completed runs, planned runs, and completed runs with a bad or different outcome."""
