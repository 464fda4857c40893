"""Search of source files for the line that changes a name shared by ranks."""

from __future__ import annotations

import linecache
import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from xsim_py.code_origin import of_program

_ASSIGNED = r"\s*(?:\[.*\]\s*)?(?:[-+*/%|&^@]|//|\*\*|<<|>>)?=(?!=)"
_CHANGED = r"\.(?:add|append|appendleft|clear|discard|extend|insert|pop|popitem|remove|setdefault|sort|update)\("
_NOT_OWN = r"(?<!self\.)(?<!cls\.)"

Line = tuple[str, int]


class Flag(NamedTuple):
    """A changed name of a module, with its current value."""

    module: str
    name: str
    value: object


_MOST_LINES = 400_000
"""Of private packages; a program itself has fewer, and all of these are read."""
_WHOLE = re.compile(rf"{_NOT_OWN}\b(\w+)(?=(?:\.\w+|\s*\[.*\]){_ASSIGNED}|{_CHANGED})")
_ATTRIBUTE = re.compile(rf"{_NOT_OWN}\b(?=(\w+)\.(\w+){_ASSIGNED})")


class ProgramLines:
    """The first line of a program that changes each name of packages, found in one pass through its files.

    `files` are the program's files and those of private packages, of which the first `_MOST_LINES` lines are read.
    `is_stopped` returns whether the run is stopping.
    """

    def __init__(self, files: Iterable[str], is_stopped: Callable[[], bool]) -> None:
        self._whole: dict[str, Line] = {}
        self._attributes: dict[tuple[str, str], Line] = {}
        left, self.unread = _MOST_LINES, 0  # of private packages: the lines left to read, and the number of unread ones
        for file in sorted(files, key=of_program, reverse=True):
            lines = linecache.getlines(file)
            if not of_program(file):
                self.unread += max(len(lines) - left, 0)
                lines = lines[:left]
                left -= len(lines)
            if is_stopped():
                return
            for number, text in enumerate(lines, 1):
                if "." in text or "[" in text:
                    self._read(text, (file, number))

    def _read(self, text: str, line: Line) -> None:
        for match in _WHOLE.finditer(text):
            self._whole.setdefault(match[1], line)
        if "=" in text:
            for match in _ATTRIBUTE.finditer(text):
                owner, name = match.groups()
                self._attributes.setdefault((owner, name), line)
                if not owner.startswith(("self", "cls")):
                    self._attributes.setdefault(("", name), line)

    def find(self, owner: str, name: str, *, as_one: bool) -> Line | None:
        """Return the first line that changes a name; None if no line seems to.

        `owner` is the class that has the attribute; it is empty for a module, which may have any name there. `as_one`
        says whether the name refers to a container or an object of which a part has changed.
        """
        return self._whole.get(name) if as_one else self._attributes.get((owner, name))


def line_in_package(name: str, file: str) -> Line | None:
    """Find the first line in a package's file that changes one of its names after its import."""
    return next(((file, number) for number, _ in _lines_in_package(name, linecache.getlines(file))), None)


def _lines_in_package(name: str, lines: Iterable[str]) -> Iterable[tuple[int, str]]:
    word = re.escape(name)
    declared = re.compile(rf"^\s+global\s.*\b{word}\b")
    assigned = re.compile(rf"^\s+{word}{_ASSIGNED}")
    changed = re.compile(rf"^\s.*(?:\.{word}(?:{_ASSIGNED}|{_CHANGED})|\b{word}(?:\s*\[.*\]{_ASSIGNED}|{_CHANGED}))")
    is_global = False
    for number, text in enumerate(lines, 1):
        if name not in text:
            continue
        is_global = is_global or declared.match(text) is not None
        if (is_global and assigned.match(text)) or changed.match(text):
            yield number, text


def flags(candidates: Mapping[str, Flag], files: Iterable[str]) -> set[str]:
    """Return the candidates that every line changing them sets to their current value as a literal.

    `files` are those of all modules; one that does not mention a module is ignored.
    """
    changing: dict[str, list[str]] = {key: [] for key in candidates}
    words = {word for flag in candidates.values() for word in _words_of(flag)}
    for file in files if candidates else ():
        with suppress(OSError, UnicodeDecodeError):
            text = Path(file).read_bytes()  # not with `linecache`, which would keep them all in memory
            there = {word for word in words if word in text}
            known = [(key, flag.name) for key, flag in candidates.items() if there.issuperset(_words_of(flag))]
            lines = text.decode().splitlines() if known else []
            for key, name in known:
                own = re.compile(rf"\b(?:self|cls)\.{re.escape(name)}\b")
                changing[key] += [line for _, line in _lines_in_package(name, lines) if own.search(line) is None]
    return {
        key for key, lines in changing.items() if lines and all(_spells(line, candidates[key].value) for line in lines)
    }


def _words_of(flag: Flag) -> tuple[bytes, bytes]:
    return flag.module.rpartition(".")[2].encode(), flag.name.encode()


def _spells(line: str, value: object) -> bool:
    set_to = re.search(r"\w\s*=(?!=)(.*)", line)  # as opposed to an augmented assignment
    with suppress(SyntaxError, ValueError):
        return set_to is not None and bool(literal_eval(set_to[1].strip()) == value)
    return False
