"""Parsing of the parameters of `simulate` and the options of `xsim run`, with equal errors.

The command line passes text, and Python passes values; a function here accepts both, or raises a `ValueError` that
describes the error. Parameters and options have the same names.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xsim_py.code_origin import package_name
from xsim_py.errors import ConfigError, close_match
from xsim_py.input_files import is_file
from xsim_py.units import PS_PER_S, parse_time_ps

if TYPE_CHECKING:
    from xsim_py.findings import Checks
    from xsim_py.schedules import MatchSchedule

ALGORITHMS: Final = ("tuned", "ftco")
"""Names of algorithm sets for all collective operations."""

WAYS: Final = ("messages", "arrays", "auto")
"""How collectives can be simulated."""

COLLECTIVES: Final = (*ALGORITHMS, *WAYS)
COMPUTE: Final = ("none", "measured")
"""The cost of computation; alternatively ``record=FILE``, or a file."""
RECORD: Final = "record="
RESILIENCE: Final = ("legio",)
"""The layers under which an unmodified program survives failures."""

_APART: Final = ("process", "spawn")
"""How ranks are put into separate processes: forked ones, or new interpreters."""

MOST: Final = 2**63 - 1
"""The largest accepted number."""
_MOST_DIGITS: Final = 100
_LARGEST_PART: Final = 1000
_DIGITS: Final = re.compile(r"[-+]?[0-9]+")
_LONGEST_WAIT_PS: Final = 10**9 * PS_PER_S  # supported by every timer
_KINDS: Final = ("script", "module", "code", "callable")


def positive(value: Any) -> int:
    """Return an integer from 1 to 2**63 - 1."""
    return _whole(value, least=1)


def seed(value: Any) -> int:
    """Return a seed: an integer from 0 to 2**63 - 1."""
    return _whole(value, least=0)


def _whole(value: Any, *, least: int) -> int:
    if isinstance(value, str):
        if not _DIGITS.fullmatch(value):
            raise ValueError(f"expected an integer, got {value!r}")
        number = int(value[:_MOST_DIGITS])  # with more digits, these are too large as well
    elif isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"expected an integer, got {value!r}")
    else:
        number = operator.index(value)
    if number < least:
        raise ValueError(f"{value} is out of range (at least {least})")
    if number > MOST:
        raise ValueError(f"{value if isinstance(value, str) else 'it'} is out of range (at most {MOST})")
    return number


def part(value: Any) -> float:
    """Return a fraction, or a value without a unit: a number above zero, up to 1,000."""
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"expected a number, got {value!r}") from None
    if not 0 < number <= _LARGEST_PART:
        raise ValueError(f"{value} is out of range (above 0, at most {_LARGEST_PART:,})")
    return number


def seconds(value: Any) -> float:
    """Return the seconds of a wall-clock time such as 60s or 5min; a bare number means seconds."""
    time_ps = parse_time_ps(value)
    if time_ps > _LONGEST_WAIT_PS:
        raise ValueError(f"{value} is out of range (at most thirty years); omit it for no limit")
    return time_ps / PS_PER_S


def assignment(text: Any) -> tuple[str, str]:
    """Return the two sides of ``path=value``."""
    path, equals, value = text.partition("=") if isinstance(text, str) else ("", "", "")
    if not path or not equals:
        raise ValueError(f"expected path=value, got {text!r}")
    return path, value


def isolation(value: Any) -> int:
    """Return the number of ranks per process: 0 for ``greenlets``, 8 for ``process:8``."""
    word, colon, number = value.partition(":") if isinstance(value, str) else ("", "", "")
    if word in _APART and colon:
        return positive(number)
    return {"greenlets": 0}.get(one_of("greenlets", *_APART, "process:8")(value), 1)


def way_of(each: int, *, spawned: bool = False) -> str:
    """Return the isolation mode, as `isolation` parses it, for a number of ranks per process."""
    return "greenlets" if not each else _APART[spawned] + (f":{each}" if each > 1 else "")


def one_of(*words: str) -> Callable[[Any], str]:
    """Return a function that accepts one of these words."""

    def read(value: Any) -> str:
        if value in words:
            return str(value)
        near = close_match(str(value), words)
        hint = f"; did you mean {near}?" if near else ""
        known = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
        raise ValueError(f"expected {known}, got {value!r}{hint}")

    return read


def packages(value: Any) -> tuple[str, ...]:
    """Return names of packages, from a list or text; see `code_origin.package_name`."""
    names = [package_name(name.strip()) for each in _several(value) for name in _text(each).split(",")]
    return tuple(dict.fromkeys(names))


def compute(value: Any) -> str:
    """Return the cost of computation: ``none``, ``measured``, ``record=FILE`` or a file's path."""
    if value in COMPUTE:
        return str(value)
    name = str(value) if isinstance(value, os.PathLike) else _text(value)
    if name.startswith(RECORD):
        if not name[len(RECORD) :]:
            raise ValueError(f"missing file name in {value!r}")
        return RECORD + os.path.abspath(name[len(RECORD) :])
    if not is_file(name):
        raise ValueError(f"expected {', '.join(COMPUTE)}, {RECORD}FILE or the name of a file, got {name!r}")
    return os.path.abspath(name)


