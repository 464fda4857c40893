"""The origin of a line of code, by file name: simulator, installed package, or program."""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

PACKAGE: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The simulator's directory."""

ALL_IMPORTED: Final = "all-imported"
"""Represents all packages of which each rank can have private modules."""

CALLER: Final = 1
"""For `sys._getframe`: the caller of a function, taken in the function itself."""

_PACKAGES: Final = re.compile(r"[/\\](site|dist)-packages[/\\]")
_NOT_OURS: Final = (
    "<frozen ",
    PACKAGE,  # if it is run from its source directory
    sysconfig.get_path("stdlib") + os.sep,
    sysconfig.get_path("platstdlib") + os.sep,
)


def is_simulator(file: str) -> bool:
    """Return True if a file is part of the simulator."""
    return file.startswith(PACKAGE)


def is_installed(file: str) -> bool:
    """Return True if a file belongs to Python, to an installed package, or to the simulator."""
    return _PACKAGES.search(file) is not None or file.startswith(_NOT_OURS)


def of_package(file: str) -> bool:
    """Return True if a file belongs to an installed package, not to Python or the simulator."""
    return _PACKAGES.search(file) is not None and not file.startswith(PACKAGE)


def of_program(file: str) -> bool:
    """Return True if a file belongs to the program: neither the simulator's nor installed."""
    return not (file.startswith(PACKAGE) or is_installed(file))


def outside_frame() -> FrameType:
    """Return the innermost frame outside the simulator."""
    frame = sys._getframe()
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def program_frame(frame: FrameType) -> FrameType:
    """Return the innermost frame of the program, or else of installed code, from `frame` on."""
    second_best = first = frame
    outer: FrameType | None = frame
    while outer is not None:
        file = outer.f_code.co_filename
        if of_program(file):
            return outer
        if second_best is first and not file.startswith(PACKAGE):
            second_best = outer
        outer = outer.f_back
    return second_best


def shown(file: str, start: str) -> str:
    """Return a file name relative to the directory `start`."""
    return file.removeprefix(start.rstrip(os.sep) + os.sep)


def installed_name(file: str, start: str) -> str:
    """Return a file name relative to the directory of all packages, or else to `start`."""
    package = _PACKAGES.search(file)
    return file[package.end() :] if package else shown(file, start)


def portable_name(file: str) -> str:
    """Return a file name relative to the current directory, or else its last two parts."""
    named = installed_name(file, os.getcwd())
    return os.sep.join(named.split(os.sep)[-2:]) if os.path.isabs(named) else named


def place_in_program(frame: FrameType, folders: Iterable[str]) -> str:
    """Return ``file:line`` of the program's code, or else installed code, from `frame` outwards.

    File names are relative to the first of the directories that contains the file, and installed ones to the directory
    of all packages, so that they do not depend on the program's location.
    """
    frame = program_frame(frame)
    file = frame.f_code.co_filename
    for folder in folders:
        if file.startswith(folder.rstrip(os.sep) + os.sep):
            return f"{shown(file, folder)}:{frame.f_lineno}"
    package = _PACKAGES.search(file)
    return f"{file[package.end() :] if package else file}:{frame.f_lineno}"


def lines_of(file: str) -> list[str]:
    """Return a file's lines; none for ``<string>``, where Python 3.13 keeps the text of `-c`."""
    return [] if file == "<string>" else linecache.getlines(file)


def text_of(file: str, line: int) -> str:
    """Return the text of a line of a program."""
    lines = lines_of(file)
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def package_name(value: object) -> str:
    """Return the name of a package, as in an import statement, or `ALL_IMPORTED`.

    Raise ValueError for the name of a part of a package, or anything else.
    """
    if not isinstance(value, str):
        raise ValueError(f"expected the name of a package, got {value!r}")
    whole, dot, _ = value.partition(".")
    if dot and whole.isidentifier():
        raise ValueError(f"expected a whole package, got its part {value!r}; write {whole}")
    if value != ALL_IMPORTED and not value.isidentifier():
        raise ValueError(f"expected the import name of a package, got {value!r}")
    return value
