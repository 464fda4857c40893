"""The event queue of one shard: a SimPy environment whose order does not depend on insertion order.

Prior art: SimPy orders its heap by ``(time, priority, insertion number)``. Insertion order differs between one shard
and three, so here the third part is the *origin*: the rank that caused the event, and that rank's count of events. Both
are independent of the distribution of ranks over shards. (Simian and ROSS users know insertion order as the usual cause
of irreproducible runs.)

Unlike in SimPy, an event is ``(key, handler, argument)`` and is run by calling ``handler(argument)``. A message thus
costs one tuple and no `simpy.Event`. Native SimPy events use the same queue, with `_fire` as their handler, so
processes written for SimPy share the clock with the virtual ranks.

Ranks act in step, so events often have equal times. The heap holds times, and the events of each time are a list that
is sorted when its turn comes. Usually it is already in order, which costs one comparison per event; a heap of a
thousand tuples costs eleven.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterator
from heapq import heappop, heappush
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, NoReturn, TypeAlias

import simpy
from simpy.core import EmptySchedule, StopSimulation
from simpy.events import Event

INFINITY_PS = 1 << 100
"""Later than every event, in picoseconds."""

UNBOUNDED_PS = 1 << 90
"""Later than whatever happens in a run, and less than `INFINITY_PS` by more than that."""

# A key is one integer of at most 60 bits (two digits of a CPython int): priority, origin, the origin's event count. It
# limits a run to 16 million ranks, and a rank to 17 billion events.
_COUNT_BITS = 34
_KEY = itemgetter(0)
_PRIORITY_SHIFT = 59
MAX_ORIGINS = 1 << (_PRIORITY_SHIFT - _COUNT_BITS)

LATE = 1 << _PRIORITY_SHIFT
"""Added to a rank's key: after all that ranks do at that time, also what they only come to do at that time."""


def first_key(origin: int) -> int:
    """Return the first key of an origin, which counts up from there.

    The origin is a rank's number in the whole run, or the number of ranks plus the number of a native SimPy process.
    """
    return (1 << _PRIORITY_SHIFT) | (origin << _COUNT_BITS)


Entry: TypeAlias = tuple[int, Callable[[Any], object], Any]


class Halted(BaseException):
    """The exception that ends the main loop, between two events or inside one.

    See `Kernel.halt`.
    """


def _set_clock(kernel: Kernel, time_ps: int) -> None:
    kernel.now_ps = time_ps


