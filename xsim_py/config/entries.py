"""Values with source locations: the form of YAML files, mappings and ``--set`` options.

`xsim_py.config.document` converts a YAML document to a tree of `Entry`, the input of the checker.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, AnyStr, Final, Self

from xsim_py.errors import ConfigError

MOST_LEVELS: Final = 64
"""The maximum nesting depth of a description: ample, and safe to read recursively."""

_MOST_BITS: Final = 333


@dataclass(frozen=True, order=True)
class Location:
    """A source location; sorted in reading order: the file from its top, then the options."""

    is_option: bool
    line: int
    column: int
    name: str
    entry: str = ""
    """The dotted path of the key that an option sets."""

    @classmethod
    def in_file(cls, name: object, line: int = 0, column: int = 0) -> Self:
        """Return a location in a file, or the whole file; lines and columns count from 1."""
        return cls(False, line, column, str(name))

    @classmethod
    def in_option(cls, text: str, entry: str = "") -> Self:
        """Return the location of an option, as typed."""
        return cls(True, 0, 0, text.replace("\n", "\\n"), entry)

    def __str__(self) -> str:
        return f"{self.name}:{self.line}:{self.column}" if self.line else self.name


def line_and_column(content: AnyStr, offset: int) -> tuple[int, int]:
    """Return the line and column of a character or byte of a text, both counted from 1."""
    end = "\n" if isinstance(content, str) else b"\n"
    return content.count(end, 0, offset) + 1, offset - content.rfind(end, 0, offset)


_PYTHON: Final = Location.in_file("machine description")


@dataclass(frozen=True)
class Entry:
    """A scalar, a list of entries or a mapping of names to entries, with its source location.

    ``key_place`` is the location of its key; file names are relative to ``folder``.
    """

    value: Any
    place: Location
    key_place: Location
    folder: Path


@dataclass(frozen=True, order=True)
class Problem:
    """One problem in the input."""

    place: Location
    path: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.place), self.path, self.message) if part)


def raise_all(problems: list[Problem]) -> None:
    """Raise one `ConfigError` with one problem per line, in file order."""
    if problems:
        raise ConfigError(*sorted(set(problems)))


def from_python(value: object, *, place: Location = _PYTHON, levels: int = MOST_LEVELS) -> Entry:
    """Return the entry of a plain Python value: mappings, sequences and scalars.

    Raise ConfigError if they are nested more than `levels` deep, or contain a number of more than 100 digits.
    """
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes) and not levels:
        raise ConfigError(Problem(place, "", f"nested more than {MOST_LEVELS} levels deep"))
    if isinstance(value, Mapping):
        value = {str(key): from_python(item, place=place, levels=levels - 1) for key, item in value.items()}
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        value = [from_python(item, place=place, levels=levels - 1) for item in value]
    elif isinstance(value, Path):
        value = str(value)
    elif isinstance(value, Real) and not isinstance(value, int | float):  # most of NumPy's
        value = operator.index(value) if isinstance(value, Integral) else float(value)
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ConfigError(Problem(place, "", "number too large (more than 100 digits)"))
    return Entry(value, place, place, Path())
