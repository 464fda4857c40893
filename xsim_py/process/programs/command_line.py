"""Command lines, as MPI_Comm_spawn takes them, and the Python program that one starts."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from xsim_py.errors import ConfigError
from xsim_py.input_files import is_file

from . import program as programs
from .program import Program

_PYTHON = r"python[0-9.]*"
_LONGEST = 4096  # bytes of a line
_LONG = ("--check-hash-based-pycs",)
_KINDS = {"c": "code", "m": "module"}


class Called(NamedTuple):
    """An interpreter's command line: the program, its arguments, and the options."""

    kind: str
    """As in `Program`, like `target` and `args`; ``stdin`` is a program read from standard input."""
    target: str
    args: list[str]
    options: list[str]
    """Those of the interpreter, each as one word with its value: ``["-u", "-Werror"]``."""


def program_of(
    command: str,
    args: Sequence[str],
    *,
    start: str,
    path: Sequence[str] = (),
    stdin: bytes | None = None,
    simulates_interpreters: bool = True,
) -> Program:
    """Return the program that a command starts.

    `command` is the interpreter, or a file that is a Python program by its name or by its first line. The arguments of
    an interpreter are its options, the script, ``-m`` or ``-c``, and the program's own arguments; if they name no
    program, it is `stdin`. The program starts in the directory `start`; a command is looked for there and in those
    of `path`. An interpreter is an executable like any other unless it `simulates_interpreters`. Raises a
    `ConfigError` if no such program exists, or it is not Python.
    """
    if simulates_interpreters and is_interpreter(command):
        called = how_called(args)
        target: Any = called.target
        if called.kind == "stdin":
            if stdin is None:
                raise ConfigError("no program: the interpreter would wait for input")
            target = stdin
        program = Program(target, kind=called.kind, args=called.args, start=start)
        for option in called.options:
            _note(option, program.flags)
        return program
    for folder in (start, *path):
        file = os.path.join(start, folder, command)
        if is_file(file):
            target = command if folder == start else file
            made = programs.foreign(target, args=args, start=start)
            if made is not None:
                return made
            if not is_python(file):
                raise ConfigError(f"{command}: cannot be simulated: neither a Python program nor an executable")
            return Program(target, kind="script", args=args, start=start)
    raise ConfigError(f"{command}: no such program")


def is_interpreter(command: str) -> bool:
    """Return True if a command is Python itself; the simulator's interpreter then runs the program."""
    return command == sys.executable or re.fullmatch(_PYTHON, os.path.basename(command)) is not None


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
    """Apply an option's effect to ``sys.flags``."""
    if option in _X_FLAGS:
        name, value = _X_FLAGS[option]
        flags[name] = value
    elif set(option[1:]) <= set(_FLAGS):
        for letter in option[1:]:
            name = _FLAGS[letter]
            had = flags.get(name, getattr(sys.flags, name))
            flags[name] = True if isinstance(had, bool) else had + 1


def how_called(args: Sequence[str]) -> Called:
    """Return the program specified by the interpreter's arguments, and the options."""
    options: list[str] = []
    words = list(args)
    while words:
        option = words.pop(0)
        if option == "-":
            break
        if not option.startswith("-"):
            return Called("script", option, words, options)
        if option.startswith("--"):
            del words[: option in _LONG]
            continue
        # One dash, several letters: the first that takes a value takes the rest of the word, or else the next word.
        place = next((place for place, letter in enumerate(option) if letter in "cmWX"), len(option))
        options += [f"-{letter}" for letter in option[1:place]]
        if place < len(option):
            value = option[place + 1 :] or (words.pop(0) if words else "")
            if option[place] in _KINDS:
                return Called(_KINDS[option[place]], value, words, options)
            options.append(f"-{option[place]}{value}")
    return Called("stdin", "", words, options)


def is_python(file: str) -> bool:
    """Return True if a file is a Python program, by its name or its first lines."""
    if file.endswith(".py"):
        return True
    try:
        with open(file, "rb") as lines:
            first, second = lines.readline(_LONGEST), lines.readline(_LONGEST)
    except OSError:
        return False
    # If the interpreter's path is long, pip writes a shell command in a form that Python reads as a string.
    names = second if second.startswith(b"'''exec'") else first
    return first.startswith(b"#!") and b"python" in names
