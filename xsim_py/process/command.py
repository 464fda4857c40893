"""A command line, as MPI_Comm_spawn takes it, and the program that it starts: Python, and nothing else."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from xsim_py.errors import ConfigError
from xsim_py.inputs import is_file

from .program import Program

__all__ = ["program_of"]

_PYTHON = re.compile(r"python[0-9.]*")
_LONG = ("--check-hash-based-pycs",)
_KINDS = {"c": "code", "m": "module"}


def program_of(command: str, args: Sequence[str], *, start: str, path: Sequence[str] = ()) -> Program:
    """The program that a command starts.

    Parameters
    ----------
    command : str
        The interpreter, or a file that is a Python program: it is called so, or its first line names Python.
    args : sequence of str
        Of an interpreter: its options, the script, ``-m`` or ``-c``, and the program's own arguments.
    start : str
        The directory in which it starts.
    path : sequence of str
        Where to look for a command besides `start`.

    Raises
    ------
    ConfigError
        There is no such program, or it is not Python.
    """
    if _is_interpreter(command):
        flags: dict[str, Any] = {}
        kind, target, rest = _of_interpreter(list(args), flags)
        program = Program(target, kind=kind, args=rest, start=start)
        program.flags = flags
        return program
    for folder in (start, *path):
        file = os.path.join(start, folder, command)
        if is_file(file):
            if not _is_python(file):
                raise ConfigError(f"{command}: not a Python program, so it cannot be simulated")
            return Program(command if folder == start else file, kind="script", args=args, start=start)
    raise ConfigError(f"{command}: no such program")


def _is_interpreter(command: str) -> bool:
    return command == sys.executable or _PYTHON.fullmatch(os.path.basename(command)) is not None


_FLAGS = {
    "b": "bytes_warning",
    "B": "dont_write_bytecode",
    "d": "debug",
    "E": "ignore_environment",
    "i": "inspect",
    "I": "isolated",
    "O": "optimize",
    "P": "safe_path",
    "q": "quiet",
    "R": "hash_randomization",
    "s": "no_user_site",
    "S": "no_site",
    "v": "verbose",
}
_X_FLAGS = {"-Xdev": ("dev_mode", True), "-Xutf8": ("utf8_mode", 1), "-Xutf8=1": ("utf8_mode", 1)}


def _note(option: str, flags: dict[str, Any]) -> None:
    """Count what an option says in ``sys.flags``."""
    if option in _X_FLAGS:
        name, value = _X_FLAGS[option]
        flags[name] = value
    elif set(option[1:]) <= set(_FLAGS):
        for letter in option[1:]:
            name = _FLAGS[letter]
            had = flags.get(name, getattr(sys.flags, name))
            flags[name] = True if isinstance(had, bool) else had + 1


def _of_interpreter(args: list[str], flags: dict[str, Any]) -> tuple[str, str, list[str]]:
    """What the interpreter's arguments ask for: kind, target, and the arguments that are left; and what `flags` get."""
    while args:
        option = args.pop(0)
        if not option.startswith("-"):
            return "script", option, args
        if option.startswith("--"):
            del args[: option in _LONG]
            continue
        # One dash, several letters: the first that takes a value takes the rest of the word, or else the next one.
        place = next((place for place, letter in enumerate(option) if letter in "cmWX"), len(option))
        _note(option[:place], flags)
        if place < len(option):
            value = option[place + 1 :] or (args.pop(0) if args else "")
            if option[place] in _KINDS:
                return _KINDS[option[place]], value, args
            _note(f"-{option[place]}{value}", flags)
    raise ConfigError("an interpreter without a program would wait for input")


def _is_python(file: str) -> bool:
    if file.endswith(".py"):
        return True
    try:
        with open(file, "rb") as lines:
            first = lines.readline(256)
    except OSError:
        return False
    return first.startswith(b"#!") and b"python" in first
