"""A file of options for `xsim mpiexec`, for programs that start ``mpiexec`` themselves.

``xsim-mpiexec.yaml`` in the current directory or its nearest parent contains options of `xsim run` by name. File names
in it are relative to it. A world-writable directory, such as the temporary one, is skipped, because another user could
have put the file there.
"""

from __future__ import annotations

import os
import stat
from argparse import Action, ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xsim_py.config.entries import Entry, Problem

_NAME: Final = "xsim-mpiexec.yaml"
_FILES: Final = ("json", "out", "trace", "timeline", "waits", "pairs", "links", "report")


def find_file(start: Path) -> Path | None:
    """Return the options file that applies to a directory, if any."""
    for folder in (start, *start.parents):
        file = folder / _NAME
        if os.path.isfile(file) and not folder.stat().st_mode & stat.S_IWOTH:
            return file
    return None


def options_of(file: Path, known: Mapping[str, Action]) -> list[str]:
    """Return the options of a file as command-line words; `known` have two dashes."""
    from xsim_py.config.document import read_yaml_file
    from xsim_py.config.entries import Problem, raise_all
    from xsim_py.errors import advice

    problems: list[Problem] = []
    root = read_yaml_file(file, what="file of options", problems=problems)
    words: list[str] = []
    if isinstance(root.value, dict):
        for name, entry in root.value.items():
            action = known.get(f"--{name}")
            if action is None:
                hint = advice(name, [option.removeprefix("--") for option in known])
                problems.append(Problem(entry.key_place, name, f"unknown option of xsim run; {hint}"))
            else:
                words += _words(name, entry, action, problems)
    elif not problems:
        problems.append(Problem(root.place, "", "expected a section of the form `name: value`"))
    raise_all(problems)
    return words


def _words(name: str, entry: Entry, action: Action, problems: list[Problem]) -> list[str]:
    """Return the words of an option with each of its values."""
    from xsim_py.config.entries import Problem

    value = entry.value
    if action.nargs == 0:
        if isinstance(value, bool):
            return [_opposite(name) if not value else f"--{name}"]
        problems.append(Problem(entry.place, name, "expected true or false"))
        return []
    words = []
    for item, text in _texts(value, entry):
        try:
            if text is None:
                raise ArgumentTypeError("expected a value or a list of values")
            if callable(action.type):
                action.type(text)
        except ArgumentTypeError as error:
            problems.append(Problem(item.place, name, str(error)))
        words.append(f"--{name}={_file(name, text, entry.folder) if text else text}")
    return words


def _opposite(name: str) -> str:
    return {"quiet": "--verbose", "verbose": "--quiet", "ft": "--no-ft", "no-ft": "--ft"}.get(name, "")


def _texts(value: object, entry: Entry) -> list[tuple[Entry, str | None]]:
    """Return each value as text, with its location; a section is a list of ``key=value``."""
    if isinstance(value, dict):
        return [(item, None if _text(item) is None else f"{key}={_text(item)}") for key, item in value.items()]
    return [(item, _text(item)) for item in (value if isinstance(value, list) else [entry])]


def _text(entry: Entry) -> str | None:
    value = entry.value
    if value is None or isinstance(value, dict | list):
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _file(name: str, text: str, folder: Path) -> str:
    """Return a file name relative to the current directory; any other text unchanged."""
    if name == "machine" and (text.endswith((".yaml", ".yml")) or "/" in text):
        return os.path.join(folder, text)
    if name == "fail" and text.startswith("trace="):
        return f"trace={os.path.join(folder, text.removeprefix('trace='))}"
    return os.path.join(folder, text) if name in _FILES and text != "-" else text
