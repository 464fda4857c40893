"""The meter charges a rank for its own computing, where the run says that it is to be measured.

The processor time that a rank's code takes here, from one call of the simulator to the next, divided by how many times
faster the simulated processor is, passes on the rank's virtual clock at the later call. What the simulator itself
spends inside a call is not counted. Another computer, or the same at another moment, measures other times; a run like
this cannot be repeated, and its result says so.

The functions by which a program comes to the simulator without calling MPI are decorated with `metered`; the methods
of MPI are wrapped (`install`) in a run that measures only, for a message must not pay for the question.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from . import current

if TYPE_CHECKING:
    from .fiber import Fiber
    from .patches import Patches

P = ParamSpec("P")
T = TypeVar("T")

# The time of this thread only: what other programs of the computer, or a thread of numpy's, do meanwhile is not the
# rank's.
_read_ns = time.thread_time_ns
_speed: float | None = None  # how many times faster the simulated processor is; None: nothing is measured


class _Meter:
    """The moment at which the running rank's own code began to run, and whether it is inside a call."""

    __slots__ = ("inside", "mark_ns")

    def __init__(self) -> None:
        self.inside = False
        self.mark_ns = _read_ns()


def _meter(fiber: Fiber) -> _Meter:
    """Return the meter of a thread of a rank; each computes for itself."""
    meters: dict[Fiber, _Meter] = fiber.rank.private("meters", dict)
    if fiber not in meters:
        meters[fiber] = _Meter()
    return meters[fiber]


def install(patches: Patches, owners: Iterable[type], speed: float) -> None:
    """Measure between all calls of the simulator, for the duration of a run.

    Parameters
    ----------
    patches : Patches
        Keeps what to put back.
    owners : iterable
        The classes that programs call, whose methods are wrapped.
    speed : float
        How many times faster the simulated processor is.
    """
    global _speed
    _speed = speed
    patches.at_end(_stop)
    patches.wrap_calls(owners, lambda owner, name, function: metered(function))


def _stop() -> None:
    global _speed
    _speed = None


def metered(function: Callable[P, T], *, charge: bool = True) -> Callable[P, T]:
    """Charge what a rank's code has taken until this call, unless `charge` is off; what the call takes is free.

    A call inside of another is the simulator's own.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        fiber = current.fiber
        # Functions decorated so are called in runs that measure nothing, too, so this question comes first.
        if _speed is None or fiber is None or (meter := _meter(fiber)).inside:
            return function(*args, **kwargs)
        meter.inside = True
        try:
            if charge:
                _charge(fiber, meter)
            return function(*args, **kwargs)
        finally:
            meter.inside = False
            meter.mark_ns = _read_ns()

    return call


@metered
def declare(duration_ps: int, speed: float) -> None:
    """Let the time pass that a program says its work takes."""
    fiber = current.fiber
    if fiber is not None:
        fiber.sleep(round(duration_ps / speed))


def begin_thread(fiber: Fiber) -> None:
    """Begin to measure what a thread of a rank computes."""
    if _speed is not None:
        _meter(fiber)


def end_thread(fiber: Fiber) -> None:
    """Charge what a thread of a rank has computed since its last call; it has come to its end.

    No wrapper of the thread's function does this: a frame more on each rank's stack is 550 bytes.
    """
    if _speed is not None:
        _charge(fiber, _meter(fiber))
        fiber.rank.private("meters", dict).pop(fiber, None)


def _charge(fiber: Fiber, meter: _Meter) -> None:
    assert _speed is not None
    fiber.sleep(round((_read_ns() - meter.mark_ns) * 1000 / _speed))
