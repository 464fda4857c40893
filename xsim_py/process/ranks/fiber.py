"""One thread of control of a virtual rank: a greenlet and its own virtual clock.

A rank has one fiber for its program, one more for each thread that the program starts (`threads`), and one for each
non-blocking collective in progress (the progress engine of a real MPI). A fiber's clock may run ahead of the kernel by
the overheads of the MPI calls it has made; it catches up (`sync`) before it looks at anything that other ranks can
change.

Only this file switches greenlets. Everything that blocks goes through `Fiber.park`, with a reason that can be shown.

A fiber that is abandoned (its rank died, or the run ended while it was parked) must never run again, not even a
``finally``. A greenlet that is collected is first thrown `GreenletExit`, which would unwind the user's stack; so an
abandoned greenlet is kept until the end of the run (see `dead_objects`).

A program may have greenlets of its own, which switch among themselves; one of them may call MPI. So once a program has
looked at `greenlet`, a fiber notes at each `park` where it is to go on.
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
from .dead_objects import free, keep, keep_for_ever, never_free

if TYPE_CHECKING:
    from .rank import Rank


class Parked:
    """The reason why a fiber waits, as the deadlock report prints it. Most kinds live in `mpi`."""

    __slots__ = ()

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        raise NotImplementedError


class Until(Parked):
    """The reason of a fiber that waits for its own clock only."""

    __slots__ = ()

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return "asleep, computing or polling"


UNTIL = Until()
NEVER_PS = 1 << 200

# Hot path: a store here is half of one by ``current.fiber = ...``, and a message needs three.
_running = current.__dict__
_vitals = vitals.mine  # they say whose turn it is
_modules: Any = sys.modules  # while a run lasts, attributes of `sys` are slow
_hub: Any = None  # the greenlet of the simulator, parent of all fibers; to ask a greenlet for its parent takes longer
_switch: Callable[[Any], Any] = greenlet.switch  # CPython 3.11 finds methods of the simulator's greenlet the slow way
# Python maps 16 KiB for the frames of each new greenlet and unmaps them at its end: 9 of the 15 us that a rank with an
# empty program took, and half of the time of a barrier on a million ranks.
_idle: list[greenlet] = []  # workers that have done what they were given
_keeps_idle = False


class Fiber:
    """A greenlet of a rank, and the rank's time as that greenlet knows it.

    Attributes
    ----------
    rank : Rank
        The virtual rank that this fiber belongs to.
    clock_ps : int
        Its virtual time; never behind the kernel while it runs.
    waiting : object or None
        The reason it is parked for (anything with ``describe()``), None while it runs or is about to.
    greenlet : greenlet or None
        None before the start and after the end.
    """

    # There may be a million of these at a time, so none has a dictionary.
    __slots__ = ("clock_ps", "greenlet", "rank", "waiting")

    def __init__(self, rank: Rank, clock_ps: int) -> None:
        self.rank = rank
        self.clock_ps = clock_ps
        self.waiting: Any = None
        self.greenlet: greenlet | None = None

    def start(self, body: Callable[[Fiber], None]) -> None:
        """Run ``body(self)`` up to its first `park`; called by the simulator, never by a fiber.

        It runs in a worker that has come to the end of what it did before, where there is one. To make a greenlet and
        to give back its memory, which the system has to map and to unmap, takes longer than most ranks take to start.
        """
        hub = _note_hub()
        self.greenlet = glet = _idle.pop() if _idle else greenlet(_serve, hub)
        if current.installed is not self.rank:
            _swap(self.rank)
        current.fiber = self
        _vitals.rank = self.rank.number
        glet.switch([self, body])
        current.fiber = None

    def park(self, reason: Any) -> None:
        """Give control back to the simulator until `resume`; the reason is what a deadlock report shows."""
        self.waiting = reason
        if _roaming:
            before, self.greenlet = self.greenlet, getcurrent()
        try:
            _switch(_hub)
        # The only sign that a thread of the operating system has come here: to ask for it before each switch would cost
        # every message something.
        except GreenletError as problem:  # greenlets belong to the thread that made them
            self.waiting = None
            if _roaming:
                self.greenlet = before
            raise NotImplementedError(
                f"rank {self.rank.number} calls MPI from a thread of the operating system, which cannot wait for "
                "virtual time; those of `threading` can, and of `concurrent.futures.ThreadPoolExecutor`"
            ) from problem

    def resume(self) -> None:
        """Go on after `park`. Called by the simulator (an event handler), never by another fiber."""
        # Hot path: once a message.
        self.waiting = None
        rank = self.rank
        previous = current.installed
        if previous is not rank:
            if rank.bare and previous is not None and previous.bare:
                _running["installed"] = rank  # what `context.swap` does for two of these
                _modules["__main__"] = rank.main
            else:
                _swap(rank)
        _running["fiber"] = self
        _vitals.rank = rank.number
        glet = self.greenlet
        if glet is None:  # a thread of the rank was refused to wait (see `park`), and what it waited for has come
            current.fiber = None
            return
        glet.switch()
        _running["fiber"] = None

    interrupt = resume  # for who waits for one thing there is no difference

    def sync(self) -> None:
        """Wait until the kernel has reached this fiber's clock: all that can have arrived by now has arrived."""
        rank = self.rank
        # Not `now_ps`: a property is a call of Python, which takes seven times as long as an attribute.
        if self.clock_ps > rank.shard.kernel._now:
            rank.key += 1
            # Not a bound method, which would be one more object for each wait.
            rank.shard.kernel.post(self.clock_ps, rank.key, _resume, self)
            self.park(UNTIL)

    def sleep(self, duration_ps: int) -> None:
        """Let virtual time pass for this fiber."""
        self.clock_ps += duration_ps
        self.sync()

    def give_up(self) -> None:
        """Give control back to the simulator for ever; `abandon` it before."""
        _switch(_hub)

    def abandon(self) -> None:
        """Never run this fiber again; see the head of this file."""
        glet, self.greenlet = self.greenlet, None
        if glet is not None and not glet.dead:
            keep(glet)


