# ranks: 1 2 4
"""Executors whose workers are the other ranks of a communicator."""

from mpi4py import MPI
from mpi4py.futures import MPICommExecutor, as_completed, collect, compose, get_comm_workers, wait

comm = MPI.COMM_WORLD
rank = comm.rank


def work(number: int) -> int:
    """Compute something."""
    return number * number


def fail(number: int) -> None:
    """Raise."""
    raise KeyError(number)


def workers() -> int:
    """Ask how many there are."""
    return get_comm_workers().size


with MPICommExecutor(comm, root=0) as executor:
    if executor is not None:
        print(f"rank {rank}: {list(executor.map(work, range(10)))}")
        print(f"rank {rank}: {list(executor.starmap(pow, [(2, 3), (3, 2)], chunksize=2))}")
        print(f"rank {rank}: {sorted(executor.map(work, range(9), chunksize=4, unordered=True))}")
        futures = [executor.submit(work, number) for number in range(5)]
        print(f"rank {rank}: {sorted(future.result() for future in as_completed(futures))} {len(wait(futures).done)}")
        print(f"rank {rank}: {collect(futures).result()} {compose(futures[3], str).result()!r}")
        try:
            executor.submit(fail, 4).result()
        except KeyError as error:
            print(f"rank {rank}: {error!r} {type(error.__cause__).__name__}")
        print(f"rank {rank}: {executor.submit(workers).result()} {executor.num_workers}")
        executor.shutdown()
        try:
            executor.submit(work, 1)
        except RuntimeError as error:
            print(f"rank {rank}: {error}")

half = comm.Split(rank % 2, rank)
with MPICommExecutor(half, root=half.size - 1) as executor:
    if executor is not None:
        print(f"rank {rank}: {executor.submit(work, rank).result()}")
print(f"rank {rank}: {comm.allreduce(1)}")
