"""Exchanges in rounds: in each of them every rank sends one message and then takes one.

Dissemination, recursive doubling, rings and pairwise exchanges are like this. There is no list of their messages, of
which there may be millions: whom a rank sends to in a round is a formula, and so is what. Each has its twin in
`mpi.collectives`; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi.checksum import crc32
from xsim_py.mpi.collectives import allgather, allreduce, alltoall, barrier
from xsim_py.mpi.collectives.channel import EqualBlocks
from xsim_py.mpi.op import fold_rows

from .hashing import checks, run_checks, running_checks
from .timing import Costs, Detail, Numbers, Times

__all__ = ["Results", "RoundTimes", "Rounds", "in_rounds"]

Bytes = NDArray[np.uint8]
Look = Callable[[int, Numbers, Numbers, Numbers, Numbers], None]
_MOST_KEPT = 1 << 21  # numbers
_TOGETHER = 16


def in_rounds(algorithm: Callable[..., Any], size: int, shape: Any, unit_bytes: int = 1) -> Rounds | None:
    """The exchange that an algorithm is, if it is one of those that are known here; of a reduction, of such units."""
    if algorithm is allgather.recursive_doubling and size & (size - 1):
        algorithm = allgather.bruck
    kind = _KINDS.get(algorithm)
    if kind is None or size < 2:
        return None
    if algorithm in _DOUBLING and size & (size - 1):
        return None
    if algorithm is allreduce.rabenseifner and (not shape or shape % (size * unit_bytes)):
        return None
    if algorithm in _GATHERS:
        if len(set(shape)) != 1:
            return None
        shape = shape[0]
    return kind(size, shape or 0)


class Rounds:
    """An exchange without content, by dissemination: in round k to rank + 2**k.

    Parameters
    ----------
    size : int
        The number of ranks.
    block_bytes : int
        Of one block.

    Attributes
    ----------
    rounds : int
        How many rounds there are.
    """

    one_at_a_time = True
    """Whether a rank is done with what it sends in a round, and with what it gets, before the next."""

    def __init__(self, size: int, block_bytes: int) -> None:
        self.size = size
        self.block_bytes = block_bytes
        self.ranks = np.arange(size)
        self._twice = np.tile(self.ranks, 2)
        self.rounds = self._rounds()

    def _rounds(self) -> int:
        return (self.size - 1).bit_length()

    def _beside(self, distance: int) -> Numbers:
        """The ranks so far above each, round the ring: a part of all ranks twice, as a division takes far longer."""
        start = distance % self.size
        return self._twice[start : start + self.size]

    def dest(self, turn: int) -> Numbers:
        """Whom each rank sends to."""
        return self._beside(1 << turn)

    def source(self, turn: int) -> Numbers:
        """Whom each rank receives from."""
        return self._beside(-(1 << turn))

    def size_bytes(self, turn: int) -> Any:
        """Of each message; an array where they differ."""
        return 0

    def sizes(self, turns: range) -> Numbers:
        """Of all messages of some rounds, one round after the other."""
        return np.repeat([self.size_bytes(turn) for turn in turns], self.size)

    def memory(self, contributions: Sequence[bytes], fold: Any) -> Any:
        """What becomes of the contributions, as `payload` and `results` need it; `fold` is the reduction operation."""
        return None

    def checks(self, memory: Any, turn: int) -> Any:
        """The check sum of what each rank sends, or one of all."""
        return 0

    def payload(self, memory: Any, turn: int, rank: int) -> bytes:
        """What a rank sends."""
        return b""

    def results(self, memory: Any) -> Sequence[Any]:
        """What each rank has at the end."""
        return [None] * self.size

    def go_through(self, costs: Costs, clock: Numbers, nic: Numbers, look: Look) -> Any:
        """Let clocks and interfaces go through all rounds; what each rank's processor does is returned.

        ``look(turn, source, arrival, came, taken)`` is told of each round: whom each rank hears from, when what it
        sends arrives, when what it gets does, and when it takes that. The last is overwritten later.
        """
        overheads: Any = 0
        for turn in range(self.rounds):
            send_ps, busy_ps, way_ps, receive_ps = costs.of_round(turn, self.size)
            source = self.source(turn)
            clock += send_ps
            np.maximum(clock, nic, out=nic)
            arrival = nic + way_ps
            nic += busy_ps
            came = arrival[source]
            np.maximum(clock, came, out=clock)
            look(turn, source, arrival, came, clock)
            taking = receive_ps if np.ndim(receive_ps) == 0 else receive_ps[source]
            clock += taking
            overheads = overheads + send_ps + taking
        return overheads


class RoundTimes(Times):
    """The times of an exchange in rounds; messages by rounds, and in a round by their sources.

    Those of single messages are kept where these are few. Else they are computed again for those who ask: twenty
    million of them need more memory, and so more time, than everything else.

    Parameters
    ----------
    rounds : Rounds
        Who sends to whom.
    costs : Costs
        Of the messages.
    clock_ps, nic_free_ps, keys : sequence of int
        See `Timetable.run`.
    """

    _columns = 2
    """How many numbers of each message are kept: when it arrives, here only one, and then when it is taken."""

    def __init__(
        self, rounds: Rounds, costs: Costs, clock_ps: Sequence[int], nic_free_ps: Sequence[int], keys: Sequence[int]
    ) -> None:
        self._rounds = rounds
        self._costs = costs
        self._entered = [np.array(numbers, np.int64) for numbers in (clock_ps, nic_free_ps, keys)]
        few = self._columns * rounds.rounds * rounds.size <= _MOST_KEPT
        self._kept = self._empty(self._columns) if few else None
        super().__init__(*self._run())

    def _empty(self, columns: int) -> Numbers:
        return np.empty((columns, self._rounds.rounds, self._rounds.size), np.int64)

    def _run(self) -> tuple[Numbers, Numbers, Numbers, Numbers, Numbers]:
        """The parameters of `Times`; and what is kept."""
        first, size, kept = self._entered[2], self._rounds.size, self._kept
        last, last_key = np.full(size, -1), np.full(size, -1)

        def look(turn: int, source: Numbers, arrival: Numbers, came: Numbers, taken: Numbers) -> None:
            nonlocal last, last_key
            key = first[source] + (turn + 1)
            if (came > last).all():
                last, last_key = came, key
            else:
                later = (came > last) | ((came == last) & (key > last_key))
                last, last_key = np.where(later, came, last), np.where(later, key, last_key)
            if kept is not None:
                kept[0, turn], kept[1, turn, source] = arrival, taken

        clock, nic, overheads = self._go_through(look)
        return clock, nic, last, last_key, clock - self._entered[0] - overheads

    def _go_through(self, look: Look) -> tuple[Numbers, Numbers, Any]:
        clock, nic = (numbers.copy() for numbers in self._entered[:2])
        return clock, nic, self._rounds.go_through(self._costs, clock, nic, look)

    def arrivals(self, look: Callable[..., None]) -> None:
        """Tell of some rounds at a time when their messages arrive: of many where they are short."""
        if self._kept is None:
            self._each_arrival(look)
            return
        count, size = self._rounds.rounds, self._rounds.size
        batch = max(1, (1 << 16) // size)
        for start in range(0, count, batch):
            turns = range(start, min(start + batch, count))
            look(turns, *self._kept[:-1, turns.start : turns.stop].reshape(self._columns - 1, -1))

    def _each_arrival(self, look: Callable[..., None]) -> None:
        """The same of one round at a time, which is gone through again."""
        self._go_through(lambda turn, _, arrival, *__: look(range(turn, turn + 1), arrival))

    @cached_property
    def detail(self) -> Detail:
        """See `Times`."""
        kept = self._kept
        if kept is None:
            kept = self._empty(2)

            def keep(turn: int, source: Numbers, arrival: Numbers, _: Numbers, taken: Numbers) -> None:
                kept[0, turn], kept[1, turn, source] = arrival, taken

            self._go_through(keep)
        sent = (self._entered[2] + np.arange(1, self._rounds.rounds + 1)[:, None]).reshape(-1)
        return kept[0].reshape(-1), sent, kept[1].reshape(-1)


class Doubling(Rounds):
    """The same by recursive doubling, for a power of two: in round k with rank xor 2**k."""

    def dest(self, turn: int) -> Numbers:
        return self.ranks ^ (1 << turn)

    source = dest


class DoublingFold(Doubling):
    """A reduction: after round k all ranks of a group of 2**k have the same, what these have put in."""

    def size_bytes(self, turn: int) -> int:
        return self.block_bytes

    def memory(self, contributions: Sequence[bytes], fold: Any) -> Any:
        groups = [np.frombuffer(b"".join(contributions), np.uint8).reshape(self.size, self.block_bytes)]
        for _ in range(self.rounds):
            groups.append(fold_rows(fold, groups[-1][::2], groups[-1][1::2]))
        return groups

    def checks(self, memory: Any, turn: int) -> Any:
        return checks(memory[turn])[self.ranks >> turn]

    def payload(self, memory: Any, turn: int, rank: int) -> bytes:
        data: bytes = memory[turn][rank >> turn].tobytes()
        return data

    def results(self, memory: Any) -> list[Any]:
        return [memory[-1][0].tobytes()] * self.size


class Rabenseifner(Doubling):
    """A reduction of parts: halves of what is left go to and fro at distances 1, 2, 4 ..., and then the way back.

    In round k of the first half a rank has one of 2**k parts of what its group of 2**k ranks has put in: the one that
    its lowest bits say, the lowest of them first.
    """

    def _rounds(self) -> int:
        return 2 * (self.size - 1).bit_length()

    def _halvings(self, turn: int) -> int:
        """How often what is sent in a round has been halved."""
        return turn + 1 if 2 * turn < self.rounds else self.rounds - turn

    def dest(self, turn: int) -> Numbers:
        return self.ranks ^ (1 << self._halvings(turn) - 1)

    source = dest

    def size_bytes(self, turn: int) -> int:
        return self.block_bytes >> self._halvings(turn)

    def memory(self, contributions: Sequence[bytes], fold: Any) -> Any:
        groups = [np.frombuffer(b"".join(contributions), np.uint8).reshape(self.size, self.block_bytes)]
        for turn in range(self.rounds // 2):
            parts = (groups[-1][side::2].reshape(-1, self.size_bytes(turn)) for side in (0, 1))
            groups.append(fold_rows(fold, *parts).reshape(-1, self.block_bytes))
        return groups

    def _parts(self, memory: Any, turn: int) -> tuple[Bytes, Numbers]:
        """The parts that there are in a round, and which of them each rank sends."""
        halvings = self._halvings(turn)
        parts, which = memory[-1], np.zeros_like(self.ranks)
        for bit in range(halvings):
            which = 2 * which + (self.ranks >> bit & 1)
        if 2 * turn < self.rounds:  # not what it keeps, which is one of those of its group
            parts, which = memory[turn], (self.ranks >> turn << halvings) + (which ^ 1)
        return parts.reshape(-1, self.size_bytes(turn)), which

    def checks(self, memory: Any, turn: int) -> Any:
        parts, which = self._parts(memory, turn)
        if 2 * turn < self.rounds:
            return checks(parts[which])
        return checks(parts)[which]

    def payload(self, memory: Any, turn: int, rank: int) -> bytes:
        parts, which = self._parts(memory, turn)
        data: bytes = parts[which[rank]].tobytes()
        return data

    def results(self, memory: Any) -> list[Any]:
        return [memory[-1][0].tobytes()] * self.size


class Gather(Rounds):
    """Something of which everybody has all blocks at the end."""

    def memory(self, contributions: Sequence[bytes], fold: Any) -> Any:
        return b"".join(contributions), []

    def results(self, memory: Any) -> list[Any]:
        return [EqualBlocks(memory[0], self.block_bytes, self.size)] * self.size

    def checks(self, memory: Any, turn: int) -> Any:
        whole, known = memory
        if not known:
            known.append(running_checks(whole, self.block_bytes, 2 * self.size))
        return run_checks(known[0], self._first(turn), self._blocks(turn), self.block_bytes)

    def payload(self, memory: Any, turn: int, rank: int) -> bytes:
        start = int(self._first(turn)[rank]) * self.block_bytes
        return bytes((memory[0] * 2)[start : start + self.size_bytes(turn)])

    def size_bytes(self, turn: int) -> int:
        return self._blocks(turn) * self.block_bytes

    def _blocks(self, turn: int) -> int:
        """How many blocks a message has."""
        return 1

    def _first(self, turn: int) -> Numbers:
        """The first block of what each rank sends; the others come after it, and after the last the first."""
        return self.ranks


class RingGather(Gather):
    """Each block travels once round the ring."""

    def _rounds(self) -> int:
        return self.size - 1

    def dest(self, turn: int) -> Numbers:
        return self._beside(1)

    def source(self, turn: int) -> Numbers:
        return self._beside(-1)

    def _first(self, turn: int) -> Numbers:
        return self._beside(-turn)


class BruckGather(Gather):
    """A rank has the blocks from its own on: in round k all of them go to rank - 2**k, or as many as are missing."""

    def dest(self, turn: int) -> Numbers:
        return self._beside(-(1 << turn))

    def source(self, turn: int) -> Numbers:
        return self._beside(1 << turn)

    def _blocks(self, turn: int) -> int:
        return min(1 << turn, self.size - (1 << turn))


class Results(Sequence[Any]):
    """What each rank has at the end, made for each when it asks: all together it is as much again as they contribute.

    Parameters
    ----------
    size : int
        How many ranks.
    make : callable
        Gives that of one rank.
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


