"""When: the sends and receives of all ranks of a call as arrays, and the times that follow from when ranks enter.

A rank's part in a collective is a list of steps. A step is a burst of sends, or a wait for some messages. Steps of
different ranks that do not depend on each other are one `Step`: two index arrays, and a few operations of numpy for all
of them. The rules for one rank are those of `mpi.p2p` and of `calls.wait_all`, to the picosecond:

* a send takes the processor its overhead o, and leaves when the interface is free, which is then taken for B;
* it arrives W + L after it has left;
* messages that are waited for together are taken in the order of their arrival, each at the cost of its overhead.

Nothing in them depends on the order in which the simulator comes to run the ranks; so all times can be computed as
soon as the last rank has entered. What the interface of a receiver does is not affected by what arrives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .exchanges import Exchanges

__all__ = ["NONE_ASKS", "Asked", "Asking", "Costs", "Step", "Times", "Timetable"]

Numbers = NDArray[np.int64]
_BATCH = 1 << 12


class Step:
    """What some ranks do at the same place of the order: they all send, or they all wait.

    Parameters
    ----------
    sends : bool
        Whether they send; else they wait.
    ranks : (n,) array
        Who, each once.
    widths : (n,) array
        How many messages each of them sends one after the other, or waits for together; at least 1.
    messages : (sum of widths,) array
        Those of the first rank, of the second, and so on.

    Attributes
    ----------
    owner, turn : array
        For each message which of `ranks` has it, and which of that rank's it is, from 0.
    ends, starts : (n,) array
        Where a rank's messages end and start.
    """

    def __init__(self, sends: bool, ranks: Numbers, widths: Numbers, messages: Numbers) -> None:
        self.sends = sends
        self.ranks = ranks
        self.widths = widths
        self.messages = messages
        self.single = len(messages) == len(ranks)
        self.ends = np.cumsum(widths)
        self.starts = self.ends - widths
        self.owner = np.repeat(np.arange(len(ranks)), widths)
        self.turn = np.arange(len(messages)) - np.repeat(self.starts, widths)

    def groups(self) -> Iterator[tuple[Numbers, Numbers]]:
        """The ranks of equal width, and their messages as a matrix."""
        for width in np.unique(self.widths).tolist():
            which = np.flatnonzero(self.widths == width)
            yield self.ranks[which], self.messages[self.starts[which, None] + np.arange(width)]


class Asking(NamedTuple):
    """Which messages ask before they send their data, and what that takes; each for all, or an array of the messages.

    Attributes
    ----------
    asks : bool or array
        Whether the message is above the eager threshold.
    latency_ps, answer_ps : int or array
        How long the request is on its way, and its answer.
    """

    asks: Any
    latency_ps: Any
    answer_ps: Any

    def of_rounds(self, turns: range, size: int) -> tuple[Any, Any, Any]:
        """Those of some rounds of an exchange in which each of `size` ranks sends a message a round."""
        asks, latency_ps, answer_ps = (
            cost if np.ndim(cost) == 0 else cost[turns.start * size : turns.stop * size] for cost in self
        )
        return asks, latency_ps, answer_ps


NONE_ASKS = Asking(asks=False, latency_ps=0, answer_ps=0)
"""Of messages none of which asks."""


class Costs(NamedTuple):
    """What each message costs: one number for all, or an array of the messages. In picoseconds; see `network.link`."""

    send_ps: Any
    busy_ps: Any
    way_ps: Any
    receive_ps: Any
    asking: Asking | None = None

    def of_round(self, turn: int, size: int) -> tuple[Any, Any, Any, Any]:
        """Those of round `turn` of an exchange in which each of `size` ranks sends a message a round."""
        start = turn * size
        send_ps, busy_ps, way_ps, receive_ps = (
            cost if np.ndim(cost) == 0 else cost[start : start + size] for cost in self[:4]
        )
        return send_ps, busy_ps, way_ps, receive_ps


class Asked(NamedTuple):
    """What has become of the messages that ask first; of each message of a call, those that do not included.

    Attributes
    ----------
    asks : array of bool
        Whether it does.
    request_ps : array
        When its request arrives.
    answer_ps, answer_key : array
        When the answer is back, and the key of that event.
    data_key : array
        The key of the arrival of its data.
    """

    asks: NDArray[np.bool_]
    request_ps: Numbers
    answer_ps: Numbers
    answer_key: Numbers
    data_key: Numbers


Detail = tuple[Numbers, Numbers, Numbers]


class Times:
    """What comes of it, for each rank.

    Parameters
    ----------
    clock_ps, nic_free_ps : array
        When the rank is done, and when its interface is.
    last_ps, last_key : array
        The latest of its messages to arrive: its time and key.
    waited_ps : array
        How long it has waited.
    detail, asked : optional
        See the properties; None in a class that has its own.
    """

    def __init__(
        self,
        clock_ps: Numbers,
        nic_free_ps: Numbers,
        last_ps: Numbers,
        last_key: Numbers,
        waited_ps: Numbers,
        detail: Detail | None = None,
        asked: Asked | None = None,
    ) -> None:
        self.clock_ps = clock_ps
        self.nic_free_ps = nic_free_ps
        self.last_ps = last_ps
        self.last_key = last_key
        self.waited_ps = waited_ps
        self._detail = detail
        self._asked = asked

    @property
    def asked(self) -> Asked | None:
        """What there is to know of messages that ask first; None: all are eager."""
        return self._asked

    def none_asked(self) -> Asked:
        """The same of messages none of which asks."""
        none = np.zeros(len(self.keys), np.int64)
        return Asked(none > 0, none, none, none, none)

    @property
    def detail(self) -> Detail:
        """For each message its arrival, its key (that of its request, if it asks), and when a receive has met it."""
        assert self._detail is not None
        return self._detail

    @property
    def arrival_ps(self) -> Numbers:
        """See `detail`."""
        return self.detail[0]

    @property
    def keys(self) -> Numbers:
        """See `detail`."""
        return self.detail[1]

    @property
    def taken_ps(self) -> Numbers:
        """See `detail`."""
        return self.detail[2]


class Timetable:
    """The messages of a call and the order of its steps.

    Parameters
    ----------
    size : int
        The number of ranks; every one of them receives something.
    source, dest, size_bytes : sequence of int
        Of each message.
    steps : list of Step
        In an order in which what a step depends on comes before it.

    Attributes
    ----------
    order : array
        Which of its source's sends a message is, from 1.
    sent : array
        How many messages each rank sends.
    """

    early = False
    """Whether there are receives that are posted some steps before they are waited for."""
    exchanges: Exchanges | None = None
    """The same steps where no rank has several messages under way, as it takes them if some ask first."""

    def __init__(
        self, size: int, source: Numbers, dest: Numbers, size_bytes: Numbers, steps: list[Step], order: Numbers
    ) -> None:
        self.size = size
        self.source = source
        self.dest = dest
        self.size_bytes = size_bytes
        self.steps = steps
        self.order = order
        self.sent: Numbers = np.bincount(source, minlength=size).astype(np.int64)
        self.received: Numbers = np.bincount(dest, minlength=size).astype(np.int64)
        self.by_dest = np.argsort(dest, kind="stable")
        self.starts = np.concatenate(([0], np.cumsum(self.received)[:-1]))

    def __len__(self) -> int:
        return len(self.source)

    def run(self, costs: Costs, clock_ps: Sequence[int], nic_free_ps: Sequence[int], keys: Sequence[int]) -> Times:
        """The times of all ranks.

        Parameters
        ----------
        costs : Costs
            Of the messages.
        clock_ps, nic_free_ps, keys : sequence of int
            Of each rank when it enters: its clock, when its interface is free, and its last event key.
        """
        clock, nic = np.array(clock_ps, np.int64), np.array(nic_free_ps, np.int64)
        entered = clock.copy()
        arrival, taken = np.empty(len(self), np.int64), np.empty(len(self), np.int64)
        uniform = all(np.ndim(cost) == 0 for cost in costs[:4])
        for step in self.steps:
            if not step.sends:
                taken[step.messages] = np.maximum(arrival[step.messages], clock[step.ranks][step.owner])
            if uniform:
                (_send if step.sends else _receive)(step, costs, clock, nic, arrival)
                continue
            for ranks, messages in step.groups():
                (_send_each if step.sends else _receive_each)(ranks, messages, costs, clock, nic, arrival)
        first_keys = np.array(keys, np.int64)
        sent_keys = first_keys[self.source] + self.order
        mine, theirs = arrival[self.by_dest], sent_keys[self.by_dest]
        last = np.maximum.reduceat(mine, self.starts)
        last_key = np.maximum.reduceat(np.where(mine == np.repeat(last, self.received), theirs, -1), self.starts)
        waited = clock - entered - self.overheads(costs)
        return Times(clock, nic, last, last_key, waited, (arrival, sent_keys, taken))

    def all_need_all(self) -> bool:
        """Whether each rank has heard of all others, by its messages and those before them, when its last one has come.

        Only then nobody leaves before the last rank has entered.
        """
        return all(
            self._all_need(range(start, min(start + _BATCH, self.size))) for start in range(0, self.size, _BATCH)
        )

    def _all_need(self, some: range) -> bool:
        """Whether each has heard of some of the others."""
        heard = np.zeros((self.size, (len(some) + 7) // 8), np.uint8)  # of each rank a bit for each of them
        heard[some.start : some.stop] = np.packbits(np.eye(len(some), dtype=bool), axis=1)
        carried = np.empty((len(self), heard.shape[1]), np.uint8)
        for step in self.steps:
            if step.sends:
                carried[step.messages] = heard[step.ranks][step.owner]
            else:
                heard[step.ranks] |= np.bitwise_or.reduceat(carried[step.messages], step.starts, axis=0)
        return bool(np.unpackbits(heard, axis=1, count=len(some)).all())

    def overheads(self, costs: Costs) -> Numbers:
        """What each rank's processor does in the call."""
        if np.ndim(costs.send_ps) == 0 and np.ndim(costs.receive_ps) == 0:
            return np.asarray(self.sent * costs.send_ps + self.received * costs.receive_ps)
        total = np.zeros(self.size, np.int64)
        np.add.at(total, self.source, costs.send_ps)
        np.add.at(total, self.dest, costs.receive_ps)
        return total


