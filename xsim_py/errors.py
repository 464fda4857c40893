"""Every exception that xsim_py itself raises.

::

    Exception
    └── XsimError            any error reported to the user
        ├── ConfigError      invalid input: exit status 2, nothing was run
        └── InternalError    a bug in the simulator: please report it

An error of the simulated program is not one of these: it is `MPI.Exception` (or whatever the program raises), it
belongs to the virtual rank that raised it, and it ends up in the `Result`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

NOT_WRITTEN: Final = 74
"""The exit status of a run whose output or files could not be written."""

FOUND: Final = 5
"""The exit status of a checked run with MPI usage errors."""

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Errors of output (full or broken disk, descriptor closed by a program) that are not caused by the input."""

_MOST_CHARACTERS: Final = 1_000
_HEAD, _TAIL = 600, 300  # the error comes first, and the advice last
_MOST_LINES: Final = 100
_LONGEST_WORD: Final = 100
_LONG_WORD: Final = rf"\S{{{2 * _LONGEST_WORD},}}"
_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}  # all but \t, \n


def visible(text: str) -> str:
    """Return a text with control characters, which a terminal would interpret, as escapes."""
    return text if text.isprintable() else text.translate(_ESCAPES)


def shortened(text: str) -> str:
    """Return a message of readable length: words and lines lose their middle, texts their end."""
    lines = visible(text).split("\n")
    if len(lines) > _MOST_LINES + 1:  # plus one for the count, also when a message is shortened twice
        lines[_MOST_LINES:] = [f"... and {len(lines) - _MOST_LINES:,} more"]
    return "\n".join(map(_shortened_line, lines))


def _shortened_line(line: str) -> str:
    if len(line) > _MOST_CHARACTERS:  # first the values, so that the reason after them stays
        half = _LONGEST_WORD // 2
        line = re.sub(_LONG_WORD, lambda word: _without_middle(word[0], half, half // 2), line)
    return line if len(line) <= _MOST_CHARACTERS else _without_middle(line, _HEAD, _TAIL)


def _without_middle(text: str, head: int, tail: int) -> str:
    return f"{text[:head]} ... ({len(text) - head - tail:,} characters) ... {text[-tail:]}"


def close_match(word: str, known: Iterable[str]) -> str | None:
    """Return the known word closest to a misspelt one; None if none is close, or it is too long."""
    from difflib import get_close_matches  # not above: its import takes long, and errors are rare

    close = get_close_matches(word, list(known), n=1) if len(word) <= _LONGEST_WORD else []
    return close[0] if close else None


def advice(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean latency?``, or the known words if none is close."""
    words = list(known)
    close = close_match(word, words)
    return f"did you mean {close}?" if close else f"known: {', '.join(words)}"


def unwritten(error: OSError) -> str:
    """Return the sentence that names the unwritable file and the reason."""
    return f"cannot write {error.filename or 'the output'}: {error.strerror}"


class XsimError(Exception):
    """Any error that the simulator reports to its user."""


class ConfigError(XsimError):
    """The input (a YAML file, an option, a program's path) is invalid.

    The message has one problem per line, each with its location (``file:line:column: path: what; what to do``), and is
    `shortened`.

    Attributes
    ----------
    problems : tuple
        All problems: texts, and objects with fields (`OptionProblem`, `config.entries.Problem`).
    """

    def __init__(self, *problems: object) -> None:
        super().__init__(shortened("\n".join(map(str, problems))))
        self.problems: tuple[Any, ...] = problems


class OptionProblem(NamedTuple):
    """A problem of an option, with its name on the command line or in a study."""

    option: str
    message: str

    def __str__(self) -> str:
        return f"{self.option}: {self.message}"


class InternalError(XsimError):
    """The simulator has violated an invariant; this is a bug in xsim_py, not in the program."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}\nThis is a bug in xsim_py. Please report it with the program and the command line."
        )
