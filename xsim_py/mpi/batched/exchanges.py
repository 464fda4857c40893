"""Recorded schedules with messages that ask before they send their data, where no rank has several under way.

Then a rank's part is a list of exchanges, in each of which it sends a message, or takes one, or both at once, and waits
until that is over. `asking` says what such a message is, and what the keys of its events are; here exchanges of
different ranks need not fit together as in rounds. Each has a beginning, in which its message or the request leaves,
and an end, which depends on two others' beginnings: of the exchange in which its message is taken, as the answer comes
from there, and of that from which the message comes that it takes. So there is an order of beginnings and ends, and
what does not depend on each other is done together. The keys follow when all times are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .recording import Recording
from .timing import Asked, Costs, Numbers, Times, Timetable

__all__ = ["Exchanges", "exchanges"]


class _Beginnings(NamedTuple):
    """Exchanges that begin; those in which something is sent once more, with their messages."""

    all: Numbers
    ranks: Numbers
    senders: Numbers
    messages: Numbers


class _Ends(NamedTuple):
    """Exchanges that end: those in which something is taken, and those in which something is sent."""

    takers: Numbers
    taking: Numbers
    taken: Numbers
    senders: Numbers
    sent: Numbers
    taken_in: Numbers


class Exchanges:
    """The exchanges of all ranks, of one rank after the other.

    Parameters
    ----------
    rank : array
        Whose each of them is.
    sent, received : array
        The numbers of their messages; -1: none.
    messages : int
        How many messages there are.
    begins, ends : sequence of int
        An order: what has a smaller number comes first. A beginning and an end never have the same.
    """

    def __init__(
        self,
        rank: Numbers,
        sent: Numbers,
        received: Numbers,
        messages: int,
        begins: Sequence[int],
        ends: Sequence[int],
    ) -> None:
        self._rank = rank
        self._sent = sent
        self._received = received
        self._sends, self._takes = sent >= 0, received >= 0
        self._sent_in, self._taken_in = np.zeros((2, messages), np.int64)
        self._sent_in[sent[self._sends]] = np.flatnonzero(self._sends)
        self._taken_in[received[self._takes]] = np.flatnonzero(self._takes)
        self._steps: list[_Beginnings | _Ends] = []
        when = np.concatenate((begins, ends))
        order = np.argsort(when, kind="stable")
        for together in np.split(order, np.flatnonzero(np.diff(when[order])) + 1):
            ending = together[0] >= len(rank)
            self._steps.append(self._ends(together - len(rank)) if ending else self._beginnings(together))

    def _beginnings(self, which: Numbers) -> _Beginnings:
        senders = which[self._sends[which]]
        return _Beginnings(which, self._rank[which], self._rank[senders], self._sent[senders])

    def _ends(self, which: Numbers) -> _Ends:
        senders, takers = which[self._sends[which]], which[self._takes[which]]
        sent = self._sent[senders]
        rank = self._rank
        return _Ends(rank[takers], takers, self._received[takers], rank[senders], sent, self._taken_in[sent])

    def run(
        self,
        timetable: Timetable,
        costs: Costs,
        clock_ps: Sequence[int],
        nic_free_ps: Sequence[int],
        keys: Sequence[int],
    ) -> Times:
        """The times of all ranks, as `Timetable.run`."""
        clock, nic = np.array(clock_ps, np.int64), np.array(nic_free_ps, np.int64)
        waited = -clock - timetable.overheads(costs)
        assert costs.asking is not None
        count = len(timetable)
        send_ps, busy_ps, way_ps, receive_ps, asks, latency_ps, back_ps = (
            np.broadcast_to(cost, count) for cost in (*costs[:4], *costs.asking)
        )
        first_ps = np.where(asks, latency_ps, way_ps)
        posted = np.empty(len(self._rank), np.int64)
        first, met, arrival = np.empty((3, count), np.int64)
        for step in self._steps:
            if isinstance(step, _Beginnings):
                ranks, messages = step.senders, step.messages
                clock[ranks] += send_ps[messages]
                start = np.maximum(clock[ranks], nic[ranks])
                first[messages] = start + first_ps[messages]
                nic[ranks] = np.where(asks[messages], nic[ranks], start + busy_ps[messages])
                posted[step.all] = clock[step.ranks]
                continue
            ranks, messages = step.takers, step.taken
            met[messages] = there = np.maximum(posted[step.taking], first[messages])
            answered = there + back_ps[messages] + way_ps[messages]
            arrival[messages] = came = np.where(asks[messages], answered, first[messages])
            clock[ranks] = np.maximum(clock[ranks], came) + receive_ps[messages]
            asking = asks[step.sent]
            ranks, messages, taken_in = step.senders[asking], step.sent[asking], step.taken_in[asking]
            answer = np.maximum(posted[taken_in], first[messages]) + back_ps[messages]
            nic[ranks] = answer + busy_ps[messages]
            clock[ranks] = np.maximum(clock[ranks], answer + way_ps[messages] - latency_ps[messages])
        asked, own_keys = self._keys(asks, first, met + back_ps, np.array(keys, np.int64))
        last, last_key = self._last(asked, own_keys, arrival, arrival - latency_ps, len(clock))
        return Times(clock, nic, last, last_key, waited + clock, (arrival, own_keys, met), asked)

    def _keys(self, asks: Any, first: Numbers, answer: Numbers, keys: Numbers) -> tuple[Asked, Numbers]:
        """What has become of messages that ask, and the key of each message or its request."""
        asking, answering = asks[self._sent] & self._sends, asks[self._received] & self._takes
        used = np.cumsum(self._sends + 2 * asking + answering)
        begins = np.flatnonzero(np.diff(self._rank, prepend=-1))
        before = np.concatenate(([0], used[:-1]))
        before -= np.repeat(before[begins], np.diff(np.append(begins, len(used))))
        key = keys[self._rank] + before + self._sends  # of each exchange, when it has begun
        own = key[self._sent_in]
        request, answered = first[self._received], answer[self._sent]
        earlier = own[self._received] <= key[self._taken_in[self._sent]]
        hears_first = (request < answered) | ((request == answered) & earlier)
        data_key = key + 1 + (answering & hears_first)
        answer_key = key + 1 + 2 * (asking & ~hears_first)
        return Asked(asks, first, answer, answer_key[self._taken_in], data_key[self._sent_in]), own

    def _last(self, asked: Asked, own: Numbers, arrival: Numbers, left: Numbers, size: int) -> tuple[Numbers, Numbers]:
        """The time and the key of each rank's last event: something comes, or has left."""
        asks = asked.asks
        source, dest = self._rank[self._sent_in], self._rank[self._taken_in]
        ranks = np.concatenate((dest, source[asks]))
        when = np.concatenate((arrival, left[asks]))
        key = np.concatenate((np.where(asks, asked.data_key, own), asked.data_key[asks] + 1))
        last, last_key = np.full((2, size), -1)
        np.maximum.at(last, ranks, when)
        latest = when == last[ranks]
        np.maximum.at(last_key, ranks[latest], key[latest])
        return last, last_key


