"""The module `time` in a rank: every clock shows virtual time, and sleeping lets it pass.

A program may spin until a clock reaches a value. Reading a clock takes no virtual time, so such a loop would never
end. Therefore a clock that is read often while nothing else happens begins to tick, by 0.1 us per reading. A loop that
waits for a time (see `waiting_loops`) and reads the clock at one location only sees larger ticks after a while: 1/128
of the time waited so far, up to 1 s, and from 1024 s on 1/1024, so that a spin of hours costs some thousand readings
and ends within 1 %. The result reports the added time. All other readings keep their cost: a program that times its
steps takes no longer.

A tick is not an event: other ranks and other threads of the rank continue only after several ticks.

An installed module that all ranks share reads clocks for other purposes: a compiler measures each of its steps and must
not be suspended in the middle of its work, where another rank would find it. There a clock begins to tick much later,
and no other rank runs meanwhile. The same applies to libraries of compiled programs.
"""

from __future__ import annotations

import sysconfig
import time
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any

from xsim_py.code_origin import outside_frame
from xsim_py.process.ranks import current
from xsim_py.process.ranks.fiber import Fiber
from xsim_py.process.ranks.meter import metered
from xsim_py.process.ranks.patches import Table, Wrapper
from xsim_py.process.ranks.queues import yield_to_threads
from xsim_py.process.ranks.rank import EPOCH_S

from .waiting_loops import COMPILED, waiting_frame

# This many readings at one time are free, so a program that only measures is not delayed.
_PATIENT_READS = 1000
_PATIENT_READS_OF_SHARED = 100_000
_PATIENT_WAIT = 1000  # readings at one location before their ticks may grow
_TICK_PS = 100_000
_LONGEST_TICK_PS = 10**12
_TICKS_AT_ONCE = 64
_LONGEST_SLEEP_S = 2**63 / 10**9  # as in CPython


class Reads:
    """A count of one rank's clock readings while nothing else happened."""

    __slots__ = ("clock_ps", "count", "grown_ps", "since_ps", "waited", "waits_at")

    def __init__(self) -> None:
        self.clock_ps = self.since_ps = -1  # the times of the last reading, and of the first by the loop of `waits_at`
        # The number of readings since anything else happened, and of consecutive ones by that loop.
        self.count = self.waited = 0
        # Code and offset of the loop that waits for a time, if the last reading was made in one.
        self.waits_at: tuple[CodeType, int] | None = None
        # For each file and line of such a loop, the time that its ticks added beyond the usual ones.
        self.grown_ps: dict[tuple[str, int], int] = {}


@metered
def read_ps(before: int = 0) -> int:
    """Return the running rank's virtual time, in picoseconds; a reading may take time, see the head of this file.

    A compiled program has made `before` readings at this time without the simulator.
    """
    fiber = current.fiber or current.rank().fiber
    rank = fiber.rank
    reads = rank.reads
    if reads is None:
        reads = rank.reads = Reads()
    if reads.clock_ps != fiber.clock_ps:
        reads.clock_ps = fiber.clock_ps
        reads.count = 0
        reads.waits_at = None
    reads.count = max(reads.count, before) + 1
    if reads.count > _PATIENT_READS:
        _tick(fiber, reads)
        reads.clock_ps = fiber.clock_ps
    return fiber.clock_ps


def _tick(fiber: Fiber, reads: Reads) -> None:
    """Advance the clock by the time of a reading."""
    frame = outside_frame()
    is_installed = frame.f_code.co_filename.startswith(_installed()) and not fiber.rank.owns(frame.f_globals)
    is_shared = is_installed or frame.f_globals.get(COMPILED) is False
    if is_shared and reads.count <= _PATIENT_READS_OF_SHARED:
        return
    tick_ps = _TICK_PS
    loop = waiting_frame(frame)
    place = None if loop is None else (loop.f_code, loop.f_lasti)
    if place is None or place != reads.waits_at:
        reads.waits_at, reads.waited, reads.since_ps = place, 0, fiber.clock_ps
    reads.waited += 1
    if loop is not None and reads.waited > _PATIENT_WAIT:
        waited_ps = fiber.clock_ps - reads.since_ps
        tick_ps = max(_TICK_PS, min(waited_ps >> 7, _LONGEST_TICK_PS), waited_ps >> 10)
        if tick_ps > _TICK_PS:
            line = loop.f_code.co_filename, loop.f_lineno
            reads.grown_ps[line] = reads.grown_ps.get(line, 0) + tick_ps - _TICK_PS
    fiber.clock_ps += tick_ps
    if not is_shared and (tick_ps > _TICK_PS or reads.count % _TICKS_AT_ONCE == 0):
        fiber.sync()


