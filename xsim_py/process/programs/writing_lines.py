"""The line that changes a name which ranks share, as far as the text of the files tells it."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable

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
    word = re.escape(name)
    declared = re.compile(rf"^\s+global\s.*\b{word}\b")
    assigned = re.compile(rf"^\s+{word}{_ASSIGNED}")
    changed = re.compile(rf"^\s.*(?:\.{word}(?:{_ASSIGNED}|{_CHANGED})|\b{word}(?:\s*\[.*\]{_ASSIGNED}|{_CHANGED}))")
    is_global = False
    for number, text in enumerate(linecache.getlines(file), 1):
        is_global = is_global or declared.match(text) is not None
        if (is_global and assigned.match(text)) or changed.match(text):
            return file, number
    return None