class DoublingGather(Gather):
    """A rank has the blocks of its group of 2**k ranks, and exchanges them with the group beside it."""

    dest = Doubling.dest
    source = Doubling.source

    def _blocks(self, turn: int) -> int:
        return 1 << turn

    def _first(self, turn: int) -> Numbers:
        return self.ranks & -(1 << turn)


class Pairwise(Rounds):
    """In each round the blocks go to the ranks that are one further away."""

    def _rounds(self) -> int:
        return self.size - 1

    def dest(self, turn: int) -> Numbers:
        return self._beside(turn + 1)

    def source(self, turn: int) -> Numbers:
        return self._beside(-turn - 1)

    def size_bytes(self, turn: int) -> int:
        return self.block_bytes

    def memory(self, contributions: Sequence[bytes], fold: Any) -> Any:
        whole = np.frombuffer(b"".join(contributions), np.uint8).reshape(self.size, self.size, self.block_bytes)
        return whole, []

    def checks(self, memory: Any, turn: int) -> Any:
        whole, known = memory
        if not known:
            known.append(checks(whole.reshape(-1, self.block_bytes)).reshape(self.size, self.size))
        return known[0][self.ranks, self.dest(turn)]

    def payload(self, memory: Any, turn: int, rank: int) -> bytes:
        data: bytes = memory[0][rank, self.dest(turn)[rank]].tobytes()
        return data

    def results(self, memory: Any) -> Sequence[Any]:
        whole, made = memory[0], (-1, memory[0])

        def make(rank: int) -> EqualBlocks:
            nonlocal made
            group, place = divmod(rank, _TOGETHER)
            if made[0] != group:  # a line of the cache and a page of memory have blocks for several ranks
                made = group, whole[:, group * _TOGETHER : (group + 1) * _TOGETHER].transpose(1, 0, 2).copy()
            return EqualBlocks(made[1][place].tobytes(), self.block_bytes, self.size)

        return Results(self.size, make)


