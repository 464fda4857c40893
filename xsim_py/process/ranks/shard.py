"""One shard: a block of virtual ranks, their event queue, and data for other shards.

It implements the window protocol of `engine.windows`. It does not know what a message is: a parcel for another shard
is ``(time_ps, key, handler name, argument)``, and the layers above register the handlers. Frequent data travel as rows
of `ROW` values, concatenated in one list per peer: an object or even a tuple each takes several times as long to
pickle.
"""

from __future__ import annotations

import gc
import sys
import weakref
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from greenlet import getcurrent

from xsim_py.engine import AT_ONCE_PS, INFINITY_PS, LATE, MAX_ORIGINS, Halted, Kernel
from xsim_py.errors import InternalError

from . import current
from .fiber import UNTIL, Fiber, pinned_hub
from .rank import Abort, Rank

ROW = 12
"""The number of values in a row, besides its time and key."""

WATCHED_STARTS = 4
"""The number of ranks of a shard, from the first on, whose start is observed (`Shard.on_start`)."""

_SAMPLE = 1024  # ranks
_MUCH_GARBAGE = 8  # objects per rank
_GARBAGE_AT_ONCE = 1 << 20  # objects
_AT_ONCE = "at once"
_IN_TURN = "in turn"
_SHARED = "shared"
_TOLD = "told to all"
_BETWEEN_WINDOWS = frozenset((_AT_ONCE, _SHARED, _TOLD))


def weak_getter(owner: object, name: str) -> Callable[[], Any]:
    """Return a function that gets an attribute of an owner without forming a reference cycle with it."""
    alive = weakref.ref(owner)
    return lambda: getattr(alive(), name)