class MortalFiber(Fiber):
    """A fiber of a rank that is to die at a certain time, which it does not run past.

    So the rank is stopped when its clock reaches that time, whatever it is doing, and not at its next wait.
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


class HangingFiber(MortalFiber):
    """A fiber of a rank whose process is to stand still from a time on, for a while; see `hang`."""

    __slots__ = ("is_put_off",)

    def __init__(self, rank: Rank, clock_ps: int, death_ps: int | None = None) -> None:
        self.is_put_off = False
        super().__init__(rank, clock_ps, death_ps)

    def resume(self) -> None:
        """Go on, or when the process does."""
        rank = self.rank
        until_ps = 0 if rank.extra is None else rank.extra.get(_SILENT, 0)
        if rank.shard.kernel._now >= until_ps:
            super().resume()
        elif not self.is_put_off:
            self.is_put_off = True
            rank.key += 1
            rank.shard.kernel.post(until_ps, rank.key, HangingFiber._go_on, self)

    interrupt = resume

    def _go_on(self) -> None:
        self.is_put_off = False
        self._clock_ps = max(self._clock_ps, self.rank.shard.kernel.now_ps)
        super().resume()

    def sync(self) -> None:
        """Wait until the kernel has reached this fiber's clock, which may be put forward meanwhile."""
        rank = self.rank
        kernel = rank.shard.kernel
        while self._clock_ps > kernel._now:
            rank.key += 1
            kernel.post(self._clock_ps, rank.key, HangingFiber.resume, self)
            self.park(UNTIL)


_SILENT = "silent until"
_STOPS = "stops"


def hang(rank: Rank, for_ps: int) -> None:
    """Let a rank's process stand still from now on; an event handler, at a time at which the rank stops.

    What computes or sleeps goes on later by as much, and nothing that it waits for resumes it before.
    """
    now_ps = rank.shard.kernel.now_ps
    rank.private(_SILENT, int)
    assert rank.extra is not None
    rank.extra[_SILENT] = now_ps + for_ps
    for fiber in (rank.fiber, *rank.extra.get("fibers", ())):
        if fiber.waiting is UNTIL and fiber.clock_ps > now_ps:
            fiber._clock_ps += for_ps


