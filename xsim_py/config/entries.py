"""Values that know where they were written: the common form of a YAML file, a Python mapping and ``--set`` options.

Prior art: ruamel.yaml and strictyaml keep positions through a whole document model. Here PyYAML's node graph
(`yaml.compose`, in C where libyaml is there) is turned into a tree of `Entry`, which is all that the checker needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from xsim_py.errors import ConfigError

__all__ = ["Entry", "Place", "Problem", "from_python", "override", "raise_all", "read_yaml", "read_yaml_file"]

_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"


@dataclass(frozen=True, order=True)
class Place:
    """Where something was written. Places sort as one reads: the file from its top, then the options."""

    is_option: bool
    line: int
    column: int
    name: str

    def __str__(self) -> str:
        return f"{self.name}:{self.line}:{self.column}" if self.line else self.name


_PYTHON: Final = Place(False, 0, 0, "machine description")


@dataclass(frozen=True)
class Entry:
    """A scalar, a list of entries or a mapping of names to entries, with the place where it was written.

    ``key_place`` is where its name stands; file names are relative to ``folder``.
    """

    value: Any
    place: Place
    key_place: Place
    folder: Path


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong with the input."""

    place: Place
    path: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.place), self.path, self.message) if part)


def raise_all(problems: list[Problem]) -> None:
    """Raise one `ConfigError` with every problem on a line of its own, in the order of the file."""
    if problems:
        raise ConfigError("\n".join(str(problem) for problem in sorted(set(problems))))


def from_python(value: object, *, place: Place = _PYTHON) -> Entry:
    """The entry of a plain Python value: mappings, sequences and scalars."""
    if isinstance(value, Mapping):
        value = {str(key): from_python(item, place=place) for key, item in value.items()}
    elif isinstance(value, Sequence) and not isinstance(value, str):
        value = [from_python(item, place=place) for item in value]
    elif isinstance(value, Path):
        value = str(value)
    return Entry(value, place, place, Path())


def read_yaml(text: str, *, name: str, folder: Path, problems: list[Problem]) -> Entry:
    """The entry of a YAML document, an empty section if nothing is in it, and one without a value if it is not YAML.

    What is wrong with the syntax, and every key given twice, goes to ``problems``.
    """
    return _Reader(name, folder, problems).read(text)


def read_yaml_file(path: Path, *, what: str, problems: list[Problem]) -> Entry:
    """The entry of the YAML document in a file; ``what`` it holds is for the message that it cannot be read.

    Raises
    ------
    ConfigError
        When there is no text to read.
    """
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise ConfigError(f"{path}: the {what} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        before = bytes(error.object[: error.start])
        place = Place(False, before.count(b"\n") + 1, error.start - before.rfind(b"\n"), str(path))
        raise ConfigError(str(Problem(place, "", "not YAML: this byte is not UTF-8 text"))) from None
    return read_yaml(text, name=str(path), folder=path.parent, problems=problems)


def override(root: Entry, *, path: str, value: object, problems: list[Problem]) -> None:
    """Put ``value`` (text is read as YAML) at the dotted ``path`` below ``root``, as ``--set path=value`` asks."""
    place = Place(True, 0, 0, f"--set {path}={value}")
    if isinstance(value, str):
        wrong: list[Problem] = []
        entry = _moved(read_yaml(value, name="", folder=Path(), problems=wrong), place)
        if wrong or not value.strip():
            problems.append(Problem(place, path, wrong[0].message if wrong else "there is no value after the ="))
            return
    else:
        entry = from_python(value, place=place)
    *sections, last = path.split(".")
    where = root
    for section in sections:
        if section not in where.value or where.value[section].value is None:
            where.value[section] = Entry({}, place, place, Path())
        where = where.value[section]
        if not isinstance(where.value, dict):
            problems.append(Problem(place, path, f"{section} is no section here, so there is no {last} in it to set"))
            return
    where.value[last] = entry


def _moved(entry: Entry, place: Place) -> Entry:
    """``entry`` and everything below it, as if it had been written at ``place``."""
    value = entry.value
    if isinstance(value, dict):
        value = {key: _moved(item, place) for key, item in value.items()}
    elif isinstance(value, list):
        value = [_moved(item, place) for item in value]
    return Entry(value, place, place, entry.folder)


class _Reader:
    """One YAML document on its way to entries."""

    def __init__(self, name: str, folder: Path, problems: list[Problem]) -> None:
        self.name = name
        self.folder = folder
        self.problems = problems
        self.made: dict[yaml.Node, Entry | None] = {}  # an alias is the same node again; None while being made
        self.construct = yaml.constructor.SafeConstructor()

    def read(self, text: str) -> Entry:
        start = self.place(0, 0)
        try:
            node = yaml.compose(text, Loader=_Loader)
            return Entry({}, start, start, self.folder) if node is None else self.entry(node)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            what = ", ".join(part for part in (error.context, error.problem) if part)
            self.problem(self.place(mark.line, mark.column) if mark else start, f"not YAML: {what}")
        except RecursionError:
            self.problem(start, "it is nested more deeply than can be read")
        except yaml.reader.ReaderError as error:
            before = text[: error.position]
            place = self.place(before.count("\n"), error.position - (before.rfind("\n") + 1))
            self.problem(place, f"not YAML: {error.reason}")
        return Entry(None, start, start, self.folder)

    def place(self, line: int, column: int) -> Place:
        return Place(False, line + 1, column + 1, self.name)

    def problem(self, place: Place, message: str, path: str = "") -> None:
        self.problems.append(Problem(place, path, message))

    def entry(self, node: yaml.Node) -> Entry:
        place = self.place(node.start_mark.line, node.start_mark.column)
        if node in self.made:
            made = self.made[node]
            if made is None:
                self.problem(place, "this value contains itself")
            return made or Entry(None, place, place, self.folder)
        self.made[node] = None
        value: Any
        if isinstance(node, yaml.MappingNode):
            value = self.mapping(node)
        elif isinstance(node, yaml.SequenceNode):
            value = [self.entry(item) for item in node.value]
        else:
            assert isinstance(node, yaml.ScalarNode)
            value = self.scalar(node)
        self.made[node] = made = Entry(value, place, place, self.folder)
        return made

    def mapping(self, node: yaml.MappingNode) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for key, value in node.value:
            place = self.place(key.start_mark.line, key.start_mark.column)
            if not isinstance(key, yaml.ScalarNode):
                self.problem(place, "a key must be a name")
            elif key.value in found:
                first = found[key.value].key_place.line
                self.problem(place, f"this key is given twice, first in line {first}", key.value)
            else:
                found[key.value] = dataclasses.replace(self.entry(value), key_place=place)
        return found

    def scalar(self, node: yaml.ScalarNode) -> object:
        try:
            if node.tag == f"{_TAG}int":
                return self.construct.construct_yaml_int(node)
            if node.tag == f"{_TAG}float":
                return self.construct.construct_yaml_float(node)
        except ValueError:  # such as 0x or 1__: text after all
            return node.value
        if node.tag == f"{_TAG}bool":
            return self.construct.construct_yaml_bool(node)
        return None if node.tag == f"{_TAG}null" else node.value
