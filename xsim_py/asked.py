"""What `simulate` and `xsim run` are asked for: read in one way, so that a wrong value gets one answer.

The command line gives text, and Python gives values; a function here takes both, or says with a `ValueError` what is
wrong. The names of the parameters and of the options are the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from xsim_py.errors import ConfigError
from xsim_py.units import PS_PER_S, parse_time_ps

__all__ = ["COLLECTIVES", "COMPUTE", "Asked", "assignment", "one_of", "positive", "read", "seconds", "whole"]

ALGORITHMS: Final = ("tuned", "ftco")
"""What collective operations can be run by as a whole."""

WAYS: Final = ("messages", "arrays", "auto")
"""How they can be simulated."""

COLLECTIVES: Final = (*ALGORITHMS, *WAYS)
COMPUTE: Final = ("none", "measured")
_KINDS: Final = ("script", "module", "code", "callable")


def whole(value: Any) -> int:
    """Return a whole number."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a whole number") from None


def positive(value: Any) -> int:
    """Return a whole number of at least one."""
    number = whole(value)
    if number < 1:
        raise ValueError(f"{number} is less than 1")
    return number


def seconds(value: Any) -> float:
    """Return the seconds of a time such as 60s or 5min; a bare number means seconds."""
    return parse_time_ps(value) / PS_PER_S


def assignment(text: Any) -> tuple[str, str]:
    """Return the two sides of ``path=value``."""
    path, equals, value = text.partition("=") if isinstance(text, str) else ("", "", "")
    if not path or not equals:
        raise ValueError(f"{text!r} is not of the form path=value")
    return path, value


def one_of(*words: str) -> Callable[[Any], str]:
    """Return a function that takes one of these words."""

    def read(value: Any) -> str:
        if value in words:
            return str(value)
        near = get_close_matches(str(value), words, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{value!r} is not one of {', '.join(words[:-1])} and {words[-1]}{hint}")

    return read


class Asked(NamedTuple):
    """What was asked for.

    Attributes
    ----------
    overrides : dict
        What is to be changed of the machine; ``set`` comes after what other options say.
    way : str
        How collectives are simulated: one of `WAYS`.
    """

    ranks: int
    kind: str | None
    args: Sequence[Any]
    seed: int
    shards: int
    overrides: dict[str, Any]
    wall_limit_s: float | None
    compute: str | None
    way: str
    fail: tuple[str, ...]
    ft: bool | None
    restart: str | None
    label: bool
    trace: bool
    profile: bool


def read(told: Mapping[str, Any], problems: Sequence[str] = ()) -> Asked:
    """Read the parameters of `simulate`, by their names.

    Raises
    ------
    ConfigError
        With everything that is wrong, besides the `problems` that were found already.
    """
    found: dict[str, Any] = {}
    wrong = list(problems)
    for name, function in _READ.items():
        try:
            found[name] = function(told[name])
        except ValueError as error:
            wrong.append(f"{name}: {error}")
    if wrong:
        raise ConfigError("\n".join(wrong))
    words, entries, limit_s = (found.pop(name) for name in ("collectives", "set", "wall_limit"))
    algorithms = [("mpi.collectives", word) for word in words if word in ALGORITHMS]
    way = next((word for word in reversed(words) if word in WAYS), "auto")
    return Asked(**found, overrides=dict(algorithms) | entries, wall_limit_s=limit_s, way=way)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither True nor False")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    """One text, or several, or None."""
    return tuple(_text(each) for each in _several(value))


def _several(value: Any) -> list[Any]:
    if value is None or isinstance(value, str):
        return [] if value is None else [value]
    try:
        return list(value)
    except TypeError:
        raise ValueError(f"{value!r} is neither a text nor a list of some") from None


def _list(value: Any) -> list[Any]:
    if isinstance(value, str):
        raise ValueError(f"{value!r} is one text; give a list")
    return _several(value)


def _entries(value: Any) -> dict[str, Any]:
    """Entries of the machine: a mapping, or texts as on the command line."""
    return dict(value) if isinstance(value, Mapping) else dict(map(assignment, _several(value)))


def _words(value: Any) -> list[str]:
    return [one_of(*COLLECTIVES)(each) for each in _several(value)]


def _unless_none(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else function(value)


_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "ranks": positive,
    "kind": _unless_none(one_of(*_KINDS)),
    "args": _list,
    "seed": whole,
    "shards": positive,
    "set": _entries,
    "wall_limit": _unless_none(seconds),
    "compute": _unless_none(one_of(*COMPUTE)),
    "collectives": _words,
    "fail": _texts,
    "ft": _unless_none(_flag),
    "restart": _unless_none(_text),
    "label": _flag,
    "trace": _flag,
    "profile": _flag,
}
