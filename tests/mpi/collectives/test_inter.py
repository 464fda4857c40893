"""Collectives between two groups: each gets what the other contributes."""

import random
from collections.abc import Callable
from functools import reduce as python_reduce
from typing import Any

import pytest

from tests.mpi.collectives.toy_network import Matrices, ToyInterChannel, ToyNetwork
from xsim_py.mpi.collectives import inter
from xsim_py.mpi.collectives.channel import cut

GROUPS = [(1, 1), (1, 5), (4, 2), (3, 3), (7, 9), (16, 5)]
FOLD = Matrices()


def run(first: int, second: int, function: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    """Run on both groups with sends that block; the two groups' results."""
    network = ToyNetwork(first + second, rendezvous=True)
    results = network.run(lambda ch: function(ToyInterChannel(network, ch.rank, first=first)))
    assert network.unreceived() == 0
    return results[:first], results[first:]


def in_first(ch: Any) -> bool:
    return bool(ch.local.network.size - ch.remote_size == ch.size and ch._me == ch.rank)


def blocks_of(seed: int, count: int, sizes: tuple[int, ...] = (0, 3, 8)) -> list[bytes]:
    rng = random.Random(seed)
    return [rng.randbytes(rng.choice(sizes)) for _ in range(count)]


def role(ch: Any, root: int) -> Any:
    """The root is in the first group."""
    if not in_first(ch):
        return "member"
    return "root" if ch.rank == root else "idle"


@pytest.mark.parametrize(("first", "second"), GROUPS)
def test_rooted_collectives_between_a_root_and_the_other_group(first: int, second: int):
    data = blocks_of(1, second, (8,))
    parts = blocks_of(2, second)
    total = python_reduce(FOLD, data)
    for root in range(first):

        def program(ch: Any, root: int = root) -> Any:
            mine = None if in_first(ch) else data[ch.rank]
            odd = None if in_first(ch) else parts[ch.rank]
            part = role(ch, root)
            return (
                inter.bcast(ch, b"news" if part == "root" else None, root, 4, part),
                inter.reduce(ch, mine, FOLD, root, part),
                inter.gather(ch, odd, root, part),
                inter.scatter(ch, parts if part == "root" else None, root, part),
            )

        near, far = run(first, second, program)
        assert far == [(b"news", None, None, parts[rank]) for rank in range(second)]
        assert near == [(None, total, parts, None) if rank == root else (None,) * 4 for rank in range(first)]


@pytest.mark.parametrize(("first", "second"), GROUPS)
def test_each_group_gets_the_sum_of_the_other(first: int, second: int):
    low, high = blocks_of(3, first, (12,)), blocks_of(4, second, (12,))
    near, far = run(first, second, lambda ch: inter.allreduce(ch, (low if in_first(ch) else high)[ch.rank], FOLD))
    assert near == [python_reduce(FOLD, high)] * first
    assert far == [python_reduce(FOLD, low)] * second


@pytest.mark.parametrize(("first", "second"), GROUPS)
def test_reduce_scatter_spreads_the_sum_of_the_other_group(first: int, second: int):
    length = 4 * first * second
    low, high = blocks_of(5, first, (length,)), blocks_of(6, second, (length,))

    def program(ch: Any) -> Any:
        return inter.reduce_scatter(ch, (low if in_first(ch) else high)[ch.rank], FOLD, [length // ch.size] * ch.size)

    near, far = run(first, second, program)
    assert near == cut(python_reduce(FOLD, high), [length // first] * first)
    assert far == cut(python_reduce(FOLD, low), [length // second] * second)


@pytest.mark.parametrize(("first", "second"), GROUPS)
def test_allgather_and_alltoall_between_groups(first: int, second: int):
    low, high = blocks_of(7, first), blocks_of(8, second)
    table = [blocks_of(rank, second) for rank in range(first)]  # from the first group to the second
    back = [blocks_of(90 + rank, first) for rank in range(second)]

    def program(ch: Any) -> Any:
        mine, theirs, parts = (low, high, table) if in_first(ch) else (high, low, back)
        gathered = inter.allgather(ch, mine[ch.rank], [len(block) for block in theirs])
        return gathered, inter.alltoall(ch, parts[ch.rank])

    near, far = run(first, second, program)
    assert near == [(high, [row[rank] for row in back]) for rank in range(first)]
    assert far == [(low, [row[rank] for row in table]) for rank in range(second)]


@pytest.mark.parametrize(("first", "second"), GROUPS)
def test_a_barrier_waits_for_the_other_group_too(first: int, second: int):
    for late in {0, first - 1, first, first + second - 1}:
        network = ToyNetwork(first + second)

        def program(ch: Any, network: ToyNetwork = network, late: int = late) -> None:
            if ch.rank == late:
                network.times[late] = 1000
            inter.barrier(ToyInterChannel(network, ch.rank, first=first))

        network.run(program)
        assert min(network.times) >= 1000
