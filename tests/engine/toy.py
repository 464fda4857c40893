"""A model that is nothing but messages, to run under any number of shards.

Each rank counts what reaches it. A rule says for (rank, count) what it then sends: to whom, and how much later than the
least latency that makes it arrive.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from xsim_py.engine import Kernel, first_key

LOOKAHEAD_PS = 10
Rule = Callable[[int, int], list[tuple[int, int]]]
Latency = Callable[[int, int], int]
Arrival = tuple[int, int, int]  # time, sender, its count of messages


class ToyShard:
    """A block of ranks; see `engine.windows.ShardProtocol`."""

    def __init__(
        self, number: int, blocks: list[range], rule: Rule, *, limit: int, latency_ps: Latency | None = None
    ) -> None:
        self.in_turn = False
        self.on_arrival: Callable[[], None] = lambda: None
        self.number = number
        self.blocks = blocks
        self.rule = rule
        self.limit = limit
        self.latency_ps = latency_ps or (lambda a, b: 0 if a == b else LOOKAHEAD_PS)
        self.kernel = Kernel(native_origin=blocks[-1].stop + number)
        self.arrivals: dict[int, list[Arrival]] = {rank: [] for rank in blocks[number]}
        self.sent = dict.fromkeys(blocks[number], 0)
        self.outbox: list[list[Any]] = [[] for _ in blocks]
        self.horizons: list[int] = []
        self.stop_at: int | None = None
        self.idle_calls = 0
        self.end_ps = 0

    def begin(self) -> None:
        for rank in self.blocks[self.number]:
            self.send(rank, 0)

    def send(self, rank: int, count: int) -> None:
        for dest, extra in self.rule(rank, count):
            self.sent[rank] += 1
            number = next(i for i, block in enumerate(self.blocks) if dest in block)
            time_ps = self.kernel.now_ps + extra + self.latency_ps(rank, dest)
            entry = (time_ps, first_key(rank) + self.sent[rank], [dest, rank, self.sent[rank]])
            if number == self.number:
                self.kernel.post(*entry[:2], self.arrive, entry[2])
            else:
                self.outbox[number].append(entry)

    def arrive(self, message: list[int]) -> None:
        self.on_arrival()
        dest, source, number = message
        seen = self.arrivals[dest]
        seen.append((self.kernel.now_ps, source, number))
        if len(seen) <= self.limit:
            self.send(dest, len(seen))
        message[0] = -1  # would be seen by others if the batch were not pickled

    def next_ps(self) -> int:
        return self.kernel.next_ps()

    def run_window(self, end_ps: int) -> bool:
        self.end_ps = end_ps
        self.kernel.run_window(end_ps)
        return False

    def take_outbox(self) -> dict[int, Any]:
        batches = {to: batch for to, batch in enumerate(self.outbox) if batch}
        self.outbox = [[] for _ in self.outbox]
        return batches

    def span_ps(self, batch: Any) -> tuple[int, int]:
        times = [time_ps for time_ps, _, _ in batch]
        return min(times), max(times)

    def receive(self, batch: Any) -> None:
        for time_ps, key, message in batch:
            assert time_ps >= self.end_ps, "a message from the past"
            self.kernel.post(time_ps, key, self.arrive, message)

    def all_idle(self) -> None:
        self.idle_calls += 1

    def window_done(self, horizon_ps: int, end_ps: int) -> bool:
        assert end_ps == self.end_ps
        self.horizons.append(horizon_ps)
        return self.stop_at is not None and horizon_ps >= self.stop_at


def blocks_of(ranks: int, shards: int) -> list[range]:
    """Blocks of nearly equal size; some are empty where there are more shards than ranks."""
    cuts = [ranks * number // shards for number in range(shards + 1)]
    return [range(low, high) for low, high in pairwise(cuts)]
