"""Exchanges in rounds with messages above the eager threshold, which ask before they send their data.

Such a message is three, and the interfaces send them by themselves (`mpi.p2p`):

* the request leaves when the sender's interface is free, without taking it, and needs L;
* the answer leaves when the receiver has come to its receive and the request is there, and needs L;
* the data leave when the answer is there, and take the interface for B; the send is complete after W.

A rank goes on to the next round when what it gets is there and what it sends has left. So between two rounds nothing is
under way, and a round's times follow from each rank's clock and interface at its beginning, as they do where all is
eager: for each rank from those of its two partners. Eager messages may go with the others, in the same round too.

What needs care are the keys by which events of equal time are ordered: each rank counts its own. It posts the arrival
of its request first; then that of its answer to another's, and those of its own data and of their having left, in the
order in which it hears of the two: of the request that it answers, and of the answer that it has waited for. Where they
come at the same time their own keys decide, which begin with the rank that they come from; of one rank the request is
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .timetable import Asked, Asking, Costs, Detail, Numbers, Times

if TYPE_CHECKING:
    from .rounds import Rounds

__all__ = ["AskingTimes", "keys_used"]

_MOST_KEPT = 1 << 20
_KEPT = 3


def keys_used(rounds: Rounds, asking: Asking) -> Numbers:
    """How many events each rank posts."""
    used = np.full(rounds.size, rounds.rounds, np.int64)
    for turn in range(rounds.rounds):
        asks = asking.of_rounds(range(turn, turn + 1), rounds.size)[0]
        used += 2 * asks + (asks if np.ndim(asks) == 0 else asks[rounds.source(turn)])
    return used


class _Round(NamedTuple):
    """One round: of what each rank sends, but for the last three, which are of what it gets."""

    first_ps: Numbers  # when the message, or its request, arrives
    first_key: Numbers
    answer_ps: Numbers
    answer_key: Numbers
    arrival_ps: Numbers  # of all of it
    arrival_key: Numbers
    left_ps: Numbers  # when the interface is done with what asked first; -1: it was eager
    met_ps: Numbers
    source: Numbers
    overhead_ps: Any


def _rounds(rounds: Rounds, costs: Costs, clock: Numbers, nic: Numbers, key: Numbers) -> Iterator[_Round]:
    """Let clocks, interfaces and the last keys of all ranks go through all rounds."""
    assert costs.asking is not None
    size = rounds.size
    for turn in range(rounds.rounds):
        send_ps, busy_ps, way_ps, receive_ps = costs.of_round(turn, size)
        asks, latency_ps, back_ps = costs.asking.of_rounds(range(turn, turn + 1), size)
        asks = np.broadcast_to(asks, size)
        source, dest = rounds.source(turn), rounds.dest(turn)
        clock += send_ps
        key += 1
        start = np.maximum(clock, nic)
        first = start + np.where(asks, latency_ps, way_ps)
        first_key = key.copy()
        came = first[source]
        met = np.maximum(clock, came)
        answer = met[dest] + back_ps
        answers = asks[source]
        before = (came < answer) | ((came == answer) & (key[source] <= key[dest]))
        arrival = np.where(asks, answer + way_ps, first)
        arrival_key = np.where(asks, key + np.where(answers & before, 2, 1), key)
        answer_key = (key + np.where(asks & ~before, 3, 1))[dest]
        left = np.where(asks, arrival - latency_ps, -1)
        nic[:] = np.where(asks, answer, start) + busy_ps
        key += 2 * asks
        key += answers
        taking = receive_ps if np.ndim(receive_ps) == 0 else receive_ps[source]
        np.maximum(clock, arrival[source], out=clock)
        clock += taking
        np.maximum(clock, left, out=clock)
        yield _Round(first, first_key, answer, answer_key, arrival, arrival_key, left, met, source, send_ps + taking)


class AskingTimes(Times):
    """The times of such an exchange, as `rounds.RoundTimes`.

    Parameters
    ----------
    rounds : Rounds
        Who sends to whom.
    costs : Costs
        Of the messages.
    clock_ps, nic_free_ps, keys : sequence of int
        See `Timetable.run`.
    """

    def __init__(
        self,
        rounds: Rounds,
        costs: Costs,
        clock_ps: Sequence[int],
        nic_free_ps: Sequence[int],
        keys: Sequence[int],
    ) -> None:
        self._rounds = rounds
        self._costs = costs
        self._entered = [np.array(numbers, np.int64) for numbers in (clock_ps, nic_free_ps, keys)]
        clock, nic, key = (numbers.copy() for numbers in self._entered)
        last, last_key = np.full(rounds.size, -1), np.full(rounds.size, -1)
        few = _KEPT * rounds.rounds * rounds.size <= _MOST_KEPT
        self.kept = np.empty((_KEPT, rounds.rounds, rounds.size), np.int64) if few else None
        overheads: Any = 0
        for turn, each in enumerate(_rounds(rounds, costs, clock, nic, key)):
            overheads = overheads + each.overhead_ps
            came, came_key = each.arrival_ps[each.source], each.arrival_key[each.source]
            for when, its_key in ((came, came_key), (each.left_ps, each.arrival_key + 1)):
                later = (when > last) | ((when == last) & (its_key > last_key))
                last, last_key = np.where(later, when, last), np.where(later, its_key, last_key)
            if self.kept is not None:
                self._keep(self.kept, turn, each)
        super().__init__(clock, nic, last, last_key, clock - self._entered[0] - overheads)

    def _keep(self, kept: Numbers, turn: int, each: _Round) -> None:
        kept[0, turn], kept[1, turn], kept[2, turn, each.source] = each.first_ps, each.arrival_ps, each.met_ps

    def _again(self) -> Iterator[_Round]:
        return _rounds(self._rounds, self._costs, *(numbers.copy() for numbers in self._entered))

    def arrivals(self, look: Callable[[range, Numbers, Numbers], None]) -> None:
        """Tell of some rounds at a time: when messages or their requests arrive, and when all of each is there."""
        if self.kept is None:
            for turn, each in enumerate(self._again()):
                look(range(turn, turn + 1), each.first_ps, each.arrival_ps)
            return
        count, size = self._rounds.rounds, self._rounds.size
        batch = max(1, (1 << 16) // size)
        for start in range(0, count, batch):
            turns = range(start, min(start + batch, count))
            first_ps, arrival_ps = self.kept[:2, turns.start : turns.stop].reshape(2, -1)
            look(turns, first_ps, arrival_ps)

    @cached_property
    def _listed(self) -> tuple[Detail, Asked]:
        rounds = self._rounds
        assert self._costs.asking is not None
        table = np.empty((7, rounds.rounds, rounds.size), np.int64)
        for turn, each in enumerate(self._again()):
            self._keep(table, turn, each)
            table[3:, turn] = each.first_key, each.answer_ps, each.answer_key, each.arrival_key
        first, arrival, met, first_key, answer, answer_key, data_key = table.reshape(7, -1)
        asks = np.broadcast_to(self._costs.asking.asks, first.shape)
        return (arrival, first_key, met), Asked(asks, first, answer, answer_key, data_key)

    @property
    def detail(self) -> Detail:
        """See `Times`."""
        return self._listed[0]

    @property
    def asked(self) -> Asked:
        """See `Times`."""
        return self._listed[1]
