"""Published values, from a CSV file next to the study."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from xsim_py.errors import advice
from xsim_py.input_files import MIB, read_input
from xsim_py.study.columns import key_columns, metric_names
from xsim_py.study.description import StudySpec
from xsim_py.study.template import text_of

_MOST_BYTES: Final = 16 * MIB
_REMARKS: Final = ("source", "note")


class Published(NamedTuple):
    """Published means."""

    keys: tuple[str, ...]
    """The columns that identify a combination."""
    metrics: tuple[str, ...]
    """The columns with means."""
    rows: tuple[Mapping[str, str], ...]
    """The lines of the file."""

    def of(self, row: Mapping[str, Any], metric: str) -> float | None:
        """Return the published value of a combination, or None."""
        for line in self.rows:
            if line[metric] and all(line[key] == text_of(row[key]) for key in self.keys):
                return float(line[metric])
        return None


def read_published(spec: StudySpec) -> Published:
    """Read and validate the file of a study's published values.

    Raise ValueError if it cannot be read, has a column unknown to the study, or text instead of a number.
    """
    assert spec.published is not None
    path = spec.folder / spec.published.file
    try:
        text = read_input(path, most_bytes=_MOST_BYTES).decode()
        lines = (line for line in io.StringIO(text, newline="") if not line.startswith("#"))
        reader = csv.DictReader(lines)
        rows = tuple(reader)
        names = tuple(reader.fieldnames or ())
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    known = [*key_columns(spec), *metric_names(spec), *_REMARKS]
    for name in names:
        if name not in known:
            raise ValueError(f"{path}: unknown column {name!r}; {advice(name, known)}")
    metrics = tuple(name for name in names if name in metric_names(spec))
    for number, row in enumerate(rows, 1):
        for metric in metrics:
            _check_number(f"{path}: row {number}: {metric}", row[metric])
    return Published(tuple(name for name in names if name in key_columns(spec)), metrics, rows)


def _check_number(where: str, text: str | None) -> None:
    if text is None:
        raise ValueError(f"{where} is missing")
    try:
        good = math.isfinite(float(text or 0))
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{where}: expected a number, got {text!r}")
