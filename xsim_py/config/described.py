"""Descriptions (of machines, studies) that are checked as a whole and keep their locations."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from xsim_py.config.document import override, plain_values
from xsim_py.config.entries import Entry, Location, Problem, raise_all
from xsim_py.config.value_kinds import Reading, Section
from xsim_py.errors import ConfigError

Contradiction = tuple[str, str, tuple[str, ...]]
"""The path of the contradicting key, the message, and the paths of the other keys involved."""


@dataclass(frozen=True, kw_only=True)
class Described:
    """A description that has been read, with source locations by dotted path."""

    places: Mapping[str, Location] = field(default_factory=dict, compare=False, repr=False)
    plain: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """The description as plain values, after overrides by options."""

    def place(self, path: str) -> Location:
        """Return the source location of the key at ``path`` or, if it was omitted, of its section."""
        while path and path not in self.places:
            path = re.sub(r"(?:^[^.\[]+|\.[^.\[]*|\[\d+\])$", "", path)
        return self.places[path]

    def problem(self, path: str, message: str) -> Problem:
        """Return a problem with the key at ``path``, with its source location."""
        return Problem(self.place(path), path, message)

    def error(self, path: str, message: str) -> ConfigError:
        """Return an error about the key at ``path`` that only an upper layer can detect."""
        return ConfigError(self.problem(path, message))


D = TypeVar("D", bound=Described)


def read_description(
    cls: type[D],
    what: str,
    root: Entry,
    reading: Reading,
    contradictions: Callable[[D], Iterable[Contradiction]],
    *,
    name: str,
    overrides: Mapping[str, Any] | None = None,
    **more: object,
) -> D:
    """Check all of a description, a `what`, and return it.

    `more` are attributes from other sources. `name` is the default name. `overrides` replaces values by dotted path.
    Raise ConfigError with one problem per line, including those already in `reading`.
    """
    if not isinstance(root.value, dict):
        if not reading.problems:
            reading.refuse(root, "", f"a {what} must be a section of the form `key: value`")
        raise_all(reading.problems)
    root = dataclasses.replace(root, value=dict(root.value))
    for path, value in (overrides or {}).items():
        override(root, path=path, value=value, problems=reading.problems)
    spec: Any = Section(cls).read(root, "", reading)
    places = {"": root.place} | {path: entry.place for path, entry in reading.entries.items()}
    spec = dataclasses.replace(spec, name=spec.name or name, places=places, plain=plain_values(root), **more)
    # A key that could not be read has its default: contradictions with it would be meaningless.
    wrong = {problem.path for problem in reading.problems}
    for path, message, involved in contradictions(spec):
        if not any(_touches(key, bad) for key in involved for bad in wrong):
            reading.problems.append(spec.problem(path, message))
    raise_all(reading.problems)
    checked: D = spec
    return checked


def _touches(key: str, bad: str) -> bool:
    """Return True if a rule about ``key`` is meaningless when ``bad`` could not be read."""
    return key == bad or key.startswith((f"{bad}.", f"{bad}[")) or bad.startswith((f"{key}.", f"{key}["))
