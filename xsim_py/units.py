"""Parsing and formatting of quantities.

Inside, time is an integer number of picoseconds, a size is an integer number of bytes, and a bandwidth is the exact
time per byte: a `fractions.Fraction` of picoseconds. A Fraction, because 8.8 Gb/s is 10000/11 ps per byte, and a
rounding error would grow with the size of the message. Outside, quantities are text (``"20us"``, ``"8.8Gbps"``,
``"128KiB"``) or bare numbers in the base unit: seconds, bits per second, bytes.

Decimal prefixes count in thousands and binary ones in 1024s: ``64KB`` is 64 000 bytes, ``64KiB`` is 65 536.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from xsim_py.errors import close_match

PS_PER_S: Final = 10**12
_DECIMALS: Final = 12

_TIME_PS: Final = {
    "ps": 1,
    "ns": 10**3,
    "us": 10**6,
    "µs": 10**6,  # the micro sign
    "μs": 10**6,  # the Greek letter, which looks the same and is as common
    "ms": 10**9,
    "s": PS_PER_S,
    "min": 60 * PS_PER_S,
    "h": 3600 * PS_PER_S,
}
_DECIMAL: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_PREFIX: Final = _DECIMAL | _BINARY

_SIZE_BYTES: Final = {f"{prefix}B": factor for prefix, factor in _PREFIX.items()}
_BITS_PER_S: Final = {
    **{f"{prefix}{bit}": factor for prefix, factor in _PREFIX.items() for bit in ("bps", "b/s", "bit/s")},
    **{f"{prefix}{byte}": 8 * factor for prefix, factor in _PREFIX.items() for byte in ("B/s", "Bps")},
}
_PER_BYTE_PS: Final = {f"{unit}/B": factor for unit, factor in _TIME_PS.items()}

UNITS: Final = {"time": _TIME_PS, "size": _SIZE_BYTES, "bandwidth": _BITS_PER_S, "time per byte": _PER_BYTE_PS}
"""The units of each kind of quantity, with their factors; no unit belongs to two kinds."""
BARE: Final = {"time": PS_PER_S, "size": 1, "bandwidth": 1, "time per byte": PS_PER_S}
"""The factor of a number without a unit."""

_LONGEST_TEXT: Final = 100
# An exponent has at most three digits: a longer one would create a number that fills the memory.
_NUMBER: Final = r"\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_SPLIT: Final = re.compile(rf"\s*(-?{_NUMBER})\s*(\S*)\s*")
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")
_UNLIMITED: Final = "unlimited"
_MOST_SPANS: Final = 16


def _pattern(units: dict[str, int], *, words: tuple[str, ...] = ()) -> str:
    """Return the JSON Schema pattern of a non-negative quantity in one of ``units``, or bare."""
    alternatives = "|".join(re.escape(unit).replace(r"\-", "-") for unit in sorted(units))
    quantity = rf"\s*{_NUMBER}\s*(?:{alternatives})?\s*"
    return "^(?:" + "|".join([quantity, *words]) + ")$"


TIME_PATTERN: Final = _pattern(_TIME_PS)
SIZE_PATTERN: Final = _pattern(_SIZE_BYTES)
TIME_PER_BYTE_PATTERN: Final = _pattern(_PER_BYTE_PS | _TIME_PS)
BANDWIDTH_PATTERN: Final = _pattern(_BITS_PER_S | _PER_BYTE_PS, words=(_UNLIMITED,))
# A bandwidth of zero; but zero time per byte is valid.
NO_BANDWIDTH_PATTERN: Final = r"^(?![\s\S]*/B\s*$)\s*\+?[0.]+(?:[eE][+-]?[0-9]+)?\s*[^0-9]*$"


def round_half_up(numerator: int, denominator: int) -> int:
    """Return the integer nearest to a non-negative ratio, rounding half up."""
    return (2 * numerator + denominator) // (2 * denominator)


def split_quantity(text: str) -> tuple[Fraction, str] | None:
    """Return number and unit of a text such as ``"0.5us"`` or a bare number; None otherwise."""
    match = _SPLIT.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    return (Fraction(match[1]), match[2]) if match else None


def _quantity(value: object, units: dict[str, int], *, bare: int, what: str, examples: str) -> Fraction:
    """Return any quantity, exactly, in the unit whose factor is 1.

    Raise ValueError if ``value`` is neither a finite number nor text of the form number and unit, or is negative.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Fraction)):
        raise ValueError(f"expected {what}, got {value!r}; write {examples}")
    # repr() of a float is the shortest equivalent text: what the user wrote rather than its binary neighbour.
    text = repr(float(value)) if isinstance(value, float) else str(value)
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"{text[:20]!r}... is too long: {len(text):,} characters; {what} has at most {_LONGEST_TEXT}")
    if isinstance(value, Fraction):
        number, unit = value, ""
    else:
        split = split_quantity(text)
        if split is None:
            raise ValueError(f"expected {what}, got {text!r}; write {examples}")
        number, unit = split
    if number < 0 or text.lstrip().startswith("-"):  # -0 is treated as a mistake
        raise ValueError(f"{text} is out of range: {what} cannot be negative")
    if not unit:
        return number * bare
    if unit not in units:
        close = close_match(unit, units)
        raise ValueError(f"unknown unit in {text!r}; {f'did you mean {close}?' if close else f'write {examples}'}")
    return number * units[unit]


