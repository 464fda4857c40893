"""Reductions of objects: a tree of their own, up to rank 0, and then two broadcasts, of a size and of a pickle. Scans.

What is combined is made when the last rank has come, in the order in which the ranks would have done it, and with all
the pickling in between, for how large the messages are depends on it. A rank would do its part of it at its own time,
which may have been before the last one came. So it must not matter when it is done, nor by whom (`ObjectFold.kind`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xsim_py.mpi.calls import pick
from xsim_py.mpi.collectives.channel import SharedBlocks

from .batch import Bound, BoundOnce
from .forms import OBJECTS, OBJECTS_TO_SCAN
from .formulas import Doubling
from .pending import Distances
from .timing import Numbers
from .trees import DOWN, Draft, Tree, hand_down

if TYPE_CHECKING:
    from xsim_py.mpi.calls import CollectiveChannel
    from xsim_py.mpi.comm import Communicator
    from xsim_py.mpi.transport.tally import Sends

    from .forms import Form

__all__ = ["ObjectFold", "objects"]

_HEAD_BYTES = 8
_MOST_KEPT = 16


class ObjectFold(Protocol):
    """An operation on objects, for some kinds of which nobody runs code of the program or gets an error."""

    @property
    def name(self) -> str:
        """What it is called."""

    def kind(self, obj: Any, ranks: int) -> Any:
        """What has to be the same at all of so many ranks; None where it goes message by message."""

    def packed(self, obj: Any) -> bytes:
        """The pickle of an object."""

    def up(self, pickles: Sequence[bytes]) -> list[bytes]:
        """What each rank sends up the tree, and rank 0 down, of what they have to combine."""

    def across(self, pickles: Sequence[bytes], exclusive: bool) -> tuple[list[list[bytes]], list[bytes]]:
        """What ranks have before each round of recursive doubling, 2**k of them the same, and what each gets."""


class _Sizes:
    """The sizes of the messages of a call, by the numbers of what they contain: heads, and what they announce."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = np.array([_HEAD_BYTES] * len(lengths) + lengths, np.int64)


class _Pieces:
    """What the messages of a call contain; see `recipe.Recipe`."""

    def __init__(self, pickles: list[bytes]) -> None:
        self._pickles = pickles

    def make(self, contributions: Sequence[bytes], fold: Any) -> list[bytes]:
        """What each rank sends up, and rank 0 down."""
        return self._pickles

    def taken(self, memory: list[bytes]) -> list[Any]:
        """Each rank gets the last."""
        return [SharedBlocks(memory[:1])] * len(memory)

    def payload(self, memory: list[bytes], number: int) -> bytes:
        """What a message contains."""
        if number < len(memory):
            return len(memory[number]).to_bytes(_HEAD_BYTES, "little")
        return memory[number - len(memory)]


class _BoundReduction(Bound):
    """One whose messages are as large as those of some other calls; but what they contain is its own."""

    _like: Bound | None = None

    def containing(self, pickles: list[bytes]) -> Bound:
        """One of these calls."""
        made = copy(self)
        made._like = self
        made._recipe = _Pieces(pickles)  # type: ignore[assignment]
        return made

    @property
    def sends(self) -> Sends:
        return Bound.sends.fget(self) if self._like is None else self._like.sends  # type: ignore[attr-defined]


class Reduction:
    """An allreduce of objects, before all ranks have come; see `binding.Pending`."""

    def __init__(self, comm: Communicator, local: Any) -> None:
        self._comm = comm
        self._local = local
        self._size = comm.context.size
        self._distances = Distances(comm.fabric, comm.ranks)
        self._kept: dict[tuple[int, ...], _BoundReduction] = {}

    def fits(self, given: bytes, me: int) -> bool:
        """Whether what this rank gives goes eagerly."""
        return self._distances.eager(len(given), me)

    def settled(self, contributions: Sequence[bytes], fold: ObjectFold) -> Bound | None:
        """The call, of what all ranks have given; None where it has to go message by message."""
        pickles = fold.up(contributions)
        lengths = tuple(map(len, pickles))
        bound = self._kept.get(lengths)
        if bound is None:
            bound = self._made(lengths)
            if bound is None:
                return None
            if len(self._kept) < _MOST_KEPT:
                self._kept[lengths] = bound
            else:
                bound.once = True
        return bound.containing(pickles)

    def _made(self, lengths: tuple[int, ...]) -> _BoundReduction | None:
        broadcasts = tuple(pick(self._comm, "bcast", size_bytes) for size_bytes in (_HEAD_BYTES, lengths[0]))
        draft = _up_and_down(self._size, broadcasts)
        if draft is None:
            return None
        plan = draft.plan(_Sizes(list(lengths)))
        source, dest = plan[0].source, plan[0].dest

        def pairs() -> Iterable[tuple[int, int]]:
            return zip(source.tolist(), dest.tolist(), strict=True)

        costs = self._distances.costs(plan[0].size_bytes, broadcasts, pairs, may_ask=False)
        return None if costs is None else _BoundReduction(plan, costs, self._comm.ranks, False, self._local)


