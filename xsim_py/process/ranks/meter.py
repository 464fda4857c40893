"""The meter charges a rank for its own computation, if the run gives its cost.

The cost may be measured: the host's processor time of a rank's code between two calls of the simulator, divided by the
speed of the simulated processor, passes on the rank's virtual clock at the later call. The simulator's own time inside
a call is not counted. Each run measures different times, so it cannot be reproduced, and its result says so. Or the
cost comes from a file (see `stretches`) written by a measured run; then every run is the same.

Functions by which a program enters the simulator without calling MPI are decorated with `metered`. Around the calls of
MPI, a tool calls `enter` and `leave` (see `mpi4py.tools`), so that messages of other runs do not pay for the check.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from xsim_py.code_origin import CALLER, place_in_program

from . import current

if TYPE_CHECKING:
    from types import FrameType

    from .fiber import Fiber
    from .patches import Patches
    from .stretches import StretchRecorder, StretchTimes

P = ParamSpec("P")
T = TypeVar("T")

_on = False  # whether computation is charged
_recorder: StretchRecorder | None = None
_times: StretchTimes | None = None
_folders: tuple[str, ...] = ()


class _Meter:
    """The start of a rank's current compute interval, and the call inside which it is, if any.

    By default, it reads the time of this thread only, without other programs of the host or threads of numpy.
    """

    __slots__ = ("begun_at", "inside", "mark_ns", "read_ns")

    def __init__(self, read_ns: Callable[[], int] = time.thread_time_ns) -> None:
        self.inside: object = None
        self.begun_at = "start"
        self.read_ns = read_ns
        self.mark_ns = read_ns()


def _meter(fiber: Fiber) -> _Meter:
    """Return the meter of a thread of a rank; each thread has its own."""
    meters: dict[Fiber, _Meter] = fiber.rank.private("meters", dict)
    if fiber not in meters:
        meters[fiber] = _Meter()
    return meters[fiber]


def is_on() -> bool:
    """Return True if the run charges for computation."""
    return _on


def read_from(fiber: Fiber, read_ns: Callable[[], int]) -> None:
    """Measure a thread of a rank by another clock, which stops inside the simulator."""
    if _on:
        meters: dict[Fiber, _Meter] = fiber.rank.private("meters", dict)
        meters[fiber] = _Meter(read_ns)


def install(
    patches: Patches,
    *,
    recorder: StretchRecorder | None = None,  # records the measured times
    times: StretchTimes | None = None,  # to charge instead of the measured ones
    folders: Iterable[str] = (),  # of the program, to which its file names are relative
) -> None:
    """Charge for the computation between all calls of the simulator, for the duration of a run."""
    global _on, _recorder, _times, _folders
    _on, _recorder, _times, _folders = True, recorder, times, tuple(folders)
    patches.at_end(_stop)


def _stop() -> None:
    global _on, _recorder, _times
    _on, _recorder, _times = False, None, None


def metered(function: Callable[P, T], *, charge: bool = True) -> Callable[P, T]:
    """Charge for a rank's code up to this call, unless `charge` is off; the call itself is free.

    A call inside another is the simulator's own.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        fiber = current.fiber
        # Decorated functions are also called in runs that charge nothing, so this check comes first.
        if not _on or fiber is None or (meter := _meter(fiber)).inside:
            return function(*args, **kwargs)
        meter.inside = function
        try:
            if charge:
                _charge(fiber, meter, sys._getframe(CALLER))
            return function(*args, **kwargs)
        finally:
            meter.inside = None
            meter.mark_ns = meter.read_ns()

    return call


def enter(fiber: Fiber, call: object, frame: FrameType) -> None:
    """Charge for a rank's code up to a call, made from a frame; a call inside another is the simulator's own."""
    meter = _meter(fiber)
    if not meter.inside:
        meter.inside = call
        _charge(fiber, meter, frame)


def leave(fiber: Fiber, call: object) -> None:
    """Measure the computation of a thread again, after a call that `enter` has charged for."""
    meter = _meter(fiber)
    if meter.inside is call:
        meter.inside = None
        meter.mark_ns = meter.read_ns()


@metered
def declare(duration_ps: int) -> None:
    """Let the declared time of a computation pass."""
    fiber = current.fiber
    if fiber is not None:
        fiber.rank.shard.processor().compute(fiber, duration_ps)


def work(flops: float = 0, bytes: float = 0) -> None:
    """Charge for a computation on the simulated processor; under a real MPI, do nothing.

    The time follows the roofline model (Williams, Waterman and Patterson 2009): the longer of ``flops / compute.flops``
    and ``bytes / compute.bandwidth`` of the machine.

    Parameters
    ----------
    flops : float
        Number of floating-point operations.
    bytes : float
        Number of bytes moved from and to memory.

    Raises
    ------
    ValueError
        An argument is negative or not finite.
    """
    if current.here() is not None:
        _work(flops, bytes)


@metered
def _work(flops: float, size_bytes: float) -> None:
    for name, amount in (("flops", flops), ("bytes", size_bytes)):
        if not 0 <= amount < float("inf"):
            raise ValueError(f"xsim_py.work: expected a number of at least 0, got {name}={amount!r}")
    fiber = current.running()
    fiber.rank.shard.processor().work(fiber, flops, size_bytes)


def begin_thread(fiber: Fiber) -> None:
    """Start to measure the computation of a thread of a rank."""
    if _on:
        _meter(fiber)


def end_thread(fiber: Fiber) -> None:
    """Charge for the computation of a finished thread of a rank since its last call.

    A wrapper of the thread's function would add a frame of 550 bytes to each rank's stack.
    """
    if _on:
        _charge(fiber, _meter(fiber), None)
        fiber.rank.private("meters", dict).pop(fiber, None)


def _charge(fiber: Fiber, meter: _Meter, frame: FrameType | None) -> None:
    """Charge the compute interval that ends at a frame of the program, or with the thread."""
    took_ns = meter.read_ns() - meter.mark_ns
    rank = fiber.rank
    took_ps = took_ns * 1000
    if _recorder is not None or _times is not None:
        at = "end" if frame is None else place_in_program(frame, _folders)
        stretch, meter.begun_at = (meter.begun_at, at), at
        if _recorder is not None:
            _recorder.note(rank.number, stretch, took_ns)
        if _times is not None:
            took_ps = _times.of(rank.number, stretch)
            if not took_ps:
                return
    rank.shard.processor().compute(fiber, took_ps)
