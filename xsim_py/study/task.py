"""One run of a study, in any process: its input and its outcome.

Both are plain data, so that they can be sent to another process, or with ``mpi4py.futures`` to another computer.
"""

from __future__ import annotations

import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, nullcontext, suppress
from typing import Any, Final, NamedTuple, TextIO, cast

from xsim_py.atomic_files import scratch_folder
from xsim_py.errors import ConfigError, XsimError
from xsim_py.study.capture import Captures
from xsim_py.study.template import is_number

Outcome = dict[str, Any]
"""``ended``, ``exit_status``, numbers, ``captured`` values, the simulator's message ``said``, the last output lines."""

_LAST_LINES: Final = 20
_LONGEST_LINE: Final = 2000
_LARGEST: Final = 1e300
_LONGEST_HEARD: Final = 1 << 20
MEASURED: Final[dict[str, str]] = {
    "ended": "",
    "exit_status": "",
    "virtual_time_s": "s",
    "events": "",
    "messages": "",
    "bytes": "B",
    "failures": "",
    "restarts": "",
    "cpu_s": "s",
    "wall_s": "s",
    "peak_rss_bytes": "B",
    "config_hash": "",
    "digest": "",
}
"""The columns of every run, and their units."""

_FIGURES: Final = tuple(name for name in MEASURED if name not in ("ended", "exit_status", "failures"))


class StudyTask(NamedTuple):
    """One run of a study, with all its input."""

    arguments: Mapping[str, Any]
    """The arguments of `xsim_py.simulate`."""
    captures: Mapping[str, tuple[str, str]]
    """Regular expression and the value to take, by name."""
    folder: str | None
    """The working directory; None for a separate empty one."""
    command: str | None = None
    """The command to which the arguments belong, instead of a simulated program."""


def is_outcome(value: object) -> bool:
    """Return True if data from a file are an `Outcome`, with all that tables and messages use."""
    if not isinstance(value, dict):
        return False
    parts = (
        isinstance(value.get("ended"), str),
        isinstance(value.get("exit_status"), int),
        isinstance(value.get("said"), str),
        _is_list(value.get("last_lines"), lambda line: isinstance(line, str)),
        _is_map(value.get("captured", {}), _is_cell),
        _is_map(value.get("given_up", {}), lambda line: isinstance(line, str)),
        _is_map(value.get("spread", {}), lambda ends: _is_list(ends, _is_figure) and len(ends) <= 3),
        _is_figure(value.get("wall_limit_s")),
        all(_is_cell(value.get(name)) for name in _FIGURES),
        _is_figure(value.get("failures")),
    )
    return all(parts)


def _is_figure(value: Any) -> bool:
    return value is None or (is_number(value) and abs(value) < _LARGEST)


def _is_cell(value: object) -> bool:
    return isinstance(value, str) or _is_figure(value)


def _is_list(value: object, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(holds, value))


def _is_map(value: object, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(map(holds, value.values()))


def do(task: StudyTask) -> Outcome:
    """Execute it and return its outcome; errors are outcomes, too."""
    if task.command is not None:
        return _command(task)
    output = _Listener(task.captures)
    stream = cast("TextIO", output)
    _forget_peak()
    with _standing(task.folder), output.captures:
        try:
            from xsim_py.run import simulate

            result = simulate(**task.arguments, stdout=stream, stderr=stream)
            captured = output.captured()
        except ConfigError as error:
            return _failed("refused", 2, str(error), output)
        except XsimError as error:
            return _failed("error", 1, str(error), output)
        except Exception as error:
            return _failed("error", 1, f"{type(error).__name__}: {error}\n{traceback.format_exc()}", output)
    if result.ended == "interrupted":
        raise KeyboardInterrupt
    said = "\n".join([*result.warnings, result.report]).strip()
    figures = {name: getattr(result, name) for name in _FIGURES}
    return {
        "ended": result.ended,
        "exit_status": result.exit_status,
        **figures,
        "failures": len(result.summary["failures"]),
        "captured": captured,
        "given_up": output.captures.given_up,
        "said": said[:_LONGEST_LINE],
        "last_lines": list(output.last_lines),
    }


def _command(task: StudyTask) -> Outcome:
    """Execute a command."""
    from xsim_py.study.commands import COMMANDS

    began = time.perf_counter(), time.process_time()
    try:
        figures = {name: tuple(row) for name, row in COMMANDS[str(task.command)].do(task.arguments).items()}
    except Exception as error:
        said = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        return {"ended": "error", "exit_status": 1, "said": said[:_LONGEST_LINE], "last_lines": []}
    return {
        "ended": "finished",
        "exit_status": 0,
        "wall_s": time.perf_counter() - began[0],
        "cpu_s": time.process_time() - began[1],
        "captured": {name: row[0] for name, row in figures.items()},
        "spread": {name: row[1:] for name, row in figures.items() if len(row) > 1},
        "said": "",
        "last_lines": [],
    }


def _failed(ended: str, status: int, said: str, output: _Listener) -> Outcome:
    return {"ended": ended, "exit_status": status, "said": said, "last_lines": list(output.last_lines)}


def _forget_peak() -> None:
    """Reset this process's peak memory usage; only Linux can."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # resets VmHWM, see proc(5); otherwise a small run after a large one would inherit its peak


@contextmanager
def _standing(folder: str | None) -> Iterator[None]:
    """Change to a directory: concurrent runs must not overwrite each other's files."""
    with nullcontext(folder) if folder else scratch_folder(tempfile.gettempdir()) as place, chdir(place):
        yield


class _Listener:
    """A text file that keeps the last lines written to it, and the captured values of each line."""

    def __init__(self, captures: Mapping[str, tuple[str, str]]) -> None:
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self.captures = Captures(captures)
        self._partial = ""

    def write(self, text: str) -> int:
        """Write text, in pieces of any size."""
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            self._hear(line)
        if len(self._partial) > _LONGEST_HEARD:  # without an end it would grow, and be copied, indefinitely
            self._hear(self._partial)
            self._partial = ""
        return len(text)

    def flush(self) -> None:
        """Do nothing: lines are searched when they are complete."""

    def captured(self) -> dict[str, Any]:
        """Return the captured values by name; None without a match."""
        if self._partial:
            self._hear(self._partial)
            self._partial = ""
        return self.captures.values()

    def _hear(self, line: str) -> None:
        self.last_lines.append(line[:_LONGEST_LINE])
        self.captures.hear(line)
