"""Conservative synchronisation of shards, in windows.

Prior art: YAWNS and bounded lag (Nicol 1993; reference: the survey of Ferscha and Tripathi). All shards agree on the
earliest event anywhere, the *horizon*; nothing that one shard does from the horizon on can reach another shard before
``horizon + lookahead``, because the network needs at least that long between ranks of different shards. So every shard
may run all events before that time, and then the messages that cross shards are exchanged in one batch.

One shard has an infinite lookahead and therefore a single window: the serial run is not a special case.
"""

from __future__ import annotations

import pickle
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from .kernel import INFINITY_PS

__all__ = ["Loopback", "Shard", "Transport"]


class Shard(Protocol):
    """What the window protocol asks of a shard."""

    def next_ps(self) -> int:
        """Time of this shard's earliest event."""
        ...

    def run_window(self, end_ps: int) -> None:
        """Run all events before `end_ps`."""
        ...

    def take_outbox(self) -> list[Any]:
        """What has to go to each shard (one picklable batch a shard, None for nothing), and forget it."""
        ...

    def receive(self, batch: Any) -> None:
        """Put a batch of another shard into the queue."""
        ...

    def window_done(self, horizon_ps: int, end_ps: int) -> bool:
        """Told once a window, after the exchange; True asks every shard to stop (wall limit, Ctrl-C).

        The window was from `horizon_ps` up to `end_ps`.
        """
        ...


class Transport(Protocol):
    """How shards exchange: in one process, or between the ranks of a real MPI."""

    size: int
    """The number of shards."""
    local: range
    """The shards that live in this process."""

    def together(self) -> AbstractContextManager[None]:
        """Within this an exception in one process ends all of them."""
        ...

    def run(self, shards: list[Any], lookahead_ps: int) -> None:
        """Run the shards of this process to the end of the whole simulation.

        Their outboxes may hold something already: what the ranks have sent before their first wait.
        """
        ...

    def gather(self, parts: list[Any]) -> list[Any] | None:
        """One part for each local shard in, the parts of all shards in order out (None except where shard 0 lives)."""
        ...

    def broadcast(self, value: Any) -> Any:
        """The value of the process where shard 0 lives, everywhere."""
        ...


class Loopback:
    """All shards in this process; batches are pickled as if they travelled, so that nothing is shared by accident."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.local = range(size)

    def together(self) -> AbstractContextManager[None]:
        """See `Transport.together`."""
        return nullcontext()

    def run(self, shards: list[Shard], lookahead_ps: int) -> None:
        """See `Transport.run`."""
        self._exchange(shards)
        while (horizon := min(shard.next_ps() for shard in shards)) < INFINITY_PS:
            end = horizon + lookahead_ps
            for shard in shards:
                shard.run_window(end)
            self._exchange(shards)
            stops = [shard.window_done(horizon, end) for shard in shards]
            if any(stops):
                return

    def _exchange(self, shards: list[Shard]) -> None:
        for shard in shards:
            for target, batch in enumerate(shard.take_outbox()):
                if batch is not None:
                    shards[target].receive(pickle.loads(pickle.dumps(batch, -1)))

    def gather(self, parts: list[Any]) -> list[Any] | None:
        """See `Transport.gather`."""
        return parts

    def broadcast(self, value: Any) -> Any:
        """See `Transport.broadcast`."""
        return value
