"""A picture shows a part of a run in a certain look: a range of time, some ranks, a size, a font."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from xsim_py.errors import ConfigError
from xsim_py.report.style import Look
from xsim_py.units import parse_time_ps, parse_whole

_KEYS: Final = ("time", "ranks", "size", "font", "font_size")
_MOST_RANKS: Final = 1 << 24
_FORMS: Final = {
    "time": "FROM:TO with units, as in 1ms:2.5ms; what is left out is the beginning or the end",
    "ranks": "numbers and ranges, as in 0-7,12",
    "size": "inches, as in 7x3.5, from 1x1 to 60x60",
    "font_size": "points, from 1 to 100",
}
_NUMBER: Final = r"([0-9]+(?:\.[0-9]+)?)"


@dataclass(frozen=True)
class PictureView:
    """The part of a run that is drawn."""

    since_ps: int = 0
    until_ps: int | None = None
    """The range of virtual time; None: up to the end."""
    ranks: tuple[int, ...] | None = None
    """The ranks, ascending; None: all."""
    look: Look = field(default_factory=Look)
    """The size and font."""

    @classmethod
    def of(cls, settings: Iterable[str]) -> Self:
        """Return the view that settings such as ``time=1ms:2ms`` describe; a later one replaces an earlier one.

        Parameters
        ----------
        settings : iterable of str
            Each a key, an equals sign and a value: ``time=FROM:TO``, ``ranks=0-7,12``, ``size=7x3.5`` (inches),
            ``font=NAME``, ``font_size=9`` (points).

        Raises
        ------
        ConfigError
            When one is none of these, or its value is not of that form.
        """
        given: dict[str, str] = {}
        for setting in settings:
            key, equals, value = setting.partition("=")
            if not equals or key not in _KEYS or not value:
                raise ConfigError(f"{setting!r} is no setting of a picture; write KEY=VALUE with {', '.join(_KEYS)}")
            given[key] = value
        since_ps, until_ps = _time(given["time"]) if "time" in given else (0, None)
        ranks = _ranks(given["ranks"]) if "ranks" in given else None
        size = _size(given["size"]) if "size" in given else None
        points = _points(given["font_size"]) if "font_size" in given else Look.font_size
        return cls(since_ps, until_ps, ranks, Look(size=size, font=given.get("font"), font_size=points))


def _refuse(key: str, value: str) -> ConfigError:
    return ConfigError(f"{key}={value}: it is {_FORMS[key]}")


def _time(value: str) -> tuple[int, int | None]:
    since, colon, until = value.partition(":")
    if not colon:
        raise _refuse("time", value)
    try:
        since_ps = parse_time_ps(since) if since else 0
        until_ps = parse_time_ps(until) if until else None
    except ValueError as error:
        raise ConfigError(f"time={value}: {error}") from error
    if until_ps is not None and until_ps <= since_ps:
        raise ConfigError(f"time={value}: this range is empty, it ends before it begins")
    return since_ps, until_ps


def _ranks(value: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in value.split(","):
        match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
        if match is None:
            raise _refuse("ranks", value)
        try:
            first, last = (parse_whole(end, least=0, most=_MOST_RANKS) for end in (match[1], match[2] or match[1]))
        except ValueError as error:
            raise ConfigError(f"ranks={value}: {error}") from error
        if last < first:
            raise ConfigError(f"ranks={value}: {part} ends before it begins")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _size(value: str) -> tuple[float, float]:
    match = re.fullmatch(rf"{_NUMBER}x{_NUMBER}", value)
    if match is None or not all(1 <= float(inches) <= 60 for inches in match.groups()):
        raise _refuse("size", value)
    return float(match[1]), float(match[2])


def _points(value: str) -> float:
    if re.fullmatch(_NUMBER, value) is None or not 1 <= float(value) <= 100:
        raise _refuse("font_size", value)
    return float(value)
