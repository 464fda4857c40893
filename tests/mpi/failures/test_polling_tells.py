"""A rank that polls learns of a death as one that waits does: the timeout after it, or after its first look."""

from pathlib import Path

import pytest

from tests.process.launch import launch
from xsim_py import simulate

TIMEOUT_S, DEATH_S = 60e-6, 100e-6
WAYS = (
    "Iprobe", "Iprobe any", "Improbe", "Improbe any", "Test", "Test any", "Parrived", "Win.Test", "Get_failed",
)  # fmt: skip
HEARTBEAT = {"type": "heartbeat", "period": "100us", "timeout": "200us"}


def poll(way: str, first_s: float, pause_s: float) -> tuple[int, float]:
    """Poll from a time on for what only rank 1 can bring, which has died: the error class, and when it came."""
    import os
    import time

    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    data = np.zeros(4)
    source = MPI.ANY_SOURCE if way.endswith("any") else 1
    window = MPI.Win.Create(data, comm=comm) if way == "Win.Test" else None
    request = comm.Precv_init(data, 2, 1, 3) if way == "Parrived" and comm.rank == 0 else MPI.REQUEST_NULL
    if comm.rank == 1:
        time.sleep(100e-6 - MPI.Wtime())
        os._exit(1)
    if comm.rank == 2:
        time.sleep(1)
        os._exit(1)
    if request:
        request.Start()
    time.sleep(first_s - MPI.Wtime())
    if window is not None:
        window.Post(comm.group.Incl([1]))
    if way.startswith("Test"):
        request = comm.Irecv(data, source, 5)
    look = {
        "Iprobe": lambda: comm.Iprobe(source, 4),
        "Improbe": lambda: comm.Improbe(source, 4),
        "Test": lambda: request.Test(),
        "Parrived": lambda: request.Parrived(0),
        "Win.Test": lambda: window.Test(),
        "Get_failed": lambda: comm.Get_failed().size,
    }[way.split()[0]]
    error = MPI.SUCCESS
    try:
        while not look():
            time.sleep(pause_s)
    except MPI.Exception as raised:
        error = raised.Get_error_class()
    found = error, MPI.Wtime()
    time.sleep(2)
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("first_s", [50e-6, 300e-6])
@pytest.mark.parametrize("way", WAYS)
def test_a_poll_tells_of_a_death_when_a_wait_does(way: str, first_s: float) -> None:
    from xsim_py.mpi import constants as c

    results = [
        simulate(poll, ranks=3, machine="shmem", ft=True, args=[way, first_s, pause_s], shards=shards, wall_limit=30)
        for shards, pause_s in ((1, 0), (3, 0), (1, 1e-6))
    ]
    assert results[0].digest == results[1].digest
    for result in results:
        error, when_s = result.values[0]
        pending = c.ERR_PROC_FAILED_PENDING if way == "Test any" else c.ERR_PROC_FAILED
        assert error == (c.SUCCESS if way == "Get_failed" else pending)
        # A partitioned receive has waited since it was started, as long as it takes to poll.
        since_s = DEATH_S if way == "Parrived" else max(DEATH_S, first_s)
        told_s = max(since_s + TIMEOUT_S, first_s)
        assert told_s <= when_s <= told_s + 3e-6


@pytest.mark.parametrize("way", WAYS)
def test_a_poll_raises_what_a_heartbeat_has_told(way: str) -> None:
    told = {"mpi.detector": HEARTBEAT}
    result = simulate(poll, ranks=3, machine="shmem", ft=True, args=[way, 50e-6, 0], set=told, wall_limit=30)
    error, when_s = result.values[0]
    assert error or way == "Get_failed"
    assert DEATH_S + 200e-6 < when_s < DEATH_S + 230e-6


def test_what_is_found_begins_another_wait() -> None:
    def program() -> float:
        import os
        import time

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 1:
            time.sleep(100e-6)
            os._exit(1)
        if comm.rank == 2:
            for _ in range(10):
                time.sleep(50e-6)
                comm.send(None, 0)
            time.sleep(1e-3)
            return 0.0
        last_s = 0.0
        try:
            while True:
                if comm.iprobe():
                    last_s = MPI.Wtime()
                    comm.recv()
        except MPI.Exception:
            return MPI.Wtime() - last_s

    waited_s = simulate(program, ranks=3, machine="shmem", ft=True, wall_limit=30).values[0]
    assert TIMEOUT_S <= waited_s < TIMEOUT_S * 1.1 + 7e-6


