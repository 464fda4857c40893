"""Conditions on the columns of a run: ``ranks<=1024 or machine=gige,shmem``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from xsim_py.errors import advice
from xsim_py.study.template import NAME, Scalar, text_of

_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_FORM: Final = re.compile(rf"\s*(?P<name>{NAME.pattern})\s*(?P<sign><=|>=|!=|==|=|<|>)(?P<value>.*)", re.DOTALL)
_OR: Final = re.compile(r"\s+or\s+")


class _Test(NamedTuple):
    name: str
    sign: str
    values: tuple[str, ...]

    def holds(self, value: Scalar) -> bool:
        if self.sign in _COMPARISONS:
            number = _number(value)
            return number is not None and _COMPARISONS[self.sign](number, float(self.values[0]))
        among = any(_same(value, other) for other in self.values)
        return among != (self.sign == "!=")


@dataclass(frozen=True)
class Condition:
    """One or more comparisons of a column with a value, joined by ``or``.

    ``=`` and ``!=`` take several values separated by commas, and compare numbers as numbers. Raises ValueError if the
    text is not a condition.
    """

    text: str
    _tests: tuple[_Test, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tests", tuple(_test(part, self.text) for part in _OR.split(self.text)))

    @property
    def names(self) -> frozenset[str]:
        """The columns in the condition."""
        return frozenset(test.name for test in self._tests)

    def check(self, columns: Iterable[str]) -> None:
        """Raise a ValueError if it uses a column that is not among these."""
        known = list(columns)
        for test in self._tests:
            if test.name not in known:
                raise ValueError(f"{self.text!r}: unknown name {test.name}; {advice(test.name, known)}")

    def holds(self, row: Mapping[str, Scalar]) -> bool:
        """Return True if it holds for a run with these columns."""
        return any(test.holds(row[test.name]) for test in self._tests)


def _test(part: str, whole: str) -> _Test:
    match = _FORM.fullmatch(part)
    if match is None:
        raise ValueError(f"expected a condition, got {whole!r}; write for example ranks<=64 or machine=gige,shmem")
    sign = "=" if match["sign"] == "==" else match["sign"]
    values = tuple(value.strip() for value in match["value"].split(","))
    if sign in _COMPARISONS and (len(values) != 1 or _number(values[0]) is None):
        given = match["value"].strip()
        raise ValueError(f"{whole!r}: {match['name']} {sign} compares numbers, got {given!r}")
    return _Test(match["name"], sign, values)


def _number(value: Scalar) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (ValueError, OverflowError):
        return None


def _same(value: Scalar, other: str) -> bool:
    numbers = _number(value), _number(other)
    return text_of(value) == other or (None not in numbers and numbers[0] == numbers[1])
