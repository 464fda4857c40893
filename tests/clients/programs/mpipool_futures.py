"""Tasks that are submitted, mapped and failing, in a pool of mpipool's."""

from mpi4py import MPI
from mpipool import MPIExecutor


def square(x):
    return x * x


def fails(x):
    raise ValueError(f"no {x}")


with MPIExecutor() as pool:
    pool.workers_exit()
    print("map", list(pool.map(square, range(20))))
    print("submit", [pool.submit(square, x).result() for x in range(5)])
    print("lambda", pool.submit(lambda x: x + 1, 41).result())
    print("fails", type(pool.submit(fails, 3).exception()).__name__)

MPI.COMM_WORLD.Barrier()
print("rank", MPI.COMM_WORLD.rank, "goes on")
