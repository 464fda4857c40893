"""Conservative synchronisation of shards, in windows.

Prior art: YAWNS and bounded lag (Nicol 1993; reference: the survey of Ferscha and Tripathi). All shards exchange the
times of their earliest events. An action of shard i after that reaches shard j at least ``lookahead[i][j]`` later,
because the network needs that long between their ranks, directly or through other shards. So shard j may run all events
before the earliest of these times; then messages between shards are exchanged, one batch per peer.

Each shard's window has a separate end: a shard whose neighbours are idle runs on until one of them has an event, and at
most until a reply to its own first message could arrive. Time without events needs no window at all.

One shard has an infinite lookahead and therefore a single window: the serial run is not a special case.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pickle import dumps, loads  # the originals: a program may replace them
from typing import Any, Final, NoReturn, Protocol, TypeAlias

from .kernel import INFINITY_PS

AT_ONCE_PS: Final = -1
"""The time of a batch that has to be received at the end of the window in which it was sent."""

_real_exit = os._exit  # the original: a rank has a virtual one

Lookahead: TypeAlias = Sequence[Sequence[int]]
"""``lookahead[i][j]``: how much later than an event of shard i its first effect on shard j can be, in picoseconds.

On the diagonal: how soon what a shard does can come back to it through others.
"""


def shortest_times(direct_ps: Lookahead) -> Lookahead:
    """Return the minimum time between any two shards, including paths through other shards.

    `direct_ps` has the minimum direct times: a square table; its diagonal is ignored. The result has the lengths of the
    shortest paths (Floyd and Warshall); on the diagonal, the shortest round trip.
    """
    import numpy as np  # not at the top: most runs have one shard, and start without NumPy

    size = len(direct_ps)
    # Sums must fit into 64 bits, too; latencies of weeks and more use Python integers.
    fits = size > 1 and max(map(max, direct_ps)) < 1 << 60
    paths = np.array(direct_ps, dtype=np.int64 if fits else object)
    np.fill_diagonal(paths, 1 << 61 if fits else INFINITY_PS)
    for via in range(size):
        np.minimum(paths, paths[:, via, None] + paths[via], out=paths)
    found: list[list[int]] = paths.tolist()
    return found


def window_end_ps(number: int, nexts_ps: Sequence[int], lookahead: Lookahead) -> int:
    """Return the time up to which a shard runs, from the times of all shards' earliest events.

    The limit is what the other shards allow. A shard that could run on alone stops where others continue: otherwise it
    and they would wait for each other in turns.
    """
    allowed_ps = min(next_ps + row[number] for next_ps, row in zip(nexts_ps, lookahead, strict=True))
    others = [shard for shard in range(len(nexts_ps)) if shard != number]
    if not others:
        return allowed_ps
    others_ps = min(nexts_ps[shard] for shard in others)
    together_ps = min(nexts_ps) + min(lookahead[shard][number] for shard in others)
    return min(allowed_ps, max(together_ps, others_ps))


def one_at_a_time(nexts_ps: Sequence[int]) -> list[int]:
    """Return the ends of windows in which only the shard with the earliest event runs, and only at that time.

    All events then happen in order in reality, too. Of shards with events at the same time, the lowest is first.
    """
    earliest_ps = min(nexts_ps)
    first = nexts_ps.index(earliest_ps)
    return [earliest_ps + (shard == first) for shard in range(len(nexts_ps))]


class ShardProtocol(Protocol):
    """A block of ranks with an event queue, as the window protocol needs it."""

    in_turn: bool
    """Whether windows are `one_at_a_time`: ranks act on objects of the host that they share. The same in all shards."""

    def next_ps(self) -> int:
        """Return the time of this shard's earliest event."""
        ...

    def run_window(self, end_ps: int) -> bool:
        """Run all events before `end_ps`.

        Return True if it has to be called again, because a program computes in a separate process meanwhile; only if
        there are several shards in this process.
        """
        ...

    def take_outbox(self) -> dict[int, Any]:
        """Remove and return the outgoing batches: one picklable batch per receiving shard."""
        ...

    def receive(self, batch: object) -> None:
        """Put a batch of another shard into the queue."""
        ...

    def span_ps(self, batch: object) -> tuple[int, int]:
        """Return the times of the first and last event of a batch.

        The first is -1 if the batch must be received at the end of this window.
        """
        ...

    def all_idle(self) -> None:
        """Run actions deferred until no shard has an event, which is now."""
        ...

    def window_done(self, horizon_ps: int, end_ps: int) -> bool:
        """End a window, after the exchange; return True to stop all shards (wall limit, Ctrl-C).

        The window ended at `end_ps`; at its beginning no shard had an event before `horizon_ps`.
        """
        ...


