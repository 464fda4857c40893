"""Failures from a CSV file, such as the log of a real system or the failures of another run."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

from xsim_py.config.entries import Location, Problem
from xsim_py.input_files import MIB, read_input
from xsim_py.units import parse_time_ps

_MAX_BYTES: Final = 16 * MIB  # half a million failures
_MAX_SHOWN: Final = 100
_NUMBER: Final = re.compile("-?[0-9]{1,18}")


class Event(NamedTuple):
    """A failure of a component, from one line of a file. Events sort by time, then by line."""

    time_ps: int
    line: int
    level: str
    number: int
    cause: str


class _Columns(NamedTuple):
    """The columns of the file, by meaning."""

    width: int
    time: int
    what: int
    level: str
    cause: int | None


def read_trace(file: Path, *, levels: Collection[str], problems: list[Problem]) -> list[Event]:
    """Return the failures in a file; invalid lines are added to ``problems``, at most 100.

    The file's header names ``time`` (or ``time_s``, as in a result's table), one of ``levels``, and optionally
    ``cause``; other columns are ignored.
    """
    try:
        lines = StringIO(read_input(file, most_bytes=_MAX_BYTES).decode("utf-8-sig"), newline="")
        return list(_events(file, csv.reader(lines, skipinitialspace=True), levels, problems))
    except OSError as error:
        problems.append(Problem(Location.in_file(file), "", f"cannot read the trace: {error.strerror}"))
    except (UnicodeDecodeError, csv.Error) as error:
        problems.append(Problem(Location.in_file(file), "", f"the trace is not valid CSV: {error}"))
    return []


def _events(file: Path, rows: Iterator[list[str]], levels: Collection[str], problems: list[Problem]) -> Iterator[Event]:
    columns = None
    invalid = 0
    for row in rows:
        line: int = rows.line_num  # type: ignore[attr-defined]  # of csv.reader
        if not row or not any(cell.strip() for cell in row):
            continue
        try:
            if columns is None:
                columns = _header([cell.strip() for cell in row], levels)
            else:
                yield _event([cell.strip() for cell in row], columns, line, file)
        except ValueError as error:
            problems.append(Problem(Location.in_file(file, line, 1), "", str(error)))
            invalid += 1
            if columns is None or invalid > _MAX_SHOWN:
                return
    if columns is None:
        problems.append(Problem(Location.in_file(file, 1, 1), "", "the trace is empty; it needs a header"))


def _header(names: list[str], levels: Collection[str]) -> _Columns:
    times = [name for name in names if name in ("time", "time_s")]
    components = [name for name in names if name in levels]
    if len(times) != 1 or len(components) != 1 or names.count("cause") > 1:
        raise ValueError(
            f"expected the columns time, one of {', '.join(levels)}, and optionally cause, got {','.join(names)!r}"
        )
    cause = names.index("cause") if "cause" in names else None
    return _Columns(len(names), names.index(times[0]), names.index(components[0]), components[0], cause)


def _event(cells: list[str], columns: _Columns, line: int, file: Path) -> Event:
    if len(cells) != columns.width:
        raise ValueError(f"expected {columns.width} cells, as in the header, got {len(cells)}")
    number = cells[columns.what]
    if not _NUMBER.fullmatch(number):
        raise ValueError(f"expected the number of a {columns.level}, got {number!r}")
    cause = cells[columns.cause] if columns.cause is not None else ""
    time_ps = parse_time_ps(cells[columns.time])
    return Event(time_ps, line, columns.level, int(number), cause or f"trace: {file.name}:{line}")
