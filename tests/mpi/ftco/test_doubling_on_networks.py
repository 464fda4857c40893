"""Recursive doubling that outlives failures, as the collectives of a program: times, and everything that can fail."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from tests.mpi.ftco.test_driver import FTCO, LATENCY_S, OVERHEAD_S, reduce_and_tell, run, world
from xsim_py import ftco

CAMPAIGN = settings().max_examples > 1000
DOUBLING = FTCO | {"ftco": {"algorithm": "recursive_doubling"}}
ROUND_S = LATENCY_S + 2 * OVERHEAD_S


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 64] + [256] * CAMPAIGN)
def test_without_failures_it_takes_what_plain_recursive_doubling_takes(ranks: int) -> None:
    rounds = ranks.bit_length() - 1
    result = run(reduce_and_tell, ranks, args=["Allreduce"], mpi=DOUBLING)
    assert result.values == pytest.approx([rounds * ROUND_S] * ranks, abs=1e-12)
    assert result.messages == rounds * ranks
    plain = {"collectives": {"allreduce": "recursive_doubling"}}
    assert run(reduce_and_tell, ranks, args=["Allreduce"], mpi=plain).values == result.values


def arrivals_us(ranks: int) -> dict[int, int]:
    """When each rank has the result, by hand: whoever is free takes what came first, and sends before it takes.

    A latency of 10 us and overheads of 1 us. Of messages that come at the same moment it does not matter which is
    first, but for one overhead.
    """
    halves: dict[int, list[tuple[range, range]]] = {rank: [] for rank in range(ranks)}
    todo = [range(ranks)]
    while todo:
        whole = todo.pop()
        if len(whole) > 1:
            first, second = whole[: (len(whole) + 1) // 2], whole[(len(whole) + 1) // 2 :]
            todo += [first, second]
            for mine, theirs in ((first, second), (second, first)):
                for rank in mine:
                    halves[rank].append((mine, theirs))
    inbox: dict[int, list[tuple[int, int, int]]] = {rank: [] for rank in range(ranks)}
    place, taken = dict.fromkeys(range(ranks), -1), {rank: set[int]() for rank in range(ranks)}
    free, outbox = dict.fromkeys(range(ranks), 0), {rank: list[tuple[int, int]]() for rank in range(ranks)}

    def go_on(rank: int) -> None:
        rounds = len(halves[rank])
        while place[rank] < rounds and (place[rank] < 0 or rounds - 1 - place[rank] in taken[rank]):
            place[rank] += 1
            depth = rounds - 1 - place[rank]
            if depth >= 0:
                mine, theirs = halves[rank][depth]
                outbox[rank] += [(other, depth) for other in theirs[mine.index(rank) :: len(mine)]]

    for rank in range(ranks):
        go_on(rank)
    while True:
        turns = [
            (free[rank] if outbox[rank] else max(free[rank], min(inbox[rank])[0]), rank)
            for rank in range(ranks)
            if outbox[rank] or inbox[rank]
        ]
        if not turns:
            return free
        now, rank = min(turns)
        free[rank] = now + 1
        if outbox[rank]:
            other, depth = outbox[rank].pop(0)
            inbox[other].append((free[rank] + 10, rank, depth))
        else:
            message = min(inbox[rank])
            inbox[rank].remove(message)
            taken[rank].add(message[2])
            go_on(rank)


@pytest.mark.parametrize("ranks", [1, 3, 5, 6, 7, 9, 11, 12, 13, 24, 31, 33, 48, 63, 65, 100])
def test_any_number_of_ranks_takes_no_more_rounds_than_the_next_power_of_two(ranks: int) -> None:
    result = run(reduce_and_tell, ranks, args=["Allreduce"], mpi=DOUBLING)
    last_s = max(result.values)
    assert last_s == pytest.approx(max(arrivals_us(ranks).values()) * 1e-6, abs=1.001 * OVERHEAD_S)
    assert last_s <= (ranks - 1).bit_length() * ROUND_S + 1e-12


def gone(comm: Any) -> Any:
    """Everything that goes by halves, one after the other."""
    one, total, blocks = np.zeros(comm.size, int), np.zeros(comm.size, int), np.full(comm.size, -1)
    one[comm.rank] = 1
    seen: list[Any] = []
    for _ in range(2):
        comm.Allreduce(one, total)
        seen.append((total.tolist(), ftco.missing(comm)))
        comm.Barrier()
        seen.append(ftco.missing(comm))
        comm.Allgather(np.array([comm.rank]), blocks)
        seen.append((blocks.tolist(), ftco.missing(comm)))
    return seen


def program() -> Any:
    return gone(world())


def judge(result: Any, dead: tuple[int, ...], ranks: int) -> None:
    """All who live have seen the same, in which all of them are once; in the end nobody else is."""
    assert result.ended == "finished"
    living = [rank for rank in range(ranks) if rank not in dead]
    seen = result.values[living[0]]
    assert all(result.values[rank] == seen for rank in living)
    for counts, missing in seen[::3]:
        assert [rank for rank, count in enumerate(counts) if not count] == missing
        assert set(counts) <= {0, 1}
        assert not set(missing) & set(living)
    blocks, missing = seen[-1]
    assert missing == sorted(dead)
    assert [blocks[rank] for rank in living] == living


@pytest.mark.sampled
@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_whoever_is_dead_before(ranks: int) -> None:
    for count in range(ranks):
        for dead in combinations(range(ranks), count):
            if ranks < 8 or sum(dead) % 5 == 0:
                judge(run(program, ranks, *(f"rank={rank}@0s" for rank in dead), mpi=DOUBLING), dead, ranks)


@pytest.mark.sampled
@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_every_rank_dies_before_every_one_of_its_calls(ranks: int) -> None:
    calls = [(name, number) for number in ("1st", "2nd") for name in ("Allreduce", "Barrier", "Allgather")]
    for rank in range(ranks):
        for name, number in calls:
            judge(run(program, ranks, f"rank={rank} before its {number} {name}", mpi=DOUBLING), (rank,), ranks)


@pytest.mark.parametrize("ranks", [3, 4] if CAMPAIGN else [3])
def test_two_ranks_die_at_any_moments_of_an_operation(ranks: int) -> None:
    for first, second in combinations(range(ranks), 2):
        for at_us in range(0, 40, 7 if CAMPAIGN else 16):
            for later_us in (0, 1, 12, 25):
                deaths = f"rank={first}@{at_us}.5us", f"rank={second}@{at_us + later_us}.5us"
                judge(run(program, ranks, *deaths, mpi=DOUBLING), (first, second), ranks)


def test_neither_shards_nor_processes_make_a_difference() -> None:
    deaths = "rank=2 before its 1st Allreduce", "rank=0 before its 2nd Barrier", "rank=5@17us"
    whole = run(program, 9, *deaths, mpi=DOUBLING)
    judge(whole, (0, 2, 5), 9)
    for told in ({"shards": 2}, {"shards": 3}, {"shards": 7}, {"isolation": "process"}):
        other = run(program, 9, *deaths, mpi=DOUBLING, **told)
        assert (other.digest, other.values, other.events) == (whole.digest, whole.values, whole.events), told


def test_who_is_known_to_be_dead_costs_no_time_limit() -> None:
    def repeated() -> list[tuple[float, float]]:
        from mpi4py import MPI

        times = []
        for _ in range(3):
            begin_s = MPI.Wtime()
            world().Barrier()
            times.append((begin_s, MPI.Wtime()))
        return times

    mpi = FTCO | {"ftco": {"algorithm": "recursive_doubling", "timeout": "1s"}}
    found = np.array([value for value in run(repeated, 64, "rank=37@0s", mpi=mpi).values if value])
    last_s = found.max(axis=0)
    took_s = last_s[:, 1] - last_s[:, 0]
    assert 1 < took_s[0] < 1 + 20 * ROUND_S
    assert took_s[1:].max() <= 6 * (ROUND_S + OVERHEAD_S)  # who stands in for 37 sends twice in each round