_LONGEST_PS: Final = 10**27
_LONGEST_COST_PS: Final = 86_400 * PS_PER_S
_LONGEST_PER_BYTE: Final = Fraction(8 * PS_PER_S)  # at 1 bps, the lowest bandwidth
_SHORTEST_PER_BYTE: Final = _LONGEST_PER_BYTE / 10**24
_LARGEST_BYTES: Final = 2**60


def parse_time_ps(value: object) -> int:
    """Return the integer picoseconds of a time such as ``"20us"``; a bare number means seconds.

    Raise ValueError if it is not a time, is negative, is positive but rounds to zero, or is absurdly long.
    """
    examples = "for example 20us, 1.5ms or 1e-6 (seconds)"
    exact = _quantity(value, _TIME_PS, bare=PS_PER_S, what="a time", examples=examples)
    time_ps = round_half_up(exact.numerator, exact.denominator)
    if time_ps > _LONGEST_PS:
        raise ValueError(f"{value} is out of range (at most {_LONGEST_PS // PS_PER_S:.0e} s, thirty million years)")
    if time_ps == 0 and exact:
        raise ValueError(f"{value} is out of range: the resolution of the simulated clock is 1 ps")
    return time_ps


def parse_cost_ps(value: object) -> int:
    """Return the integer picoseconds of a repeated cost, parsed by `parse_time_ps`.

    Raise ValueError if it is not a time, or longer than a day: a hundred costs still fit a signed number of 64 bits.
    """
    time_ps = parse_time_ps(value)
    if time_ps > _LONGEST_COST_PS:
        raise ValueError(f"{value} is out of range (at most 24h)")
    return time_ps


def parse_bandwidth(value: object) -> Fraction:
    """Return the exact ps per byte of a bandwidth: ``"8.8Gbps"``, ``"1.25GB/s"``, ``"6ns/B"``.

    A bare number means bits per second. ``"unlimited"`` gives 0: bytes take no time. Raise ValueError if it is not a
    bandwidth, is zero or negative, or outside of 1 to 10**24 bits per second.
    """
    if value == _UNLIMITED or value == float("inf"):
        return Fraction(0)
    examples = "for example 1Gbps, 1.25GB/s, 6ns/B, 1e9 (bits per second) or unlimited"
    if isinstance(value, str) and value.rstrip().endswith(tuple(_PER_BYTE_PS)):
        return _in_range(value, _quantity(value, _PER_BYTE_PS, bare=1, what="a bandwidth", examples=examples))
    bits_per_s = _quantity(value, _BITS_PER_S, bare=1, what="a bandwidth", examples=examples)
    if not bits_per_s:
        raise ValueError(f"{value} is out of range: the bandwidth must be positive; write {examples}")
    return _in_range(value, Fraction(8 * PS_PER_S) / bits_per_s)


def _in_range(value: object, ps_per_byte: Fraction) -> Fraction:
    if ps_per_byte and not _SHORTEST_PER_BYTE <= ps_per_byte <= _LONGEST_PER_BYTE:
        raise ValueError(f"{value} is out of range (0 per byte, or 8e-24 to 8 s per byte, 1 bps)")
    return ps_per_byte


def parse_time_per_byte(value: object) -> Fraction:
    """Return the exact ps per byte of ``"0.1ns/B"`` or ``"0.1ns"``.

    A bare number means seconds per byte. Raise ValueError if it is not a time per byte, is negative, or corresponds to
    neither zero nor 1 to 10**24 bits per second.
    """
    units = _PER_BYTE_PS | _TIME_PS
    examples = "for example 0.1ns/B or 1e-10"
    return _in_range(value, _quantity(value, units, bare=PS_PER_S, what="a time per byte", examples=examples))


