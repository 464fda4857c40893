"""One thread of control of a virtual rank: a greenlet and its own virtual clock.

A rank has one fiber for its program, one more for each thread that the program starts (`threads`), and one for each
non-blocking collective in progress (the progress engine of a real MPI). A fiber's clock may run ahead of the kernel by
the overheads of the MPI calls it has made; it catches up (`sync`) before it looks at anything that other ranks can
change.

Only this file switches greenlets. Everything that blocks goes through `Fiber.park`, with a printable reason.

A fiber that is abandoned (its rank has failed, or the run ended while it was parked) must never run again, not even a
``finally``. Collecting a greenlet throws `GreenletExit` into it, which would unwind the user's stack; so an abandoned
greenlet is kept until the end of the run (see `dead_objects`).

A program may create greenlets, which switch among themselves, and call MPI in any of them. So once a program has
accessed `greenlet`, a fiber records at each `park` the greenlet in which to continue. The same flag makes ranks that
lock files check at each `park` whether they have closed them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from greenlet import error as GreenletError  # noqa: N812
from greenlet import getcurrent, greenlet

from xsim_py import vitals

from . import current
from .dead_objects import free, keep, keep_all, keep_forever

if TYPE_CHECKING:
    from .rank import Rank


class Parked:
    """The reason why a fiber waits, as the deadlock report prints it. Most subclasses are in `mpi`."""

    __slots__ = ()

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        raise NotImplementedError


class Until(Parked):
    """The reason of a fiber that only waits for its own clock."""

    __slots__ = ()

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return "asleep, computing or polling"


UNTIL = Until()
NEVER_PS = 1 << 200

# Hot path: a store here takes half the time of ``current.fiber = ...``, and a message needs three.
_running = current.__dict__
_vitals = vitals.mine  # for the number of the running rank
_modules: Any = sys.modules  # while a run lasts, attributes of `sys` are slow
_hub: Any = None  # the greenlet of the simulator, parent of all fibers; asking a greenlet for its parent takes longer
_switch: Callable[[Any], Any] = greenlet.switch  # CPython 3.11 looks up methods of the hub slowly
# Python maps 16 KiB for the frames of each new greenlet and unmaps them at its end: 9 of the 15 us that a rank with an
# empty program took, and half of the time of a barrier on a million ranks.
_idle: list[greenlet] = []  # workers that have finished their work
_keeps_idle = False


class Fiber:
    """A greenlet of a rank, with its own view of the rank's virtual time."""

    # There may be a million of these at a time, so they have no dictionary.
    __slots__ = ("call", "clock_ps", "greenlet", "rank", "waiting")

    def __init__(self, rank: Rank, clock_ps: int) -> None:
        self.rank = rank
        self.call: Any = None  # its current or last MPI call, in a run with tools; see `mpi4py.door`
        self.clock_ps = clock_ps  # its virtual time; never behind the kernel while it runs
        # The reason why it is parked (anything with ``describe()``); None while it runs or is about to.
        self.waiting: Any = None
        self.greenlet: greenlet | None = None  # None before the start and after the end

    def start(self, body: Callable[[Fiber], None]) -> None:
        """Run ``body(self)`` up to its first `park`; called by the simulator, never by a fiber.

        It runs in an idle worker if there is one. Creating a greenlet and releasing its memory, which the system has to
        map and unmap, takes longer than starting most ranks.
        """
        hub = _note_hub()
        self.greenlet = glet = _idle.pop() if _idle else greenlet(_serve, hub)
        if current.installed is not self.rank:
            _swap(self.rank)
        current.fiber = self
        _vitals.rank = self.rank.number
        glet.switch([self, body])
        current.fiber = None

    def park(self, reason: object) -> None:
        """Return control to the simulator until `resume`; the deadlock report shows the reason."""
        self.waiting = reason
        if _attentive:
            before, self.greenlet = self.greenlet, getcurrent()
            if _at_wait is not None:
                _at_wait(self.rank, self.clock_ps)
        try:
            _switch(_hub)
        # The only sign that an operating system thread has called this: checking before each switch would slow down
        # every message.
        except GreenletError as problem:  # greenlets belong to the thread that made them
            self.waiting = None
            if _attentive:
                self.greenlet = before
            raise NotImplementedError(
                f"rank {self.rank.number} calls MPI from a thread of the operating system, which cannot wait for "
                "virtual time; those of `threading` can, and of `concurrent.futures.ThreadPoolExecutor`"
            ) from problem

    def resume(self) -> None:
        """Continue after `park`. Called by the simulator (an event handler), never by another fiber."""
        # Hot path: once per message.
        self.waiting = None
        rank = self.rank
        previous = current.installed
        if previous is not rank:
            if rank.bare and previous is not None and previous.bare:
                _running["installed"] = rank  # what `context.swap` does for two bare ranks
                _modules["__main__"] = rank.main
            else:
                _swap(rank)
        _running["fiber"] = self
        _vitals.rank = rank.number
        glet = self.greenlet
        if glet is None:  # the wait of a thread of the rank was refused (see `park`), and its condition is now met
            current.fiber = None
            return
        glet.switch()
        _running["fiber"] = None

    interrupt = resume  # identical for a fiber that waits for one thing

    def sync(self) -> None:
        """Wait until the kernel has reached this fiber's clock, so that everything due by then has arrived."""
        rank = self.rank
        if self.clock_ps > rank.shard.kernel.now_ps:
            rank.key += 1
            # Not a bound method, which would be one more object per wait.
            rank.shard.kernel.post(self.clock_ps, rank.key, _resume, self)
            self.park(UNTIL)

    def sleep(self, duration_ps: int) -> None:
        """Advance this fiber's virtual time by a duration."""
        self.clock_ps += duration_ps
        self.sync()

    def yield_forever(self) -> None:
        """Return control to the simulator for good; call `abandon` first."""
        _switch(_hub)

    def abandon(self) -> None:
        """Never run this fiber again; see the head of this file."""
        glet, self.greenlet = self.greenlet, None
        if self.call is not None:
            self.call.abandon()
        if glet is not None and not glet.dead:
            keep(glet)


