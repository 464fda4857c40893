"""A call between the ranks of one communicator: a schedule, and the costs of its messages there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from xsim_py.mpi.transport.tally import Sends, summed

from .hashing import hash_sum
from .schedule import CollectiveSchedule, Marks, Numbers
from .timing import Costs, RendezvousTimes, Times

_HASHED = 1 << 16  # messages whose columns are concatenated
_WORD = (1 << 64) - 1
Fold = TypeVar("Fold", contravariant=True)
"""The type of the reduction operation, if there is one."""


class Pending(Protocol[Fold]):
    """A call before all of its ranks have entered, and the information available by then."""

    def fits(self, contribution: bytes, me: int) -> bool:
        """Return True if this rank's contribution can be computed.

        It is called if the form of the call varies.
        """

    def resolved(self, contributions: Sequence[bytes], fold: Fold) -> Batch | None:
        """Return the call for all ranks' contributions; None if it must be simulated individually."""


class Listing(NamedTuple):
    """All messages of a call in sequence; see `timing.MessageTimes`."""

    source: Numbers
    """The sender, as a rank in the communicator."""
    target: Numbers
    """The receiver, as a rank in the communicator."""
    origin: Numbers
    """The sender, as a world rank."""
    dest: Numbers
    """The receiver, as a world rank."""
    size_bytes: Numbers
    first_ps: Numbers
    key: Numbers
    arrival_ps: Numbers
    taken_ps: Numbers
    sent_ps: Numbers
    """When the message, or its request, leaves."""
    receive_ps: Numbers
    """The receiver's overhead."""
    rendezvous: Numbers
    answer_ps: Numbers
    answer_key: Numbers
    data_key: Numbers