class RunParameters(NamedTuple):
    """The checked parameters of one run."""

    ranks: int
    kind: str | None
    args: Sequence[Any]
    seed: int
    shards: int
    overrides: dict[str, Any]
    """The changed keys of the machine; ``set`` takes precedence over other options."""
    wall_limit_s: float | None
    compute: str | None
    way: str
    """How collectives are simulated: one of `WAYS`."""
    fail: tuple[str, ...]
    ft: bool | None
    restart: str | None
    begin_ps: int
    """The virtual time at which the ranks begin."""
    isolation: int
    """The number of ranks per process; 0: all in one, as greenlets."""
    spawned: bool
    """Whether each process is a new interpreter, with its own hash seed."""
    label: bool
    trace: bool
    profile: bool
    links: bool
    check: Checks | None
    private: tuple[str, ...]
    share: tuple[str, ...]
    """The packages of which each rank has private modules, and those that all ranks share."""
    schedule: MatchSchedule | None = None


def read(arguments: Mapping[str, Any], problems: Sequence[str] = (), *, begin_ps: int = 0) -> RunParameters:
    """Parse the parameters of `simulate`, by name.

    Raise ConfigError with all errors, in addition to the given `problems`.
    """
    found: dict[str, Any] = {}
    wrong = list(problems)
    for name, function in _READ.items():
        try:
            found[name] = function(arguments[name])
        except ValueError as error:
            wrong.append(f"{name}: {error}")
    if getattr(found.get("schedule"), "watch", False) and (found.get("shards") != 1 or found.get("isolation")):
        said = "recording alternatives needs a single shard; drop shards and isolation"
        wrong.append(f"schedule: {said}")
    spawned = str(arguments["isolation"]).startswith(_APART[True])
    if spawned and found.get("restart") is not None:
        wrong.append("restart: cannot be combined with isolation spawn; use isolation process")
    if wrong:
        raise ConfigError(*wrong)
    words, entries, limit_s, layer = (found.pop(name) for name in ("collectives", "set", "wall_limit", "resilience"))
    options = [("mpi.collectives", word) for word in words if word in ALGORITHMS]
    options += [] if layer is None else [("mpi.resilience.type", layer)]
    way = next((word for word in reversed(words) if word in WAYS), "auto")
    found |= {"begin_ps": begin_ps, "spawned": spawned, "overrides": dict(options) | entries}
    return RunParameters(**found, wall_limit_s=limit_s, way=way)


def schedule(value: Any) -> MatchSchedule | None:
    """Return the prescribed choices of ranks, from a file or pairs; see `xsim_py.schedules`."""
    if value is None:
        return None
    from xsim_py.schedules import read_schedule  # rarely needed

    return read_schedule(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected True or False, got {value!r}")
    return value


def _check(value: Any) -> Checks | None:
    """Return the reported classes of MPI usage errors; None if the run is not checked."""
    if value is False:
        return None
    from xsim_py.findings import Checks, chosen  # most runs are not checked, and must start quickly

    if isinstance(value, Checks):
        return value
    if isinstance(value, str | list | tuple):
        return chosen(",".join(_texts(value)))
    return Checks() if _flag(value) else None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {value!r}")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    """Return the texts of one, several, or None."""
    return tuple(_text(each) for each in _several(value))


def _several(value: Any) -> list[Any]:
    if value is None or isinstance(value, str):
        return [] if value is None else [value]
    try:
        return list(value)
    except TypeError:
        raise ValueError(f"expected text or a list of texts, got {value!r}") from None


def _list(value: Any) -> list[Any]:
    if isinstance(value, str):
        raise ValueError(f"expected a list, got the text {value!r}")
    return _several(value)


def _entries(value: Any) -> dict[str, Any]:
    """Return keys of the machine: from a mapping, or from texts as on the command line."""
    entries = dict(value) if isinstance(value, Mapping) else dict(map(assignment, _several(value)))
    for path in entries:
        _text(path)
    return entries


def _words(value: Any) -> list[str]:
    return [one_of(*COLLECTIVES)(each) for each in _several(value)]


def _unless_none(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else function(value)


_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "ranks": positive,
    "kind": _unless_none(one_of(*_KINDS)),
    "args": _list,
    "seed": seed,
    "shards": positive,
    "set": _entries,
    "wall_limit": _unless_none(seconds),
    "compute": _unless_none(compute),
    "collectives": _words,
    "fail": _texts,
    "ft": _unless_none(_flag),
    "restart": _unless_none(_text),
    "resilience": _unless_none(one_of(*RESILIENCE)),
    "isolation": isolation,
    "label": _flag,
    "trace": _flag,
    "profile": _flag,
    "links": _flag,
    "check": _check,
    "private": packages,
    "schedule": schedule,
    "share": packages,
}
