"""Axis scales and tick labels for values with units.

A ruler is derived from the values of a sweep: ``0.5us, 1us, 2us`` or ``64KiB, 1MiB``. Its ticks use the same units, the
largest one that suits each tick.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Self

from xsim_py.units import BARE, UNITS, split_quantity

# For numbers without a unit, of a quantity that has one.
_USUAL: Final = {
    "time": ("ps", "ns", "us", "ms", "s"),
    "size": ("B", "KiB", "MiB", "GiB", "TiB"),
    "bandwidth": ("bps", "kbps", "Mbps", "Gbps", "Tbps"),
    "time per byte": ("ps/B", "ns/B", "us/B", "ms/B", "s/B"),
}
_LARGEST: Final = 10**250  # with a unit it is still a float
_KIND_OF: Final = {unit: kind for kind, units in UNITS.items() for unit in units}


@dataclass(frozen=True)
class Ruler:
    """The scale of an axis."""

    kind: str = ""
    """The kind of quantity: a key of `xsim_py.units.UNITS`, or empty for plain numbers."""
    units: tuple[str, ...] = ()
    """The units of its ticks, the smallest first."""
    base: str = ""
    """The unit of positions, such that round positions have round labels."""

    @classmethod
    def of(cls, values: Iterable[object], kind: str = "") -> Self | None:
        """Return the ruler for values of one kind; None if a value is not a number, or kinds differ.

        Values are numbers, or texts such as ``"0.5us"`` and ``"1e-6"``; `kind` is that of numbers without a unit.
        """
        split = [_split(value) for value in values]
        found = [each for each in split if each is not None]
        written = {unit for _, unit in found if unit}
        if len(found) < len(split) or not written <= _KIND_OF.keys():
            return None
        kinds = {_KIND_OF[unit] for unit in written}
        if len(kinds) > 1:
            return None
        kind = next(iter(kinds), kind)
        if not kind:
            return cls()
        factors = UNITS[kind]
        units = tuple(sorted(written or _USUAL[kind], key=factors.__getitem__))
        largest = max((abs(number) * (factors[unit] if unit else BARE[kind]) for number, unit in found), default=0)
        return cls(kind, units, _suiting(units, factors, largest))

    def place(self, value: object) -> float:
        """Return the position of a value."""
        number, unit = _split(value) or (Fraction(0), "")
        if self.kind:
            factors = UNITS[self.kind]
            return float(number * (factors[unit] if unit else BARE[self.kind]) / factors[self.base])
        return value if isinstance(value, int | float) else float(number)

    def label(self, place: float) -> str:
        """Return the label of a tick."""
        if not self.kind or not place:
            return _figure(place)
        factors = UNITS[self.kind]
        value = place * factors[self.base]
        unit = _suiting(self.units, factors, abs(value) * (1 + 1e-9))
        return f"{_figure(value / factors[unit])} {unit}"


PLAIN: Final = Ruler()
"""Numbers without a unit."""


def _figure(value: float) -> str:
    """Return a number formatted for ticks."""
    return f"{value:,.0f}" if value >= 1000 and value == int(value) and value < 1e7 else _without_zeros(f"{value:.6g}")


def _without_zeros(text: str) -> str:
    """Return 1e8 for 1e+08."""
    number, exponent, power = text.partition("e")
    return f"{number}e{int(power)}" if exponent else text


def _split(value: object) -> tuple[Fraction, str] | None:
    """Return number and unit of a value, or None if a figure cannot show it."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int) and abs(value) > _LARGEST:
        return None
    split = split_quantity(str(value))
    return None if split is None or abs(split[0]) > _LARGEST else split


def _suiting(units: Iterable[str], factors: dict[str, int], value: Fraction | float) -> str:
    """Return the largest of ascending units in which a value is at least one, or the smallest."""
    smallest, *larger = units
    return next((unit for unit in reversed(larger) if value >= factors[unit]), smallest)