def stop_at(rank: Rank, time_ps: int | None, *, hangs: bool = False) -> None:
    """Have a rank stop when its clock gets to a time, whatever it is doing (see `MortalFiber`).

    A rank that has begun must have been told before that it may, by a time of None; and of a time at which it `hangs`
    before it begins.
    """
    fiber = rank.fiber
    kind = HangingFiber if hangs else MortalFiber
    if not isinstance(fiber, kind):
        death_ps = fiber.death_ps if isinstance(fiber, MortalFiber) else NEVER_PS
        rank.fiber = fiber = kind(rank, fiber.clock_ps, death_ps)
    if time_ps is not None:
        rank.private(_STOPS, list).append(time_ps)
        fiber.death_ps = min(fiber.death_ps, time_ps)


def go_past_stop(rank: Rank) -> None:
    """Let a rank that has stopped go on to its next stop; an event handler."""
    assert rank.extra is not None
    now_ps = rank.shard.kernel.now_ps
    later = [time_ps for time_ps in rank.extra[_STOPS] if time_ps > now_ps]
    for fiber in (rank.fiber, *rank.extra.get("fibers", ())):
        fiber.death_ps = min(later, default=NEVER_PS)


def _note_hub() -> greenlet:
    """Return the greenlet of the simulator, which is the one that asks, and note it as the hub."""
    global _hub
    hub = getcurrent()
    if _hub is not hub:
        _idle.clear()  # greenlets belong to the thread that made them
        _hub = kept_hub()
    return hub


def kept_hub() -> greenlet:
    """Return the greenlet of the simulator, which is the one that asks; it is never freed.

    At the end of a thread, `greenlet` asks the collector who refers to that of the thread. While a run lasts the answer
    is that nobody does (`gc.freeze`), and it would be freed under those who do.
    """
    hub = getcurrent()
    keep_for_ever(hub)
    return hub


def is_hub(glet: Any) -> bool:
    """Return whether a greenlet is that of the simulator, and not one of a rank."""
    return glet is _hub


def _serve(given: list[Any]) -> None:
    """Run one body after the other, as a worker. Nothing here may refer to the worker, or it would stay for ever."""
    while given:
        fiber, body = given
        given.clear()  # what a greenlet has begun with it keeps until its end
        body(fiber)
        fiber.greenlet = None
        # A worker that waits for its next rank must not keep the last one, nor what that has left.
        fiber = body = None
        worker = getcurrent()
        worker.gr_context = None  # what the body has put into context variables
        _idle.append(worker)
        del worker
        given = _switch(_hub)


def swap_by(swap: Callable[[Rank], None] | None) -> None:
    """Have ``swap(rank)`` called whenever another rank than before goes on; without one, only its turn is noted."""
    global _swap
    _swap = _note_turn if swap is None else swap


def _note_turn(rank: Rank) -> None:
    current.installed = rank


_swap: Callable[[Rank], None] = _note_turn


def give_control_by(around: Callable[[Callable[[Any], Any], Any], Any] | None) -> None:
    """Have ``around(switch, hub)`` called where a fiber gives control back by ``switch(hub)``; None takes it out."""
    global _switch
    _switch = greenlet.switch if around is None else partial(around, greenlet.switch)


def show_turns() -> None:
    """Say whose turn it is in what this process shows of itself from now on."""
    global _vitals
    _vitals = vitals.mine


def dismiss_workers() -> None:
    """Let all workers go that have nothing to do; the next run may be traced, or in another thread."""
    if _keeps_idle:
        keep_for_ever(_idle.copy())
        _idle.clear()
        # Kept workers hold frames; the collector would look through these once more at the end of the process.
        gc.freeze()
    while _idle:
        _idle.pop().switch([])  # to end like this takes half of what it takes to be collected


def free_abandoned() -> None:
    """Free the fibers that were abandoned, and what else was kept of dead ranks; none of their code runs."""
    free(_idle)


_roaming = False  # whether fibers may be in greenlets of the program's, so that each notes where it is to go on


def roam(may: bool) -> None:
    """Have fibers note where they are to go on, or not."""
    global _roaming
    _roaming = may


def keep_idle() -> None:
    """Keep workers that are let go from now on: this process ends soon, and the system takes back all at once."""
    global _keeps_idle
    _keeps_idle = True
    never_free()


# For `sync`: a global is found sooner than an attribute of a class.
_resume = Fiber.resume
