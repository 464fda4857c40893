"""The columns of a study's table: which there are, and in what units."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from xsim_py.config import value_kinds as kinds
from xsim_py.config.loader import kind_of
from xsim_py.report.ruler import Ruler
from xsim_py.study.commands import COMMANDS
from xsim_py.study.description import OPTIONS, StudySpec, option_kind
from xsim_py.study.task import MEASURED

_FINGERPRINTS: Final = ("ended", "exit_status", "config_hash", "digest")
_ALWAYS: Final = ("ranks", "machine")
_COSTS: Final = ("cpu_s", "wall_s", "peak_rss_bytes")
_SUFFIXES: Final = {**dict.fromkeys(("ps", "ns", "us", "ms", "s", "min", "h")), "bytes": "B"}
_QUANTITIES: Final = (
    (kinds.TIME.parse, "time"),
    (kinds.COST.parse, "time"),
    (kinds.SIZE.parse, "size"),
    (kinds.SIZE_OR_UNLIMITED.parse, "size"),
    (kinds.BANDWIDTH.parse, "bandwidth"),
    (kinds.TIME_PER_BYTE.parse, "time per byte"),
)

RESERVED: Final = (*MEASURED, "repetition", "folder", "apps")
"""Names that no variable and no captured value may have."""


def key_columns(spec: StudySpec) -> list[str]:
    """Return the columns that say which combination a run is of: the variables, and what is the same for all runs."""
    always = _ALWAYS if spec.command is None else spec.command_options
    return [*spec.variables, *(name for name in always if name not in spec.variables)]


def metric_names(spec: StudySpec) -> list[str]:
    """Return the columns that hold a number for each run, of which there are means."""
    if spec.command is not None:
        return [*captured_names(spec), *_COSTS]
    return [*(name for name in MEASURED if name not in _FINGERPRINTS), *spec.capture]


def captured_names(spec: StudySpec) -> list[str]:
    """Return the columns that this study alone has: what is captured of the output, or what its command measures."""
    return list(spec.capture if spec.command is None else COMMANDS[spec.command].metrics)


def shown_names(spec: StudySpec) -> list[str]:
    """Return the columns of which means are printed."""
    if spec.table is not None:
        return list(spec.table)
    return ["virtual_time_s", *spec.capture] if spec.command is None else list(COMMANDS[spec.command].table)


def column_names(spec: StudySpec) -> list[str]:
    """Return all columns of the runs, in order."""
    seed = [] if "seed" in spec.variables else ["seed"]
    return [*key_columns(spec), "repetition", *seed, *MEASURED, *captured_names(spec)]


def unit_of(spec: StudySpec, column: str) -> str:
    """Return the unit of a column; that of a captured value without one shows in its name's end, as in ``total_us``."""
    if column in spec.capture:
        suffix = column.rpartition("_")[2]
        inferred = (_SUFFIXES[suffix] or suffix) if "_" in column and suffix in _SUFFIXES else ""
        return spec.capture[column].unit or inferred
    if spec.command is not None and column in COMMANDS[spec.command].metrics:
        return COMMANDS[spec.command].metrics[column]
    return MEASURED.get(column, "")


def ruler_of(spec: StudySpec, column: str, values: Iterable[object]) -> Ruler | None:
    """Return the scale on which values of a column stand; None where they are names."""
    return Ruler.of(values, _quantity(spec, column))


def _quantity(spec: StudySpec, column: str) -> str:
    """Return what a number without a unit means in a column, unless it is but the label of a value."""
    if any(swept.label != swept.given.entry.value for swept in spec.variables.get(column, ())):
        return ""
    kind = option_kind(column) if column in OPTIONS else kind_of(column)
    parse = getattr(getattr(kind, "kind", kind), "parse", None)
    return next((name for each, name in _QUANTITIES if each is parse), "")