class Linear(Pairwise):
    """Everybody sends to all others, the next one below first, and then waits for everything."""

    one_at_a_time = False
    batch_ranks = 1 << 62

    def dest(self, turn: int) -> Numbers:
        return self._beside(-turn - 1)

    def source(self, turn: int) -> Numbers:
        return self._beside(turn + 1)

    def go_through(self, costs: Costs, clock: Numbers, nic: Numbers, look: Look) -> Any:
        overheads: Any = 0
        for first in range(0, self.rounds, self.batch_ranks):
            turns = range(first, min(first + self.batch_ranks, self.rounds))
            posted = clock.copy()
            arrivals = np.empty((len(turns), self.size), np.int64)
            for turn, arrival in zip(turns, arrivals, strict=True):
                send_ps, busy_ps, way_ps, _ = costs.of_round(turn, self.size)
                clock += send_ps
                np.maximum(clock, nic, out=nic)
                np.add(nic, way_ps, out=arrival)
                nic += busy_ps
                overheads = overheads + send_ps
            came = np.empty_like(arrivals)
            for turn, arrival, there in zip(turns, arrivals, came, strict=True):
                source = self.source(turn)
                np.take(arrival, source, out=there)
                look(turn, source, arrival, there, np.maximum(there, posted))
            overheads = overheads + self._receive(costs, turns, clock, came)
        return overheads

    def _receive(self, costs: Costs, turns: range, clock: Numbers, came: Numbers) -> Any:
        """Wait for messages that came at these times, as `timetable`; the overheads of taking them are returned."""
        count = len(turns)
        takes = costs.receive_ps
        if np.ndim(takes) == 0:
            if takes:
                came = np.sort(came, axis=0)
                came += (np.arange(count, 0, -1) * takes)[:, None]
            clock += count * takes
            np.maximum(clock, came.max(axis=0), out=clock)
            return count * takes
        each = np.stack([costs.of_round(turn, self.size)[3][self.source(turn)] for turn in turns])
        order = np.argsort(came, axis=0, kind="stable")
        from_here = np.cumsum(np.take_along_axis(each, order, 0)[::-1], axis=0)[::-1]
        came = np.take_along_axis(came, order, 0) + from_here
        clock += from_here[0]
        np.maximum(clock, came.max(axis=0), out=clock)
        return from_here[0]


