"""Schedules by formula: in each stage every rank sends and receives at most one message.

Dissemination, recursive doubling, rings, pairwise and linear exchanges are of this kind: the destination of a message
follows from the distance of its round. Their messages, possibly millions, are not listed. The rounds are those of
`mpi.collectives`, which plays them for one rank; tests compare the two players.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi.checksum import crc32
from xsim_py.mpi.collectives import allgather, allreduce, alltoall, barrier
from xsim_py.mpi.collectives.channel import EqualBlocks, VariedBlocks
from xsim_py.mpi.collectives.rounds import doubled, floor_power, neighbor_pair, neighbor_peer
from xsim_py.mpi.collectives.substitutes import final
from xsim_py.mpi.op import ArrayFold, fold_rows

from .hashing import checks, ragged_checks, with_zeros
from .schedule import ALL, CollectiveSchedule, ListedStage, Memory, Numbers, Stage, Step, StepKind

Bytes = NDArray[np.uint8]
# Ranks per copy: the blocks of each rank are strided, in rows as long as all ranks' contributions.
_TOGETHER = 16


class Rounds(CollectiveSchedule[Memory]):
    """An exchange in rounds, each of them a stage: here an empty one, by dissemination, to rank + 2**k."""

    def __init__(self, size: int, block_bytes: int = 0) -> None:
        self.size = size  # the number of ranks
        self.block_bytes = block_bytes  # the size of one block
        self.ranks = np.arange(size)
        self._twice = np.tile(self.ranks, 2)
        self.distances = self._distances()  # of each round: between a rank and its destination, negative downwards

    def _distances(self) -> Sequence[int]:
        return doubled(self.size)

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return len(self.distances)

    @property
    def stage_count(self) -> int:
        """The number of stages: the rounds, unless ranks send before and after them."""
        return self.rounds

    def _ranks_above(self, distance: int) -> Numbers:
        """Return the ranks that far above each, around the ring: a view, as a division takes far longer."""
        start = distance % self.size
        return self._twice[start : start + self.size]

    def dest(self, turn: int) -> Numbers:
        """Return the destination of each rank."""
        return self._ranks_above(self.distances[turn])

    def size_bytes(self, turn: int) -> int | Numbers:
        """Return the size of each message, or of all."""
        return self.block_bytes

    def make_stages(self) -> Iterator[Stage]:
        """Yield the rounds."""
        for turn in range(self.rounds):
            yield Stage(self.size, self.ranks, self.dest(turn), self.size_bytes(turn))

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self.rounds * self.size


class Doubling(Rounds[Memory]):
    """Recursive doubling of empty messages, on a power of two: in round k with rank xor 2**k.

    Each of the other ranks, those beyond, first notifies a partner, which replies last.
    """

    def __init__(self, size: int, block_bytes: int = 0) -> None:
        self._power = floor_power(size)
        super().__init__(size, block_bytes)
        self._core, self._others, self._partners = self._parts(size - self._power)

    def _distances(self) -> Sequence[int]:
        return doubled(self._power)

    def _parts(self, extra: int) -> tuple[Numbers, Numbers, Numbers]:
        """Return the ranks that exchange, the others, and the partners of these."""
        return self.ranks[: self._power], self.ranks[self._power :], self.ranks[:extra]

    def dest(self, turn: int) -> Numbers:
        found: Numbers = self._core[self.ranks[: self._power] ^ self.distances[turn]]
        return found

    def make_stages(self) -> Iterator[Stage]:
        before = [(self._others, self._partners)] if len(self._others) else []
        rounds = ((self._core, self.dest(turn)) for turn in range(self.rounds))
        after = [(self._partners, self._others)] if len(self._others) else []
        for turn, (source, dest) in enumerate((*before, *rounds, *after)):
            yield Stage(self.size, source, dest, self.size_bytes(turn))

    @property
    def stage_count(self) -> int:
        return self.rounds + 2 * bool(len(self._others))

    @property
    def messages(self) -> int:
        return self.rounds * self._power + 2 * len(self._others)


class DoublingFold(Doubling[list[Bytes]]):
    """A reduction by recursive doubling: after round k groups of 2**k ranks have combined data.

    For other than a power of two the first even ranks send their data to their neighbours, which reply last.
    """

    def _parts(self, extra: int) -> tuple[Numbers, Numbers, Numbers]:
        odd = self.ranks[1 : 2 * extra : 2]
        return np.concatenate((odd, self.ranks[2 * extra :])), self.ranks[: 2 * extra : 2], odd

    def memory(self, contributions: Sequence[bytes], fold: object) -> list[Bytes]:
        assert isinstance(fold, ArrayFold)
        data = np.frombuffer(b"".join(contributions), np.uint8).reshape(self.size, self.block_bytes)
        extra = data[: 2 * len(self._others)]
        if len(extra):
            data = np.concatenate((fold_rows(fold, extra[::2], extra[1::2]), data[len(extra) :]))
        groups = [data]
        for _ in range(self.rounds):
            groups.append(fold_rows(fold, groups[-1][::2], groups[-1][1::2]))
        return [extra[::2], *groups]

    def _sent(self, memory: list[Bytes], turn: int) -> tuple[Bytes, Any]:
        """Return the distinct payloads of a stage, and the index of the payload of each message."""
        turn += not len(self._others)
        if turn > self.rounds:
            return memory[-1], np.zeros(len(self._others), np.int64)
        return memory[turn], ALL if not turn else self.ranks[: self._power] >> turn - 1

    def checks(self, memory: list[Bytes], turn: int) -> NDArray[np.uint32]:
        there, which = self._sent(memory, turn)
        found: NDArray[np.uint32] = checks(there)[which]
        return found

    def payload(self, memory: list[Bytes], turn: int, number: int) -> bytes:
        there, which = self._sent(memory, turn)
        data: bytes = there[which][number].tobytes()
        return data

    def results(self, memory: list[Bytes]) -> list[Any]:
        return [memory[-1][0].tobytes()] * self.size


class Rabenseifner(Rounds[list[Bytes]]):
    """A reduction by halves exchanged at distances 1, 2, 4 ..., followed by the reverse exchanges.

    In round k of the first half a rank has one of 2**k parts of the combined data of its group of 2**k ranks: the part
    selected by its lowest bits, the lowest of them first.
    """

    def _distances(self) -> Sequence[int]:
        return *doubled(self.size), *reversed(doubled(self.size))

    def _halvings(self, turn: int) -> int:
        """Return how many times the data sent in a round have been halved."""
        return self.distances[turn].bit_length()

    def dest(self, turn: int) -> Numbers:
        return self.ranks ^ self.distances[turn]

    def size_bytes(self, turn: int) -> int:
        return self.block_bytes >> self._halvings(turn)

    def memory(self, contributions: Sequence[bytes], fold: object) -> list[Bytes]:
        assert isinstance(fold, ArrayFold)
        groups = [np.frombuffer(b"".join(contributions), np.uint8).reshape(self.size, self.block_bytes)]
        for turn in range(self.rounds // 2):
            parts = (groups[-1][side::2].reshape(-1, self.size_bytes(turn)) for side in (0, 1))
            groups.append(fold_rows(fold, *parts).reshape(-1, self.block_bytes))
        return groups

    def _parts(self, memory: list[Bytes], turn: int) -> tuple[Bytes, Numbers]:
        """Return the parts of a round, and the index of the part that each rank sends."""
        halvings = self._halvings(turn)
        parts, which = memory[-1], np.zeros_like(self.ranks)
        for bit in range(halvings):
            which = 2 * which + (self.ranks >> bit & 1)
        if 2 * turn < self.rounds:  # not the part that it keeps, which is one of its group's
            parts, which = memory[turn], (self.ranks >> turn << halvings) + (which ^ 1)
        return parts.reshape(-1, self.size_bytes(turn)), which

    def checks(self, memory: list[Bytes], turn: int) -> NDArray[np.uint32]:
        parts, which = self._parts(memory, turn)
        return checks(parts[which]) if 2 * turn < self.rounds else checks(parts)[which]

    def payload(self, memory: list[Bytes], turn: int, number: int) -> bytes:
        parts, which = self._parts(memory, turn)
        data: bytes = parts[which[number]].tobytes()
        return data

    def results(self, memory: list[Bytes]) -> list[Any]:
        return [memory[-1][0].tobytes()] * self.size


class Gather(Rounds[tuple[tuple[bytes, ...], list[Any]]]):
    """An allgather; here by Bruck's algorithm: in round k the blocks from a rank's own on go to rank - 2**k.

    A message contains a run of blocks, possibly wrapping from the last to the first. So its length follows from the
    number of bytes before each block, and its checksum from the prefix checksums.
    """

    def __init__(self, size: int, sizes: Sequence[int]) -> None:
        self.sizes = sizes  # the number of bytes of each rank
        self.equal = len(set(sizes)) == 1
        super().__init__(size, sizes[0])

    @cached_property
    def _before(self) -> Numbers:
        return np.array([*accumulate([*self.sizes, *self.sizes], initial=0)], np.int64)

    def _distances(self) -> Sequence[int]:
        return [-distance for distance in doubled(self.size)]

    def _blocks(self, turn: int) -> int:
        """Return the number of blocks in a message."""
        distance = -self.distances[turn]
        return min(distance, self.size - distance)

    def _first(self, turn: int) -> Numbers:
        """Return the first block that each rank sends; the others follow it cyclically."""
        return self.ranks

    def size_bytes(self, turn: int) -> int | Numbers:
        blocks = self._blocks(turn)
        if self.equal:
            return blocks * self.block_bytes
        first = self._first(turn)
        return self._before[first + blocks] - self._before[first]

    def memory(self, contributions: Sequence[bytes], fold: object) -> tuple[tuple[bytes, ...], list[Any]]:
        return tuple(contributions), []

    def checks(self, memory: tuple[tuple[bytes, ...], list[Any]], turn: int) -> NDArray[np.uint32]:
        """Return the checksum of each message, from those of the prefixes before and including it.

        This takes constant time per message: the checksum of a concatenation is that of its first part, extended by as
        many zeros as the rest has bytes, plus that of the rest (`crc32_combine` of zlib).
        """
        blocks, known = memory
        if not known:
            running = accumulate(blocks * 2, lambda check, block: crc32(block, check), initial=0)
            known.append(np.fromiter(running, np.uint32, 2 * len(blocks) + 1))
        first = self._first(turn)
        found: NDArray[np.uint32] = known[0][first + self._blocks(turn)]
        return found ^ with_zeros(known[0][first], self.size_bytes(turn))

    def payload(self, memory: tuple[tuple[bytes, ...], list[Any]], turn: int, number: int) -> bytes:
        first = int(self._first(turn)[number])
        return b"".join((memory[0] * 2)[first : first + self._blocks(turn)])

    def results(self, memory: tuple[tuple[bytes, ...], list[Any]]) -> Sequence[Any]:
        whole = b"".join(memory[0])
        if self.equal:
            return [EqualBlocks(whole, self.block_bytes, self.size)] * self.size
        return [VariedBlocks(whole, list(self.sizes))] * self.size


class RingGather(Gather):
    """Each block travels once around the ring."""

    def _distances(self) -> Sequence[int]:
        return (1,) * (self.size - 1)

    def _blocks(self, turn: int) -> int:
        return 1

    def _first(self, turn: int) -> Numbers:
        return self._ranks_above(-turn)


class DoublingGather(Gather):
    """Recursive doubling, on a power of two: after round k groups of 2**k ranks have the same blocks."""

    def _distances(self) -> Sequence[int]:
        return doubled(self.size)

    def dest(self, turn: int) -> Numbers:
        return self.ranks ^ self.distances[turn]

    def _blocks(self, turn: int) -> int:
        return self.distances[turn]

    def _first(self, turn: int) -> Numbers:
        return self.ranks & -self.distances[turn]


class NeighborGather(Gather):
    """Pairs of blocks are exchanged with both neighbours in turn, for an even number of ranks."""

    def _distances(self) -> Sequence[int]:
        return (1,) * (self.size // 2)

    def dest(self, turn: int) -> Numbers:
        found: Numbers = neighbor_peer(self.ranks, turn, self.size)
        return found

    def _blocks(self, turn: int) -> int:
        return 2 if turn else 1

    def _first(self, turn: int) -> Numbers:
        return neighbor_pair(self.ranks, turn, self.size) if turn else self.ranks


class Results(Sequence[Any]):
    """The results of all ranks, each made on demand: together they are as large as all contributions.

    `make` returns the result of one of the `size` ranks.
    """

    def __init__(self, size: int, make: Callable[[int], Any]) -> None:
        self._size = size
        self._make = make

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, rank: Any) -> Any:
        if rank >= self._size:
            raise IndexError
        return self._make(rank)


class Exchange(Rounds[tuple[Any, list[Any]]]):
    """A block from each rank for each rank.

    Each round serves the ranks at the next larger distance. `blocks` is the size of all blocks, or a (ranks, ranks)
    array with the number of bytes that each rank sends to each other.
    """

    one_at_a_time = True
    """True if a rank completes the send and the receive of a round before the next one."""

    def __init__(self, size: int, blocks: int | Numbers) -> None:
        self._table = blocks if isinstance(blocks, np.ndarray) else None
        super().__init__(size, 0 if isinstance(blocks, np.ndarray) else blocks)

    def _distances(self) -> Sequence[int]:
        return range(1, self.size)

    def size_bytes(self, turn: int) -> int | Numbers:
        return self.block_bytes if self._table is None else self._table[self.ranks, self.dest(turn)]

    @cached_property
    def _starts(self) -> Numbers:
        """The offset of each block in the contributions of all ranks."""
        assert self._table is not None
        sizes = self._table.reshape(-1)
        return (np.cumsum(sizes) - sizes).reshape(self._table.shape)

    def memory(self, contributions: Sequence[bytes], fold: object) -> tuple[Any, list[Any]]:
        """Return all blocks, and a cache of their checksums.

        If blocks differ in size, contributions begin with the data of the table.
        """
        if self._table is not None:
            pairs = zip(contributions, self._table.sum(axis=1).tolist(), strict=True)
            return b"".join([memoryview(data)[len(data) - total :] for data, total in pairs]), []
        whole = np.frombuffer(b"".join(contributions), np.uint8)
        return whole.reshape(self.size, self.size, self.block_bytes), []

    def _checks(self, memory: tuple[Any, list[Any]]) -> NDArray[np.uint32]:
        """Return the checksum of each block."""
        whole, known = memory
        if not known:
            if self._table is None:
                found = checks(whole.reshape(-1, self.block_bytes))
            else:
                found = ragged_checks(np.frombuffer(whole, np.uint8), self._starts.reshape(-1), self._table.reshape(-1))
            known.append(found.reshape(self.size, self.size))
        sums: NDArray[np.uint32] = known[0]
        return sums

    def checks(self, memory: tuple[Any, list[Any]], turn: int) -> NDArray[np.uint32]:
        return self._checks(memory)[self.ranks, self.dest(turn)]

    def _block(self, memory: tuple[Any, list[Any]], source: int, dest: int) -> bytes:
        data: bytes
        if self._table is None:
            data = memory[0][source, dest].tobytes()
        else:
            start = int(self._starts[source, dest])
            data = memory[0][start : start + int(self._table[source, dest])]
        return data

    def payload(self, memory: tuple[Any, list[Any]], turn: int, number: int) -> bytes:
        return self._block(memory, number, int(self.dest(turn)[number]))

    def results(self, memory: tuple[Any, list[Any]]) -> Sequence[Any]:
        whole = memory[0]
        if self._table is not None:
            table = self._table
            return Results(
                self.size, lambda rank: VariedBlocks(b"".join(self.blocks(memory, rank)), table[:, rank].tolist())
            )
        made = -1, whole

        def make(rank: int) -> EqualBlocks:
            nonlocal made
            group, place = divmod(rank, _TOGETHER)
            if made[0] != group:  # a cache line and a page of memory contain blocks of several ranks
                made = group, whole[:, group * _TOGETHER : (group + 1) * _TOGETHER].transpose(1, 0, 2).copy()
            return EqualBlocks(made[1][place].tobytes(), self.block_bytes, self.size)

        return Results(self.size, make)

    def blocks(self, memory: tuple[Any, list[Any]], rank: int) -> list[bytes]:
        """Return the blocks that a rank receives, if blocks differ in size."""
        assert self._table is not None
        starts = self._starts[:, rank]
        pieces = zip(starts.tolist(), (starts + self._table[:, rank]).tolist(), strict=True)
        whole = memory[0]
        return [whole[start:end] for start, end in pieces]


class LinearExchange(Exchange):
    """Each rank sends to some lower ranks concurrently, then receives from higher ones."""

    one_at_a_time = False
    together = 1 << 62
    """The number of concurrent destinations."""

    @property
    def rounds(self) -> int:
        return -(-(self.size - 1) // self.together)

    @property
    def messages(self) -> int:
        return self.size * (self.size - 1)

    def _places(self, turn: int) -> Sequence[int]:
        """Return the downward distances of the receivers of a stage."""
        return self.distances[turn * self.together : (turn + 1) * self.together]

    def dest(self, turn: int) -> Numbers:
        return np.concatenate([self._ranks_above(-place) for place in self._places(turn)])

    def size_bytes(self, turn: int) -> int | Numbers:
        if self._table is None:
            return self.block_bytes
        return self._table[np.tile(self.ranks, len(self._places(turn))), self.dest(turn)]

    def make_stages(self) -> Iterator[Stage]:
        for turn in range(self.rounds):
            places = self._places(turn)
            count = len(places)
            sent = np.arange(count * self.size).reshape(count, self.size)
            taken = np.stack([at * self.size + self._ranks_above(place) for at, place in enumerate(places)])
            steps = [Step(StepKind.POST, ALL, taken), Step(StepKind.SEND, ALL, sent), Step(StepKind.TAKE, ALL, taken)]
            order = np.repeat(np.arange(1, count + 1), self.size)
            source = np.tile(self.ranks, count)
            yield ListedStage(self.size, source, self.dest(turn), self.size_bytes(turn), steps, order)

    def checks(self, memory: tuple[Any, list[Any]], turn: int) -> NDArray[np.uint32]:
        return self._checks(memory)[np.tile(self.ranks, len(self._places(turn))), self.dest(turn)]

    def payload(self, memory: tuple[Any, list[Any]], turn: int, number: int) -> bytes:
        return self._block(memory, number % self.size, int(self.dest(turn)[number]))


class BatchedExchange(LinearExchange):
    """A linear exchange with a few other ranks at a time."""

    together = alltoall.BATCH_RANKS


class BruckExchange(Exchange):
    """Each block travels by the bits of its distance: in round k those whose bit k is set."""

    def _distances(self) -> Sequence[int]:
        return doubled(self.size)

    def size_bytes(self, turn: int) -> int:
        return len(self._moved(turn)[0]) * self.block_bytes

    def checks(self, memory: tuple[Any, list[Any]], turn: int) -> NDArray[np.uint32]:
        moved = self._moved(turn)  # one rank after the other: together their blocks would be hundreds of megabytes
        return np.array([crc32(self._sent(memory, moved, rank)) for rank in range(self.size)], np.uint32)

    def payload(self, memory: tuple[Any, list[Any]], turn: int, number: int) -> bytes:
        data: bytes = self._sent(memory, self._moved(turn), number).tobytes()
        return data

    @cached_property
    def _rows(self) -> Numbers:
        """The offsets of the blocks of each rank, twice."""
        return self._twice * self.size

    def _moved(self, turn: int) -> tuple[Numbers, Numbers]:
        """Return the distances back to the origins of the sent blocks, around the ring, and those remaining.

        The distance travelled so far is given by the lower bits of the total distance.
        """
        distance = self.ranks[self.ranks & self.distances[turn] > 0]
        come = distance & self.distances[turn] - 1
        return -come % self.size, distance - come

    def _sent(self, memory: tuple[Any, list[Any]], moved: tuple[Numbers, Numbers], rank: int) -> Bytes:
        """Return the blocks that a rank sends."""
        back, left = moved
        places = self._rows[rank:].take(back) + self._twice[rank:].take(left)
        blocks: Bytes = memory[0].reshape(self.size * self.size, self.block_bytes)
        return blocks.take(places, axis=0)


EXCHANGES: dict[Any, type[Exchange]] = {
    alltoall.pairwise: Exchange,
    alltoall.linear: LinearExchange,
    alltoall.linear_sync: BatchedExchange,
}
"""The exchanges whose blocks may differ in size."""
_FORMULAS: dict[Any, Callable[[int, Any], Rounds[Any]]] = {
    barrier.bruck: Rounds,
    barrier.recursive_doubling: Doubling,
    allreduce.recursive_doubling: DoublingFold,
    allreduce.rabenseifner: Rabenseifner,
    allgather.ring: RingGather,
    allgather.bruck: Gather,
    allgather.recursive_doubling: DoublingGather,
    allgather.neighbor: NeighborGather,
    alltoall.bruck: BruckExchange,
    **EXCHANGES,
}


def formula(algorithm: Callable[..., Any], size: int, shape: object, unit_bytes: int = 1) -> Rounds[Any] | None:
    """Return the schedule of an algorithm, or None if there is no formula for it.

    `shape` is the size of the blocks, or the result of `forms.Form.key`, and `unit_bytes` the size of the elements of a
    reduction.
    """
    block_bytes = shape if isinstance(shape, int) else 0
    kind = _FORMULAS.get(final(algorithm, size, block_bytes, unit_bytes))
    if kind is None or size < 2 or (kind is Rabenseifner and (size & (size - 1) or block_bytes % (size * unit_bytes))):
        return None
    return kind(size, shape)
