"""The line that changes a name which ranks share, as far as the text of the files tells it."""

from __future__ import annotations

import linecache
import re
from ast import literal_eval
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

_ASSIGNED = r"\s*(?:\[.*\]\s*)?(?:[-+*/%|&^@]|//|\*\*|<<|>>)?=(?!=)"
_CHANGED = r"\.(?:add|append|appendleft|clear|discard|extend|insert|pop|popitem|remove|setdefault|sort|update)\("
_NOT_OWN = r"(?<!self\.)(?<!cls\.)"

Line = tuple[str, int]


def line_in_program(owner: str, name: str, files: Iterable[str], *, whole: bool) -> Line | None:
    """Find the first line of the program that changes a name of a package.

    Parameters
    ----------
    owner : str
        The class that it is an attribute of; empty for a module, which may have any name there.
    name : str
        Without what it belongs to.
    files : iterable of str
        The program's.
    whole : bool
        Whether it is a container or an object, in which something has been changed.

    Returns
    -------
    file, line
        None where no line looks like it.
    """
    word = re.escape(name)
    if whole:
        pattern = rf"{_NOT_OWN}\b{word}(?:(?:\.\w+|\s*\[.*\]){_ASSIGNED}|{_CHANGED})"
    else:
        pattern = (
            rf"{_NOT_OWN}\b{re.escape(owner)}\.{word}{_ASSIGNED}" if owner else rf"\b(?!self|cls)\w+\.{word}{_ASSIGNED}"
        )
    found = re.compile(pattern)
    lines = ((file, number, text) for file in files for number, text in enumerate(linecache.getlines(file), 1))
    return next(((file, number) for file, number, text in lines if found.search(text)), None)


def line_in_package(name: str, file: str) -> Line | None:
    """Find the first line in the file of a package that changes a name of it after its import."""
    return next(((file, number) for number, _ in _lines_in_package(name, linecache.getlines(file))), None)


def _lines_in_package(name: str, lines: Iterable[str]) -> Iterable[tuple[int, str]]:
    word = re.escape(name)
    declared = re.compile(rf"^\s+global\s.*\b{word}\b")
    assigned = re.compile(rf"^\s+{word}{_ASSIGNED}")
    changed = re.compile(rf"^\s.*(?:\.{word}(?:{_ASSIGNED}|{_CHANGED})|\b{word}(?:\s*\[.*\]{_ASSIGNED}|{_CHANGED}))")
    is_global = False
    for number, text in enumerate(lines, 1):
        is_global = is_global or declared.match(text) is not None
        if (is_global and assigned.match(text)) or changed.match(text):
            yield number, text


def is_flag(module: str, name: str, value: Any, files: Iterable[str]) -> bool:
    """Return whether every line that changes a name of a module sets it to this value, which the line spells out.

    Parameters
    ----------
    module, name : str
        What has changed, and whose name it is.
    value : object
        What it is now.
    files : iterable of str
        Those of all modules; one that does not know the module is of no interest.
    """
    words = module.rpartition(".")[2].encode(), name.encode()
    own = re.compile(rf"\b(?:self|cls)\.{re.escape(name)}\b")
    changing = [
        line
        for file in files
        for _, line in _lines_in_package(name, _lines_with(words, file))
        if own.search(line) is None
    ]
    return bool(changing) and all(_spells(line, value) for line in changing)


def _lines_with(words: Iterable[bytes], file: str) -> list[str]:
    """Return the lines of a file in which all these words are; no lines if they are not."""
    with suppress(OSError, UnicodeDecodeError):
        text = Path(file).read_bytes()  # not by way of `linecache`, which would keep them all
        if all(word in text for word in words):
            return text.decode().splitlines()
    return []


def _spells(line: str, value: Any) -> bool:
    set_to = re.search(r"\w\s*=(?!=)(.*)", line)  # and not increased by it
    with suppress(SyntaxError, ValueError):
        return set_to is not None and bool(literal_eval(set_to[1].strip()) == value)
    return False