class LinearInBatches(Linear):
    """The same with some ranks at a time."""

    batch_ranks = alltoall.BATCH_RANKS


class BruckExchange(Pairwise):
    """Every block travels by the bits of the distance that it has to go: in round k those whose bit k is set."""

    _rounds = Rounds._rounds
    dest = Rounds.dest
    source = Rounds.source

    def size_bytes(self, turn: int) -> int:
        return len(self._moved(turn)[0]) * self.block_bytes

    def checks(self, memory: Any, turn: int) -> Any:
        # One rank's blocks after the other's: together they would be hundreds of megabytes.
        moved = self._moved(turn)
        return np.array([crc32(self._sent(memory, moved, rank)) for rank in range(self.size)], np.uint32)

    def payload(self, memory: Any, turn: int, rank: int) -> bytes:
        data: bytes = self._sent(memory, self._moved(turn), rank).tobytes()
        return data

    @cached_property
    def _starts(self) -> Numbers:
        """Where the blocks of each rank begin, twice."""
        return self._twice * self.size

    def _moved(self, turn: int) -> tuple[Numbers, Numbers]:
        """How far back the first senders of the blocks that are sent are, round the ring, and how far they have to go.

        What they have come is what the lower bits of the whole distance say.
        """
        distance = self.ranks[self.ranks & (1 << turn) > 0]
        come = distance & (1 << turn) - 1
        return -come % self.size, distance - come

    def _sent(self, memory: Any, moved: tuple[Numbers, Numbers], rank: int) -> Any:
        """The blocks that a rank sends."""
        back, left = moved
        places = self._starts[rank:].take(back) + self._twice[rank:].take(left)
        blocks: Bytes = memory[0].reshape(self.size * self.size, self.block_bytes)
        return blocks.take(places, axis=0)


_KINDS: dict[Any, Callable[[int, int], Rounds]] = {
    barrier.bruck: Rounds,
    barrier.recursive_doubling: Doubling,
    allreduce.recursive_doubling: DoublingFold,
    allreduce.rabenseifner: Rabenseifner,
    allgather.ring: RingGather,
    allgather.bruck: BruckGather,
    allgather.recursive_doubling: DoublingGather,
    alltoall.pairwise: Pairwise,
    alltoall.linear: Linear,
    alltoall.linear_sync: LinearInBatches,
    alltoall.bruck: BruckExchange,
}
_DOUBLING = frozenset(
    (barrier.recursive_doubling, allreduce.recursive_doubling, allreduce.rabenseifner, allgather.recursive_doubling)
)
_GATHERS = frozenset((allgather.ring, allgather.bruck, allgather.recursive_doubling))
