"""Random failures: each component fails, is repaired, and fails again (a renewal process).

The process of a component begins with virtual time and continues whether the job runs or not, so a job that is
restarted meets the failures that come next. Exponential times have no memory. Weibull times with a shape below 1 have a
falling hazard, which fits the logs of real systems (Schroeder & Gibson, DSN'06: shape 0.7 to 0.8); their scale is mean
/ Gamma(1 + 1/shape), and the first of n has the scale divided by n^(1/shape).

Prior art: fault injectors draw up to a horizon. Here no horizon is needed: the first failure of every component is one
number of its level's stream, 0.3 us each, and only components that have failed before the job's start draw further
ones, each from a separate stream. So an MTBF of years costs as much as one of seconds, and no draw depends on another
component's.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right

from xsim_py.config import DrawSpec
from xsim_py.errors import ConfigError
from xsim_py.rng import stream
from xsim_py.units import format_time

_SHAPES = (0.1, 100.0)  # beyond these the mean consists of times never observed, or all are equal
_MAX_RENEWALS = 10**6


def draw_problem(draw: DrawSpec) -> tuple[str, str] | None:
    """Return the key that makes a law meaningless and why, or None."""
    if draw.mtbf_ps == 0:
        return "mtbf", "0 is out of range: the mean time between failures must be positive"
    if draw.law != "weibull":
        return (
            None
            if draw.shape is None
            else ("shape", f"cannot be combined with the {draw.law} law; use weibull or drop shape")
        )
    if draw.shape is None:
        return "shape", "missing key: the shape of a Weibull distribution, e.g. 0.7"
    if not _SHAPES[0] <= draw.shape <= _SHAPES[1]:
        return "shape", f"{draw.shape:g} is out of range ({_SHAPES[0]:g} to {_SHAPES[1]:g})"
    return None


def interval_ps(draw: DrawSpec, uniform: float) -> int:
    """Return the quantile of the law's distribution at a point in [0, 1), at least 1 ps.

    It uses Python's mathematics because the last bits of numpy's depend on the processor and the array's length.
    """
    units = -math.log1p(-uniform)
    if draw.shape is None:
        return max(1, round(draw.mtbf_ps * units))
    scale_ps = draw.mtbf_ps / math.gamma(1 + 1 / draw.shape)
    time_ps: float = scale_ps * units ** (1 / draw.shape)
    return max(1, round(time_ps))


class Renewals:
    """The failures of all components of one level under one law.

    `occurrence` is the number of earlier laws for the same level. `count` is the number of components, on which the
    failures of a single component do not depend.
    """

    def __init__(self, draw: DrawSpec, *, occurrence: int, count: int, seed: int) -> None:
        self.draw = draw
        self._name = ("failure", draw.per, occurrence)
        self._seed = seed
        self._uniform = stream(seed, *self._name).random
        self._count = count
        self._first_ps = [interval_ps(draw, self._uniform()) for _ in range(count)]
        shape = "" if draw.shape is None else f", shape {draw.shape:g}"
        self._law = f"{draw.law}, MTBF {format_time(draw.mtbf_ps)}{shape}"
        self._known_ps: dict[int, tuple[list[int], random.Random]] = {}

    def next_ps(self, after_ps: int) -> list[int]:
        """Return the time of each component's first failure after ``after_ps``.

        Raises a `ConfigError` if all components together would have more than a million failures before.
        """
        if after_ps * self._count > _MAX_RENEWALS * self.draw.mtbf_ps:
            each = f" of {self._count:,}" if self._count > 1 else ""
            law = f"one failure of a {self.draw.per}{each} every {format_time(self.draw.mtbf_ps)}"
            raise ConfigError(f"failures: {law}: more than a million up to {format_time(after_ps)}; use a longer mtbf")
        return [self._next_ps(component, after_ps) for component in range(self._count)]

    def next_of_ps(self, component: int, after_ps: int) -> int:
        """Return the first failure of one component, which may be beyond the initial count."""
        while component >= len(self._first_ps):
            self._first_ps.append(interval_ps(self.draw, self._uniform()))
        return self._next_ps(component, after_ps)

    def _next_ps(self, component: int, after_ps: int) -> int:
        time_ps = self._first_ps[component]
        return time_ps if time_ps > after_ps else self._later_ps(component, after_ps)

    def _later_ps(self, component: int, after_ps: int) -> int:
        if component not in self._known_ps:
            own = stream(self._seed, *self._name, component)
            self._known_ps[component] = ([self._first_ps[component]], own)
        times_ps, own = self._known_ps[component]
        while times_ps[-1] <= after_ps:
            times_ps.append(times_ps[-1] + interval_ps(self.draw, own.random()))
        return times_ps[bisect_right(times_ps, after_ps)]

    def cause(self, component: int) -> str:
        """Return the text of the cause of a component's failure."""
        per = self.draw.per
        name = per if per in ("rank", "machine") else f"{per} {component}"  # a rank's number is shown anyway
        return f"drawn: {name}, {self._law}"
