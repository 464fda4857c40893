"""Conservative synchronisation of shards, in windows.

Prior art: YAWNS and bounded lag (Nicol 1993; reference: the survey of Ferscha and Tripathi). All shards tell each other
the time of their earliest event. What shard i does from then on can reach shard j only ``lookahead[i][j]`` later,
because the network needs at least that long between their ranks, directly or by way of other shards. So shard j may run
all events before the earliest of these times, and then the messages that cross shards are exchanged, one batch a peer.

Each shard has an end of its own: one whose neighbours have nothing to do for a while runs on until one of them has, and
at most up to the time at which an answer to its own first message could come back. Time without events anywhere takes
no window at all.

One shard has an infinite lookahead and therefore a single window: the serial run is not a special case.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pickle import dumps, loads  # as they are before a program puts others there
from typing import Any, Final, NoReturn, Protocol, TypeAlias

from .kernel import INFINITY_PS

AT_ONCE_PS: Final = -1
"""The time of a batch that has to be received at the end of the window in which it was sent."""

_real_exit = os._exit  # a rank has another one

Lookahead: TypeAlias = Sequence[Sequence[int]]
"""``lookahead[i][j]``: how much later than an event of shard i its first effect on shard j can be, in picoseconds.

On the diagonal: how soon what a shard does can come back to it through others.
"""


def by_way_of_others(direct_ps: Lookahead) -> Lookahead:
    """Return the least time between any two shards if messages may be passed on, from that between two directly.

    Parameters
    ----------
    direct_ps
        A square table; its diagonal is not looked at.

    Returns
    -------
    list of list of int
        The shortest ways (Floyd and Warshall); on the diagonal, the shortest way out and back.
    """
    import numpy as np  # not above: most runs have one shard, and start without it

    size = len(direct_ps)
    # In numbers of 64 bits, whose sums must be such numbers, too; latencies of weeks and more go as Python's own.
    fits = size > 1 and max(map(max, direct_ps)) < 1 << 60
    ways = np.array(direct_ps, dtype=np.int64 if fits else object)
    np.fill_diagonal(ways, 1 << 61 if fits else INFINITY_PS)
    for via in range(size):
        np.minimum(ways, ways[:, via, None] + ways[via], out=ways)
    found: list[list[int]] = ways.tolist()
    return found


def window_end_ps(number: int, nexts_ps: Sequence[int], lookahead: Lookahead) -> int:
    """Return up to which time a shard runs, from the times of all shards' earliest events.

    Not further than what others do allows. And where it could run on alone, not into the time at which others go on:
    they would have to wait for it, and it for them after that, in turns.
    """
    allowed_ps = min(next_ps + row[number] for next_ps, row in zip(nexts_ps, lookahead, strict=True))
    others = [shard for shard in range(len(nexts_ps)) if shard != number]
    if not others:
        return allowed_ps
    others_ps = min(nexts_ps[shard] for shard in others)
    together_ps = min(nexts_ps) + min(lookahead[shard][number] for shard in others)
    return min(allowed_ps, max(together_ps, others_ps))


class ShardProtocol(Protocol):
    """A block of ranks with an event queue, as the window protocol needs it."""

    def next_ps(self) -> int:
        """Return the time of this shard's earliest event."""
        ...

    def run_window(self, end_ps: int) -> None:
        """Run all events before `end_ps`."""
        ...

    def take_outbox(self) -> dict[int, Any]:
        """Give away what is for other shards: one picklable batch for each of them that gets anything."""
        ...

    def receive(self, batch: Any) -> None:
        """Put a batch of another shard into the queue."""
        ...

    def span_ps(self, batch: Any) -> tuple[int, int]:
        """Return the times of the first event that a batch brings, and of the last.

        The first is -1 if it has to be received with the end of this window.
        """
        ...

    def all_idle(self) -> None:
        """Bring up what was put off until no shard has an event, which is now."""
        ...

    def window_done(self, horizon_ps: int, end_ps: int) -> bool:
        """End a window, after the exchange; return True to stop every shard (wall limit, Ctrl-C).

        The window was up to `end_ps`; at its beginning no shard had an event before `horizon_ps`.
        """
        ...


class Transport(Protocol):
    """The way in which shards exchange: in one process, or between the ranks of a real MPI."""

    size: int
    """The number of shards."""
    local: range
    """The shards that live in this process."""

    def together(self) -> AbstractContextManager[None]:
        """Return a context within which an exception in one process ends all of them."""
        ...

    def simulate(self, work: Callable[[Sequence[int]], list[Any]], host: Any) -> list[Any]:
        """Call `work` with the numbers of the shards of this process, also in processes that are started for that.

        It makes the shards, has them `run`, and returns what is left of each. See `processes.RankHost`.
        """
        ...

    def run(self, shards: list[Any], lookahead: Lookahead) -> None:
        """Run the shards of this process to the end of the whole simulation.

        Their outboxes may hold something already: what the ranks have sent before their first wait.
        """
        ...

    def gather(self, parts: list[Any]) -> list[Any] | None:
        """Return one value of every shard, given those of this process's; None but in the process of shard 0."""
        ...

    def broadcast(self, value: Any) -> Any:
        """Return, everywhere, the value of the process where shard 0 lives."""
        ...

    def leave(self, status: int) -> NoReturn:
        """End every process, at once; what has been written is out."""
        ...


class Loopback:
    """All shards in this process; batches are pickled as if they travelled, so that nothing is shared by accident."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.local = range(size)

    def together(self) -> AbstractContextManager[None]:
        """Return a context that does nothing, for an exception ends the only process anyway."""
        return nullcontext()

    def simulate(self, work: Callable[[Sequence[int]], list[Any]], host: Any) -> list[Any]:
        """Call `work` with the numbers of all shards."""
        return work(self.local)

    def run(self, shards: list[ShardProtocol], lookahead: Lookahead) -> None:
        """Run windows of all shards by turns until none has an event; see `Transport.run`."""
        self._exchange(shards)
        were_idle = False
        while (horizon := min(nexts := [shard.next_ps() for shard in shards])) < INFINITY_PS or not were_idle:
            were_idle = horizon == INFINITY_PS
            if were_idle:
                for shard in shards:
                    shard.all_idle()
                continue
            ends = [window_end_ps(number, nexts, lookahead) for number in self.local]
            for shard, end in zip(shards, ends, strict=True):
                shard.run_window(end)
            self._exchange(shards)
            stops = [shard.window_done(horizon, end) for shard, end in zip(shards, ends, strict=True)]
            if any(stops):
                return

    def _exchange(self, shards: list[ShardProtocol]) -> None:
        for shard in shards:
            for target, batch in shard.take_outbox().items():
                # Nothing else would show, before a run with several processes does, that something cannot be pickled or
                # is shared.
                shards[target].receive(loads(dumps(batch, -1)))

    def gather(self, parts: list[Any]) -> list[Any] | None:
        """Return the parts, which are those of all shards."""
        return parts

    def broadcast(self, value: Any) -> Any:
        """Return the value."""
        return value

    def leave(self, status: int) -> NoReturn:
        """End this process."""
        _real_exit(status)
