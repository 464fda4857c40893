"""Docstrings of the public names: one sentence each, from the phrases in ``docstrings.txt``.

They are set from outside, because one function serves several names, and a name has one description in all classes. As
in mpi4py, the first line of a docstring is the call with its arguments, or the type of a property.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import unwrap
from pathlib import Path
from types import FunctionType
from typing import Any

__all__ = ["document"]

Phrases = dict[str, dict[str, str]]


def _phrases() -> Phrases:
    """Return the phrases of the file, by section and name."""
    found: Phrases = {}
    section: dict[str, str] = {}
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = found[line.strip("[]")] = {}
        elif line and not line.startswith("#"):
            name, _, text = line.partition(" = ")
            section[name] = text
    return found


def _phrase(sections: list[dict[str, str]], name: str) -> str | None:
    """Return the description of a name.

    It is in the first section that has it, or derived from a similar name.
    """
    for section in sections:
        if name in section:
            return section[name]
    if name.endswith("_init"):
        plain = _phrase(sections, name.removesuffix("_init"))
        return plain and f"{plain} (persistent request)"
    if name[0] == "I" and name[1:2].islower():
        plain = _phrase(sections, name[1:].capitalize())
        return plain and f"{plain} (nonblocking)"
    if name[0].islower():
        plain = _phrase(sections, name.capitalize())
        return plain and f"{plain} (Python objects)"
    return None


def document(namespace: dict[str, Any]) -> None:
    """Set the docstrings of functions and of public class members of the module MPI."""
    table = _phrases()
    done: set[int] = set()
    for name in table:
        cls = namespace.get(name)
        if isinstance(cls, type):
            sections = [table[base.__name__] for base in cls.__mro__ if base.__name__ in table] + [table["*"]]
            for attribute, value in _members(cls):
                if id(value) not in done:
                    done.add(id(value))
                    _describe(value, attribute, _phrase(sections, attribute))
    for name, value in namespace.items():
        if isinstance(value, FunctionType):
            _describe(value, name, _phrase([table["MPI"]], name))


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public attributes of a class, including inherited ones."""
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if not name.startswith("_"):
                yield name, value


def _describe(value: object, name: str, text: str | None) -> None:
    if text is None:
        return
    sentence = f"{text[0].upper()}{text[1:]}."
    if isinstance(value, property):
        value.__doc__ = f"{name}: {_kind(value)}\n\n{sentence}"
        return
    function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
    if isinstance(function, FunctionType):
        code = unwrap(function).__code__
        arguments = [word for word in code.co_varnames[: code.co_argcount] if word not in ("self", "cls")]
        function.__doc__ = f"{name}({', '.join(arguments)})\n\n{sentence}"


def _kind(value: property) -> str:
    """Return the annotated type of a property."""
    return str(value.fget.__annotations__["return"])
