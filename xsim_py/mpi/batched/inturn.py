"""Calls that are several exchanges one after the other: what comes first settles what comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .batch import Bound, Numbers
from .timing import NONE_ASKS, Asked, Asking, Costs, Detail, Times

__all__ = ["InTurn"]

_WORD = (1 << 64) - 1


class InTurn(Bound):
    """Two exchanges between the same ranks, the second of which only this call has.

    Parameters
    ----------
    first, second : Bound
        Each rank begins the second when it is through the first.
    heads : sequence of bytes
        What each rank contributes to the first.
    algorithm : callable
        What runs the second.
    """

    once = True

    def __init__(self, first: Bound, second: Bound, heads: Sequence[bytes], algorithm: Callable[..., Any]) -> None:
        self._first = first
        self._second = second
        self._heads = heads
        self.algorithm = algorithm
        self._numbers = first._numbers
        self.check = first.check
        self.local = first.local
        self.sent = first.sent + second.sent
        self.keys_used = first.keys_used + second.keys_used
        self.events = first.events + second.events

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    @property
    def costs(self) -> Costs:  # type: ignore[override]
        """See `Bound`."""
        first, second = self._first.costs, self._second.costs
        send_ps, busy_ps, way_ps, receive_ps = self._both(first[:4], second[:4])
        asking = None
        if first.asking is not None or second.asking is not None:
            asking = Asking(*self._both(first.asking or NONE_ASKS, second.asking or NONE_ASKS))
        return Costs(send_ps, busy_ps, way_ps, receive_ps, asking)

    def _both(self, first: Iterable[Any], second: Iterable[Any]) -> Iterator[Numbers]:
        """Of all messages, of what is said of either's."""
        counts = len(self._first), len(self._second)
        for both in zip(first, second, strict=True):
            yield np.concatenate([np.broadcast_to(cost, count) for cost, count in zip(both, counts, strict=True)])

    @property
    def source(self) -> Numbers:  # type: ignore[override]
        """See `Bound`."""
        return np.concatenate((self._first.source, self._second.source))

    @property
    def target(self) -> Numbers:  # type: ignore[override]
        """See `Bound`."""
        return np.concatenate((self._first.target, self._second.target))

    @property
    def origin(self) -> Numbers:  # type: ignore[override]
        """See `Bound`."""
        return np.concatenate((self._first.origin, self._second.origin))

    @property
    def dest(self) -> Numbers:  # type: ignore[override]
        """See `Bound`."""
        return np.concatenate((self._first.dest, self._second.dest))

    @property
    def size_bytes(self) -> Numbers:  # type: ignore[override]
        """See `Bound`."""
        return np.concatenate((self._first.size_bytes, self._second.size_bytes))

    def sums(self) -> tuple[Numbers, Numbers, Numbers]:
        """See `tally.Sends`."""
        return self._numbers, self.sent, self._first.sums()[2] + self._second.sums()[2]

    def times(self, clock_ps: Sequence[int], nic_free_ps: Sequence[int], keys: Sequence[int]) -> TimesInTurn:
        """See `Bound.times`."""
        first = self._first.times(clock_ps, nic_free_ps, keys)
        between: Any = first.clock_ps, first.nic_free_ps, keys + self._first.keys_used
        second = self._second.times(*between)
        return TimesInTurn(first, second)

    def values(self, contributions: Sequence[bytes], fold: Any) -> tuple[Any, Sequence[Any]]:
        """See `Bound.values`."""
        return self._second.values(contributions, fold)

    def hashes(self, times: TimesInTurn, tag: int, memory: Any) -> int:  # type: ignore[override]
        """See `Bound.hashes`."""
        first = self._first.hashes(times.first, tag, self._first_memory if self.check else None)
        return first + self._second.hashes(times.second, tag, memory) & _WORD

    @cached_property
    def _first_memory(self) -> Any:
        return self._first.values(self._heads, None)[0]

    def payload(self, memory: Any, number: int) -> bytes:
        """See `Bound.payload`."""
        if number < len(self._first):
            return self._first.payload(self._first_memory, number)
        return self._second.payload(memory, number - len(self._first))


class TimesInTurn(Times):
    """The times of both."""

    def __init__(self, first: Times, second: Times) -> None:
        later = (first.last_ps > second.last_ps) | (
            (first.last_ps == second.last_ps) & (first.last_key > second.last_key)
        )
        super().__init__(
            second.clock_ps,
            second.nic_free_ps,
            np.where(later, first.last_ps, second.last_ps),
            np.where(later, first.last_key, second.last_key),
            first.waited_ps + second.waited_ps,
        )
        self.first = first
        self.second = second

    @cached_property
    def detail(self) -> Detail:
        """See `Times`."""
        arrival, keys, taken = (
            np.concatenate(both) for both in zip(self.first.detail, self.second.detail, strict=True)
        )
        return arrival, keys, taken

    @cached_property
    def asked(self) -> Asked | None:
        """See `Times`."""
        if self.first.asked is None and self.second.asked is None:
            return None
        parts = (times.asked or times.none_asked() for times in (self.first, self.second))
        return Asked(*(np.concatenate(both) for both in zip(*parts, strict=True)))
