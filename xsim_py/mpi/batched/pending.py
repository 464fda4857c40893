"""Calls whose messages depend on all ranks: blocks of any sizes, pickles, reductions of objects.

Each rank knows its own sizes only, so nothing is listed in advance. Before a rank waits, it must be known whether it
needs all others: if it waited longer than its messages require, it would act too late. In a pairwise exchange every
rank does. In the linear ones empty blocks are not sent, so a rank with one requires at once that the call is simulated
individually. Pickles are preceded by an exchange of their sizes, in which every rank needs all others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi.calls import CollectiveChannel, pick
from xsim_py.mpi.collectives import allgather, alltoall
from xsim_py.mpi.collectives.channel import SharedBlocks
from xsim_py.mpi.collectives.rounds import doubled
from xsim_py.mpi.collectives.substitutes import final
from xsim_py.mpi.collectives.trees import senders_up

from .batch import Batch
from .costs import MessageCosts
from .formulas import EXCHANGES, Doubling, Exchange, Results, formula
from .schedule import CollectiveSchedule, Draft, Listed, Marks, Memory, Numbers, Plan, Stage
from .trees import DOWN, array_tree, send_down

MOST_MESSAGES = 1 << 24
_HEAD_BYTES = 8


class _Pending:
    """A call that is not resolved yet; see `batch.Pending`."""

    def __init__(self, ch: CollectiveChannel, local: Marks | None) -> None:
        self._comm = ch.comm
        self._size = ch.size
        self._check = ch.check
        self._local = local  # which of the ranks are in this shard, as booleans; None: all
        self._costs = MessageCosts(ch.comm.fabric, ch.comm.ranks)

    def fits(self, contribution: bytes, me: int) -> bool:
        """Return True if this rank's contribution can be computed."""
        return True

    def _fits(self, kind: type[Exchange], most_bytes: int, me: int) -> bool:
        """Return True if blocks of that size are eager, as far as required."""
        return kind.one_at_a_time or self._costs.eager(most_bytes, me)

    def _batch(self, schedule: CollectiveSchedule[Any]) -> Batch | None:
        costs = self._costs.costs(schedule) if schedule.messages <= MOST_MESSAGES else None
        return None if costs is None else Batch(schedule, costs, self._comm.ranks, self._check, self._local, once=True)


class VariedExchange(_Pending):
    """An Alltoallv or Alltoallw."""

    def __init__(self, ch: CollectiveChannel, local: Marks | None, algorithm: Callable[..., Any]) -> None:
        super().__init__(ch, local)
        self._kind = EXCHANGES[algorithm]
        self._skips = algorithm is not alltoall.pairwise

    def fits(self, contribution: bytes, me: int) -> bool:
        """Return True if the rank then needs all others, with eager blocks if required."""
        sizes = np.frombuffer(contribution, np.int64, 2 * self._size).reshape(2, self._size).copy()
        sizes[:, me] = 1
        return bool(not self._skips or sizes.all()) and self._fits(self._kind, int(sizes.max()), me)

    def resolved(self, contributions: Sequence[bytes], fold: object) -> Batch | None:
        """Return the call; None if ranks expect other sizes than they get, or it is not eager."""
        size = self._size
        headers = b"".join([memoryview(contribution)[: 2 * _HEAD_BYTES * size] for contribution in contributions])
        table = np.frombuffer(headers, np.int64).reshape(size, 2, size)
        sizes = np.ascontiguousarray(table[:, 0])
        return None if (sizes != table[:, 1].T).any() else self._batch(self._kind(size, sizes))


class _InTurn(CollectiveSchedule[Memory]):
    """An exchange of sizes, followed by one of data with these sizes."""

    def __init__(
        self,
        first: CollectiveSchedule[Any],
        second: CollectiveSchedule[Memory],
        heads: Sequence[bytes],  # the contribution of each rank to the first
        results: Callable[[Memory], Sequence[Any]],  # takes the data of the second, and returns the result of each rank
    ) -> None:
        self.size = first.size
        self._first = first
        self._second = second
        self._heads = heads
        self.results = results  # type: ignore[method-assign, assignment]
        self._turns = sum(1 for _ in first.stages())

    def make_stages(self) -> Iterator[Stage]:
        yield from self._first.stages()
        yield from self._second.stages()

    def memory(self, contributions: Sequence[bytes], fold: object) -> Memory:
        return self._second.memory(contributions, fold)

    @cached_property
    def _sizes(self) -> object:
        return self._first.memory(self._heads, None)

    def checks(self, memory: Memory, turn: int) -> int | NDArray[np.uint32]:
        later = turn - self._turns
        return self._first.checks(self._sizes, turn) if later < 0 else self._second.checks(memory, later)

    def payload(self, memory: Memory, turn: int, number: int) -> bytes:
        later = turn - self._turns
        if later < 0:
            return self._first.payload(self._sizes, turn, number)
        return self._second.payload(memory, later, number)


