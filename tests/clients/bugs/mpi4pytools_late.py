"""A queue of mpi4pytools runs with a timeout, and once more with other tasks."""

import time

from mpi4py import MPI
from mpitools.queue import MPIQueue, Task


class Square(Task):
    """The square of a number, which takes a second."""

    def __init__(self, number: int) -> None:
        super().__init__(f"square of {number}")
        self.number = number

    def execute(self) -> int:
        """Return the square."""
        time.sleep(1)
        return self.number**2


queue = MPIQueue()
for numbers, timeout in ((range(1, 5), 0.5), ((10, 11), None)):
    if MPI.COMM_WORLD.rank == 0:
        queue.add_tasks([Square(number) for number in numbers])
    results = queue.run(timeout=timeout)
    if MPI.COMM_WORLD.rank == 0:
        print({name: result.result for name, result in results.items()})