def _send(step: Step, costs: Costs, clock: Numbers, nic: Numbers, arrival: Numbers) -> None:
    """Sends that all cost the same.

    The first leaves at s = max(clock + o, free), and the one after j others at max(clock + (j + 1) o, s + j B).
    """
    ranks, send_ps, busy_ps = step.ranks, costs.send_ps, costs.busy_ps
    now = clock[ranks] + send_ps
    start = np.maximum(now, nic[ranks])
    if step.single:
        clock[ranks] = now
        nic[ranks] = start + busy_ps
    else:
        clock[ranks] = now + (step.widths - 1) * send_ps
        start = np.maximum(now[step.owner] + step.turn * send_ps, start[step.owner] + step.turn * busy_ps)
        nic[ranks] = start[step.ends - 1] + busy_ps
    arrival[step.messages] = start + costs.way_ps


def _receive(step: Step, costs: Costs, clock: Numbers, nic: Numbers, arrival: Numbers) -> None:
    """Waits for messages that all cost the same: the end is the latest of (arrival + the overheads from it on)."""
    ranks, receive_ps = step.ranks, costs.receive_ps
    came = arrival[step.messages]
    if step.single:
        clock[ranks] = np.maximum(clock[ranks], came) + receive_ps
        return
    came = came[np.lexsort((came, step.owner))] + (step.widths[step.owner] - step.turn) * receive_ps
    clock[ranks] = np.maximum(clock[ranks] + step.widths * receive_ps, np.maximum.reduceat(came, step.starts))


