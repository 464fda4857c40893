"""Whose a line of code is, by the name of its file: the simulator's, an installed package's, or the program's own."""

from __future__ import annotations

import linecache
import os
import re
import sysconfig
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

PACKAGE: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The folder of the simulator."""

ALL_IMPORTED: Final = "all-imported"
"""This stands for all packages of which each rank can have its own modules."""

_PACKAGES: Final = re.compile(r"[/\\](site|dist)-packages[/\\]")
_NOT_OURS: Final = (
    "<frozen ",
    PACKAGE,  # if it is run where it is made
    sysconfig.get_path("stdlib") + os.sep,
    sysconfig.get_path("platstdlib") + os.sep,
)


def is_simulator(file: str) -> bool:
    """Return whether a file is part of the simulator."""
    return file.startswith(PACKAGE)


def is_installed(file: str) -> bool:
    """Return whether a file belongs to Python, to an installed package, or to the simulator."""
    return _PACKAGES.search(file) is not None or file.startswith(_NOT_OURS)


def of_program(file: str) -> bool:
    """Return whether a file is one of the program's own: neither ours nor installed."""
    return not (file.startswith(PACKAGE) or is_installed(file))


def program_frame(frame: FrameType) -> FrameType:
    """Return the innermost frame of the program's own code, or else of installed code, from `frame` on outwards."""
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
    """Give the name of a file for people who stand in the folder `start`."""
    return file.removeprefix(start.rstrip(os.sep) + os.sep)


def installed_name(file: str, start: str) -> str:
    """Give the name of a file from the folder of all packages, or for people who stand in the folder `start`."""
    package = _PACKAGES.search(file)
    return file[package.end() :] if package else shown(file, start)


def portable_name(file: str) -> str:
    """Give the name of a file from the current folder, or else its last two parts: no folder of this computer."""
    named = installed_name(file, os.getcwd())
    return os.sep.join(named.split(os.sep)[-2:]) if os.path.isabs(named) else named


def place_in_program(frame: FrameType, folders: Iterable[str]) -> str:
    """Return ``file:line`` of the program's own code, or else of installed code, from `frame` on outwards.

    Files are named from the first of some folders that they are in, and installed ones from that of all packages, so
    that the name is the same wherever the program lies.
    """
    frame = program_frame(frame)
    file = frame.f_code.co_filename
    for folder in folders:
        if file.startswith(folder.rstrip(os.sep) + os.sep):
            return f"{shown(file, folder)}:{frame.f_lineno}"
    package = _PACKAGES.search(file)
    return f"{file[package.end() :] if package else file}:{frame.f_lineno}"


def lines_of(file: str) -> list[str]:
    """Give the lines of a program's file; none of ``<string>``, for Python 3.13 says there what its own -c was."""
    return [] if file == "<string>" else linecache.getlines(file)


def text_of(file: str, line: int) -> str:
    """Give what stands in a line of a program."""
    lines = lines_of(file)
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def package_name(value: object) -> str:
    """Return the name of a package, as an import statement has it, or `ALL_IMPORTED`.

    Raises
    ------
    ValueError
        When it is the name of a part of a package, or of none.
    """
    if not isinstance(value, str):
        raise ValueError(f"expected the name of a package, got {value!r}")
    whole, dot, _ = value.partition(".")
    if dot and whole.isidentifier():
        raise ValueError(f"expected a whole package, got its part {value!r}; write {whole}")
    if value != ALL_IMPORTED and not value.isidentifier():
        raise ValueError(f"expected the import name of a package, got {value!r}")
    return value