@cache
def _installed() -> tuple[str, ...]:
    return tuple(f"{sysconfig.get_path(name)}/" for name in ("purelib", "platlib"))


@metered
def sleep(seconds: float) -> None:
    """Sleep in virtual time, as `time.sleep` does in real time."""
    fiber = current.here()
    if fiber is None:
        _real_sleep(seconds)
        return
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    if seconds >= _LONGEST_SLEEP_S:
        raise OverflowError("timestamp too large to convert to C PyTime_t")
    # A thread calls ``time.sleep(0)`` to yield; as no time passes, the others must be resumed explicitly.
    if seconds == 0:
        yield_to_threads(fiber)
    fiber.sleep(round(float(seconds) * 10**12))


_real_sleep, _real_localtime = time.sleep, time.localtime


def _seconds(real: Callable[..., float], epoch_s: int) -> Callable[..., float]:
    def clock(*args: object) -> float:
        return real(*args) if current.here() is None else epoch_s + read_ps() / 10**12

    return clock


def _nanoseconds(real: Callable[..., int], epoch_s: int) -> Callable[..., int]:
    def clock(*args: object) -> int:
        return real(*args) if current.here() is None else epoch_s * 10**9 + read_ps() // 1000

    return clock


def _of_any_clock(real: Callable[[int], Any], unit: str) -> object:
    """Return a ``clock_gettime``, which reads the time of day or another clock."""
    seconds, others = getattr(time, f"time{unit}"), getattr(time, f"monotonic{unit}")

    def clock(number: int) -> object:
        if current.here() is None:
            return real(number)
        return seconds() if number == time.CLOCK_REALTIME else others()

    return clock


def _defaulting(real: Callable[..., Any], position: int) -> Callable[..., Any]:
    """Return a function that passes the virtual time to `real` if a call omits the time."""

    def clock(*args: object) -> object:
        if current.here() is not None and (len(args) <= position or args[position] is None):
            now: Any = EPOCH_S + read_ps() / 10**12
            if real.__name__ in ("asctime", "strftime"):
                now = _real_localtime(now)
            args = (*args[:position], now)
        return real(*args)

    return clock


def _with_clocks(defaults: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replace clocks among the default arguments of functions imported before the run."""
    return tuple(getattr(time, _NAMES[each]) if each in _NAMES else each for each in defaults)


_NAMES = {getattr(time, name): name for name in ("monotonic", "perf_counter", "sleep")}
_CLOCKS = ("perf_counter", "monotonic", "process_time", "thread_time")
_GIVEN = "virtual: the default argument is the rank's time"
PATCHED: Table = (
    (
        "time",
        "virtual: starts at 2020-01-01",
        {"time": Wrapper(_seconds, EPOCH_S), "time_ns": Wrapper(_nanoseconds, EPOCH_S)},
    ),
    ("time", "virtual: starts at 0", {name: Wrapper(_seconds, 0) for name in _CLOCKS}),
    ("time", "virtual: starts at 0", {f"{name}_ns": Wrapper(_nanoseconds, 0) for name in _CLOCKS}),
    ("time", "virtual", {"sleep": sleep}),
    ("time", "virtual", {f"clock_gettime{unit}": Wrapper(_of_any_clock, unit) for unit in ("", "_ns")}),
    ("time", _GIVEN, {name: Wrapper(_defaulting, 0) for name in ("localtime", "gmtime", "ctime", "asctime")}),
    ("time", _GIVEN, {"strftime": Wrapper(_defaulting, 1)}),
    ("threading", "virtual", {"_time": Wrapper(lambda _: time.monotonic)}),
    ("queue", "virtual", {"time": Wrapper(lambda _: time.monotonic)}),
    ("timeit", "virtual", {"default_timer": Wrapper(lambda _: time.perf_counter)}),
    *(  # these keep references to the real clocks since their import, whatever the module contains now
        (place, "virtual", {"__defaults__": Wrapper(_with_clocks)})
        for place in ("sched.scheduler.__init__", "timeit.Timer.__init__", "timeit.timeit", "timeit.repeat")
    ),
)
