"""The times of all ranks and messages of a call, computed from the ranks' entry times.

The rules for one rank are those of `mpi.p2p` and of `calls.wait_all`, to the picosecond:

* a send takes the CPU its overhead o, and leaves when the NIC is free, which is then occupied for B;
* it arrives W + L after it has left;
* messages that are waited for together are taken in the order of their arrival, each at the cost of its overhead.

A message above the eager threshold consists of three, which the NICs send by themselves:

* the request leaves when the sender's NIC is free, without occupying it, and takes L;
* the reply leaves when the receive is posted and the request has arrived, and takes L;
* the data leave when the reply has arrived, and occupy the NIC for B; the send is complete after W.

None of this depends on the order in which the simulator runs the ranks; so all times can be computed as soon as the
last rank has entered. The NIC of a receiver is not affected by arrivals. With a message above the threshold a rank has
no other pending send, and no other pending receive.

Events of equal time are ordered by keys, which each rank counts separately. It posts the arrival of its send first. For
a message above the threshold it then posts the arrival of its reply to another's request, and those of its data and
of their departure, in the order in which the two causes arrive: the request that it replies to, and the reply that it
has waited for. If they arrive at the same time, their keys decide, which begin with the rank that they come from; from
one rank the request is first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .schedule import CollectiveSchedule, Column, Marks, Numbers, Places, Stage, StepKind

_MOST_KEPT = 1 << 20  # messages
_NEVER = -(1 << 62)


class Costs(NamedTuple):
    """The costs of the messages of a stage, in picoseconds: one number for all, or an array."""

    send_ps: Column
    busy_ps: Column
    transit_ps: Column
    receive_ps: Column
    rendezvous: bool | int | Numbers = False
    """Whether the message is above the eager threshold."""
    latency_ps: Column = 0
    """The latency of its request."""
    answer_ps: Column = 0
    """The latency of the reply."""


class RendezvousTimes(NamedTuple):
    """The additional times of rendezvous messages."""

    answer_ps: Numbers
    """When the reply arrives."""
    answer_key: Numbers
    """The key of that event."""
    data_key: Numbers
    """The key of the arrival of the data."""


class MessageTimes(NamedTuple):
    """The times of the messages of a stage."""

    first_ps: Numbers
    """When each message, or its request, arrives."""
    key: Numbers
    """The key of that event."""
    arrival_ps: Numbers
    """When all of it has arrived."""
    taken_ps: Numbers
    """When it was matched with a receive."""
    after_request: RendezvousTimes | None
    """None: all are eager."""


class _Ranks:
    """The state of all ranks during a call."""

    def __init__(self, clock_ps: Sequence[int], nic_free_ps: Sequence[int], keys: Sequence[int]) -> None:
        self.clock, self.nic, self.key = (np.array(column, np.int64) for column in (clock_ps, nic_free_ps, keys))
        self.last, self.last_key = np.full((2, len(self.clock)), -1)
        self.overhead = np.zeros(len(self.clock), np.int64)

    def apply_stage(self, stage: Stage, costs: Costs) -> MessageTimes:
        """Apply the steps of a stage to all ranks."""
        slots = len(stage) + stage.padded
        any_rendezvous = costs.rendezvous is not False and bool(np.any(costs.rendezvous))
        first, posted = np.empty((2, slots), np.int64)
        arrival = np.empty(slots, np.int64) if any_rendezvous else first
        for kind, ranks, messages, real in stage.steps:
            if kind is StepKind.POST:
                posted[messages] = self.clock[ranks]
            elif type(messages) is not slice and messages.ndim > 1:
                (_send_many if kind is StepKind.SEND else _take_many)(self, costs, ranks, messages, real, first)
            elif kind is StepKind.SEND:
                self._send(costs, ranks, messages, first, any_rendezvous)
            elif kind is StepKind.TAKE:
                if any_rendezvous:
                    arrival[messages] = _arrival_times(costs, messages, first, posted)
                self._take(costs, ranks, messages, arrival)
            elif any_rendezvous:
                self._leave(costs, ranks, messages, first, posted)
        if stage.padded:
            first, posted, arrival = first[:-1], posted[:-1], arrival[:-1]
        self._count_overheads(stage, costs)
        taken = np.maximum(posted, first)
        if any_rendezvous:
            key, after_request = self._rendezvous_keys(stage, costs, first, taken)
            arrival_key = np.where(costs.rendezvous, after_request.data_key, key)
            rendezvous = np.broadcast_to(costs.rendezvous, len(stage))
            left = arrival - costs.latency_ps
            self._update_last(stage.source[rendezvous], left[rendezvous], after_request.data_key[rendezvous] + 1)
            self._update_last(stage.dest, arrival, arrival_key)
            return MessageTimes(first, key, arrival, taken, after_request)
        key = self.key[stage.source] + stage.order
        if type(stage.order) is int:
            self.key[stage.source] = key
        else:
            np.maximum.at(self.key, stage.source, key)
        self._update_last(stage.dest, arrival, key)
        return MessageTimes(first, key, arrival, taken, None)

    def _send(self, costs: Costs, ranks: Places, messages: Places, first: Numbers, any_rendezvous: bool) -> None:
        """Send one message per rank."""
        nic = self.nic
        self.clock[ranks] += _of(costs.send_ps, messages)
        start = np.maximum(self.clock[ranks], nic[ranks])
        if not any_rendezvous:
            first[messages] = start + _of(costs.transit_ps, messages)
            nic[ranks] = start + _of(costs.busy_ps, messages)
            return
        rendezvous = _of(costs.rendezvous, messages)
        first[messages] = start + np.where(rendezvous, _of(costs.latency_ps, messages), _of(costs.transit_ps, messages))
        nic[ranks] = np.where(rendezvous, nic[ranks], start + _of(costs.busy_ps, messages))

    def _take(self, costs: Costs, ranks: Places, messages: Places, arrival: Numbers) -> None:
        """Wait for one message per rank."""
        self.clock[ranks] = np.maximum(self.clock[ranks], arrival[messages]) + _of(costs.receive_ps, messages)

    def _leave(self, costs: Costs, ranks: Places, messages: Places, first: Numbers, posted: Numbers) -> None:
        """Wait until one message per rank has left, if it is above the threshold."""
        rendezvous = _of(costs.rendezvous, messages)
        answer = np.maximum(posted[messages], first[messages]) + _of(costs.answer_ps, messages)
        left = answer + _of(costs.transit_ps, messages) - _of(costs.latency_ps, messages)
        self.nic[ranks] = np.where(rendezvous, answer + _of(costs.busy_ps, messages), self.nic[ranks])
        self.clock[ranks] = np.where(rendezvous, np.maximum(self.clock[ranks], left), self.clock[ranks])

    def _count_overheads(self, stage: Stage, costs: Costs) -> None:
        """Add up the CPU times."""
        for ranks, cost in ((stage.source, costs.send_ps), (stage.dest, costs.receive_ps)):
            if isinstance(cost, np.ndarray) or cost:
                np.add.at(self.overhead, ranks, cost)

    def _rendezvous_keys(
        self, stage: Stage, costs: Costs, first: Numbers, taken: Numbers
    ) -> tuple[Numbers, RendezvousTimes]:
        """Return the key of each message, and the additional times of those above the threshold."""
        sent, received = stage.exchanges()
        rendezvous, answer = np.broadcast_to(costs.rendezvous, len(stage)), taken + costs.answer_ps
        sends = sent >= 0
        requesting, answering = rendezvous[sent] & sends, rendezvous[received] & (received >= 0)
        key = self.key + sends  # of each rank, when it has sent
        self.key = key + 2 * requesting + answering
        own: Numbers = key[stage.source]
        request, answered = first[received], answer[sent]
        earlier = own[received] <= key[stage.dest[sent]]
        hears_first = (request < answered) | ((request == answered) & earlier)
        data_key = key + 1 + (answering & hears_first)
        answer_key = key + 1 + 2 * (requesting & ~hears_first)
        return own, RendezvousTimes(answer, answer_key[stage.dest], data_key[stage.source])

    def _update_last(self, ranks: Numbers, when: Numbers, key: Numbers) -> None:
        """Update the time and the key of each rank's last event: an arrival, or a departure."""
        latest = self.last.copy()
        np.maximum.at(latest, ranks, when)
        self.last_key[latest > self.last] = -1
        which = when == latest[ranks]
        np.maximum.at(self.last_key, ranks[which], key[which])
        self.last = latest


