"""What the program's own work costs, where the run says that it is to be measured.

The processor time that a rank's code takes here, from one call of the simulator to the next, divided by how many times
faster the simulated processor is, passes on the rank's virtual clock at the later call. What the simulator itself
spends inside a call is not counted. Another computer, or the same at another moment, measures other times; a run like
this cannot be repeated, and its result says so.

In a run that does not measure, nothing of this is there: the calls are not wrapped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any

from . import clock, current, files, life, locks, threads
from .patches import Patches

if TYPE_CHECKING:
    from .fiber import Fiber

__all__ = ["declare", "install"]

_read_ns = time.thread_time_ns


class _Meter:
    """When the running rank's own code began to run, and whether it is inside a call."""

    __slots__ = ("inside", "mark_ns")

    def __init__(self) -> None:
        self.inside = False
        self.mark_ns = _read_ns()


def _meter(fiber: Fiber) -> _Meter:
    """The meter of the running thread of a rank; each computes for itself."""
    meters: dict[Fiber, _Meter] = fiber.rank.private("meters", dict)
    if fiber not in meters:
        meters[fiber] = _Meter()
    return meters[fiber]


def declare(duration_ps: int, speed: float) -> None:
    """Let the time pass that a program says its work takes."""
    fiber = current.fiber
    if fiber is not None:
        fiber.sleep(round(duration_ps / speed))


def install(patches: Patches, owners: Iterable[type], speed: float) -> None:
    """Measure between all public calls of `owners` (the classes and modules that programs call).

    Parameters
    ----------
    patches : Patches
        Keeps what to put back.
    owners : iterable
        Classes, whose methods are wrapped.
    speed : float
        How many times faster the simulated processor is.
    """
    patches.wrap_calls(owners, lambda _, function: _metered(function, speed))
    for module, names in ((clock, ("read_ps", "sleep")), (locks, ("look",)), (threads, ("_begin",))):
        for name in names:
            patches.set(module, name, _metered(getattr(module, name), speed))
    # Nothing may happen between the look that finds something held and the place in the line: no time passes there.
    patches.set(locks, "line_up", _metered(locks.line_up, None))
    patches.set(threads, "line_up", locks.line_up)
    patches.set(threads, "look", locks.look)
    patches.set(threads, "_run", _metered_thread(threads._run, speed))
    patches.set(time, "sleep", clock.sleep)
    patches.set(files, "request", _metered(files.request, speed))
    patches.set(life, "_run_program", _metered_program(life._run_program, speed))


def _metered(function: Callable[..., Any], speed: float | None) -> Callable[..., Any]:
    """Charge what a rank's code has taken until now, unless there is no speed, and not what `function` takes."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        fiber = current.fiber
        meter = _meter(fiber) if fiber is not None else None
        if meter is None or meter.inside:
            return function(*args, **kwargs)
        meter.inside = True
        try:
            if speed is not None:
                _charge(meter, speed)
            return function(*args, **kwargs)
        finally:
            meter.inside = False
            meter.mark_ns = _read_ns()

    return call


def _charge(meter: _Meter, speed: float) -> None:
    fiber = current.running()
    fiber.sleep(round((_read_ns() - meter.mark_ns) * 1000 / speed))


def _metered_program(run: Callable[..., Any], speed: float) -> Callable[..., Any]:
    def metered(rank: Any, program: Any) -> Any:
        meter = _meter(rank.fiber)
        outcome = run(rank, program)
        _charge(meter, speed)
        return outcome

    return metered


def _metered_thread(run: Callable[..., Any], speed: float) -> Callable[..., Any]:
    def metered(work: Any) -> None:
        fiber: Any = current.fiber
        meter = _meter(fiber)
        run(work)
        _charge(meter, speed)
        del fiber.rank.private("meters", dict)[fiber]

    return metered
