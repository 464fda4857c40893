"""Times of one-sided communication, against closed forms, to the picosecond."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from xsim_py import simulate

US, NS = 10**6, 10**3
LATENCY_ONLY = {"network": {"latency": "1us"}}
L = US
# One byte a nanosecond, and a gap that only matters for the smallest.
FULL = {
    "network": {
        "latency": "1us",
        "bandwidth": "8Gbps",
        "send_overhead": "300ns",
        "recv_overhead": "700ns",
        "gap": "400ns",
        "eager_threshold": "1024B",
    }
}
SEND, GAP = 300 * NS, 400 * NS


def now_ps() -> int:
    from mpi4py import MPI

    return round(MPI.Wtime() * 10**12)


def window(size_bytes: int = 100_000) -> Any:
    """A window, at a time when all have it."""
    import time

    from mpi4py import MPI

    win = MPI.Win.Allocate(size_bytes, 1, comm=MPI.COMM_WORLD)
    time.sleep(1e-3 - MPI.Wtime())
    return win


def spent(program: Any, *args: Any, machine: Any = LATENCY_ONLY, ranks: int = 2, **options: Any) -> list[Any]:
    result = simulate(program, ranks=ranks, machine=machine, args=list(args), **options)
    assert result.ended == "finished", result.report
    return list(result.values)


def passive(kind: str, size: int) -> tuple[int, ...]:
    """Lock, one operation, flush and unlock at rank 1: how long each takes at rank 0."""
    from mpi4py import MPI

    win = window()
    times = [now_ps()]
    if MPI.COMM_WORLD.rank == 0:
        data, result = np.ones(size, "u1"), np.zeros(size, "u1")
        win.Lock(1)
        times.append(now_ps())
        if kind == "put":
            win.Put(data, 1)
        elif kind == "get":
            win.Get(result, 1)
        elif kind == "accumulate":
            win.Accumulate([data, MPI.UNSIGNED_CHAR], 1)
        elif kind == "fetch":
            win.Get_accumulate([data, MPI.UNSIGNED_CHAR], [result, MPI.UNSIGNED_CHAR], 1)
        elif kind == "swap":
            win.Compare_and_swap([data, MPI.UNSIGNED_CHAR], [data, MPI.UNSIGNED_CHAR], [result, MPI.UNSIGNED_CHAR], 1)
        times.append(now_ps())
        win.Flush(1)
        times.append(now_ps())
        win.Unlock(1)
        times.append(now_ps())
    MPI.COMM_WORLD.Barrier()
    win.Free()
    return tuple(after - before for before, after in pairwise(times))


@pytest.mark.parametrize("kind", ["put", "get", "accumulate", "fetch", "swap"])
def test_where_only_latency_costs_a_lock_and_a_flush_are_a_round_trip_each(kind: str) -> None:
    assert spent(passive, kind, 1)[0] == (2 * L, 0, 2 * L, 0)


@pytest.mark.parametrize("size", [1, 399, 1000, 1024, 1025, 100_000])
@pytest.mark.parametrize("kind", ["put", "accumulate"])
def test_a_put_is_overhead_bytes_and_latency_and_its_acknowledgement_a_latency(kind: str, size: int) -> None:
    assert spent(passive, kind, size, machine=FULL)[0] == (SEND + 2 * L, SEND, size * NS + 2 * L, SEND)


@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_a_get_is_a_round_trip_that_comes_back_with_the_bytes(size: int) -> None:
    assert spent(passive, "get", size, machine=FULL)[0] == (SEND + 2 * L, SEND, 2 * L + size * NS, SEND)
    assert spent(passive, "fetch", size, machine=FULL)[0] == (SEND + 2 * L, SEND, 2 * L + 2 * size * NS, SEND)


def puts_in_a_row(count: int, size: int) -> int:
    from mpi4py import MPI

    win = window()
    start = now_ps()
    if MPI.COMM_WORLD.rank == 0:
        win.Lock(1, assertion=MPI.MODE_NOCHECK)
        for _ in range(count):
            win.Put(np.ones(size, "u1"), 1)
        win.Flush(1)
        win.Unlock(1)
    return now_ps() - start


@pytest.mark.parametrize(("count", "size"), [(5, 10), (5, 400), (7, 5000)])
def test_puts_in_a_row_wait_for_the_interface_and_for_one_acknowledgement(count: int, size: int) -> None:
    busy = max(GAP, size * NS, SEND)
    assert spent(puts_in_a_row, count, size, machine=FULL)[0] == SEND + (count - 1) * busy + size * NS + 2 * L


def unanswered(count: int) -> int:
    """How long it takes to begin that number of atomic operations without a flush."""
    from mpi4py import MPI

    win = window()
    start = now_ps()
    if MPI.COMM_WORLD.rank == 0:
        win.Lock(1, assertion=MPI.MODE_NOCHECK)
        one, result = np.ones(1, "u1"), np.zeros(1, "u1")
        for _ in range(count):
            win.Fetch_and_op([one, MPI.UNSIGNED_CHAR], [result, MPI.UNSIGNED_CHAR], 1)
        start, end = 0, now_ps() - start
        win.Unlock(1)
        return end
    return 0


def test_from_a_thousand_unanswered_atomic_operations_on_each_takes_a_look() -> None:
    assert spent(unanswered, 1000)[0] == 0
    assert spent(unanswered, 1010, set={"mpi.poll_time": "90ns"})[0] == 10 * 90 * NS


def local(size: int) -> tuple[int, int]:
    """When the buffer of a put may be used again, by request and by flush."""
    from mpi4py import MPI

    win = window()
    start = now_ps()
    times = []
    if MPI.COMM_WORLD.rank == 0:
        win.Lock(1, assertion=MPI.MODE_NOCHECK)
        win.Rput(np.ones(size, "u1"), 1).Wait()
        times.append(now_ps() - start)
        win.Flush_local(1)
        times.append(now_ps() - start)
        win.Unlock(1)
    return tuple(times)


@pytest.mark.parametrize(("size", "left"), [(1024, 0), (1025, 1025 * NS), (100_000, 100_000 * NS)])
def test_large_data_are_not_copied_so_their_buffer_is_free_when_they_have_left(size: int, left: int) -> None:
    assert spent(local, size, machine=FULL)[0] == (SEND + left, SEND + left)


def together(what: str) -> int:
    """A fence, one after a put, or a barrier, that all enter at the same time."""
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    win = window()
    win.Fence()
    time.sleep(2e-3 - MPI.Wtime())
    start = now_ps()
    if what == "barrier":
        comm.Barrier()
    else:
        if what == "put":
            win.Put(np.ones(1), (comm.rank + 1) % comm.size)
        win.Fence()
    return now_ps() - start


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_a_fence_is_a_barrier_after_the_last_acknowledgement(ranks: int) -> None:
    machine = {**LATENCY_ONLY, "same_node": {"latency": "1us"}}
    barrier = spent(together, "barrier", ranks=ranks, machine=machine)
    assert spent(together, "fence", ranks=ranks, machine=machine) == barrier
    assert spent(together, "put", ranks=ranks, machine=machine) == [2 * L + time for time in barrier]


def contended() -> tuple[int, int]:
    """All ask for the lock of rank 0, and keep it for 10 us: when each has it, and how long it waited."""
    import time

    from mpi4py import MPI

    win = window()
    start = now_ps()
    if MPI.COMM_WORLD.rank:
        win.Lock(0)
        had = now_ps()
        time.sleep(10e-6)
        win.Unlock(0)
        return had - start
    return 0


def test_a_lock_goes_from_hand_to_hand_in_a_release_and_a_grant() -> None:
    _, *had = spent(contended, ranks=5)
    assert had == [2 * L + turn * (10 * US + 2 * L) for turn in range(4)]


def ring() -> tuple[int, ...]:
    """Post, Start, Put, Complete and Wait among neighbours: when each is over."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    win = window()
    start = now_ps()
    times = []
    group = win.group
    win.Post(group.Incl([(comm.rank - 1) % comm.size]))
    times.append(now_ps() - start)
    win.Start(group.Incl([(comm.rank + 1) % comm.size]))
    times.append(now_ps() - start)
    win.Put(np.ones(100, "u1"), (comm.rank + 1) % comm.size)
    win.Complete()
    times.append(now_ps() - start)
    win.Wait()
    times.append(now_ps() - start)
    return tuple(times)


def test_post_and_complete_take_a_latency_each() -> None:
    assert set(spent(ring, ranks=4)) == {(0, L, L, 2 * L)}
    after_complete = SEND + L + 2 * SEND  # the overheads of Post, Put and Complete
    wait = SEND + L + SEND + max(100 * NS, GAP) + L  # what Complete says leaves after the data
    assert set(spent(ring, ranks=4, machine=FULL)) == {(SEND, SEND + L, after_complete, wait)}


def everybody(lock_all: bool) -> int:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    win = window()
    start = now_ps()
    win.Lock_all()
    if lock_all:
        for other in range(comm.size):
            win.Put(np.ones(1), other)
    win.Unlock_all()
    return now_ps() - start


def test_lock_all_asks_for_the_locks_with_the_first_operation() -> None:
    near = {"same_node": {"latency": "1us"}}
    machine = {**LATENCY_ONLY, **near}
    assert set(spent(everybody, False, ranks=6, machine=machine)) == {2 * L}
    assert set(spent(everybody, True, ranks=6, machine=machine)) == {4 * L}
