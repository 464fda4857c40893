"""Kinds of value of studies only: templates, values to sweep, and sections with any names.

They complement those of `xsim_py.config.value_kinds`: each defines how it is checked, and its JSON Schema.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from xsim_py import parameters
from xsim_py.config import value_kinds as kinds
from xsim_py.config.entries import Entry, from_python
from xsim_py.config.value_kinds import REFUSED, Kind, ListOf, OneOf, Reading, Scalar, without_nul
from xsim_py.errors import ConfigError, advice
from xsim_py.parameters import RECORD
from xsim_py.report.view import PictureView
from xsim_py.study.condition import Condition
from xsim_py.study.template import NAME, Template, Value, is_template, text_of
from xsim_py.study.template import Scalar as PlainScalar

_MOST_VALUES: Final = 100_000
_MOST_DIGITS: Final = 100
_MOST_WORDS: Final = 10_000
_RANGE: Final = re.compile(r"\s*(-?\d+)\s*\.\.\s*(-?\d+)\s*(?:([*+])\s*(\d+))?\s*", re.ASCII)
_TEMPLATE_SCHEMA: Final = {"type": "string", "pattern": r"\{.+\}"}


def _scalar(value: object) -> PlainScalar:
    if not isinstance(value, str | int | float | bool):
        raise ValueError("missing value")
    return without_nul(value) if isinstance(value, str) else value


def _condition(value: object) -> Condition:
    if not isinstance(value, str):
        raise ValueError(f"expected a condition, got {value!r}; write for example ranks<=64")
    return Condition(value)


def look(key: str, words: str, **schema: object) -> Scalar:
    """Return the kind of a setting of figures, as in ``--view``."""

    def parse(value: object) -> object:
        try:
            return getattr(PictureView.of([f"{key}={value}"]).look, key)
        except ConfigError as error:
            raise ValueError(str(error)) from None

    return Scalar(parse, schema, words)


def _compute(value: object) -> str:
    text = without_nul(kinds.TEXT.parse(value))
    if text.startswith(RECORD):
        raise ValueError("a study cannot record; give a file written by `xsim run --compute record=FILE`")
    return text


TEXT: Final = Scalar(lambda value: without_nul(kinds.TEXT.parse(value)), kinds.TEXT.json, kinds.TEXT.words)
ANY: Final = Scalar(_scalar, {"type": ["string", "number", "boolean"]}, "text, a number, or true or false")
PLAIN: Final = OneOf(ANY, ListOf(ANY, "a list of values", least=0), "a value, or a list of values")
CONDITION: Final = Scalar(_condition, {"type": "string"}, "a condition such as ranks<=64")


@dataclass(frozen=True)
class Given:
    """A value as written, to be substituted for each run: scalar, template, list of these, None."""

    entry: Entry
    kind: Kind

    def fill(self, value_of: Callable[[str], Value | None]) -> Value | None:
        """Return the value of one run; raise ValueError if a template cannot be substituted."""
        value = self.entry.value
        if isinstance(value, list):
            words = [word for item in value for word in _words(item.value, value_of)]
            if len(words) > _MOST_WORDS:
                raise ValueError(f"too many words: {len(words):,} (at most {_MOST_WORDS:,})")
            return words
        return _filled(value, value_of)

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield the variables in it, each after its index ``[1]``, or "" if it is not a list."""
        inside = self.entry.value if isinstance(self.entry.value, list) else None
        for index, item in enumerate([self.entry] if inside is None else inside):
            if is_template(item.value):
                where = "" if inside is None else f"[{index}]"
                yield from ((where, name) for name in sorted(Template(item.value).names))

    def read(self, value_of: Callable[[str], Value | None], path: str, reading: Reading) -> object:
        """Return the validated value of one run; None if not given, REFUSED after a problem."""
        try:
            value = self.fill(value_of)
        except ValueError as error:
            return reading.refuse(self.entry, path, str(error))
        if value is None:
            return None
        entry = from_python(value, place=self.entry.place)
        return self.kind.read(dataclasses.replace(entry, folder=self.entry.folder), path, reading)


def _filled(value: Any, value_of: Callable[[str], Value | None]) -> Value | None:
    def present(name: str) -> Value:
        found = value_of(name)
        if found is None:
            raise ValueError(f"{value!r}: {name} has no value in this run")
        return found

    return Template(value).fill(present) if is_template(value) else value


