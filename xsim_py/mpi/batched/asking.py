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

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .formulas import Rounds, RoundTimes
from .timing import Asked, Costs, Detail, Numbers

__all__ = ["AskingTimes"]


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


class AskingTimes(RoundTimes):
    """The times of such an exchange."""

    _columns = 3
    """When a message or its request arrives, when all of it is there, and when a receive has met it."""

    def _run(self) -> tuple[Numbers, Numbers, Numbers, Numbers, Numbers]:
        clock, nic, key = (numbers.copy() for numbers in self._entered)
        last, last_key = np.full(len(clock), -1), np.full(len(clock), -1)
        overheads: Any = 0
        for turn, each in enumerate(_rounds(self._rounds, self._costs, clock, nic, key)):
            overheads = overheads + each.overhead_ps
            came, came_key = each.arrival_ps[each.source], each.arrival_key[each.source]
            for when, its_key in ((came, came_key), (each.left_ps, each.arrival_key + 1)):
                later = (when > last) | ((when == last) & (its_key > last_key))
                last, last_key = np.where(later, when, last), np.where(later, its_key, last_key)
            if self._kept is not None:
                self._keep(self._kept, turn, each)
        return clock, nic, last, last_key, clock - self._entered[0] - overheads

    def _keep(self, kept: Numbers, turn: int, each: _Round) -> None:
        kept[0, turn], kept[1, turn], kept[2, turn, each.source] = each.first_ps, each.arrival_ps, each.met_ps

    def _again(self) -> Iterator[_Round]:
        return _rounds(self._rounds, self._costs, *(numbers.copy() for numbers in self._entered))

    def _each_arrival(self, look: Callable[..., None]) -> None:
        for turn, each in enumerate(self._again()):
            look(range(turn, turn + 1), each.first_ps, each.arrival_ps)

    @cached_property
    def _listed(self) -> tuple[Detail, Asked]:
        assert self._costs.asking is not None
        table = self._empty(7)
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