class Batch:
    """A call of which only the entry times and contributions of its ranks are open."""

    def __init__(
        self,
        schedule: CollectiveSchedule[Any],
        costs: Sequence[Costs],  # of each stage of the schedule
        ranks: Sequence[int],  # the participants, as world ranks
        check: bool,  # whether messages have checksums
        local: Marks | None = None,  # which of the ranks are in this shard, as booleans; None: all
        *,
        once: bool = False,  # whether there is only one such call
        algorithm: object = None,  # the algorithm that finally runs, if ranks do not know it in advance
    ) -> None:
        self.schedule = schedule
        self.costs = costs
        self.numbers = np.array(ranks, np.int64)
        self.check = check
        self.local = local
        self.once = once
        self.algorithm = algorithm

    def fits(self, contribution: bytes, me: int) -> bool:
        """Return True: such a call is fully known in advance."""
        return True

    def resolved(self, contributions: Sequence[bytes], fold: object) -> Batch | None:
        """Return this call."""
        return self

    def times(self, clock_ps: Sequence[int], nic_free_ps: Sequence[int], keys: Sequence[int]) -> Times:
        """Return the times of all events, from the entry times of the ranks."""
        return Times(self.schedule, self.costs, clock_ps, nic_free_ps, keys)

    def values(self, contributions: Sequence[bytes], fold: object) -> tuple[Any, Sequence[Any]]:
        """Return all bytes of the call, for the other methods, and the result of each rank."""
        memory = self.schedule.memory(contributions, fold)
        return memory, self.schedule.results(memory)

    def events(self, used: Numbers) -> int:
        """Return the number of message events on ranks of this shard, given the event keys that ranks used."""
        if self.local is None:
            return int(used.sum())
        sent, received = (
            sum(np.bincount(getattr(stage, side), minlength=len(used)) for stage in self.schedule.stages())
            for side in ("source", "dest")
        )
        return int((used - sent + received)[self.local].sum())

    def hashes(self, times: Times, tag: int, memory: object) -> int:
        """Return the contribution of all arrivals to the digest; see `Fabric._deliver`.

        The data that follow a request are a separate arrival.
        """
        total, parts, count = 0, [], 0
        stages = zip(self.schedule.stages(), self.costs, times.message_times(), strict=True)
        for turn, (stage, costs, each) in enumerate(stages):
            some = self.check and (isinstance(stage.size_bytes, np.ndarray) or stage.size_bytes)
            checks = self.schedule.checks(memory, turn) if some else 0
            ends = stage.source, stage.dest, stage.size_bytes
            parts.append((*ends, each.first_ps, checks, costs.rendezvous, each.arrival_ps))
            count += len(stage)
            if count >= _HASHED:  # hot path: many short stages together, and a long one without a copy
                total += self._hash_sum(parts, tag)
                parts, count = [], 0
        return total + (self._hash_sum(parts, tag) if parts else 0) & _WORD

    def _hash_sum(self, parts: list[tuple[Any, ...]], tag: int) -> int:
        source, target, sizes, first, checks, rendezvous, arrival = parts[0] if len(parts) == 1 else _joined(parts)
        dest = self.numbers[target]
        which = None if self.local is None else self.local[target]
        total = _hash_of([first, dest, source, tag, sizes, checks], len(source), which)
        if rendezvous is not False and np.any(rendezvous):
            which = np.broadcast_to(rendezvous, len(source)) if which is None else which & rendezvous
            total += _hash_of([arrival, dest, 0, 0, sizes, 0], len(source), which)
        return total

    def payload(self, memory: object, number: int) -> bytes:
        """Return the contents of one message."""
        for turn, stage in enumerate(self.schedule.stages()):
            if number < len(stage):
                return self.schedule.payload(memory, turn, number)
            number -= len(stage)
        raise IndexError

    def listing(self, times: Times) -> Listing:
        """Return all messages."""
        rows = []
        for stage, c, each in zip(self.schedule.stages(), self.costs, times.message_times(), strict=True):
            after_request = each.after_request or RendezvousTimes(each.first_ps, each.key, each.key)
            sent_ps = each.first_ps - np.where(c.rendezvous, c.latency_ps, c.transit_ps)
            ends = stage.source, stage.dest, self.numbers[stage.source], self.numbers[stage.dest], stage.size_bytes
            rows.append((*ends, *each[:4], sent_ps, c.receive_ps, c.rendezvous, *after_request))
        return Listing(*(np.asarray(column) for column in _joined(rows, whole=True)))

    # ------------------------------------------------------------------------------------ for the tally

    @property
    def sends(self) -> Sends:
        """The messages sent by its ranks in this shard."""
        return self

    def sums(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return the senders, and the number of messages and bytes of each; see `tally.Sends`."""
        size = len(self.numbers)
        sent, sent_bytes = np.zeros((2, size), np.int64)
        for stage in self.schedule.stages():
            count = np.bincount(stage.source, minlength=size)
            sent += count
            each = stage.size_bytes
            sent_bytes += summed(stage.source, each, size) if isinstance(each, np.ndarray) else count * each
        here = slice(None) if self.local is None else self.local
        return self.numbers[here], sent[here], sent_bytes[here]

    @cached_property
    def _pairs(self) -> tuple[Any, Any, Any]:
        """The columns of the messages that ranks of this shard send."""
        rows = [(stage.source, stage.dest, stage.size_bytes) for stage in self.schedule.stages()]
        source, target, sizes = _joined(rows, whole=True)
        here = slice(None) if self.local is None else self.local[source]
        return self.numbers[source][here], self.numbers[target][here], sizes[here]

    origin = property(lambda self: self._pairs[0], doc="See `tally.Sends`.")
    dest = property(lambda self: self._pairs[1], doc="See `tally.Sends`.")
    size_bytes = property(lambda self: self._pairs[2], doc="See `tally.Sends`.")


def _joined(rows: Sequence[Sequence[Any]], *, whole: bool = False) -> Iterator[Any]:
    """Yield the columns of several stages, beginning with an array.

    A number equal in all stages stays a number.
    """
    counts = [len(row[0]) for row in rows]
    for column in zip(*rows, strict=True):
        if whole or any(isinstance(part, np.ndarray) for part in column) or len(set(column)) > 1:
            parts = [  # hot path: broadcast_to would take several times as long
                part if isinstance(part, np.ndarray) else np.full(count, part)
                for part, count in zip(column, counts, strict=True)
            ]
            yield parts[0] if len(parts) == 1 else np.concatenate(parts)
        else:
            yield column[0]


def _hash_of(columns: list[Any], count: int, which: Marks | None) -> int:
    """Return the sum of the hashes of the rows for which `which` is true; None: of all."""
    if which is not None:
        columns = [column[which] if np.ndim(column) else column for column in columns]
        count = int(which.sum())
    return hash_sum(columns, count)