def _words(value: Any, value_of: Callable[[str], Value | None]) -> list[PlainScalar]:
    """Return the words for an item of a list: one, all of a list that it names, or none."""
    lone = Template(value).lone if is_template(value) else None
    filled = _filled(value, value_of) if lone is None else value_of(lone)
    if isinstance(filled, list):
        return filled
    return [] if filled is None else [filled]


@dataclass(frozen=True)
class Templated:
    """A value of some kind, or a template for one."""

    kind: Scalar

    @property
    def words(self) -> str:
        return self.kind.words

    def read(self, entry: Entry, path: str, reading: Reading) -> object:
        if isinstance(entry.value, list) and path.isidentifier():  # an option of the run
            said = f"expected {self.words}, got a list; to vary it, put it under sweep"
            checked = reading.refuse(entry, path, said)
        elif not is_template(entry.value):
            checked = self.kind.read(entry, path, reading)
        else:
            checked = _well_formed(entry, path, reading)
        return REFUSED if checked is REFUSED else Given(entry, self.kind)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.kind.schema(), _TEMPLATE_SCHEMA]}


@dataclass(frozen=True)
class MachineEntry:
    """A value for an entry of the machine, or a template for one; None does not change it."""

    words: str = "a value of the machine description"

    def read(self, entry: Entry, path: str, reading: Reading) -> Any:
        if isinstance(entry.value, list):
            return TemplatedList(ANY, "a list of values").read(entry, path, reading)
        return Given(entry, PLAIN) if entry.value is None else Templated(ANY).read(entry, path, reading)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [PLAIN.schema(), {"type": "null"}]}


@dataclass(frozen=True)
class TemplatedList:
    """A list of templated values, or a template for a list."""

    items: Scalar
    words: str

    def read(self, entry: Entry, path: str, reading: Reading) -> object:
        if is_template(entry.value):
            return self._given(entry) if _well_formed(entry, path, reading) is not REFUSED else REFUSED
        if not isinstance(entry.value, list):
            given = "a section" if isinstance(entry.value, dict) else repr(entry.value)
            return reading.refuse(entry, path, f"expected a list, got {given}; write {self.words}")
        item = Templated(self.items)
        inside = {f"{path}[{index}]": each for index, each in enumerate(entry.value)}
        reading.entries.update(inside)
        read = [item.read(each, here, reading) for here, each in inside.items()]
        return REFUSED if REFUSED in read else self._given(entry)

    def _given(self, entry: Entry) -> Given:
        return Given(entry, TextOrList(self.items, self.words))

    def schema(self) -> dict[str, Any]:
        item = Templated(self.items).schema()
        return {"anyOf": [{"type": "array", "items": item}, _TEMPLATE_SCHEMA]}


def _well_formed(entry: Entry, path: str, reading: Reading) -> object | Template:
    try:
        return Template(without_nul(entry.value))
    except ValueError as error:
        return reading.refuse(entry, path, str(error))


@dataclass(frozen=True)
class Named:
    """A section with arbitrary keys and values of the same kind; read as a dict."""

    kind: Kind
    words: str

    def read(self, entry: Entry, path: str, reading: Reading) -> Any:
        if not isinstance(entry.value, dict):
            return reading.refuse(entry, path, f"write {self.words}")
        found = {}
        for name, item in entry.value.items():
            here = f"{path}.{name}"
            reading.entries[here] = item
            if not NAME.fullmatch(name):
                advice = "expected a name of letters, digits, _ and inner dots"
                reading.refuse(Entry(name, item.key_place, item.key_place, item.folder), here, advice)
            elif (value := self.kind.read(item, here, reading)) is not REFUSED:
                found[name] = value
        return found

    def schema(self) -> dict[str, Any]:
        names = {"pattern": f"^{NAME.pattern}$"}
        return {"type": "object", "additionalProperties": self.kind.schema(), "propertyNames": names}


class Swept(NamedTuple):
    """One value of a variable: its label in tables, the value, and its location."""

    label: PlainScalar
    given: Given
    path: str
    others: Mapping[str, Swept] = {}
    """Values of other names that belong to it."""


