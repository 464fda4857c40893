"""Statements about failures: parsing and formatting.

======================================  ================================================================
``rank=5@1.2ms``                        a rank, a node or another component fails at a virtual time
``rank=3 before its 2nd Allreduce``     a rank fails at a call of its program, or ``after`` it
``rank=3 5us into its 2nd Allreduce``   a rank fails this time after the call has begun
``weibull:node,mtbf=1h,shape=0.7``      every component of a level fails repeatedly at random
``trace=FILE.csv``                      the failures in a file
``hang:rank=3,at=1ms,for=2ms``          another fault, of one of the kinds of `failure.fault`
======================================  ================================================================
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from xsim_py.config import DrawSpec
from xsim_py.config.entries import Location, Problem, from_python
from xsim_py.config.value_kinds import Reading, Section
from xsim_py.errors import close_match
from xsim_py.failure.fault import Fault, fault_kinds
from xsim_py.failure.schedule import CallSite
from xsim_py.units import format_time, parse_time_ps

_TIMED: Final = re.compile(r"([A-Za-z][\w-]*)\s*=\s*(-?[0-9]{1,18})\s*@\s*(.*)")
_AT_CALL: Final = re.compile(
    r"([A-Za-z][\w-]*)\s*=\s*(-?[0-9]{1,18})\s+(before|after|\S+\s+into)\s+(?:its\s+)?(\w+)\s+(\w+)"
)
_DRAWN: Final = re.compile(r"(\w+)\s*:\s*([^,]*)((?:,[^,]*)*)")
_TRACE: Final = re.compile(r"trace\s*=\s*(.+)")
_NUMERAL: Final = re.compile(r"([0-9]{1,18})(?:st|nd|rd|th)")
_FINITE: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,2})?")
_WORDS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_IN_C: Final = re.compile("P?MPIX?_(?:Comm_|File_|Intercomm_|Win_)?(.+)")
LEGIO_CALLS: Final = ("agree_group", "alive", "create_from_group", "create_group", "shrink_group")
"""The calls of `xsim_py.legio`, in which no failure can be placed."""
_EXPLICIT: Final = "rank=5@1.2ms, node=3@10ms or rank=3 before its 2nd Allreduce"
_ANY: Final = f"{_EXPLICIT}, exponential:node,mtbf=6.7h, flip:message,rank=3,at=1ms or trace=FILE.csv"


class Timed(NamedTuple):
    """The failure of all ranks of a component at a time."""

    level: str
    number: int
    time_ps: int

    def __str__(self) -> str:
        return f"{self.level}={self.number}@{format_time(self.time_ps, digits=None).replace(' ', '')}"


Statement = Timed | CallSite | DrawSpec | Path | Fault
"""Failures at a time or a call, of a law or of a trace, or another fault."""


def parse_statement(text: str, place: Location, *, path: str = "") -> Statement | list[Problem]:
    """Return the statement of a text, or its problems.

    With the `path` of a key in a description, only single failures are valid: laws and traces have separate keys.
    """
    stripped, explicit = text.strip(), bool(path)
    try:
        if match := _TIMED.fullmatch(stripped):
            return Timed(match[1], int(match[2]), parse_time_ps(match[3]))
        if match := _AT_CALL.fullmatch(stripped):
            return _at_call(*match.groups())
        if not explicit and (match := _TRACE.fullmatch(stripped)):
            return Path(match[1])
        if not explicit and (match := _DRAWN.fullmatch(stripped)):
            return _keyed(match[1], match[2], match[3], place)
    except ValueError as error:
        return [Problem(place, path, str(error))]
    return [Problem(place, path, f"expected a failure, got {text!r}; write {_EXPLICIT if explicit else _ANY}")]


def _at_call(level: str, number: str, when: str, ordinal: str, name: str) -> CallSite:
    if level != "rank":
        raise ValueError(f"a {level} makes no calls; write rank=... {when} its {ordinal} {name}")
    match = _NUMERAL.fullmatch(ordinal)
    count = int(match[1]) if match else _WORDS.index(ordinal) + 1 if ordinal in _WORDS else 0
    if count < 1:
        raise ValueError(f"expected the number of a call, got {ordinal!r}; write first, 2nd, 3rd, ...")
    into_ps = None if when in ("before", "after") else parse_time_ps(when.split()[0])
    return CallSite(int(number), when != "after", count, _in_python(name), into_ps)


def _in_python(name: str) -> str:
    """Return the name of a call in mpi4py for its name in C: ``Allreduce`` for ``MPI_Allreduce``."""
    in_c = _IN_C.fullmatch(name)
    return in_c[1][0].upper() + in_c[1][1:] if in_c else name


def _keyed(word: str, first: str, rest: str, place: Location) -> DrawSpec | Fault | list[Problem]:
    """Return a law or a fault, checked like the entries of section ``failures``."""
    kind = next((kind for kind in fault_kinds().values() if kind.word == word), None)
    spec, key_of_first, example = (kind, kind.first, kind.example) if kind else (DrawSpec, "per", "mtbf=6.7h")
    keys: dict[str, object] = {} if kind else {"law": word}
    if key_of_first:
        keys[key_of_first] = first.strip()
    for each in rest.split(",")[1:] if key_of_first else [first, *rest.split(",")[1:]]:
        key, equals, value = each.partition("=")
        if not equals or not value.strip() or key.strip() in keys:
            raise ValueError(f"expected key=value, each key once, got {each.strip()!r}; write {example}")
        keys[key.strip()] = _number(value.strip())
    reading = Reading()
    read: DrawSpec | Fault = Section(spec).read(from_python(keys, place=place), "", reading)
    return reading.problems or read


def _number(text: str) -> float | str:
    return float(text) if _FINITE.fullmatch(text) else text


def unknown_call(name: str, known: Collection[str]) -> str:
    """Return the problem with a call's name, or an empty text."""
    if name in known:
        return ""
    if name in LEGIO_CALLS:
        return f"expected an mpi4py call, got {name} of xsim_py.legio; give a time instead, e.g. rank=5@1.2ms"
    close = close_match(name, sorted(known))
    return f"unknown mpi4py call {name}" + (f"; did you mean {close}?" if close else "")