class Transport(Protocol):
    """The exchange between shards: in one process, or between the ranks of a real MPI."""

    size: int
    """The number of shards."""
    local: range
    """The shards in this process."""

    def together(self) -> AbstractContextManager[None]:
        """Return a context in which an exception in one process ends all of them."""
        ...

    def simulate(self, work: Callable[[Sequence[int]], list[Any]], host: Any) -> list[Any]:
        """Call `work` with the shards of this process, and in any processes started for the others.

        `work` makes the shards, has them `run`, and returns the result of each. See `processes.RankHost`.
        """
        ...

    def run(self, shards: list[Any], lookahead: Lookahead) -> None:
        """Run the shards of this process to the end of the whole simulation.

        Their outboxes may already hold messages sent by ranks before their first wait.
        """
        ...

    def gather(self, parts: list[Any]) -> list[Any] | None:
        """Return one value per shard in the process of shard 0, given those of this process.

        Return None elsewhere.
        """
        ...

    def broadcast(self, value: object) -> Any:
        """Return, in all processes, the value of the process of shard 0."""
        ...

    def leave(self, status: int) -> NoReturn:
        """End all processes immediately; all output has been flushed."""
        ...


class Loopback:
    """All shards in this process. Batches are pickled, so that no object is shared by accident."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.local = range(size)

    def together(self) -> AbstractContextManager[None]:
        """Return an empty context: an exception ends the only process anyway."""
        return nullcontext()

    def simulate(self, work: Callable[[Sequence[int]], list[Any]], host: object) -> list[Any]:
        """Call `work` with the numbers of all shards."""
        return work(self.local)

    def run(self, shards: list[ShardProtocol], lookahead: Lookahead) -> None:
        """Run windows of all shards in turn until none has an event; see `Transport.run`."""
        self._exchange(shards)
        were_idle = False
        while (horizon := min(nexts := [shard.next_ps() for shard in shards])) < INFINITY_PS or not were_idle:
            were_idle = horizon == INFINITY_PS
            if were_idle:
                for shard in shards:
                    shard.all_idle()
                continue
            if shards[0].in_turn:
                ends = one_at_a_time(nexts)
            else:
                ends = [window_end_ps(number, nexts, lookahead) for number in self.local]
            running = [*zip(shards, ends, strict=True)]
            while running:
                running = [(shard, end) for shard, end in running if shard.run_window(end)]
            self._exchange(shards)
            stops = [shard.window_done(horizon, end) for shard, end in zip(shards, ends, strict=True)]
            if any(stops):
                return

    def _exchange(self, shards: list[ShardProtocol]) -> None:
        for shard in shards:
            for target, batch in shard.take_outbox().items():
                # Otherwise objects that cannot be pickled or are shared would only show in runs with several processes.
                shards[target].receive(loads(dumps(batch, -1)))

    def gather(self, parts: list[Any]) -> list[Any] | None:
        """Return the parts, which are those of all shards."""
        return parts

    def broadcast(self, value: object) -> object:
        """Return the value."""
        return value

    def leave(self, status: int) -> NoReturn:
        """End this process."""
        _real_exit(status)
