"""The meter charges a rank for its own computing, where the run says what that costs.

It may be measured: the processor time that a rank's code takes here, from one call of the simulator to the next,
divided by how many times faster the simulated processor is, passes on the rank's virtual clock at the later call. What
the simulator itself spends inside a call is not counted. Another computer, or the same at another moment, measures
other times; a run like this cannot be repeated, and its result says so. Or it comes from a file (see `stretches`),
which a run that was measured has written; then every run is the same.

The functions by which a program comes to the simulator without calling MPI are decorated with `metered`; the methods
of MPI are wrapped (`install`) in a run that charges only, for a message must not pay for the question.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from xsim_py.code_origin import place_in_program

from . import current

if TYPE_CHECKING:
    from types import FrameType

    from .fiber import Fiber
    from .patches import Patches
    from .stretches import StretchRecorder, StretchTimes

P = ParamSpec("P")
T = TypeVar("T")

# The time of this thread only: what other programs of the computer, or a thread of numpy's, do meanwhile is not the
# rank's.
_read_ns = time.thread_time_ns
_on = False  # whether computing is charged
_recorder: StretchRecorder | None = None
_times: StretchTimes | None = None
_folders: tuple[str, ...] = ()


class _Meter:
    """The moment at which the running rank's own code began to run, and whether it is inside a call."""

    __slots__ = ("begun_at", "inside", "mark_ns")

    def __init__(self) -> None:
        self.inside = False
        self.begun_at = "start"
        self.mark_ns = _read_ns()


def _meter(fiber: Fiber) -> _Meter:
    """Return the meter of a thread of a rank; each computes for itself."""
    meters: dict[Fiber, _Meter] = fiber.rank.private("meters", dict)
    if fiber not in meters:
        meters[fiber] = _Meter()
    return meters[fiber]


def install(
    patches: Patches,
    owners: Iterable[type],
    *,
    recorder: StretchRecorder | None = None,
    times: StretchTimes | None = None,
    folders: Iterable[str] = (),
) -> None:
    """Charge between all calls of the simulator, for the duration of a run.

    Parameters
    ----------
    patches : Patches
        Keeps what to put back.
    owners : iterable
        The classes that programs call, whose methods are wrapped.
    recorder : StretchRecorder, optional
        Takes down what is measured.
    times : StretchTimes, optional
        What is charged in place of what is measured.
    folders : iterable of str
        Those of the program; its files are named from there.
    """
    global _on, _recorder, _times, _folders
    _on, _recorder, _times, _folders = True, recorder, times, tuple(folders)
    patches.at_end(_stop)
    patches.wrap_calls(owners, lambda owner, name, function: metered(function))


def _stop() -> None:
    global _on, _recorder, _times
    _on, _recorder, _times = False, None, None


def metered(function: Callable[P, T], *, charge: bool = True) -> Callable[P, T]:
    """Charge what a rank's code has taken until this call, unless `charge` is off; what the call takes is free.

    A call inside of another is the simulator's own.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        fiber = current.fiber
        # Functions decorated so are called in runs that charge nothing, too, so this question comes first.
        if not _on or fiber is None or (meter := _meter(fiber)).inside:
            return function(*args, **kwargs)
        meter.inside = True
        try:
            if charge:
                _charge(fiber, meter, sys._getframe(1))
            return function(*args, **kwargs)
        finally:
            meter.inside = False
            meter.mark_ns = _read_ns()

    return call


@metered
def declare(duration_ps: int) -> None:
    """Let the time pass that a program says its work takes."""
    fiber = current.fiber
    if fiber is not None:
        fiber.rank.shard.processor().compute(fiber, duration_ps)


def work(flops: float = 0, bytes: float = 0) -> None:
    """Let the time pass that some work takes on the simulated processor; under a real MPI, do nothing.

    By the roofline model (Williams, Waterman and Patterson 2009): the longer of ``flops / compute.flops`` and
    ``bytes / compute.bandwidth`` of the machine.

    Parameters
    ----------
    flops : float
        How many operations on numbers it is.
    bytes : float
        How many bytes it moves from and to memory.

    Raises
    ------
    ValueError
        One of them is negative, or not finite.
    """
    if current.here() is not None:
        _work(flops, bytes)


@metered
def _work(flops: float, size_bytes: float) -> None:
    for name, amount in (("flops", flops), ("bytes", size_bytes)):
        if not 0 <= amount < float("inf"):
            raise ValueError(f"xsim_py.work: {name}={amount!r} is not a number from 0 on")
    fiber = current.running()
    fiber.rank.shard.processor().work(fiber, flops, size_bytes)


def begin_thread(fiber: Fiber) -> None:
    """Begin to measure what a thread of a rank computes."""
    if _on:
        _meter(fiber)


def end_thread(fiber: Fiber) -> None:
    """Charge what a thread of a rank has computed since its last call; it has come to its end.

    No wrapper of the thread's function does this: a frame more on each rank's stack is 550 bytes.
    """
    if _on:
        _charge(fiber, _meter(fiber), None)
        fiber.rank.private("meters", dict).pop(fiber, None)


def _charge(fiber: Fiber, meter: _Meter, frame: FrameType | None) -> None:
    """Charge the stretch that ends at a frame of the program, or with the thread."""
    took_ns = _read_ns() - meter.mark_ns
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