class Kernel(simpy.Environment):
    """The clock and event queue of one shard; time is an integer number of picoseconds.

    Native SimPy processes do not keep a run alive: once only their events are left, the run is over, even if they would
    never end (background traffic usually does not).

    Events of native SimPy processes are ordered by `native_origin`, which is greater than any rank's number.
    """

    # Hot path: slots are found in half the time of other attributes.
    __slots__ = ("_batch", "_belated", "_later", "_times", "alone", "due", "key", "now_ps")

    now_ps: int
    """The time of the current event."""

    _now = property(attrgetter("now_ps"), _set_clock)  # SimPy's name of it

    def __init__(self, *, native_origin: int, start_ps: int = 0) -> None:
        super().__init__(start_ps)
        self._times: list[int] = []  # a heap
        self.due: dict[int, list[Entry]] = {}
        self._batch: list[Entry] = []  # the remaining events of the current time, the next one last
        self._later: list[Entry] = []  # events of the current time that come after those, in any order
        self.key = -1  # of the current event; -1 is less than any key
        # A flag that `post` sets: comparing the earliest time with the clock after each event, two large integers, was
        # slower.
        self._belated = False  # True if events were posted for the current or an earlier time since it began
        self._native_key = first_key(native_origin)
        self.native_pending = 0
        self.events = 0
        self.stopped = False
        # True if all ranks are in this shard. Native processes then end right after the last event of the ranks.
        self.alone = False

    def post(self, time_ps: int, key: int, handler: Callable[[Any], object], argument: object) -> None:
        """Schedule ``handler(argument)`` at `time_ps`; `key` orders events of equal time."""
        entries = self.due.get(time_ps)
        if entries is None:
            self.due[time_ps] = [(key, handler, argument)]
            heappush(self._times, time_ps)
            if time_ps <= self.now_ps:
                self._belated = True
        else:
            entries.append((key, handler, argument))

    def next_ps(self) -> int:
        """Return the time of the earliest event.

        Return `INFINITY_PS` if only events of native processes are left.
        """
        if self.native_pending and self.ranks_are_done():
            return INFINITY_PS
        return self._times[0] if self._times else INFINITY_PS

    def ranks_are_done(self) -> bool:
        """Return True if only events of native processes are left.

        The first event of a rank ends the search.
        """
        return all(entry[1] is _fire for entry in self.pending())

    def pending(self) -> Iterator[Entry]:
        """Return all pending events, including those of the current time."""
        return chain(self._batch, self._later, *self.due.values())

    def run_window(self, end_ps: int) -> None:
        """Run all events earlier than `end_ps`, in order. This is the main loop of the simulator."""
        times = self._times
        try:
            while True:  # CPython 3.11 specialises a loop after counting its unconditional backward jumps
                if not times or times[0] >= end_ps:
                    break
                batch = self._next_batch()
                while True:
                    if not batch:
                        if not self._later:
                            break
                        batch += sorted(self._later, key=_KEY, reverse=True)
                        self._later.clear()
                    self.key, handler, argument = batch.pop()
                    handler(argument)
                    if self._belated:
                        self._merge_new()
        finally:
            if self._batch or self._later:
                self._put_back()

    def _next_batch(self) -> list[Entry]:
        """Advance to the earliest time; count its events and return them in reverse order."""
        self.now_ps = heappop(self._times)
        self._batch = batch = self.due.pop(self.now_ps)
        self.events += len(batch)
        if len(batch) > 1:
            # Reversed, because `pop` takes the last. Usually already in order, which costs one comparison per event.
            batch.sort(key=_KEY, reverse=True)
        return batch

    def _merge_new(self) -> None:
        """Merge events posted for the current time into the remaining ones.

        Raise `Halted` after a `halt`.
        """
        self._belated = False
        while self._times and self._times[0] <= self.now_ps:
            time_ps = heappop(self._times)
            entries = self.due.pop(time_ps)
            if time_ps < self.now_ps:
                raise Halted
            self.events += len(entries)
            batch = self._batch
            for entry in entries:
                if batch and entry[0] < batch[-1][0]:  # e.g. an event of this rank, before those of higher ranks
                    batch.append(entry)
                elif batch and entry[0] < batch[0][0]:
                    insort(batch, entry, key=_descending)
                else:  # e.g. an event shared by all ranks: inserting each before all others would be quadratic
                    self._later.append(entry)

    def _put_back(self) -> None:
        """Put the remaining events of a batch back into the queue."""
        batch, self._batch = self._batch + self._later, []
        self._later.clear()
        self.events -= len(batch)
        for entry in batch:
            self.post(self.now_ps, *entry)

    def withdraw(self, handler: Callable[[Any], object], arguments: Collection[Any]) -> None:
        """Cancel the events with this handler and any of these arguments."""
        for entries in self.due.values():
            entries[:] = [entry for entry in entries if entry[1] is not handler or entry[2] not in arguments]
        for left in (self._batch, self._later):
            before = len(left)
            left[:] = [entry for entry in left if entry[1] is not handler or entry[2] not in arguments]
            self.events -= before - len(left)

    def stop(self, _: object = None) -> None:
        """Discard all pending events: the run ends with the current one."""
        self.events -= len(self._batch) + len(self._later)
        self._times.clear()
        self.due.clear()
        self._batch.clear()
        self._later.clear()
        self.native_pending = 0
        self.stopped = True

    def halt(self) -> None:
        """Make `run_window` raise `Halted` before the next event; safe in a signal handler."""
        # A time before all others: the loop notices it through `_belated`, and needs no separate test for requests of a
        # signal or a rank.
        self.post(-1, 0, self._halt, self.now_ps)

    def _halt(self, now_ps: int) -> NoReturn:
        self.events -= 1  # not an event of the run
        self.now_ps = now_ps
        raise Halted

    # ---------------------------------------------------------------- the interface of native SimPy processes

    def schedule(self, event: Event, priority: int = 1, delay: float = 0) -> None:
        """Put a SimPy event into the queue; `delay` must be an integer number of picoseconds."""
        if delay != int(delay):
            raise ValueError(f"a delay of {delay!r} ps: virtual time is a whole number of picoseconds")
        self._native_key += 1
        key = self._native_key + ((priority - 1) << _PRIORITY_SHIFT)
        self.native_pending += 1
        self.post(self.now_ps + int(delay), key, _fire, event)

    def peek(self) -> float:
        """Return the time of the earliest event, in SimPy's convention: infinity if the queue is empty."""
        if self._batch or self._later:
            return self.now_ps
        return self._times[0] if self._times else float("inf")

    def step(self) -> None:
        """Run one event, as `simpy.Environment.step` does."""
        if not self._times:
            raise EmptySchedule
        _, handler, argument = self._next_batch().pop()
        self._put_back()
        handler(argument)


def _descending(entry: Entry) -> int:
    return -entry[0]


def _fire(event: Event) -> None:
    """Run the callbacks of a SimPy event, as `simpy.Environment.step` does."""
    kernel: Any = event.env
    if kernel.alone and kernel.ranks_are_done():  # unless a rollback continues before this event
        kernel.events -= 1
        kernel.post(kernel.now_ps, kernel.key, _fire, event)
        raise Halted
    kernel.native_pending -= 1
    callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
    try:
        for callback in callbacks:
            callback(event)
    except StopSimulation:
        event.callbacks = callbacks[callbacks.index(callback) + 1 :]
        kernel.schedule(event, -1)
        raise
    if not event._ok and not hasattr(event, "_defused"):
        raise event._value