@dataclass(frozen=True)
class _Loose:
    """A value, a list of values, or nothing, of a kind that depends on its use."""

    words: str = "text, a number, true or false, or a list of these"

    def read(self, entry: Entry, path: str, reading: Reading) -> Any:
        before = len(reading.problems)
        for part in entry.value if isinstance(entry.value, list) else [entry]:
            if isinstance(part.value, dict | list) or (part.value is None and part is not entry):
                reading.refuse(part, path, f"expected {self.words}")
            elif is_template(part.value):
                _well_formed(part, path, reading)
            elif part.value is not None:
                ANY.read(part, path, reading)
        return REFUSED if len(reading.problems) > before else Given(entry, ANY)

    def schema(self) -> dict[str, Any]:
        scalar = ANY.schema()
        return {"anyOf": [scalar, {"type": "null"}, {"type": "array", "items": scalar}]}


_LOOSE: Final = _Loose()
_BARE: Final = ("program", "args", "machine")


@dataclass(frozen=True)
class Together:
    """Values of several names, with ``set`` and a ``label``; read as a `Swept` with `others`."""

    names: tuple[str, ...] = ()
    """The allowed names; empty for any."""
    words: str = "a section such as {program: apps/ring.py, args: [--rounds, 2], label: ring}"

    def read(self, entry: Entry, path: str, reading: Reading) -> Any:
        if not isinstance(entry.value, dict):
            return reading.refuse(entry, path, f"expected a section; write {self.words}")
        before = len(reading.problems)
        items = dict(entry.value)
        label, changes = items.pop("label", None), items.pop("set", None)
        for name, item in items.items() if self.names else ():
            if name not in self.names:
                reading.unknown(item, f"{path}.{name}", partial(advice, name, (*self.names, "set", "label")))
        given = Named(_LOOSE, self.words).read(dataclasses.replace(entry, value=items), path, reading)
        others = {name: Swept("", value, f"{path}.{name}") for name, value in given.items()}
        if changes is not None:
            kind = Named(MachineEntry(), "machine keys such as {network.latency: 5us}")
            found = kind.read(changes, f"{path}.set", reading)
            for name, value in found.items() if found is not REFUSED else ():
                here = f"{path}.set.{name}"
                if "." not in name or name in others:
                    said = f"expected a key such as network.latency that is not in {path} too, got {name!r}"
                    reading.refuse(changes.value[name], here, said)
                others[name] = Swept("", value, here)
        if label is not None:
            reading.entries[f"{path}.label"] = label
            ANY.read(label, f"{path}.label", reading)
        if not others and len(reading.problems) == before:
            reading.refuse(entry, path, f"no values; write {self.words}")
        if len(reading.problems) > before:
            return REFUSED
        called = _label(others) if label is None else label.value
        return Swept(called, Given(dataclasses.replace(label or entry, value=called), ANY), path, others)

    def schema(self) -> dict[str, Any]:
        named = {"type": "object", "additionalProperties": PLAIN.schema()}
        names = {"enum": [*self.names, "set", "label"]} if self.names else {"pattern": f"^{NAME.pattern}$"}
        return {
            "type": "object",
            "properties": {"set": named, "label": ANY.schema()},
            "additionalProperties": _LOOSE.schema(),
            "propertyNames": names,
            "minProperties": 1,
        }


def _label(values: Mapping[str, Swept]) -> str:
    """Return the values as on a command line: ``apps/ring.py --rounds 2 ranks=4``."""
    words = []
    for name, swept in values.items():
        value = swept.given.entry.value
        parts = [item.value for item in value] if isinstance(value, list) else [] if value is None else [value]
        text = " ".join(map(text_of, parts))
        words.append(text if name in _BARE else f"{name}={text}")
    return " ".join(filter(None, words))


