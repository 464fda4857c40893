"""The view of a figure: a range of time, some ranks, and a style (size, font, title)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Self

from xsim_py.errors import ConfigError
from xsim_py.report.style import Look
from xsim_py.units import parse_time_ps, parse_whole

LOOKS: Final = ("columns", "width", "size", "font", "font_size", "title", "labels", "legend")
"""The keys that concern the style only."""
_KEYS: Final = ("time", "ranks", *LOOKS)
_PLACES: Final = ("below", "right", "none")
_MOST_RANKS: Final = 1 << 24
_FORMS: Final = {
    "time": "FROM:TO with units, e.g. 1ms:2.5ms; by default from the beginning and to the end",
    "ranks": "numbers and ranges, as in 0-7,12",
    "size": "inches, as in 7x3.5, from 1x1 to 60x60",
    "font_size": "points, from 1 to 100",
    "columns": "1 or 2 columns of a journal",
    "width": "inches, from 1 to 60",
    "labels": "the texts along the x and the y axis with a semicolon between them, as in 'ranks; time [ms]'",
    "legend": f"{', '.join(_PLACES[:-1])} or {_PLACES[-1]}",
}
_NUMBER: Final = r"([0-9]+(?:\.[0-9]+)?)"


@dataclass(frozen=True)
class PictureView:
    """The displayed part of a run."""

    since_ps: int = 0
    until_ps: int | None = None
    """The range of virtual time; None: up to the end."""
    ranks: tuple[int, ...] | None = None
    """The ranks, ascending; None: all."""
    look: Look = field(default_factory=Look)
    """Size, text and legend."""

    @classmethod
    def of(cls, settings: Iterable[str]) -> Self:
        """Return the view for settings such as ``time=1ms:2ms``; later ones override earlier ones.

        Each setting is a key, an equals sign and a value: ``time=FROM:TO``, ``ranks=0-7,12``, ``columns=1`` or ``2``
        (of a journal), ``width=5`` or ``size=7x3.5`` (inches), ``font=NAME``, ``font_size=9`` (points), ``title=TEXT``,
        ``labels=X;Y``, ``legend=below``, ``right`` or ``none``. Raise ConfigError if a key is unknown, or a value does
        not have that form.
        """
        given: dict[str, str] = {}
        for setting in settings:
            key, equals, value = setting.partition("=")
            if not equals or key not in _KEYS or not (value or key == "title"):
                raise ConfigError(f"unknown figure setting {setting!r}; write KEY=VALUE with {', '.join(_KEYS)}")
            given[key] = value
        since_ps, until_ps = _time(given.pop("time")) if "time" in given else (0, None)
        ranks = _ranks(given.pop("ranks")) if "ranks" in given else None
        look: dict[str, Any] = {key: _READ[key](value) for key, value in given.items()}
        return cls(since_ps, until_ps, ranks, Look(**look))

    @property
    def whole(self) -> bool:
        """True if it shows the whole run."""
        return self.since_ps == 0 and self.until_ps is None and self.ranks is None


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


def _number(key: str, least: float, most: float) -> Callable[[str], float]:
    def read(value: str) -> float:
        if re.fullmatch(_NUMBER, value) is None or not least <= float(value) <= most:
            raise _refuse(key, value)
        return float(value)

    return read


def _columns(value: str) -> int:
    if value not in ("1", "2"):
        raise _refuse("columns", value)
    return int(value)


def _labels(value: str) -> tuple[str, str]:
    x, semicolon, y = value.partition(";")
    if not semicolon:
        raise _refuse("labels", value)
    return x.strip(), y.strip()


def _legend(value: str) -> str:
    if value not in _PLACES:
        raise _refuse("legend", value)
    return value


_READ: Final[dict[str, Callable[[str], Any]]] = {
    "columns": _columns,
    "width": _number("width", 1, 60),
    "size": _size,
    "font": str,
    "font_size": _number("font_size", 1, 100),
    "title": str,
    "labels": _labels,
    "legend": _legend,
}