class _Pickles(_Pending):
    """Objects that are exchanged after their sizes."""

    def __init__(self, ch: CollectiveChannel, local: Marks | None, first: Batch) -> None:
        super().__init__(ch, local)
        self._first = first  # the exchange of the sizes

    def _both(
        self,
        second: CollectiveSchedule[Memory],
        algorithm: object,
        heads: Sequence[bytes],
        results: Callable[[Memory], Sequence[Any]],
    ) -> Batch | None:
        costs = self._costs.costs(second) if second.messages <= MOST_MESSAGES else None
        if costs is None:
            return None
        first = self._first
        both, ranks = _InTurn(first.schedule, second, heads, results), self._comm.ranks
        costs = [*first.costs, *costs]
        if not self._costs.in_order(list(both.stages()), costs):
            return None
        return Batch(both, costs, ranks, self._check, self._local, once=True, algorithm=algorithm)


class PickleGather(_Pickles):
    """An allgather of objects."""

    def resolved(self, contributions: Sequence[bytes], fold: object) -> Batch | None:
        """Return the call; None if there is no schedule for it."""
        size, sizes = self._size, list(map(len, contributions))
        algorithm: Any = pick(self._comm, "allgatherv", sum(sizes) // size)
        second: CollectiveSchedule[Any] | None = formula(algorithm, size, sizes)
        if second is None and getattr(algorithm, "func", None) is allgather.linear:
            broadcast = algorithm.keywords["bcast"]
            plan = _gather_and_broadcast(size, broadcast)
            second = None if plan is None else _Gathered(plan, np.array([*sizes, sum(sizes)]), ("gather", broadcast))
        if second is None:
            return None
        heads = [count.to_bytes(_HEAD_BYTES, "little") for count in sizes]
        shared = SharedBlocks(contributions)
        return self._both(second, final(algorithm, size), heads, lambda _: [shared] * size)


class PickleExchange(_Pickles):
    """An alltoall of objects."""

    def _kind(self) -> type[Exchange] | None:
        return EXCHANGES.get(pick(self._comm, "alltoallv"))

    def fits(self, contribution: bytes, me: int) -> bool:
        """Return True if this rank's messages are eager, as far as required."""
        kind = self._kind()
        return kind is not None and self._fits(kind, int(np.frombuffer(contribution, np.int64, self._size).max()), me)

    def resolved(self, contributions: Sequence[bytes], fold: object) -> Batch | None:
        """Return the call; None if it is not eager."""
        kind, size = self._kind(), self._size
        heads = [contribution[: _HEAD_BYTES * size] for contribution in contributions]
        assert kind is not None
        second = kind(size, np.frombuffer(b"".join(heads), np.int64).reshape(size, size))
        return self._both(
            second, pick(self._comm, "alltoallv"), heads, lambda memory: Results(size, partial(second.blocks, memory))
        )


class _Gathered(Listed[Sequence[bytes]]):
    """The pickle of each rank, and all of them."""

    def memory(self, contributions: Sequence[bytes], fold: object) -> Sequence[bytes]:
        return tuple(contributions)  # the list is emptied when the call has been computed

    def numbered(self, memory: Sequence[bytes], number: int) -> bytes:
        return memory[number] if number < len(memory) else b"".join(memory)


@lru_cache(maxsize=8)
def _gather_and_broadcast(size: int, broadcast: Callable[..., Any]) -> Plan | None:
    """Return the plan in which rank 0 receives all blocks in order, and sends them down a tree."""
    if broadcast not in DOWN:
        return None
    draft = Draft(size)
    others, one = np.arange(1, size), np.ones(size - 1, np.int64)
    sent = draft.send(others, one, np.zeros(size - 1, np.int64), others)
    for number in sent.tolist():
        draft.receive(np.zeros(1, np.int64), one[:1], np.array([number]))
    send_down(draft, array_tree(DOWN[broadcast], size), size)
    return draft.plan()


class ObjectFold(Protocol):
    """An operation on some kinds of objects that runs no code of the program and raises no error.

    The result is made when the last rank has entered, in the order of the ranks' own combinations, and with all
    intermediate pickling, because that determines message sizes. A rank would do its part at its own time, possibly
    before the last one entered. So the result must not depend on when or by which rank it is made.
    """

    @property
    def name(self) -> str:
        """The name of the operation."""

    def kind(self, obj: object, ranks: int) -> Hashable:
        """Return the kind of object, equal on all `ranks`.

        Return None if it must be simulated individually.
        """

    def packed(self, obj: object) -> bytes:
        """Return the pickle of an object."""

    def up(self, pickles: Sequence[bytes]) -> list[bytes]:
        """Return what ranks send to rank 0, in the order of `senders_up`, and then what rank 0 sends down."""

    def across(self, pickles: Sequence[bytes], exclusive: bool) -> tuple[list[list[bytes]], list[bytes]]:
        """Return the data of each round of recursive doubling, for 2**k ranks each, and the results."""


class ObjectReduction(_Pending):
    """An allreduce of objects: to rank 0, and then two broadcasts, of a size and of a pickle."""

    def fits(self, contribution: bytes, me: int) -> bool:
        """Return True if this rank's contribution is eager."""
        return self._costs.eager(len(contribution), me)

    def resolved(self, contributions: Sequence[bytes], fold: ObjectFold) -> Batch | None:
        """Return the call; None if it must be simulated individually."""
        pickles = fold.up(contributions)
        broadcasts = tuple(pick(self._comm, "bcast", size_bytes) for size_bytes in (_HEAD_BYTES, len(pickles[-1])))
        plan = _up_and_down(self._size, broadcasts)
        return None if plan is None else self._batch(_Announced(plan, pickles, broadcasts))


class _Announced(Listed[list[bytes]]):
    """Pickles, each preceded by its length."""

    def __init__(self, plan: Plan, pickles: list[bytes], shape: Hashable) -> None:
        super().__init__(plan, np.array([_HEAD_BYTES] * len(pickles) + list(map(len, pickles))), shape)
        self._pickles = pickles

    def memory(self, contributions: Sequence[bytes], fold: object) -> list[bytes]:
        return self._pickles

    def results(self, memory: list[bytes]) -> list[Any]:
        return [SharedBlocks(memory[-1:])] * self.size

    def numbered(self, memory: list[bytes], number: int) -> bytes:
        if number < len(memory):
            return len(memory[number]).to_bytes(_HEAD_BYTES, "little")
        return memory[number - len(memory)]


@lru_cache(maxsize=8)
def _up_and_down(size: int, broadcasts: tuple[Callable[..., Any], ...]) -> Plan | None:
    """Return the plan of an allreduce of objects.

    Payloads have the numbers of `senders_up`, followed by the one that rank 0 sends down.
    """
    if any(broadcast not in DOWN for broadcast in broadcasts):
        return None
    draft = Draft(size)
    table = np.array([*senders_up(size)], np.int64)
    numbers, last = np.arange(len(table)), len(table)
    for distance in np.unique(table[:, 0]).tolist():
        now = table[:, 0] == distance
        ranks, one = table[now, 1], np.ones(now.sum(), np.int64)
        payloads = np.stack((numbers[now], last + 1 + numbers[now]), axis=1).reshape(-1)
        sent = draft.send(ranks, 2 * one, np.repeat(ranks - distance, 2), payloads)
        draft.receive(ranks - distance, one, sent[::2])
        draft.receive(ranks - distance, one, sent[1::2])
    for broadcast, payload in zip(broadcasts, (last, 2 * last + 1), strict=True):
        send_down(draft, array_tree(DOWN[broadcast], size), payload)
    return draft.plan()


class ObjectScan(_Pending):
    """A scan of objects, on a power of two ranks: otherwise not all ranks need all others."""

    def __init__(self, ch: CollectiveChannel, local: Marks | None, exclusive: bool) -> None:
        super().__init__(ch, local)
        self._exclusive = exclusive

    def resolved(self, contributions: Sequence[bytes], fold: ObjectFold) -> Batch | None:
        """Return the call."""
        return self._batch(_Swaps(*fold.across(contributions, self._exclusive)))


class _Swaps(Doubling[None]):
    """Exchanges of pairs of ranks: the sizes of their data, and then the data."""

    def __init__(self, levels: list[list[bytes]], results: list[bytes]) -> None:
        super().__init__(len(results))
        self._levels = levels  # the data exchanged in each pair of rounds: 2**k ranks have the same
        self._results = results  # the result of each rank

    def _distances(self) -> Sequence[int]:
        return [distance for distance in doubled(self.size) for _ in range(2)]

    def size_bytes(self, turn: int) -> int | Numbers:
        level, announced = divmod(turn, 2)
        return np.array(list(map(len, self._levels[level])))[self.ranks >> level] if announced else _HEAD_BYTES

    def payload(self, memory: None, turn: int, number: int) -> bytes:
        level, announced = divmod(turn, 2)
        data = self._levels[level][number >> level]
        return data if announced else len(data).to_bytes(_HEAD_BYTES, "little")

    def results(self, memory: None) -> list[Any]:
        return [SharedBlocks((data,)) for data in self._results]