@pytest.mark.parametrize("way", ["Barrier", "Recv", "Ibarrier", "Test any"])
def test_a_loop_of_calls_that_fail_at_once_ends_with_a_revocation(way: str) -> None:
    def program() -> tuple[int, float]:
        import os
        import time

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 2:
            os._exit(1)
        if comm.rank == 0:
            time.sleep(1e-3)
            comm.Revoke()
            return MPI.ERR_REVOKED, 1e-3
        request = comm.Irecv(bytearray(1), MPI.ANY_SOURCE)
        call = {
            "Barrier": comm.Barrier,
            "Recv": lambda: comm.Recv(bytearray(1), 2),
            "Ibarrier": lambda: comm.Ibarrier().Wait(),
            "Test any": request.Test,
        }[way]
        error = MPI.SUCCESS
        while error != MPI.ERR_REVOKED:
            try:
                call()
            except MPI.Exception as raised:
                error = raised.Get_error_class()
        return error, MPI.Wtime()

    _, when_s = simulate(program, ranks=3, machine="shmem", ft=True, wall_limit=30).values[1]
    assert 1e-3 < when_s < 1.02e-3


FARM = """
import os, signal, time
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank:
    while (task := comm.recv(source=0)) is not None:
        if task == 3 and comm.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        comm.send((task, task * task), 0)
else:
    todo, at, done, idle = [1, 3, 2, 4, 5, 6, 7], {}, {}, {1, 2, 3}
    status = MPI.Status()
    while len(done) < 7:
        for worker in sorted(idle) if todo else ():
            at[worker] = todo.pop(0)
            comm.send(at[worker], worker)
            idle.discard(worker)
            if not todo:
                break
        try:
            if comm.iprobe(status=status):
                task, square = comm.recv(source=status.source)
                done[task] = square
                idle.add(status.source)
            else:
                time.sleep(1e-4)
        except MPI.Exception:
            comm.Ack_failed()
            todo += [at.pop(rank) for rank in comm.Get_failed().Translate_ranks(None, comm.group) if rank in at]
    print(sorted(done.values()))
    for worker in (1, 3):
        comm.send(None, worker)
"""

POOL = """
import os, signal
from mpi4py import MPI
from mpi4py.futures import MPICommExecutor

def work(x):
    if x == 3:
        os.kill(os.getpid(), signal.SIGKILL)

with MPICommExecutor(MPI.COMM_WORLD, root=0) as pool:
    if pool is not None:
        list(pool.map(work, range(8)))
"""


@pytest.mark.parametrize("way", [{"shards": 1}, {"shards": 2}, {"isolation": "process"}])
def test_a_farm_whose_master_polls_survives_the_death_of_a_worker(tmp_path: Path, way: dict[str, object]) -> None:
    run = launch(tmp_path, FARM, ranks=4, machine="shmem", ft=True, wall_limit=60, **way)
    assert run.result.ended == "finished", run.err
    assert run.out == "[1, 4, 9, 16, 25, 36, 49]\n"
    assert run.result.digest == launch(tmp_path, FARM, ranks=4, machine="shmem", ft=True).result.digest


def test_a_pool_one_of_whose_workers_is_killed_ends_the_job(tmp_path: Path) -> None:
    run = launch(tmp_path, POOL, ranks=4, machine="shmem", ft=True, wall_limit=60)
    assert run.result.ended == "aborted"
    assert "Exception in thread Thread-1 (_manager)" in run.err
    assert "rank 0 ended the job" in run.result.report
    assert "MPI_ERR_PROC_FAILED" in run.result.report


def test_probes_by_name_find_what_a_rank_had_sent_before_it_died() -> None:
    """As in Open MPI, where the matched message can be received, too."""

    def program() -> object:
        import os
        import time

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 1:
            comm.send("sent", 0)
            time.sleep(100e-6)
            os._exit(1)
        try:
            comm.recv(source=1, tag=9)
        except MPI.Exception as error:
            found = comm.improbe(source=1) if comm.iprobe(source=1) else None
            return error.Get_error_class() == MPI.ERR_PROC_FAILED and found is not None and found.recv()

    assert simulate(program, ranks=2, machine="shmem", ft=True, wall_limit=30).values[0] == "sent"