class Control:
    """The switch that stops all shards of this process, and the reason."""

    def __init__(self) -> None:
        # Takes an activity of ranks and returns the checks' findings about it so far.
        self.found: Callable[[str], Sequence[Any]] = lambda _: ()
        # The current activity of each rank whose program reports one, such as the name of the running test.
        self.doing: dict[int, str] = {}
        # The activities during which a rank called `note_interruption`; empty string if its program reports none.
        self.broken_off: set[str] = set()
        self.stop_reason = ""  # empty while the run continues, else "wall limit", "interrupted" or "no output"
        self.hub = pinned_hub()
        self.kernels: list[Kernel] = []
        self.looping = False
        self.wanted = ""  # the same while the run is `held`
        self._held = False

    def note_interruption(self, rank: int) -> None:
        """Record that a rank interrupts its current activity with an exception that its program handles."""
        self.broken_off.add(self.doing.get(rank, ""))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make `stop` only record its first call in this block; the holder calls `stop` again soon."""
        self._held, self.wanted = True, ""
        try:
            yield
        finally:
            self._held = False

    def stop(self, reason: str) -> None:
        """Leave the main loop, from a signal handler or from a rank, which stays suspended where it is.

        If nothing happens, call it again: the first signal may have come just before a rank resumed.
        """
        if self._held and not self.wanted and not self.stop_reason:
            self.wanted = reason
            return
        self._held = False
        again = bool(self.stop_reason)
        self.stop_reason = self.stop_reason or reason
        if getcurrent() is not self.hub:
            # The rank may be in a trace function, such as coverage's: nothing is traced until that returns, which it
            # won't.
            sys.call_tracing(self.hub.throw, (Halted,))
        for kernel in self.kernels:
            kernel.halt()
        if again and self.looping:
            raise Halted  # a native SimPy process does not return


class Lines(Protocol):
    """The lines printed by the ranks of a shard; `output.collector.Output` implements this."""

    journal: Any
    """Where a process that may be killed keeps its last lines; None elsewhere."""

    def put(self, rank: Rank, stream: int, text: Any, clock_ps: int) -> None:
        """Add complete lines that a rank has printed."""

    def add(self, lines: Iterable[Any]) -> None:
        """Add lines that another shard sent."""

    def take(self, *, far: bool) -> list[Any]:
        """Remove and return all lines, to be sent to shard 0, which may be `far`: in another process."""

    def store(self, pieces: list[str], what: str) -> tuple[int, int] | None:
        """Move the beginning of an unfinished line out of memory; return its location if there was room."""

    def end_of(self, places: list[tuple[int, int]], end: str) -> Any:
        """Return the text of such a line."""

    def flush(self, before_ps: int, *, last: bool = False) -> None:
        """Write every line printed before `before_ps`."""


class Shard:
    """A block of virtual ranks.

    The attributes that are callables are set by the layers above.
    """

    def __init__(
        self,
        *,
        number: int,
        blocks: Sequence[range],  # the ranks of every shard, in order
        control: Control,  # shared by the shards of this process
        output: Lines,  # receives the output of these ranks
        abort_delay_ps: int,  # the time that the launcher's signal takes to end the other ranks; at least the lookahead
        fault_tolerant: bool = False,  # whether the job survives process failures, as under ``mpirun --with-ft ulfm``
        # Whether some events happen in all shards in one order (`share`, `notify_all`): their windows then end
        # together.
        have_common: bool = False,
        start_ps: int = 0,  # when the ranks begin
    ) -> None:
        self.number = number
        self.blocks = blocks
        self.block = blocks[number]
        self.first = self.block.start
        self.end = self.block.stop
        native = MAX_ORIGINS - len(blocks)  # above every rank's number, including spawned ranks
        self.kernel = Kernel(native_origin=native + number, start_ps=start_ps)
        self.ranks: list[Rank] = [Rank(rank, self, start_ps) for rank in self.block]  # the block, then spawned ranks
        # A dictionary only once the numbers have gaps (`add_ranks`): every message looks here, and a list is faster.
        self.at: Any = self.ranks  # `ranks` by number, relative to `first`
        self.initial = self.population = blocks[-1].stop  # ranks at the start, and started so far, in the whole run
        self.control = control
        control.kernels.append(self.kernel)
        self.output = output
        self.abort_delay_ps = abort_delay_ps
        self.fault_tolerant = fault_tolerant
        # Returns the simulated processor, which determines the time that work takes.
        self.processor: Callable[[], Any] = _ignore
        self.have_common = have_common
        # Called with a rank that has just failed, the cause, and whether the job survives.
        self.on_failure: Callable[[Rank, str, bool], None] = _ignore
        self.on_fatal_end: Callable[[Rank], None] = _ignore  # called with a rank whose end ends the job
        self.before_end: Callable[[], None] = _ignore  # called when no shard has any event left: runs what was deferred
        # Called with a handler and its argument when the run is stopped. Returns whether deferred work comes first,
        # after which the handler is called again.
        self.defer_for_all: Callable[[Callable[[Any], None], Any], bool] = _never
        self.horizon_ps = self.start_ps = start_ps  # every event before this time has happened, in every shard
        # Called with the time, the key and the values of a row from another shard.
        self.take_row: Callable[[tuple[Any, ...]], None] = _unhandled_row
        self.socket_waiters: list[Any] = []
        self._computing: Fiber | None = None  # whose program computes while this shard waits
        self._in_window = self._in_events = self._in_series = False
        self.in_turn = False  # see `engine.windows.ShardProtocol`
        self.file_locks: Any = None  # state of `file_locks`
        self.fifos: dict[int, Any] = {}  # state of `fifos`
        # Called with each of the first `WATCHED_STARTS` ranks once it has run to its first wait.
        self.on_start: Callable[[Rank], None] = _ignore
        self.unfinalized: Callable[[Rank], bool] = _never  # returns whether a finished rank has not called MPI_Finalize
        # Called with a rank of which another thread has begun (1) or ended (-1).
        self.on_thread: Callable[[Rank, int], None] = _ignore
        self.fabric: Any = None  # state of the layer above for the ranks of this shard
        self.abort: Abort | None = None
        self.finished = 0
        self.handlers: dict[str, Callable[[Any], None]] = {"abort": self._stop, _IN_TURN: self._begin_turns}
        self.stopped_ps: int | None = None
        self.alone = self.kernel.alone = len(blocks) == 1
        self.far = False  # True if it is not in the process of shard 0
        self.takes_over = False  # whether it replaces a shard that had processed everything before `start_ps`
        # The queue of events that happen in every shard, in the same order; see `share`.
        self.common = self.kernel if self.alone else Kernel(native_origin=native, start_ps=start_ps)
        self._ends = [block.stop for block in blocks]
        self._others = [other for other in range(len(blocks)) if other != number]
        self.homes: list[int] = []  # the shards of spawned ranks
        self._outbox: defaultdict[int, list[tuple[int, int, str, Any]]] = defaultdict(list)
        self._rows: defaultdict[int, list[Any]] = defaultdict(list)
        self._reached_ps = start_ps

    def local(self, number: int) -> bool:
        """Return True if a rank belongs to this shard."""
        return self.first <= number < self.end or (number >= self.initial and self.owner(number) == self.number)

    def rank(self, number: int) -> Rank:
        """Return the rank with this number in the whole run, which must belong to this shard."""
        rank: Rank = self.at[number - self.first]
        return rank

    @property
    def everyone(self) -> str:
        """The name of the group in which ranks are numbered."""
        return "MPI_COMM_WORLD" if self.population == self.initial else "the whole run"

    def add_ranks(self, homes: Sequence[int]) -> list[Rank]:
        """Add ranks with the next numbers; return those that belong to this shard.

        Every shard does this in the same event, with the shard of each new rank.
        """
        born = [
            Rank(number, self, self.kernel.now_ps)
            for number, home in enumerate(homes, self.population)
            if home == self.number
        ]
        if self.at is self.ranks:  # from now on the numbers of this shard's ranks have gaps
            self.at = {rank.number - self.first: rank for rank in self.ranks}
        self.at.update((rank.number - self.first, rank) for rank in born)
        self.ranks += born
        self.homes += homes
        self.population += len(homes)
        return born

    def post_to(self, number: int, time_ps: int, key: int, handler: str, argument: object) -> None:
        """Call ``handlers[handler](argument)`` in the shard of rank `number`; `argument` must be picklable."""
        # Most messages stay in their shard: two comparisons, no search.
        owner = self.number if self.first <= number < self.end else self.owner(number)
        if owner == self.number:
            self.kernel.post(time_ps, key, self.handlers[handler], argument)
        else:
            self._outbox[owner].append((time_ps, key, handler, argument))

    def post_to_first(self, time_ps: int, key: int, handler: str, argument: object) -> None:
        """Call ``handlers[handler](argument)`` in shard 0, where the launcher is."""
        if self.number == 0:
            self.kernel.post(time_ps, key, self.handlers[handler], argument)
        else:
            self._outbox[0].append((time_ps, key, handler, argument))

    def post_row(self, number: int, time_ps: int, key: int, *values: object) -> None:
        """Call ``take_row((time_ps, key, *values))`` at that time in the other shard, which has rank `number`.

        There must be `ROW` values, all picklable.
        """
        # Numbers and bytes concatenated in one list: an object or a tuple per message takes pickle several times as
        # long.
        self._rows[self.owner(number)] += (time_ps, key, *values)

    def post_everywhere(self, time_ps: int, key: int, handler: str, argument: object) -> None:
        """Post one event in every shard; `time_ps` must be at least one lookahead ahead."""
        self.kernel.post(time_ps, key, self.handlers[handler], argument)
        for number in self._others:
            self._outbox[number].append((time_ps, key, handler, argument))

    def share(self, time_ps: int, key: int, argument: object, to: int, payload: object) -> None:
        """Call ``handlers["shared"]((time_ps, key, argument, payload))`` in every shard, within the window.

        For events that must happen in one order, that of time and key: the handler may post them with `post_common`.
        Events that those post to ranks must be at least one lookahead ahead. Only the shard of rank `to` gets the
        payload.
        """
        assert self.have_common
        if self.alone:
            self.handlers[_SHARED]((time_ps, key, argument, payload))
            return
        owner = self.owner(to)
        self.handlers[_SHARED]((time_ps, key, argument, payload if self.number == owner else None))
        for number in self._others:
            there = payload if number == owner else None
            self._outbox[number].append((time_ps, key, _SHARED, (argument, there)))

    def notify_all(self, time_ps: int, key: int, handler: str, argument: object) -> None:
        """Call ``handlers[handler](argument)`` in every shard, in the order of `share`, all of it everywhere."""
        assert self.have_common
        self.post_common(time_ps, key, self.handlers[handler], argument)
        for number in self._others:
            self._outbox[number].append((time_ps, key, _TOLD, (handler, argument)))

    def tell(self, number: int, handler: str, argument: object) -> None:
        """Call ``handlers[handler](argument)`` in another shard after this window, not as an event of the run.

        Events that it posts there to ranks may be in the past only if nothing that has happened depends on them.
        """
        self._outbox[number].append((0, 0, _AT_ONCE, (handler, argument)))

    def take_turns(self) -> None:
        """Make the windows of all shards `one_at_a_time` from the current event on; this shard's ends now."""
        self._begin_turns()
        for number in self._others:
            self.tell(number, _IN_TURN, None)
        self.kernel.halt()

    def _begin_turns(self, _: object = None) -> None:
        self.in_turn = True

    def post_common(self, time_ps: int, key: int, handler: Callable[[Any], None], argument: object) -> None:
        """Call `handler` in the order of shared events; every shard posts this itself."""
        # Late, after everything that ranks do at that time: otherwise a rank that immediately sends what it has
        # received would miss its position in this order, except with one shard, because several wait for the end of the
        # window.
        self.common.post(time_ps, key + LATE, handler, argument)

    def owner(self, number: int) -> int:
        """Return the shard of a rank."""
        later = number - self.initial
        return bisect_right(self._ends, number) if later < 0 else self.homes[later]

    # ------------------------------------------------------------------------------- the window protocol

    def next_ps(self) -> int:
        """Return the time of the earliest event."""
        return min(self.kernel.next_ps(), self.common.next_ps())

    def all_idle(self) -> None:
        """Run deferred work, as no shard has any event left."""
        self.before_end()

    def run_window(self, end_ps: int) -> bool:
        """Run all events before `end_ps`, unless the run is stopping; see `engine.windows.ShardProtocol`."""
        if self.control.stop_reason:
            return False
        self._reached_ps = end_ps
        self._in_window = True
        try:
            self._until_halted(self._run, end_ps)
        finally:
            self._in_window = False
        return self._computing is not None

    def _run(self, end_ps: int) -> None:
        fiber, self._computing = self._computing, None
        if fiber is not None:
            fiber.resume()
        if self._computing is None:
            self._in_events = True
            try:
                self.kernel.run_window(end_ps)
            finally:
                self._in_events = False

    @property
    def has_company(self) -> bool:
        """True if there are other shards in this process."""
        return len(self.control.kernels) > 1

    def leave_to_compute(self, fiber: Fiber) -> None:
        """Let other shards run while the program of a fiber computes in a separate process; then this one continues.

        It does nothing else meanwhile, so its events keep their order. Outside windows this just returns, and in an
        event that resumes several fibers: the others would run first.
        """
        if not self._in_window or self._in_series or self._computing is not None:
            return
        self._computing = fiber
        if self._in_events:
            self.kernel.halt()
        fiber.park(UNTIL)

    @contextmanager
    def in_series(self) -> Iterator[None]:
        """Let an event handler resume several fibers, each up to its next wait, in their order."""
        self._in_series = True
        try:
            yield
        finally:
            self._in_series = False

    def take_outbox(self) -> dict[int, Any]:
        """Remove and return the data for other shards: parcels, rows and printed lines, for each that gets any."""
        parcels, rows = self._outbox, self._rows
        if parcels:
            self._outbox = defaultdict(list)
        if rows:
            self._rows = defaultdict(list)
        lines = self.output.take(far=self.far) if self.number != 0 else []
        whom = {*parcels, *rows, 0} if lines else {*parcels, *rows}
        # Sorted, as nothing may depend on the order of a set.
        return {to: (parcels.get(to, ()), rows.get(to, ()), () if to else lines) for to in sorted(whom)}

    def receive(self, batch: Any) -> None:
        """Post the parcels and rows of another shard, and add its lines."""
        parcels, rows, lines = batch
        if lines:
            self.output.add(lines)
        if self.takes_over:
            # The process that was lost had processed the others before.
            parcels = [parcel for parcel in parcels if parcel[2] == _AT_ONCE or parcel[0] >= self._reached_ps]
        for time_ps, key, handler, argument in parcels:
            if handler == _SHARED:
                self.handlers[handler]((time_ps, key, *argument))
            elif handler == _TOLD:
                self.post_common(time_ps, key, self.handlers[argument[0]], argument[1])
            elif handler == _AT_ONCE:
                self.handlers[argument[0]](argument[1])
            else:
                self._post_late(time_ps, key, self.handlers[handler], argument)
        values = iter(rows)
        for row in zip(*[values] * (ROW + 2), strict=True):
            self._post_late(row[0], row[1], self.take_row, row)

    @staticmethod
    def span_ps(batch: Any) -> tuple[int, int]:
        """Return the times of the first and last events in a batch; see `engine.windows.ShardProtocol`."""
        parcels, rows, _ = batch
        times = rows[:: ROW + 2]
        if parcels:
            times = [*times, *(parcel[0] for parcel in parcels)]
            if any(handler in _BETWEEN_WINDOWS for _, _, handler, _ in parcels):
                return AT_ONCE_PS, max(times)
        return (min(times), max(times)) if times else (INFINITY_PS, AT_ONCE_PS)

    def _post_late(self, time_ps: int, key: int, handler: Callable[[Any], None], argument: object) -> None:
        """Post an event from another shard."""
        if time_ps < self._reached_ps and self.takes_over:
            return
        if time_ps < self._reached_ps and self.ranks:  # without ranks nothing can be late: a single rank's abort
            raise InternalError(
                f"shard {self.number} has reached {self._reached_ps} ps, and is sent what is for {time_ps} ps"
            )
        if not self.kernel.stopped:
            self.kernel.post(time_ps, key, handler, argument)

    def window_done(self, horizon_ps: int, end_ps: int) -> bool:
        """Run the common events of this window and write lines; return True if the run must stop."""
        self.horizon_ps = horizon_ps
        if not self.alone:
            if self.common.due:
                self.common.run_window(end_ps if self.stopped_ps is None else self.stopped_ps)
            if self.stopped_ps is not None:
                self.common.stop()
                self.kernel.stop()
        if self.number == 0:
            self.output.flush(horizon_ps)
        return bool(self.control.stop_reason)

    def _stop(self, abort: Abort) -> None:
        """End the run at this event, on the launcher's signal. The same event does this in every shard."""
        if not self.kernel.stopped and not self.defer_for_all(self._stop, abort):
            self.abort = abort
            self.stopped_ps = self.kernel.now_ps
            self.kernel.stop()
            if self.number != 0:
                self.kernel.events -= 1  # one event of the run, however many shards it happens in

    # ------------------------------------------------------------------------------- starting and ending

    def start(self, body: Callable[[Any], None]) -> None:
        """Start every rank of this shard, in order, each up to its first wait."""
        self._until_halted(self._start, body)

    def _start(self, body: Callable[[Any], None]) -> None:
        for place, rank in enumerate(self.ranks):
            if self.control.stop_reason:
                return
            if place == _SAMPLE:
                _limit_garbage(place)
            if rank.exit_status is None:  # a rank may have failed before it began
                rank.fiber.start(body)
                if place < WATCHED_STARTS:
                    self.on_start(rank)

    def _until_halted(self, function: Callable[[Any], None], argument: object) -> None:
        try:
            self.control.looping = True
            function(argument)
        except Halted:
            current.fiber = None
        finally:
            self.control.looping = False

    def abandon(self) -> None:
        """Suspend every unfinished rank for good; none of their code runs again.

        Their objects are freed at once: they are full of cycles, which Python finds late, if ever.
        """
        for rank in self.ranks:
            for fiber in (rank.fiber, *(rank.extra or {}).get("fibers", ())):
                fiber.abandon()
            rank.fiber = rank.shard = rank.mpi = rank.extra = None  # type: ignore[assignment]
        self.ranks.clear()
        self.at = self.ranks


def _limit_garbage(ranks: int) -> None:
    """Make Python's collector run often enough if the start of many ranks leaves much garbage in cycles.

    It runs rarely while there are many ranks (see `simulate`). But a parser of `argparse` is full of cycles, 10 KB of
    garbage: on a million ranks several GB would accumulate before the collector runs.
    """
    if gc.collect(0) > _MUCH_GARBAGE * ranks:
        first, *later = gc.get_threshold()
        gc.set_threshold(min(first, _GARBAGE_AT_ONCE), *later)


def _unhandled_row(row: tuple[Any, ...]) -> None:
    raise InternalError(f"no handler of {row}")


def _ignore(*_: object) -> None:
    """Do nothing: the default if no layer above sets a callback."""


def _never(*_: object) -> bool:
    return False