@dataclass(frozen=True)
class Values:
    """The values of a variable: a list, range, or labelled section; read as a tuple of `Swept`."""

    are_different: bool = True
    words: str = "a list such as [4, 8, 16], a range such as 4..1024 *2, or a section of labels and values"

    def read(self, entry: Entry, path: str, reading: Reading) -> Any:
        if isinstance(entry.value, dict):
            items: list[tuple[Any, Entry]] = list(entry.value.items())
        elif isinstance(entry.value, list):
            items = [(item.value, item) for item in entry.value]
        else:
            try:
                items = [(number, dataclasses.replace(entry, value=number)) for number in _range(entry.value)]
            except ValueError as error:
                return reading.refuse(entry, path, str(error))
        if not items:
            return reading.refuse(entry, path, f"no values; write {self.words}")
        before = len(reading.problems)
        is_machine = path.endswith(".machine")
        read = [
            _machine(item, f"{path}[{index}]", reading)
            if is_machine and isinstance(label, dict)
            else self._value(label, item, path, reading)
            for index, (label, item) in enumerate(items)
        ]
        if len(reading.problems) > before:
            return REFUSED
        seen: set[PlainScalar] = set()
        for swept, (_, item) in zip(read, items, strict=True) if self.are_different else ():
            if seen & (same := {swept.label, text_of(swept.label)}):  # 1 and "1" look the same in tables
                label = "" if swept.path == path else "; give it a different label"
                reading.refuse(item, swept.path, f"duplicate value {swept.label!r}{label}")
            seen |= same
        return REFUSED if len(reading.problems) > before else tuple(read)

    def _value(self, label: Any, item: Entry, path: str, reading: Reading) -> Any:
        """Return a value as a `Swept`, or REFUSED after a recorded problem."""
        if isinstance(label, list | dict) or label is None:
            said = "a list, or nothing, needs a label: write a section such as {none: [], one: [a, b]}"
            reading.refuse(item, path, said)
        given = _LOOSE.read(item, path, reading)
        return given if given is REFUSED else Swept(label, given, path)

    def schema(self) -> dict[str, Any]:
        items = {"anyOf": [ANY.schema(), _MACHINE.schema()]}
        return {
            "anyOf": [
                {"type": "array", "items": items, "minItems": 1, "uniqueItems": self.are_different},
                {"type": "object", "additionalProperties": _LOOSE.schema(), "minProperties": 1},
                {"type": "string", "pattern": f"^{_RANGE.pattern}$"},
            ]
        }


_MACHINE: Final = Together(("machine",), "a section such as {machine: gige, set: {network.latency: 5us}}")


def _machine(entry: Entry, path: str, reading: Reading) -> Any:
    """Return a machine with changes and label as a `Swept`, or REFUSED after a problem."""
    reading.entries[path] = entry
    read = _MACHINE.read(entry, path, reading)
    if read is REFUSED:
        return REFUSED
    if "machine" not in read.others:
        return reading.refuse(entry, path, "missing key: machine")
    others = dict(read.others)
    return read._replace(given=others.pop("machine").given, others=others)


def _range(value: object) -> list[int]:
    match = _RANGE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"expected a list or a range, got {value!r}; write {Values.words}")
    if max(map(len, filter(None, match.groups()))) > _MOST_DIGITS:
        raise ValueError(f"number too large in {value!r} (more than {_MOST_DIGITS} digits)")
    number, last, by = int(match[1]), int(match[2]), int(match[4] or 1)
    multiply = match[3] == "*"
    if last < number or by < (2 if multiply else 1) or (multiply and number < 1):
        raise ValueError(f"expected a growing range, got {value!r}; write for example 4..1024 *2, or 0..100 +10")
    if (last - number) // by >= _MOST_VALUES and not multiply:
        raise ValueError(f"too many values in {value!r} (at most {_MOST_VALUES:,})")
    numbers = []
    while number <= last:
        numbers.append(number)
        number = number * by if multiply else number + by
    return numbers


@dataclass(frozen=True)
class TextOrList:
    """One value, or a list of them; read as a tuple."""

    items: Kind
    words: str

    def read(self, entry: Entry, path: str, reading: Reading) -> object:
        items = entry.value if isinstance(entry.value, list) else [entry]
        read = [self.items.read(item, path, reading) for item in items]
        return REFUSED if REFUSED in read else tuple(read)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.items.schema(), {"type": "array", "items": self.items.schema()}]}


KINDS: Final[Mapping[Any, Templated | TemplatedList]] = {
    parameters.positive: Templated(kinds.integer(1, 2**31 - 1)),
    parameters.seed: Templated(kinds.integer(0, parameters.MOST)),
    parameters.flag: Templated(kinds.BOOLEAN),
    parameters.text: Templated(TEXT),
    parameters.seconds: Templated(kinds.TIME),
    parameters.packages: TemplatedList(kinds.PACKAGE, "a list of packages such as [pyomo]"),
    parameters.isolation_mode: Templated(
        Scalar(
            parameters.isolation_mode,
            {"type": "string", "pattern": "^(greenlets|(process|spawn)(:[0-9]+)?)$"},
            "greenlets, process, process:8 or spawn",
        )
    ),
    parameters.compute: Templated(
        Scalar(
            _compute,
            {"type": "string", "not": {"pattern": f"^{RECORD}"}},
            "none, measured, or a file of recorded times next to the study",
        )
    ),
}
"""The kinds of value of parameters of a run, by the functions that read them."""