def _send_each(ranks: Numbers, messages: Numbers, costs: Costs, clock: Numbers, nic: Numbers, arrival: Numbers) -> None:
    """Sends of any costs: start j = max over i <= j of (when i is ready + what the interface does from i to j-1)."""
    ones = np.ones(messages.shape, np.int64)
    ready = clock[ranks, None] + np.cumsum(_at(costs.send_ps, messages) * ones, axis=1)
    clock[ranks] = ready[:, -1]
    busy = _at(costs.busy_ps, messages) * ones
    before = np.cumsum(busy, axis=1) - busy
    ready[:, 0] = np.maximum(ready[:, 0], nic[ranks])
    start = np.maximum.accumulate(ready - before, axis=1) + before
    nic[ranks] = start[:, -1] + busy[:, -1]
    arrival[messages] = start + _at(costs.way_ps, messages)


def _receive_each(
    ranks: Numbers, messages: Numbers, costs: Costs, clock: Numbers, nic: Numbers, arrival: Numbers
) -> None:
    """Waits for messages of any costs; those that arrive together are taken in the order in which they are named."""
    came = arrival[messages]
    overheads = _at(costs.receive_ps, messages) * np.ones(messages.shape, np.int64)
    order = np.argsort(came, axis=1, kind="stable")
    came, overheads = np.take_along_axis(came, order, 1), np.take_along_axis(overheads, order, 1)
    from_here = np.cumsum(overheads[:, ::-1], axis=1)[:, ::-1]
    clock[ranks] = np.maximum(clock[ranks] + from_here[:, 0], (came + from_here).max(axis=1))


def _at(cost: Any, messages: Numbers) -> Any:
    return cost if np.ndim(cost) == 0 else cost[messages]