@lru_cache(maxsize=8)
def _up_and_down(size: int, broadcasts: tuple[Callable[..., Any], ...]) -> Draft | None:
    """The messages of `size` ranks.

    What rank i > 0 sends up is number i of what is announced, and what rank 0 sends down is number 0.
    """
    shapes = [DOWN.get(broadcast) for broadcast in broadcasts]
    if None in shapes:
        return None
    draft = Draft(size)
    mask = 1
    while mask < size:
        ranks = np.arange(mask, size, 2 * mask)
        one = np.ones(len(ranks), np.int64)
        payloads = np.stack((ranks, size + ranks), axis=1).reshape(-1)
        sent = draft.send(ranks, 2 * one, np.repeat(ranks - mask, 2), payloads)
        draft.receive(ranks - mask, one, sent[::2])
        draft.receive(ranks - mask, one, sent[1::2])
        mask <<= 1
    for shape, payload in zip(shapes, (0, size), strict=True):
        hand_down(draft, Tree(shape, size), payload)  # type: ignore[arg-type]
    return draft


class Scan:
    """A scan of objects on a power of two ranks, before all have come; see `binding.Pending`."""

    def __init__(self, comm: Communicator, exclusive: bool, local: Any) -> None:
        self._comm = comm
        self._exclusive = exclusive
        self._local = local
        self._distances = Distances(comm.fabric, comm.ranks)

    def fits(self, given: bytes, me: int) -> bool:
        """Whether what this rank has can be sent; it may ask first."""
        return True

    def settled(self, contributions: Sequence[bytes], fold: ObjectFold) -> Bound | None:
        """The call, of what all ranks have given."""
        rounds = _Swaps(*fold.across(contributions, self._exclusive))
        costs = self._distances.costs_of(rounds)
        return None if costs is None else BoundOnce(rounds, costs, self._comm.ranks, False, self._local)


class _Swaps(Doubling):
    """Pairs of ranks exchange the sizes of what they have, and then that.

    Parameters
    ----------
    levels : list of list of bytes
        What is exchanged in each pair of rounds: 2**k ranks have the same.
    taken : list of bytes
        What each rank gets.
    """

    def __init__(self, levels: list[list[bytes]], taken: list[bytes]) -> None:
        super().__init__(len(taken), 0)
        self._levels = levels
        self._taken = taken
        self._lengths = [np.array(list(map(len, level)), np.int64) for level in levels]

    def _rounds(self) -> int:
        return 2 * super()._rounds()

    def dest(self, turn: int) -> Numbers:
        return super().dest(turn // 2)

    source = dest

    def size_bytes(self, turn: int) -> Any:
        level, announced = divmod(turn, 2)
        return self._lengths[level][self.ranks >> level] if announced else _HEAD_BYTES

    def sizes(self, turns: range) -> Numbers:
        return np.concatenate([np.broadcast_to(self.size_bytes(turn), self.size) for turn in turns])

    def payload(self, memory: Any, turn: int, rank: int) -> bytes:
        level, announced = divmod(turn, 2)
        data = self._levels[level][rank >> level]
        return data if announced else len(data).to_bytes(_HEAD_BYTES, "little")

    def results(self, memory: Any) -> list[Any]:
        return [SharedBlocks((data,)) for data in self._taken]


def objects(ch: CollectiveChannel, form: Form, local: Any) -> Reduction | Scan | None:
    """How to compute such a call when all have come; see `binding.bind`."""
    if ch.size < 2:
        return None
    if form is OBJECTS:
        return Reduction(ch.comm, local)
    if ch.size & (ch.size - 1):  # then not all ranks need all others
        return None
    return Scan(ch.comm, form is OBJECTS_TO_SCAN[True], local)
