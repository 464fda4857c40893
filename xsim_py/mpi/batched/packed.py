"""Collectives of pickled objects, whose sizes go round first: two exchanges, of which the second is any size.

Because of the first exchange, in which everybody needs all others, nobody leaves before all have come. When they have,
the sizes of all pickles are known, and with them the second exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.mpi.calls import pick
from xsim_py.mpi.collectives import allgather
from xsim_py.mpi.collectives.channel import EqualBlocks, SharedBlocks, equal_sizes
from xsim_py.mpi.collectives.instead import final

from .batch import Bound, BoundRounds, bind
from .forms import BLOCKS, PACKED, PARTS
from .formulas import Results, Rounds
from .gathers import unequal_gather
from .inturn import InTurn
from .pending import UNEQUAL, Distances
from .trees import DOWN, Draft, Tree, hand_down

if TYPE_CHECKING:
    from xsim_py.mpi.calls import CollectiveChannel

    from .forms import Form

__all__ = ["packed"]

_HEAD_BYTES = 8
_MOST_MESSAGES = 1 << 24


class _Packed:
    """What is the same for all of them, before all ranks have come; see `binding.Pending`.

    Parameters
    ----------
    first : Bound
        The exchange of the sizes.
    """

    def __init__(self, ch: CollectiveChannel, first: Bound) -> None:
        self._comm = ch.comm
        self._size = ch.size
        self._first = first
        self._distances = Distances(ch.comm.fabric, ch.comm.ranks)

    def _bound(self, rounds: Rounds, make: type[BoundRounds] = BoundRounds) -> Bound | None:
        """The second exchange."""
        if rounds.rounds * self._size > _MOST_MESSAGES:
            return None
        costs = self._distances.costs_of(rounds)
        first = self._first
        return None if costs is None else make(rounds, costs, first._numbers, first.check, first.local)


class PackedGather(_Packed):
    """An allgather."""

    def fits(self, given: bytes, me: int) -> bool:
        """Whether what this rank has can be sent; whether it may ask first depends on what the others have."""
        return True

    def settled(self, contributions: Sequence[bytes], fold: Any) -> Bound | None:
        """The call, of what all ranks have given; None where it is not known how to compute it."""
        sizes = [len(data) for data in contributions]
        algorithm = pick(self._comm, "allgatherv", sum(sizes) // self._size)
        rounds = unequal_gather(algorithm, sizes)
        second = self._linear(algorithm, sizes) if rounds is None else self._bound(rounds, _BoundGathered)
        if second is None:
            return None
        heads = [size.to_bytes(_HEAD_BYTES, "little") for size in sizes]
        return InTurn(self._first, second, heads, final(algorithm, self._size))

    def _linear(self, algorithm: Any, sizes: list[int]) -> Bound | None:
        if getattr(algorithm, "func", None) is not allgather.linear:
            return None
        draft = _gather_and_broadcast(self._size, algorithm.keywords["bcast"])
        if draft is None:
            return None
        pieces = _Pieces([*sizes, sum(sizes)])
        plan = draft.plan(pieces)
        timetable = plan[0]

        def pairs() -> Iterable[tuple[int, int]]:
            return zip(timetable.source.tolist(), timetable.dest.tolist(), strict=True)

        costs = self._distances.costs(timetable.size_bytes, algorithm.keywords["bcast"], pairs, may_ask=False)
        first = self._first
        return None if costs is None else Bound(plan, costs, first._numbers, first.check, first.local)


class _BoundGathered(BoundRounds):
    """One of which all ranks get the same pickles."""

    def values(self, contributions: Sequence[bytes], fold: Any) -> tuple[Any, Sequence[Any]]:
        """See `Bound.values`."""
        memory = self._rounds.memory(contributions, fold)
        return memory, [SharedBlocks(memory[0])] * self._rounds.size


class _BoundExchanged(BoundRounds):
    """One of which each rank gets its own."""

    def values(self, contributions: Sequence[bytes], fold: Any) -> tuple[Any, Sequence[Any]]:
        """See `Bound.values`."""
        rounds: Any = self._rounds
        memory = rounds.memory(contributions, fold)
        return memory, Results(rounds.size, partial(rounds.blocks, memory))


class PackedExchange(_Packed):
    """An alltoall."""

    def fits(self, given: bytes, me: int) -> bool:
        """Whether what this rank sends goes eagerly if it has to."""
        kind = self._kind()
        if kind is None:
            return False
        return kind.one_at_a_time or self._distances.eager(int(np.frombuffer(given, np.int64, self._size).max()), me)

    def settled(self, contributions: Sequence[bytes], fold: Any) -> Bound | None:
        """The call, of what all ranks have given; None where it is not eager."""
        heads = [given[: _HEAD_BYTES * self._size] for given in contributions]
        sizes = np.frombuffer(b"".join(heads), np.int64).reshape(self._size, self._size)
        second = self._bound(self._kind()(sizes), _BoundExchanged)
        return None if second is None else InTurn(self._first, second, heads, pick(self._comm, "alltoallv"))

    def _kind(self) -> Any:
        return UNEQUAL.get(pick(self._comm, "alltoallv"))


class _Pieces:
    """The bytes of a call that are not made of each other; see `recipe.Recipe`."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = np.array(lengths, np.int64)

    def make(self, contributions: Sequence[bytes], fold: Any) -> SharedBlocks:
        """Each piece by itself."""
        return SharedBlocks(contributions)

    def taken(self, memory: SharedBlocks) -> list[Any]:
        """What each rank has at the end."""
        return [memory] * len(memory)

    def payload(self, memory: SharedBlocks, number: int) -> bytes:
        """What a message contains: of one rank, or everything."""
        return memory[number] if number < len(memory) else b"".join(memory)


@lru_cache(maxsize=8)
def _gather_and_broadcast(size: int, broadcast: Callable[..., Any]) -> Draft | None:
    """Rank 0 takes one block after the other, and hands all of them down a tree."""
    shape = DOWN.get(broadcast)
    if shape is None:
        return None
    draft = Draft(size)
    others, one = np.arange(1, size), np.ones(size - 1, np.int64)
    sent = draft.send(others, one, np.zeros(size - 1, np.int64), others)
    for number in sent.tolist():
        draft.receive(np.zeros(1, np.int64), one[:1], np.array([number]))
    hand_down(draft, Tree(shape, size), size)
    return draft


def packed(ch: CollectiveChannel, form: Form, **options: Any) -> PackedGather | PackedExchange | None:
    """How to compute such a call when all have come; see `binding.bind` for the options."""
    size, comm = ch.size, ch.comm
    if size < 2:
        return None
    if form is PACKED:
        heads = equal_sizes(_HEAD_BYTES, size)
        first = bind(ch, BLOCKS, pick(comm, "allgather", _HEAD_BYTES), (b"", heads), **options)
        return PackedGather(ch, first) if isinstance(first, Bound) else None
    first = bind(ch, PARTS, pick(comm, "alltoall", _HEAD_BYTES), (EqualBlocks(b"", _HEAD_BYTES, size),), **options)
    return PackedExchange(ch, first) if isinstance(first, Bound) else None