def _arrival_times(costs: Costs, messages: Places, first: Numbers, posted: Numbers) -> Numbers:
    """Return when all of some messages has arrived, including rendezvous."""
    there = first[messages]
    answer = np.maximum(posted[messages], there) + _of(costs.answer_ps, messages)
    found: Numbers = np.where(_of(costs.rendezvous, messages), answer + _of(costs.transit_ps, messages), there)
    return found


def _send_many(r: _Ranks, costs: Costs, ranks: Places, messages: Numbers, real: Marks | None, first: Numbers) -> None:
    """Send several messages per rank: start j = max over i <= j of (when i is ready + NIC time from i)."""
    ready = r.clock[ranks] + np.cumsum(_matrix(costs.send_ps, messages, real), axis=0)
    busy = _matrix(costs.busy_ps, messages, real)
    r.clock[ranks] = ready[-1]
    # A running maximum instead of a loop over the messages: start j - before j does not decrease.
    before = np.cumsum(busy, axis=0) - busy
    ready[0] = np.maximum(ready[0], r.nic[ranks])
    start = np.maximum.accumulate(ready - before, axis=0) + before
    r.nic[ranks] = start[-1] + busy[-1]
    first[messages] = start + _matrix(costs.transit_ps, messages, real)


def _take_many(r: _Ranks, costs: Costs, ranks: Places, messages: Numbers, real: Marks | None, first: Numbers) -> None:
    """Wait for several messages per rank.

    Simultaneous arrivals are taken in the order of posting.
    """
    came = first[messages]
    if real is not None:
        came = np.where(real, came, _NEVER)
    if np.ndim(costs.receive_ps) == 0:  # hot path: sorting numbers is far faster than finding their order
        came.sort(axis=0)
        after = costs.receive_ps * np.arange(len(came), 0, -1)[:, None]
        total = costs.receive_ps * (len(came) if real is None else real.sum(axis=0))
    else:
        order = np.argsort(came, axis=0, kind="stable")
        each = np.take_along_axis(_matrix(costs.receive_ps, messages, real), order, 0)
        came = np.take_along_axis(came, order, 0)
        after = np.cumsum(each[::-1], axis=0)[::-1]
        total = after[0]
    r.clock[ranks] = np.maximum(r.clock[ranks] + total, (came + after).max(axis=0))


