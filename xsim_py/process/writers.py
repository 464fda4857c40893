"""The line that writes a name which ranks share, as far as the text of the files tells it."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable

__all__ = ["line_that_writes"]

_ASSIGNED = r"\s*(?:\[.*\]\s*)?(?:[-+*/%|&^@]|//|\*\*|<<|>>)?=(?!=)"
_CHANGED = r"\.(?:add|append|appendleft|clear|discard|extend|insert|pop|popitem|remove|setdefault|sort|update)\("


def line_that_writes(name: str, program: Iterable[str], owner: str) -> tuple[str, int] | None:
    """Find the first line that may have changed what is called `name`.

    Parameters
    ----------
    name : str
        Without what it belongs to.
    program : iterable of str
        Files of the program, in which it is an attribute of something or has been imported.
    owner : str
        The file of the module that it belongs to, in which it is an attribute too, or a global of a function.

    Returns
    -------
    file, line
        None where no line looks like it.
    """
    word = re.escape(name)
    from_outside = re.compile(rf"\.{word}(?:{_ASSIGNED}|{_CHANGED})|\b{word}(?:\s*\[.*\]{_ASSIGNED}|{_CHANGED})")
    for file in program:
        for number, text in enumerate(linecache.getlines(file), 1):
            if from_outside.search(text):
                return file, number
    inside = re.compile(rf"^\s+(?:global\s.*\b{word}\b.*;\s*)?{word}{_ASSIGNED}")
    declared = re.compile(rf"^\s+global\s.*\b{word}\b")
    is_global = False
    for number, text in enumerate(linecache.getlines(owner), 1):
        is_global = is_global or declared.match(text) is not None
        if (is_global and inside.match(text)) or (text[:1].isspace() and from_outside.search(text)):
            return owner, number
    return None
