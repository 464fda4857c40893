"""``mpi4py.futures`` and ``mpi4py.util.pool``: mpi4py's own, in virtual processes and their threads."""

import sys
from pathlib import Path

import pytest

from tests.process.launch import Launched, launch, simulated, write

SHARDS = pytest.mark.parametrize("shards", [1, 2, 3])

POOL = """
import time
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor, as_completed, collect, compose, get_comm_workers

def work(number):
    time.sleep(1)
    return number * number, get_comm_workers().rank, MPI.COMM_WORLD.rank

def fail(number):
    raise ValueError(number)

if __name__ == "__main__":
    with MPIPoolExecutor(2) as pool:
        print(sorted(pool.map(work, range(4))), pool.num_workers, round(MPI.Wtime(), 1))
        print(pool.submit(compile, "1", "f", "eval").exception() is not None, end=" ")
        error = pool.submit(fail, 3).exception()
        print(type(error).__name__, error.args, "in fail" in str(error.__cause__))
        both = collect([pool.submit(pow, 2, n) for n in range(3)])
        print(both.result(), compose(pool.submit(int, "7"), str).result())
        late = pool.submit(time.sleep, 5)
        try:
            late.result(timeout=1)
        except TimeoutError:
            print("not yet", round(MPI.Wtime(), 1))
"""


def as_module(folder: Path, text: str, *, ranks: int, **told: object) -> Launched:
    """What ``python -m mpi4py.futures prog.py`` gives."""
    write(folder, {"prog.py": text})
    program = "from mpi4py.futures import __main__; __main__.main()"
    return simulated(program, kind="code", args=[str(folder / "prog.py")], ranks=ranks, **told)


@SHARDS
def test_the_ranks_of_a_run_are_workers(tmp_path: Path, shards: int):
    done = as_module(tmp_path, POOL, ranks=3, shards=shards)
    assert done.err == ""
    assert done.lines == [
        "[(0, 0, 1), (1, 1, 2), (4, 1, 2), (9, 0, 1)] 2 2.0",
        "True ValueError (3,) True",
        "[1, 2, 4] 7",
        "not yet 3.0",
    ]
    assert done.result.digest == as_module(tmp_path, POOL, ranks=3).result.digest
    assert done.result.virtual_time_s == pytest.approx(7, abs=0.1)


def test_workers_are_started_where_there_are_none(tmp_path: Path):
    write(tmp_path, {"prog.py": POOL})
    done = simulated(tmp_path / "prog.py", ranks=1)
    assert done.lines[1:3] == ["True ValueError (3,) True", "[1, 2, 4] 7"]
    assert done.lines[0].startswith("[(0, 0, 0), (1, 1, 1), (4, ")


@SHARDS
def test_each_process_has_its_own_executors(tmp_path: Path, shards: int):
    done = launch(
        tmp_path,
        """
        from mpi4py import futures
        import mpi4py.util.pool
        half = comm.Split(rank % 2)
        def work(number):
            return number, rank
        with futures.MPICommExecutor(half, root=0) as pool:
            if pool is not None:
                print(rank, sorted(pool.map(work, range(4), chunksize=2)))
        print(rank, mpi4py.futures is futures, mpi4py.util.pool.Pool.Executor is futures.MPIPoolExecutor)
        """,
        ranks=6,
        shards=shards,
    )
    assert [line for line in done.lines if "(" in line] == [
        "0 [(0, 2), (1, 2), (2, 4), (3, 4)]",
        "1 [(0, 3), (1, 3), (2, 5), (3, 5)]",
    ]
    assert sorted(line for line in done.lines if "(" not in line) == [f"{rank} True True" for rank in range(6)]


def test_a_pool_like_that_of_multiprocessing(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import time
        from mpi4py.util.pool import Pool, ThreadPool
        def work(number):
            time.sleep(1)
            return -number
        if __name__ == "__main__":
            with ThreadPool(2) as pool:
                print(pool.map(abs, range(-2, 2)), pool.apply_async(max, (3, 4)).get(timeout=9))
            with Pool(3) as pool:
                start = MPI.Wtime()
                print(pool.map(work, range(6)), round(MPI.Wtime() - start, 1))
        """,
    )
    assert done.lines == ["[2, 1, 0, 1] 4", "[0, -1, -2, -3, -4, -5] 2.3"]


def test_workers_find_the_options_of_their_interpreter(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        import sys
        from mpi4py.futures import MPIPoolExecutor
        def flags():
            return sys.flags.debug, sys.flags.optimize, sys.flags.dev_mode, sys.flags.verbose
        if __name__ == "__main__":
            with MPIPoolExecutor(1, python_args=["-d", "-OO", "-Xdev"], main=True) as pool:
                print(pool.submit(flags).result(), flags())
        """,
    )
    here = (sys.flags.debug, sys.flags.optimize, sys.flags.dev_mode, sys.flags.verbose)
    assert done.lines == [f"{(here[0] + 1, here[1] + 2, True, here[3])} {here}"]


def test_a_task_that_never_ends_is_in_the_deadlock_report(tmp_path: Path):
    done = launch(
        tmp_path,
        """
        from mpi4py.futures import MPICommExecutor
        def work():
            MPI.COMM_SELF.recv()
        with MPICommExecutor(comm) as pool:
            if pool is not None:
                pool.submit(work)
        """,
        ranks=2,
        wall_limit=1,
    )
    assert done.result.ended == "wall limit"
    assert "Comm.recv on MPI_COMM_SELF: a message from any source, any tag" in done.result.report
