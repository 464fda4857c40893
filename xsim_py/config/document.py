"""YAML documents: read without recursion, within limits, and with source locations.

Prior art: ruamel.yaml and strictyaml keep positions through a whole document model. Here the events of PyYAML's parser
(in C if libyaml is available) become a tree of `Entry` in one pass. `yaml.compose` would recurse, in C, and crash the
interpreter on a file of 100,000 brackets.

A scalar is a number, true, false or null if YAML 1.1 and YAML 1.2 agree on that, and text otherwise: they disagree on
``yes``, ``010``, ``1_000`` and ``1:30``.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from xsim_py.config.entries import MOST_LEVELS, Entry, Location, Problem, from_python, line_and_column
from xsim_py.errors import ConfigError
from xsim_py.input_files import MIB, read_input

_MOST_BYTES: Final = MIB  # takes a second
_MOST_VALUES: Final = 100_000  # aliases included: a short file can expand beyond any memory
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,99})")
_FLOAT: Final = re.compile(r"(?:[-+]?[0-9]{1,100}\.[0-9]{0,100}|\.[0-9]{1,100})(?:[eE][-+][0-9]{1,3})?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BOOLEANS: Final = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_ENDS_OF_LINES: Final = "\x85\u2028\u2029\ufeff"  # PyYAML writes them unescaped, and reads something else
_NESTED: Final = f"nested more than {MOST_LEVELS} levels deep"
_TOO_DEEP: Final = "maximum nesting depth"  # libyaml since 0.2.6, part of PyYAML 6.0.4: 1,000 levels
_NOTHING: Final = ("", "~", "null", "Null", "NULL")


def read_yaml(text: str, *, name: str, folder: Path, problems: list[Problem]) -> Entry:
    """Return a YAML document's entry: an empty section if it is empty, None if it is not YAML.

    Syntax errors and duplicate keys are added to ``problems``.
    """
    return _Reader(name, folder, problems).read(text)


def read_yaml_file(path: Path, *, what: str, problems: list[Problem]) -> Entry:
    """Return the entry of the YAML document in a file; see `read_text` and `read_yaml`."""
    return read_yaml(read_text(path, what=what), name=str(path), folder=path.parent, problems=problems)


def read_text(path: Path, *, what: str) -> str:
    """Return the text of a file; ``what`` names its contents in the error message."""
    try:
        return read_input(path, most_bytes=_MOST_BYTES).decode()
    except OSError as error:
        raise ConfigError(f"cannot read the {what} {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        place = Location.in_file(path, *line_and_column(bytes(error.object), error.start))
        raise ConfigError(Problem(place, "", "not YAML: invalid UTF-8")) from None


def yaml_text(values: object) -> str:
    """Return plain values as YAML that reads back as the same values."""
    text = str(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100))
    if any(sign in text for sign in _ENDS_OF_LINES):
        text = str(yaml.safe_dump(values, sort_keys=False, width=100))
    return text


def plain_values(entry: Entry) -> Any:
    """Return the value of an entry, without source locations."""
    value = entry.value
    if isinstance(value, dict):
        return {key: plain_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_values(item) for item in value]
    return value if isinstance(value, str | bool | int | float | None) else str(value)


def override(root: Entry, *, path: str, value: object, problems: list[Problem]) -> None:
    """Set the dotted ``path`` below ``root`` to ``value``, read as YAML, as ``--set`` does."""
    wrong: list[Problem] = []
    if isinstance(value, str):
        entry = read_yaml(value, name="", folder=Path(), problems=wrong)
    else:
        # With the path only: the values refused here are numbers that have no text.
        entry = from_python(value, place=Location.in_option(f"--set {path}", path))
    place = Location.in_option(f"--set {path}={value}", path)
    if wrong or (isinstance(value, str) and not value.strip()):
        problems.append(Problem(place, path, wrong[0].message if wrong else "missing value after ="))
        return
    *sections, last = path.split(".")
    if len(sections) >= MOST_LEVELS:
        problems.append(Problem(place, "", _NESTED))
        return
    where = root
    for section in sections:
        if section not in where.value or where.value[section].value is None:
            where.value[section] = Entry({}, place, place, Path())
        where = where.value[section]
        if not isinstance(where.value, dict):
            problems.append(Problem(place, path, f"cannot set {last}: {section} is not a section"))
            return
    where.value[last] = _relocated(entry, place)


def _relocated(entry: Entry, place: Location) -> Entry:
    """Return a copy of ``entry`` and everything below it, with the source location ``place``."""
    value = entry.value
    if isinstance(value, dict):
        value = {key: _relocated(item, place) for key, item in value.items()}
    elif isinstance(value, list):
        value = [_relocated(item, place) for item in value]
    return Entry(value, place, place, entry.folder)


class _Sized(NamedTuple):
    """An entry with its size: aliases may expand to much more than is written."""

    entry: Entry
    text: str | None = None
    """The text of a scalar, which may be a key; None for anything else."""
    values: int = 1
    levels: int = 0


@dataclass
class _Open:
    """An unfinished list or mapping."""

    place: Location
    anchor: str | None
    value: dict[str, Entry] | list[Entry]
    first: int
    """The number of values before it."""
    key: tuple[str | None, Location] | None = None
    """The pending key and its source location; the name is None if the value is to be dropped."""
    levels: int = 0


class _Stop(Exception):
    """The end of reading after an error, with a location and a message."""


class _Reader:
    """A reader from one YAML document to entries."""

    def __init__(self, name: str, folder: Path, problems: list[Problem]) -> None:
        self.name = name
        self.folder = folder
        self.problems = problems
        self.anchors: dict[str, _Sized | None] = {}  # None while the value is unfinished
        self.open: list[_Open] = []
        self.root: Entry | None = None
        self.values = 0

    def read(self, text: str) -> Entry:
        start = Location.in_file(self.name, 1, 1)
        try:
            for event in yaml.parse(text, Loader=_Loader):
                self.process(event)
            return self.root or Entry({}, start, start, self.folder)
        except _Stop as stop:
            self.problem(*stop.args)
        except yaml.MarkedYAMLError as error:
            at = error.problem_mark or error.context_mark
            what = "not YAML: " + ", ".join(part for part in (error.context, error.problem) if part)
            if _TOO_DEEP in what:  # libyaml reads ahead where brackets may be a key, and reaches its own limit
                what = _NESTED
            self.problem(self.place(at) if at else start, what)
        except yaml.reader.ReaderError as error:
            place = Location.in_file(self.name, *line_and_column(text, error.position))
            self.problem(place, f"not YAML: {error.reason}")
        except UnicodeEncodeError:  # a surrogate: an option that is not UTF-8
            self.problem(start, "not YAML: invalid UTF-8")
        return Entry(None, start, start, self.folder)

    def place(self, mark: Any) -> Location:
        return Location.in_file(self.name, mark.line + 1, mark.column + 1)

    def problem(self, place: Location, message: str, path: str = "") -> None:
        self.problems.append(Problem(place, path, message))

    def process(self, event: yaml.Event) -> None:
        """Process the parser's next event."""
        if isinstance(event, yaml.ScalarEvent):
            place = self.place(event.start_mark)
            self.count(1, levels=0)
            self.add(_Sized(Entry(_scalar(event), place, place, self.folder), event.value), event.anchor)
        elif isinstance(event, yaml.CollectionStartEvent):
            made: dict[str, Entry] | list[Entry] = {} if isinstance(event, yaml.MappingStartEvent) else []
            self.open.append(_Open(self.place(event.start_mark), event.anchor, made, self.values))
            self.count(1, levels=0)
            if event.anchor is not None:
                self.anchors[event.anchor] = None
        elif isinstance(event, yaml.CollectionEndEvent):
            self.close(self.open.pop())
        elif isinstance(event, yaml.AliasEvent):
            self.alias(event)
        elif isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            what = "not YAML: expected a single document in the stream, but found another document"
            raise _Stop(self.place(event.start_mark), what)

    def alias(self, event: yaml.AliasEvent) -> None:
        place = self.place(event.start_mark)
        if event.anchor not in self.anchors:
            raise _Stop(place, "not YAML: found undefined alias")
        made = self.anchors[event.anchor]
        if made is None:
            self.problem(place, "this value contains itself")
        made = made or _Sized(Entry(None, place, place, self.folder))
        self.count(made.values, levels=made.levels)
        self.add(made, None)

    def close(self, done: _Open) -> None:
        entry = Entry(done.value, done.place, done.place, self.folder)
        self.add(_Sized(entry, None, self.values - done.first, done.levels + 1), done.anchor)

    def count(self, values: int, *, levels: int) -> None:
        """Count values and levels; stop reading at the limits."""
        self.values += values
        if self.values > _MOST_VALUES:
            message = f"too many values (more than {_MOST_VALUES:,}, aliases included)"
            raise _Stop(self.open[-1].place, message)
        if len(self.open) + levels > MOST_LEVELS:
            raise _Stop(self.open[-1].place, _NESTED)

    def add(self, made: _Sized, anchor: str | None) -> None:
        """Add a finished value to its parent, as a value or as a key."""
        if anchor is not None:
            self.anchors[anchor] = made
        if not self.open:
            self.root = made.entry
            return
        parent = self.open[-1]
        parent.levels = max(parent.levels, made.levels)
        if isinstance(parent.value, list):
            parent.value.append(made.entry)
        elif parent.key is None:
            parent.key = self.key(made, parent.value)
        else:
            name, place = parent.key
            if name is not None:
                parent.value[name] = dataclasses.replace(made.entry, key_place=place)
            parent.key = None

    def key(self, made: _Sized, found: dict[str, Entry]) -> tuple[str | None, Location]:
        place = made.entry.place
        if made.text is None:
            self.problem(place, "a key must be a name")
            return None, place
        if made.text in found:
            first = found[made.text].key_place.line
            self.problem(place, f"duplicate key, first in line {first}", made.text)
            return None, place
        return made.text, place


def _scalar(event: yaml.ScalarEvent) -> object:
    text: str = event.value
    tag = event.tag.removeprefix(_TAG) if event.tag else "" if event.implicit[0] else "str"
    if tag in ("", "int") and _INTEGER.fullmatch(text):
        return int(text)
    if tag in ("", "float") and (_FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text)):
        return float(re.sub(r"\.(?=[a-zA-Z])", "", text))
    if tag in ("", "bool") and text in _BOOLEANS:
        return _BOOLEANS[text]
    return None if tag == "null" or (not tag and text in _NOTHING) else text
