"""The columns of a study's tables, and their units."""

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
"""Names reserved from variables and captured values."""


def key_columns(spec: StudySpec) -> list[str]:
    """Return the columns that identify a combination: variables, and values common to all runs."""
    always = _ALWAYS if spec.command is None else spec.command_options
    return [*spec.variables, *(name for name in always if name not in spec.variables)]


def metric_names(spec: StudySpec) -> list[str]:
    """Return the columns with a number per run, which have means."""
    if spec.command is not None:
        return [*captured_names(spec), *_COSTS]
    return [*(name for name in MEASURED if name not in _FINGERPRINTS), *spec.capture]


def captured_names(spec: StudySpec) -> list[str]:
    """Return the columns specific to this study: captured values, or the metrics of its command."""
    return list(spec.capture if spec.command is None else COMMANDS[spec.command].metrics)


def shown_names(spec: StudySpec) -> list[str]:
    """Return the columns of printed means."""
    if spec.table is not None:
        return list(spec.table)
    return ["virtual_time_s", *spec.capture] if spec.command is None else list(COMMANDS[spec.command].table)


def column_names(spec: StudySpec) -> list[str]:
    """Return all columns of the runs, in order."""
    seed = [] if "seed" in spec.variables else ["seed"]
    return [*key_columns(spec), "repetition", *seed, *MEASURED, *captured_names(spec)]


def unit_of(spec: StudySpec, column: str) -> str:
    """Return the unit of a column; for a capture without one, the suffix of its name (``_us``)."""
    if column in spec.capture:
        suffix = column.rpartition("_")[2]
        inferred = (_SUFFIXES[suffix] or suffix) if "_" in column and suffix in _SUFFIXES else ""
        return spec.capture[column].unit or inferred
    if spec.command is not None and column in COMMANDS[spec.command].metrics:
        return COMMANDS[spec.command].metrics[column]
    return MEASURED.get(column, "")


def ruler_of(spec: StudySpec, column: str, values: Iterable[object]) -> Ruler | None:
    """Return the scale of the values of a column, or None if they are names."""
    return Ruler.of(values, _quantity(spec, column))


def _quantity(spec: StudySpec, column: str) -> str:
    """Return the quantity of a number without unit in a column, unless it is only a label."""
    if any(swept.label != swept.given.entry.value for swept in spec.variables.get(column, ())):
        return ""
    kind = option_kind(column) if column in OPTIONS else kind_of(column)
    parse = getattr(getattr(kind, "kind", kind), "parse", None)
    return next((name for each, name in _QUANTITIES if each is parse), "")
