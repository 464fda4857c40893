"""A master of mpi-master-slave has its slaves double numbers, and ends them."""

from mpi4py import MPI
from mpi_master_slave import Master, Slave, WorkQueue


class Double(Slave):
    """Twice a number."""

    def do_work(self, data: int) -> int:
        """Return the result of one task."""
        return 2 * data


if MPI.COMM_WORLD.rank:
    Double().run()
else:
    master = Master(range(1, MPI.COMM_WORLD.size))
    queue = WorkQueue(master)
    for number in range(5):
        queue.add_work(number)
    done = []
    while not queue.done():
        queue.do_work()
        done.extend(queue.get_completed_work())
    master.terminate_slaves()
    print(sorted(done))