class MortalFiber(Fiber):
    """A fiber of a rank that will fail at a given time and never runs past it.

    The rank stops when its clock reaches that time, whatever it is doing, rather than at its next wait.
    """

    __slots__ = ("_clock_ps", "death_ps")

    def __init__(self, rank: Rank, clock_ps: int, death_ps: int | None = None) -> None:
        self.death_ps = rank.fiber.death_ps if death_ps is None else death_ps  # type: ignore[attr-defined]
        super().__init__(rank, clock_ps)

    @property
    def clock_ps(self) -> int:
        """Its virtual time."""
        return self._clock_ps

    @clock_ps.setter
    def clock_ps(self, time_ps: int) -> None:
        self._clock_ps = time_ps
        if time_ps >= self.death_ps and current.fiber is self:
            self.sync()

    def put_off(self, for_ps: int) -> None:
        """Advance its virtual time without stopping."""
        self._clock_ps += for_ps


class HangingFiber(MortalFiber):
    """A fiber of a rank whose process hangs temporarily from a given time on; see `hang`."""

    __slots__ = ("is_put_off",)

    def __init__(self, rank: Rank, clock_ps: int, death_ps: int | None = None) -> None:
        self.is_put_off = False
        super().__init__(rank, clock_ps, death_ps)

    def resume(self) -> None:
        """Continue now, or when the process stops hanging."""
        rank = self.rank
        until_ps = 0 if rank.extra is None else rank.extra.get(_SILENT, 0)
        if rank.shard.kernel.now_ps >= until_ps:
            super().resume()
        elif not self.is_put_off:
            self.is_put_off = True
            rank.key += 1
            rank.shard.kernel.post(until_ps, rank.key, HangingFiber.resume_late, self)

    interrupt = resume

    def resume_late(self) -> None:
        """Continue, now that the process has stopped hanging."""
        self.is_put_off = False
        self._clock_ps = max(self._clock_ps, self.rank.shard.kernel.now_ps)
        super().resume()

    def sync(self) -> None:
        """Wait until the kernel has reached this fiber's clock, which a hang may advance meanwhile."""
        rank = self.rank
        kernel = rank.shard.kernel
        while self._clock_ps > kernel.now_ps:
            rank.key += 1
            kernel.post(self._clock_ps, rank.key, HangingFiber.resume, self)
            self.park(UNTIL)


_SILENT = "silent until"
_STOPS = "stops"


def hang(rank: Rank, for_ps: int) -> None:
    """Make a rank's process hang from now on; an event handler, at a time when the rank stops.

    Computation and sleep end later by that duration, and nothing that the rank waits for resumes it earlier.
    """
    now_ps = rank.shard.kernel.now_ps
    rank.private(_SILENT, int)
    assert rank.extra is not None
    rank.extra[_SILENT] = now_ps + for_ps
    for fiber in (rank.fiber, *rank.extra.get("fibers", ())):
        if fiber.waiting is UNTIL and fiber.clock_ps > now_ps:
            fiber.put_off(for_ps)