def exchanges(recording: Recording, messages: int) -> Exchanges | None:
    """Those of a recording whose messages have their numbers; None where ranks would wait in a circle."""
    rank: list[int] = []
    sent: list[int] = []
    received: list[int] = []
    sent_in, taken_in = [0] * messages, [0] * messages
    for number, each in enumerate(recording.exchanges):
        for exchange in each:
            if exchange.sent is not None:
                sent_in[exchange.sent.number] = len(rank)
            if exchange.received is not None:
                taken_in[exchange.received.number] = len(rank)
            sent.append(-1 if exchange.sent is None else exchange.sent.number)
            received.append(-1 if exchange.received is None else exchange.received.number)
            rank.append(number)
    begins, ends = [0] * len(rank), [0] * len(rank)
    ready = [place for place, number in enumerate(rank) if not place or rank[place - 1] != number]
    for place in ready:
        begins[place] = 1
    waiting: dict[int, list[int]] = {}
    while ready:
        place = ready.pop()
        others = [] if sent[place] < 0 else [taken_in[sent[place]]]
        if received[place] >= 0:
            others.append(sent_in[received[place]])
        missing = next((other for other in others if not begins[other]), None)
        if missing is not None:
            waiting.setdefault(missing, []).append(place)
            continue
        ends[place] = 1 + max(begins[place], *(begins[other] for other in others))
        after = place + 1
        if after < len(rank) and rank[after] == rank[place]:
            begins[after] = ends[place] + 1
            ready += [after, *waiting.pop(after, ())]
    if not all(ends):
        return None
    return Exchanges(np.array(rank), np.array(sent), np.array(received), messages, begins, ends)