def parse_size_bytes(value: object) -> int:
    """Return the bytes of a size such as ``"128KiB"`` (131 072) or ``"64KB"`` (64 000).

    A bare number means bytes. Raise ValueError if it is not a size, is negative, is not an integer number of bytes, or
    exceeds 2**60.
    """
    exact = _quantity(value, _SIZE_BYTES, bare=1, what="a size", examples="for example 128KiB, 64KB or 65536 (bytes)")
    if exact.denominator != 1:
        raise ValueError(f"expected a whole number of bytes, got {value}")
    if exact > _LARGEST_BYTES:
        raise ValueError(f"{value} is out of range (at most 1024PiB)")
    return exact.numerator


def parse_whole(text: str, *, least: int, most: int) -> int:
    """Parse an integer of at most 18 decimal digits.

    Raise ValueError if it is something else, or not from `least` to `most`.
    """
    if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
        raise ValueError(f"expected an integer from {least:,} to {most:,}, got {text!r}")
    return int(text)


def format_number(value: Fraction | float, *, digits: int | None = 4) -> str:
    """Return a number in the fewest characters, with `digits` significant digits (None: all).

    Raise ValueError if all digits of a fraction such as 1/3 are requested, which has no finite expansion.
    """
    exact = Fraction(value)
    if digits is not None:
        return f"{float(exact):.{digits}g}" if abs(exact) < 10**digits else str(round(exact))
    places, scaled = 0, exact
    while scaled.denominator != 1:
        places, scaled = places + 1, scaled * 10
        if places > 60:
            raise ValueError(f"{exact} has no finite decimal expansion")
    whole, part = divmod(abs(scaled.numerator), 10**places)
    sign = "-" if exact < 0 else ""
    return f"{sign}{whole}" + (f".{part:0{places}d}" if places else "")


def _format(value: Fraction, steps: list[tuple[str, int]], digits: int | None) -> str:
    """Return ``value`` in the largest unit of ``steps`` (ascending) of which it is at least one."""
    unit, factor = steps[0]
    for unit_name, unit_factor in steps:
        if abs(value) >= unit_factor:
            unit, factor = unit_name, unit_factor
    return f"{format_number(value / factor, digits=digits)} {unit}"


def format_time(time_ps: int, *, digits: int | None = 4) -> str:
    """Return a readable time: ``"1.234 ms"``; ``digits=None`` is exact, so that it parses back."""
    if time_ps == 0:
        return "0 s"
    return _format(Fraction(time_ps), [(unit, _TIME_PS[unit]) for unit in ("ps", "ns", "us", "ms", "s")], digits)


def exact_seconds(time_ps: int) -> str:
    """Return a time as decimal seconds with every digit, unlike a float: ``"9000.00004000004"``."""
    whole, part = divmod(time_ps, PS_PER_S)
    return f"{whole}.{f'{part:0{_DECIMALS}d}'.rstrip('0') or '0'}"


def parse_exact_seconds(text: str) -> int:
    """Return the integer picoseconds of an `exact_seconds` result; raise ValueError otherwise."""
    whole, _, part = text.partition(".")
    if not (whole + part).isdecimal() or len(part) > _DECIMALS:
        raise ValueError(f"expected seconds with at most {_DECIMALS} decimals, got {text!r}")
    return int(whole + part.ljust(_DECIMALS, "0"))


def format_size(size_bytes: int, *, digits: int | None = 4) -> str:
    """Return a readable size in binary units: ``"128 KiB"``; ``digits=None`` writes all digits."""
    steps = [("B", 1), *((f"{prefix}B", factor) for prefix, factor in _BINARY.items())]
    return _format(Fraction(size_bytes), steps, digits)


def format_bandwidth(ps_per_byte: Fraction, *, digits: int | None = 4) -> str:
    """Return a readable bandwidth: ``"8.8 Gbps"``; zero picoseconds per byte is ``"unlimited"``."""
    if not ps_per_byte:
        return _UNLIMITED
    bits_per_s = Fraction(8 * PS_PER_S) / ps_per_byte
    return _format(bits_per_s, [(f"{prefix}bps", _DECIMAL[prefix]) for prefix in ("", "k", "M", "G", "T")], digits)


def ordinal(number: int, form: str = "") -> str:
    """Return an ordinal number, such as ``22nd``; with `form` ``,`` also ``1,013th``."""
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:{form}}{ending}"


def spans(numbers: Iterable[int], *, most: int | None = _MOST_SPANS) -> str:
    """Return numbers as ranges, ``0-3, 7, 9-10``, of which at most `most` are listed."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    if most is not None and len(words) > most:
        words = [*words[: most // 2], "...", words[-1]]
    return ", ".join(words)