def stop_at(rank: Rank, time_ps: int | None, *, hangs: bool = False) -> None:
    """Stop a rank when its clock reaches a time, whatever it is doing (see `MortalFiber`).

    For a rank that is already running, this must have been announced before its start, with a time of None. A time at
    which it `hangs` must be set before its start.
    """
    fiber = rank.fiber
    kind = HangingFiber if hangs else MortalFiber
    if not isinstance(fiber, kind):
        death_ps = fiber.death_ps if isinstance(fiber, MortalFiber) else NEVER_PS
        rank.fiber = fiber = kind(rank, fiber.clock_ps, death_ps)
    if time_ps is not None:
        rank.private(_STOPS, list).append(time_ps)
        fiber.death_ps = min(fiber.death_ps, time_ps)


def continue_after_stop(rank: Rank) -> None:
    """Let a stopped rank continue to its next stop; an event handler."""
    assert rank.extra is not None
    now_ps = rank.shard.kernel.now_ps
    later = [time_ps for time_ps in rank.extra[_STOPS] if time_ps > now_ps]
    for fiber in (rank.fiber, *rank.extra.get("fibers", ())):
        fiber.death_ps = min(later, default=NEVER_PS)


def _note_hub() -> greenlet:
    """Record the current greenlet as the hub and return it."""
    global _hub
    hub = getcurrent()
    if _hub is not hub:
        _idle.clear()  # greenlets belong to the thread that created them
        _hub = pinned_hub()
    return hub


def pinned_hub() -> greenlet:
    """Return the current greenlet (the hub) and keep it alive forever.

    At the end of a thread, `greenlet` asks the collector for objects that refer to that thread's main greenlet. During
    a run the collector finds none (`gc.freeze`), so the hub would be freed while still in use.
    """
    hub = getcurrent()
    keep_forever(hub)
    return hub


def is_hub(glet: object) -> bool:
    """Return True if a greenlet is the simulator's, not a rank's."""
    return glet is _hub


def _serve(given: list[Any]) -> None:
    """Run one body after another, as a worker.

    Nothing here may refer to the worker, because it would then never be freed.
    """
    while given:
        fiber, body = given
        given.clear()  # a greenlet keeps its first arguments until its end
        body(fiber)
        fiber.greenlet = None
        # A worker that waits for its next rank must not keep the last one or its objects alive.
        fiber = body = None
        worker = getcurrent()
        worker.gr_context = None  # values that the body has put into context variables
        _idle.append(worker)
        del worker
        given = _switch(_hub)


def at_switch(swap: Callable[[Rank], None] | None) -> None:
    """Call ``swap(rank)`` at each switch to another rank; None: only record the rank."""
    global _swap
    _swap = _record_turn if swap is None else swap


def _record_turn(rank: Rank) -> None:
    current.installed = rank


_swap: Callable[[Rank], None] = _record_turn


def wrap_control_switch(around: Callable[[Callable[[Any], Any], Any], Any] | None) -> None:
    """Call ``around(switch, hub)`` when a fiber returns control with ``switch(hub)``; None removes it."""
    global _switch
    _switch = greenlet.switch if around is None else partial(around, greenlet.switch)


def record_turns() -> None:
    """Record the running rank in this process's current `vitals` from now on."""
    global _vitals
    _vitals = vitals.mine


def dismiss_workers() -> None:
    """End all idle workers; the next run may be traced, or in another thread."""
    if _keeps_idle:
        keep_forever(_idle.copy())
        _idle.clear()
        # Kept workers hold frames; the collector would otherwise scan these again at the end of the process.
        gc.freeze()
    while _idle:
        _idle.pop().switch([])  # ending this way takes half as long as being collected


def free_abandoned() -> None:
    """Free abandoned fibers and other kept objects of dead ranks; none of their code runs."""
    free(_idle)


_attentive = False  # True if fibers may be in the program's greenlets, or if there is something to do at each wait
_at_wait: Callable[[Rank, int], None] | None = None


def record_greenlets(may: bool) -> None:
    """Set, at the start of a run or later, whether fibers record the greenlet in which they continue."""
    global _attentive
    _attentive = may


def check_at_waits(check: Callable[[Rank, int], None] | None) -> None:
    """Call ``check(rank, time_ps)`` whenever a rank is about to wait, for the rest of the run; None: no longer."""
    global _attentive, _at_wait
    _attentive, _at_wait = _attentive or check is not None, check


def keep_idle() -> None:
    """Keep dismissed workers from now on: this process ends soon, and the system then reclaims them at once."""
    global _keeps_idle
    _keeps_idle = True
    keep_all()


# For `sync`: a global is found faster than a class attribute.
_resume = Fiber.resume