def _of(cost: Column, messages: Places) -> Column:
    """Return the cost of some messages."""
    return cost[messages] if isinstance(cost, np.ndarray) else cost  # hot path: np.ndim takes a microsecond


def _matrix(cost: Column, messages: Numbers, real: Marks | None) -> Numbers:
    """Return the cost of each of a matrix of messages, 0 if there is none."""
    if not isinstance(cost, np.ndarray):
        return np.full(messages.shape, cost) if real is None else real * cost
    found = cost.take(messages, mode="clip")
    return found if real is None else real * found


class Times:
    """The times of all ranks in a call.

    The times of individual messages are kept if there are few. Otherwise they are recomputed on demand: twenty million
    of them need more memory, and so more time, than everything else.
    """

    def __init__(
        self,
        schedule: CollectiveSchedule[Any],
        costs: Sequence[Costs],  # of each stage
        # Of each rank on entry: its clock, when its NIC is free, and its last event key.
        clock_ps: Sequence[int],
        nic_free_ps: Sequence[int],
        keys: Sequence[int],
    ) -> None:
        self._schedule = schedule
        self._costs = costs
        self._entered = clock_ps, nic_free_ps, keys
        ranks = _Ranks(*self._entered)
        self._kept: list[MessageTimes] | None = [] if schedule.messages <= _MOST_KEPT else None
        for message_times in self._apply_stages(ranks):
            if self._kept is not None:
                self._kept.append(message_times)
        self.clock_ps, self.nic_free_ps, self.keys = ranks.clock, ranks.nic, ranks.key  # the same on exit
        self.last_ps, self.last_key = ranks.last, ranks.last_key  # of the rank's last event: an arrival, or a departure
        self.waited_ps = ranks.clock - np.asarray(clock_ps) - ranks.overhead

    def _apply_stages(self, ranks: _Ranks) -> Iterator[MessageTimes]:
        for stage, costs in zip(self._schedule.stages(), self._costs, strict=True):
            yield ranks.apply_stage(stage, costs)

    def message_times(self) -> Iterator[MessageTimes]:
        """Yield the times of the messages of each stage."""
        return iter(self._kept) if self._kept is not None else self._apply_stages(_Ranks(*self._entered))
