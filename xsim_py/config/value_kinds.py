"""The kinds of value in a description, each with its check and its JSON Schema.

Each kind defines both, so that the checker and ``xsim models schema`` cannot diverge.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from xsim_py import units
from xsim_py.code_origin import package_name
from xsim_py.config.entries import Entry, Problem
from xsim_py.errors import advice, close_match

REFUSED: Final = object()  # returned by a kind that has recorded a problem
DIMENSIONS: Final = "xyzwvu"
_ADVISED: Final = 100  # unknown keys; beyond that no name is suggested, which takes half a millisecond per key
_LONGEST_LINE: Final = 200
_OPTION: Final = "xsim_py option"
_UNIT: Final = re.compile("_(?:ps|bytes)$")
_PREFIXES: Final = ("", "k", "M", "G", "T", "P")
_EXPONENT: Final = re.compile(r"([0-9]{1,9})(?:\.0*)?[eE]([-+]?)([0-9]{1,3})")
_FLOPS: Final = re.compile(r"([0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,2})?) ?([kMGTP]?)(?:flops?(?:/s)?)?")
_RATE: Final = re.compile(r"([0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,2})?) ?([kMGTP]?)(?:/s)?")
_NUMBERS: Final = re.compile(r"[0-9]{1,10}( ?- ?[0-9]{1,10})?( ?, ?[0-9]{1,10}( ?- ?[0-9]{1,10})?){0,9999}")
_SIZE_KEY: Final = re.compile("[1-9][0-9]{0,9}")


@dataclass
class Reading:
    """One check of one description: its problems, and the source location of each value."""

    problems: list[Problem] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    every_path: tuple[str, ...] = ()

    def refuse(self, entry: Entry, path: str, message: str) -> object:
        """Record a problem with the value of ``entry``."""
        self.problems.append(Problem(entry.place, path, message))
        return REFUSED

    def unknown(self, entry: Entry, path: str, advise: Callable[[], str]) -> None:
        """Record an unknown key, with advice: finding a similar name takes a while."""
        hint = f"; {advise()}" if len(self.problems) < _ADVISED else ""
        self.problems.append(Problem(entry.key_place, path, f"unknown key{hint}"))


class Kind(Protocol):
    """A kind of value: how it is read, and its JSON Schema."""

    def read(self, entry: Entry, path: str, reading: Reading) -> object:
        """Return the value in the simulator's form, or REFUSED after recording a problem."""
        ...

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the values that `read` accepts."""
        ...

    @property
    def words(self) -> str:
        """Its name in the table of the manual, and in error messages."""
        ...


@dataclass(frozen=True)
class Scalar:
    """A value parsed by one function, which raises a ValueError that says what to write instead."""

    parse: Callable[[object], Any]
    json: dict[str, Any]
    words: str  # its name in the table of the manual
    is_file: bool = False  # if true, a file name relative to the file that contains it

    def read(self, entry: Entry, path: str, reading: Reading) -> Any:
        if isinstance(entry.value, (dict, list)):
            form = "section" if isinstance(entry.value, dict) else "list"
            return reading.refuse(entry, path, f"expected {self.words}, got a {form}")
        try:
            value = self.parse(entry.value)
            return entry.folder / value if self.is_file else value
        except ValueError as error:
            return reading.refuse(entry, path, str(error))

    def schema(self) -> dict[str, Any]:
        return dict(self.json)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {value!r}; put it in quotes")
    return value


def _line(value: object) -> str:
    text = _text(value)
    if len(text) > _LONGEST_LINE or not text.isprintable():
        raise ValueError(f"expected a name of at most {_LONGEST_LINE} characters on one line, got {text[:20]!r}...")
    return text


def without_nul(text: str) -> str:
    """Return a text that may be a file name or an argument; raise ValueError if it contains NUL."""
    if "\0" in text:
        raise ValueError(f"NUL character in {text!r}; remove it")
    return text


def _name(value: object) -> str:
    if not isinstance(value, (str, int)) or isinstance(value, bool) or value == "":
        raise ValueError(f"expected a name, got {value!r}")
    return str(value)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {value!r}")
    return value


def _positive(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        if isinstance(value, str) and (found := _EXPONENT.fullmatch(value)):
            raise ValueError(f"{value!r} is text in YAML 1.1; write {found[1]}.0e{found[2] or '+'}{found[3]}")
        raise ValueError(f"expected a number above zero, got {value!r}")
    return float(value)


def _flops(value: object) -> float:
    if not isinstance(value, str):
        return _positive(value)
    found = _FLOPS.fullmatch(value)
    if found is None:
        raise ValueError(f"expected a rate of operations, got {value!r}; write for example 10e9 or 10Gflop/s")
    return _positive(float(found[1]) * 1000.0 ** _PREFIXES.index(found[2]))


def _gap_ps(value: object) -> int:
    if isinstance(value, str):
        found = _RATE.fullmatch(value)
        if found is None:
            raise ValueError(
                f"expected a number of messages per second, got {value!r}; write for example 150e6 or 150M/s"
            )
        value = float(found[1]) * 1000.0 ** _PREFIXES.index(found[2])
    return units.parse_cost_ps(1 / _positive(value))


def _numbers(value: object) -> tuple[tuple[int, int], ...]:
    found = _NUMBERS.fullmatch(str(value)) if isinstance(value, (str, int)) and not isinstance(value, bool) else None
    if found is None:
        raise ValueError(f"expected a list of numbers, got {value!r}; write for example 3, or 0-7, 12")
    parts = [[int(number) for number in part.split("-")] for part in str(value).replace(" ", "").split(",")]
    if any(part[0] > part[-1] for part in parts):
        raise ValueError(f"empty range in {value!r}: its end is below its start")
    return tuple((part[0], part[-1]) for part in parts)


def _size_or_unlimited(value: object) -> int | None:
    return None if value == "unlimited" else units.parse_size_bytes(value)


def _dimension(value: object) -> int:
    if not isinstance(value, str) or len(value) != 1 or value not in DIMENSIONS:
        raise ValueError(f"unknown dimension {value!r}; expected x, y, z, w, v or u")
    return DIMENSIONS.index(value)


def _quantity(pattern: str, **number: object) -> dict[str, Any]:
    return {"anyOf": [{"type": "number", "minimum": 0, **number}, {"type": "string", "pattern": pattern}]}


TEXT: Final = Scalar(_text, {"type": "string"}, "text")
NAME: Final = Scalar(_name, {"type": ["string", "integer"], "minLength": 1}, "a name")
LINE: Final = Scalar(_line, {"type": "string", "maxLength": _LONGEST_LINE}, "text")
FILE: Final = Scalar(lambda value: without_nul(_text(value)), {"type": "string"}, "a file name", is_file=True)
PACKAGE: Final = Scalar(package_name, {"type": "string", "minLength": 1}, "the name of a package")
BOOLEAN: Final = Scalar(_boolean, {"type": "boolean"}, "true or false")
NUMBERS: Final = Scalar(
    _numbers,
    {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": f"^{_NUMBERS.pattern}$"}]},
    "numbers such as 3, or 0-7, 12",
)
POSITIVE: Final = Scalar(_positive, {"type": "number", "exclusiveMinimum": 0}, "a number above zero")
FLOPS: Final = Scalar(
    _flops,
    {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": f"^{_FLOPS.pattern}$"}]},
    "a rate such as 10e9 or 10Gflop/s",
)
MESSAGE_RATE: Final = Scalar(
    _gap_ps,
    {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": f"^{_RATE.pattern}$"}]},
    "messages per second, such as 150e6 or 150M/s",
)
TIME: Final = Scalar(units.parse_time_ps, _quantity(units.TIME_PATTERN), "a time")
COST: Final = Scalar(units.parse_cost_ps, _quantity(units.TIME_PATTERN), "a time up to a day")
TIME_PER_BYTE: Final = Scalar(units.parse_time_per_byte, _quantity(units.TIME_PER_BYTE_PATTERN), "a time per byte")
BANDWIDTH: Final = Scalar(
    units.parse_bandwidth,
    {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "string", "pattern": units.BANDWIDTH_PATTERN, "not": {"pattern": units.NO_BANDWIDTH_PATTERN}},
        ]
    },
    "a bandwidth",
)
SIZE: Final = Scalar(units.parse_size_bytes, _quantity(units.SIZE_PATTERN, type="integer"), "a size")
SIZE_OR_UNLIMITED: Final = Scalar(
    _size_or_unlimited,
    {"anyOf": [{"const": "unlimited"}, *_quantity(units.SIZE_PATTERN, type="integer")["anyOf"]]},
    "a size or unlimited",
)
DIMENSION: Final = Scalar(_dimension, {"enum": list(DIMENSIONS)}, "a dimension")


def integer(minimum: int, maximum: int) -> Scalar:
    """Return the kind of an integer from ``minimum`` to ``maximum``."""
    words = f"an integer from {minimum} to {maximum}"

    def parse(value: object) -> int:
        if isinstance(value, float) and value.is_integer():  # JSON Schema counts 2.0 among the integers
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise ValueError(f"expected {words}, got {value!r}")
        return value

    return Scalar(parse, {"type": "integer", "minimum": minimum, "maximum": maximum}, words)


def up_to(maximum: int) -> Scalar:
    """Return the kind of numbers above zero, up to a limit."""

    def convert(value: object) -> float:
        number = _positive(value)
        if number > maximum:
            raise ValueError(f"{value!r} is out of range (at most {maximum})")
        return number

    schema = {"type": "number", "exclusiveMinimum": 0, "maximum": maximum}
    return Scalar(convert, schema, f"a number above zero, up to {maximum}")


def choice(*choices: str) -> Scalar:
    """Return the kind of a value that is one of a few words."""

    def parse(value: object) -> str:
        if value not in choices:
            raise ValueError(f"unknown value {value!r}; {advice(str(value), choices)}")
        return str(value)

    return Scalar(parse, {"enum": list(choices)}, " or ".join(choices))


@dataclass(frozen=True)
class WordOr:
    """Either a value or a keyword such as `auto`, which is read as None."""

    word: str
    kind: Scalar

    @property
    def words(self) -> str:
        return f"{self.word} or {self.kind.words}"

    def read(self, entry: Entry, path: str, reading: Reading) -> object:
        return None if entry.value == self.word else self.kind.read(entry, path, reading)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"const": self.word}, self.kind.schema()]}


@dataclass(frozen=True)
class BySize:
    """Keywords by minimum size, such as ``{1: tuned, 64: ftco}``.

    Read as pairs in ascending order.
    """

    word: Scalar
    words: str

    def read(self, entry: Entry, path: str, reading: Reading) -> object:
        if not isinstance(entry.value, dict) or not entry.value:
            return reading.refuse(entry, path, f"expected {self.words}, got {_shown(entry)}")
        pairs = []
        for key, item in entry.value.items():
            reading.entries[f"{path}.{key}"] = item
            value = self.word.read(item, f"{path}.{key}", reading)
            if not _SIZE_KEY.fullmatch(key):
                message = f"expected a number of ranks, got {key}; write {self.words}"
                reading.problems.append(Problem(item.key_place, f"{path}.{key}", message))
                value = REFUSED
            pairs.append((key, value))
        if any(value is REFUSED for _, value in pairs):
            return REFUSED
        return tuple(sorted((int(key), value) for key, value in pairs))

    def schema(self) -> dict[str, Any]:
        patterns = {f"^{_SIZE_KEY.pattern}$": self.word.schema()}
        return {"type": "object", "patternProperties": patterns, "additionalProperties": False, "minProperties": 1}


@dataclass(frozen=True)
class ListOf:
    """A list of ``items``, read as a tuple."""

    items: Kind
    words: str
    least: int = 1
    most: int | None = None

    def read(self, entry: Entry, path: str, reading: Reading) -> object:
        if not isinstance(entry.value, list):
            return reading.refuse(entry, path, f"expected a list, got {_shown(entry)}; write {self.words}")
        if len(entry.value) < self.least or (self.most is not None and len(entry.value) > self.most):
            return reading.refuse(entry, path, f"expected {self.words}, got a list of {len(entry.value)}")
        reading.entries |= {f"{path}[{index}]": item for index, item in enumerate(entry.value)}
        values = [self.items.read(item, f"{path}[{index}]", reading) for index, item in enumerate(entry.value)]
        return REFUSED if REFUSED in values else tuple(values)

    def schema(self) -> dict[str, Any]:
        most = {} if self.most is None else {"maxItems": self.most}
        return {"type": "array", "items": self.items.schema(), "minItems": self.least, **most}


@dataclass(frozen=True)
class MapOf:
    """A mapping of some names, each with its own kind of value.

    Read as a dict in the order of ``kinds``.
    """

    kinds: Mapping[str, Kind]
    words: str

    def read(self, entry: Entry, path: str, reading: Reading) -> object:
        if not isinstance(entry.value, dict):
            return reading.refuse(entry, path, f"expected a section, got {_shown(entry)}; write {self.words}")
        for key, item in entry.value.items():
            if key not in self.kinds:
                reading.unknown(item, f"{path}.{key}", partial(advice, key, self.kinds))
        found = {key: kind for key, kind in self.kinds.items() if key in entry.value}
        values = {key: kind.read(entry.value[key], f"{path}.{key}", reading) for key, kind in found.items()}
        return REFUSED if REFUSED in values.values() else values

    def schema(self) -> dict[str, Any]:
        properties = {key: kind.schema() for key, kind in self.kinds.items()}
        return {"type": "object", "properties": properties, "additionalProperties": False}


@dataclass(frozen=True)
class OneOf:
    """Either a keyword or a list or section, distinguished by the form of the value."""

    word: Scalar
    other: Kind
    words: str

    def read(self, entry: Entry, path: str, reading: Reading) -> object:
        kind: Kind = self.other if isinstance(entry.value, (dict, list)) else self.word
        return kind.read(entry, path, reading)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.word.schema(), self.other.schema()]}


@dataclass(frozen=True)
class Section:
    """A group of keys, read as an instance of a dataclass whose fields are `option`."""

    of: type[Any] | str  # the dataclass; or where it is, as ``module:Class``: most runs do not need it
    words: str = "a section"

    @property
    def cls(self) -> type[Any]:
        """The dataclass, imported on first use if it is given by name."""
        if not isinstance(self.of, str):
            return self.of
        from pkgutil import resolve_name

        found: type[Any] = resolve_name(self.of)
        return found

    def read(self, entry: Entry, path: str, reading: Reading) -> Any:
        if not isinstance(entry.value, dict):
            return reading.refuse(entry, path, f"expected a section of keys and values, got {_shown(entry)}")
        keys = {each.key: each for each in options(self.cls)}
        for key, item in entry.value.items():
            if key not in keys:
                reading.unknown(item, _join(path, key), partial(self._advice, path, key, reading, keys))
        return self.cls(**{each.name: self._value(each, entry, path, reading) for each in keys.values()})

    @staticmethod
    def _value(each: Key, entry: Entry, path: str, reading: Reading) -> object:
        inner, here = entry.value.get(each.key), _join(path, each.key)
        value = REFUSED
        # A key without a value counts as omitted, so `--set topology.dims=null` undoes the value of a file.
        if inner is not None and inner.value is not None:
            reading.entries[here] = inner
            value = each.kind.read(inner, here, reading)
            if each.default is None and _is_empty(inner):
                value = None
        elif each.required:
            reading.refuse(entry, here, f"missing: {each.help[0].lower()}{each.help[1:]}")
        return each.default_value() if value is REFUSED else value

    @staticmethod
    def _advice(path: str, key: str, reading: Reading, keys: Iterable[str]) -> str:
        """Return advice on an unknown key, which may exist in another section."""
        elsewhere = [other for other in reading.every_path if other.rpartition(".")[2] == key]
        if not elsewhere:
            return advice(key, keys)
        near = close_match(key, keys)
        return f"did you mean {' or '.join([*([] if near is None else [_join(path, near)]), *elsewhere])}?"

    def schema(self) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        for each in options(self.cls):
            kind = each.kind.schema()
            # Any key may have no value, and then counts as omitted, except a required one.
            value = kind if each.required else {"anyOf": [kind, {"type": "null"}]}
            properties[each.key] = {"description": each.help, **value}
        required = [each.key for each in options(self.cls) if each.required]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@dataclass(frozen=True)
class SectionsOf:
    """A section with some of a few names, each with a section of one kind."""

    names: tuple[str, ...]
    items: Section
    words: str

    def read(self, entry: Entry, path: str, reading: Reading) -> object:
        if not isinstance(entry.value, dict):
            return reading.refuse(entry, path, f"expected a section, got {_shown(entry)}; write {self.words}")
        values = {}
        for name, item in entry.value.items():
            here = f"{path}.{name}"
            reading.entries[here] = item
            if name not in self.names:
                reading.unknown(item, here, partial(advice, name, self.names))
            elif item.value is not None:
                values[name] = self.items.read(item, here, reading)
        return REFUSED if any(value is REFUSED for value in values.values()) else values

    def schema(self) -> dict[str, Any]:
        form = {"anyOf": [self.items.schema(), {"type": "null"}]}
        return {"type": "object", "propertyNames": {"enum": list(self.names)}, "additionalProperties": form}


@dataclass(frozen=True)
class ListOrSection:
    """Either a short list or a section with more keys, distinguished by the form of the value."""

    short: ListOf
    section: Section
    words: str

    def read(self, entry: Entry, path: str, reading: Reading) -> object:
        return (self.section if isinstance(entry.value, dict) else self.short).read(entry, path, reading)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.short.schema(), self.section.schema()]}


def _is_empty(entry: Entry) -> bool:
    """Return True if this is a non-empty section whose keys have no values."""
    section = entry.value
    return isinstance(section, dict) and bool(section) and all(item.value is None for item in section.values())


def _shown(entry: Entry) -> str:
    forms = {dict: "a section", list: "a list", type(None): "nothing"}
    return forms.get(type(entry.value), repr(entry.value))


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


class Key(NamedTuple):
    """One key of a section, stored in a field of its dataclass."""

    name: str
    """The name of the field, which may end with a unit that the key does not have: ``latency_ps``."""
    key: str
    """Its name in YAML."""
    kind: Any
    """The kind of its value."""
    help: str
    """One sentence for the manual and for editors."""
    default: Any
    """The value if the key is omitted or refused; a class is called to make one."""
    shown: str
    """The default, as written in YAML."""
    required: bool

    def default_value(self) -> object:
        """Return the value of the key if it is omitted or refused."""
        return self.default() if isinstance(self.default, type) else self.default


_keys: dict[type[Any], tuple[Key, ...]] = {}


def options(cls: type[Any]) -> tuple[Key, ...]:
    """Return the keys of a section: those of its fields that are an `option`."""
    if cls not in _keys:
        fields = [each for each in dataclasses.fields(cls) if _OPTION in each.metadata]
        rows = [(each.name, *each.metadata[_OPTION]) for each in fields]
        _keys[cls] = tuple(Key(name, key or _UNIT.sub("", name), *rest) for name, key, *rest in rows)
    return _keys[cls]


def option(
    kind: Kind, help: str, *, key: str = "", default: object = None, shown: str = "", required: bool = False
) -> Any:
    """Return a field of a section for one key of the description; see `Key`.

    The key is the field's name without a unit at its end, unless `key` is given.
    """
    metadata = {_OPTION: (key, kind, help, default, shown, required)}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)
