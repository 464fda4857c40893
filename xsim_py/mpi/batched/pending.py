"""Exchanges of blocks of any sizes (Alltoallv, Alltoallw), whose messages are known when the last rank has come.

Each rank knows its own sizes and no others, so nothing is listed in advance: `Undetermined` stands for such a call
until then, and gives the exchange that it has turned out to be. It is one in rounds, as for equal blocks, with a table
of sizes in the place of one size; so it costs a few operations on arrays a round, and nothing is recorded.

What has to be known of a rank before it waits is whether it needs all others: one that waits longer than its messages
make it would act too late. In a pairwise exchange everybody does. In the linear ones nobody sends an empty block, so a
rank that has one says at once that the call goes message by message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi.collectives import alltoall
from xsim_py.mpi.collectives.channel import VariedBlocks

from .formulas import Linear, LinearInBatches, Pairwise, Results, Rounds
from .hashing import ragged_checks
from .timing import Costs, Numbers

if TYPE_CHECKING:
    from xsim_py.mpi.transport.fabric import Fabric

    from .batch import Bound

__all__ = ["UNEQUAL", "Distances", "Undetermined", "undetermined"]

_WORD = 8
_MOST_MESSAGES = 1 << 24
_MOST_CODES = 1 << 22


class _Unequal(Pairwise):
    """What is the same for all of them, whoever sends to whom in which round.

    Parameters
    ----------
    sizes : (ranks, ranks) array
        How many bytes each rank sends to each other.
    """

    def __init__(self, sizes: Numbers) -> None:
        super().__init__(len(sizes), 0)
        self._sizes = sizes

    def size_bytes(self, turn: int) -> Any:
        return self._sizes[self.ranks, self.dest(turn)]

    def sizes(self, turns: range) -> Numbers:
        return np.concatenate([self.size_bytes(turn) for turn in turns])

    def memory(self, contributions: Sequence[bytes], fold: Any) -> bytes:
        totals = self._sizes.sum(axis=1).tolist()
        pairs = zip(contributions, totals, strict=True)
        return b"".join([memoryview(given)[len(given) - total :] for given, total in pairs])

    @cached_property
    def _starts(self) -> Numbers:
        """Where each block begins in what all ranks contribute."""
        ends = np.cumsum(self._sizes.reshape(-1))
        return (ends - self._sizes.reshape(-1)).reshape(self._sizes.shape)

    def checks(self, memory: bytes, turn: int) -> Any:
        return self._checks(memory)[self.ranks, self.dest(turn)]

    def _checks(self, memory: bytes) -> NDArray[np.uint32]:
        found: NDArray[np.uint32] | None = vars(self).get("_known")
        if found is None:
            found = ragged_checks(np.frombuffer(memory, np.uint8), self._starts.reshape(-1), self._sizes.reshape(-1))
            found = self._known = found.reshape(self._sizes.shape)
        return found

    def payload(self, memory: bytes, turn: int, rank: int) -> bytes:
        dest = int(self.dest(turn)[rank])
        start = int(self._starts[rank, dest])
        return memory[start : start + int(self._sizes[rank, dest])]

    def results(self, memory: bytes) -> Sequence[Any]:
        def make(rank: int) -> VariedBlocks:
            return VariedBlocks(b"".join(self.blocks(memory, rank)), self._sizes[:, rank].tolist())

        return Results(self.size, make)

    def blocks(self, memory: bytes, rank: int) -> list[bytes]:
        """What a rank gets from each."""
        starts = self._starts[:, rank]
        pieces = zip(starts.tolist(), (starts + self._sizes[:, rank]).tolist(), strict=True)
        return [memory[start:end] for start, end in pieces]


class UnequalPairwise(_Unequal):
    """In each round the blocks go to the ranks that are one further away, also those that are empty."""


class _UnequalLinear(_Unequal, Linear):
    """Everything at once."""


class _UnequalInBatches(_Unequal, LinearInBatches):
    """Some at a time."""


UNEQUAL: dict[Any, type[_Unequal]] = {
    alltoall.pairwise: UnequalPairwise,
    alltoall.linear: _UnequalLinear,
    alltoall.linear_sync: _UnequalInBatches,
}
"""What becomes of an algorithm when the sizes are known."""


class Distances:
    """What messages of any sizes cost between some ranks, which are always as far apart.

    Parameters
    ----------
    ranks : sequence of int
        By their numbers in the whole run.
    """

    def __init__(self, fabric: Fabric, ranks: Any) -> None:
        self._fabric = fabric
        self._ranks = ranks
        self._links: dict[Any, tuple[list[Any], Any]] = {}
        self._answers: dict[Any, Any] = {}
        self._eager_bytes = 0

    def eager(self, size_bytes: int, me: int) -> bool:
        """Whether a message of that size to the rank before this one goes eagerly."""
        if size_bytes > self._eager_bytes:
            if not self._fabric.link(self._ranks[me], self._ranks[me - 1]).cost(size_bytes).eager:
                return False
            self._eager_bytes = size_bytes
        return True

    def costs_of(self, rounds: Rounds) -> Costs | None:
        """What the messages of an exchange cost."""

        def pairs() -> Iterable[tuple[int, int]]:
            for turn in range(rounds.rounds):
                yield from enumerate(rounds.dest(turn).tolist())

        return self.costs(rounds.sizes(range(rounds.rounds)), type(rounds), pairs, rounds.one_at_a_time)

    def costs(
        self, sizes: Numbers, kind: Any, pairs: Callable[[], Iterable[tuple[int, int]]], may_ask: bool
    ) -> Costs | None:
        """What each message costs: looked up once for each distance and size that there is.

        `pairs` gives who sends them to whom, which is the same in every call of this `kind`. None where one does not go
        eagerly, unless it `may_ask`.
        """
        from .batch import answers, table

        links, which = self._links.get(kind) or self._between(kind, pairs)
        width = int(sizes.max()) + 1
        codes = sizes if len(links) == 1 else which * width + sizes
        if len(links) * width <= _MOST_CODES:
            there = np.flatnonzero(np.bincount(codes))
            places = np.zeros(int(there[-1]) + 1, np.int64)
            places[there] = np.arange(len(there))
            kinds = places[codes]
        else:
            there, kinds = np.unique(codes, return_inverse=True)

        def answer_ps() -> Any:
            if kind not in self._answers:
                alone = self._fabric.equally_far
                self._answers[kind] = links[0].latency_ps if alone else answers(self._fabric, self._ranks, pairs())
            return self._answers[kind]

        costs = [links[code // width].cost(code % width) for code in there.tolist()]
        return table(costs, kinds, answer_ps if may_ask else None)

    def _between(self, kind: Any, pairs: Callable[[], Iterable[tuple[int, int]]]) -> tuple[list[Any], Any]:
        """How far the messages go, one of a few links each."""
        link, ranks = self._fabric.link, self._ranks
        found: dict[Any, int] = {}
        if self._fabric.equally_far:
            links: tuple[list[Any], Any] = [link(ranks[0], ranks[1])], None
        else:
            which = [found.setdefault(link(ranks[source], ranks[dest]), len(found)) for source, dest in pairs()]
            links = list(found), np.array(which)
        self._links[kind] = links
        return links


class Undetermined:
    """A call whose messages are not known before all ranks have come; see `binding.Pending`.

    Parameters
    ----------
    bound : callable
        Makes a `Bound` of an exchange in rounds and its costs.
    """

    def __init__(self, fabric: Fabric, algorithm: Callable[..., Any], ranks: Any, bound: Callable[..., Bound]) -> None:
        self._size = len(ranks)
        self._distances = Distances(fabric, ranks)
        self._kind = UNEQUAL[algorithm]
        self._skips = algorithm is not alltoall.pairwise
        self._bound = bound

    def fits(self, given: bytes, me: int) -> bool:
        """Whether a rank that has given this needs all others, and what it sends and gets goes eagerly if it has to."""
        size = self._size
        sizes = np.frombuffer(given, np.int64, 2 * size).reshape(2, size).copy()
        sizes[:, me] = 1
        if self._skips and not sizes.all():
            return False
        return self._kind.one_at_a_time or self._distances.eager(int(sizes.max()), me)

    def settled(self, contributions: Sequence[bytes], fold: Any) -> Bound | None:
        """The call, of what all ranks have given; None where they expect other than they get, or it is not eager."""
        size = self._size
        headers = b"".join([memoryview(given)[: 2 * _WORD * size] for given in contributions])
        table = np.frombuffer(headers, np.int64).reshape(size, 2, size)
        sizes = np.ascontiguousarray(table[:, 0])
        if (sizes != table[:, 1].T).any():
            return None
        rounds = self._kind(sizes)
        costs = self._distances.costs_of(rounds)
        return None if costs is None else self._bound(rounds, costs)


def undetermined(algorithm: Callable[..., Any], size: int) -> bool:
    """Whether a call with blocks of any sizes can be computed when all have come."""
    return algorithm in UNEQUAL and size > 1 and size * size <= _MOST_MESSAGES
