"""Bag of tasks: the master is notified of failed workers, gives their tasks to others, and continues.

The slides on ULFM (Bosilca, Bouteiller and others, 2014) call this an application that uses notification only. Failures
leave holes in MPI_COMM_WORLD that are not repaired: no communicator is revoked or shrunk, and there is no agreement.
The master waits for a result from any rank. A failure ends that wait with MPI_ERR_PROC_FAILED_PENDING. The master
identifies and acknowledges the failed rank, returns its task to the bag, and continues to wait for the same request.

The tasks are pieces of the midpoint rule for pi, added up in task order. So the sum equals the serial one bit for bit,
in any distribution: a result sent before its worker failed counts once.

    xsim run -n 8 bag_of_tasks.py
    xsim run -n 8 --fail "rank=3 before its 2nd Send" --fail rank=5@1ms bag_of_tasks.py --work 1e-3
    mpirun --with-ft ulfm -n 8 python bag_of_tasks.py --die 3@1 --die 5@0

Any workers may fail, except the last one. The bag is on the master, rank 0, and fails with it: the workers then report
this and end. The arithmetic is real; a task takes --work seconds, in which the worker sleeps.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import deque

import numpy as np
import recovery
from mpi4py import MPI

MASTER = 0
RIGHT, WRONG = -1, -2  # instead of a task number: exit, with this status
WORK, NOTE = 1, 2


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--tasks", type=recovery.positive, default=96, help="number of tasks, the subintervals")
    add("--points", type=recovery.positive, default=1000, help="points of the midpoint rule per task")
    add("--work", type=recovery.seconds, default=0.0, help="duration of a task in seconds")
    add(
        "--dying",
        type=recovery.number(int, 0, 99),
        default=0,
        help="percentage of workers that die at their second task",
    )
    arguments = parser.parse_args()
    rank = MPI.COMM_WORLD.rank
    if MPI.COMM_WORLD.size < 2:
        parser.error("needs a master and a worker, at least two ranks")
    if rank * arguments.dying // 100 > max(rank - 1, 0) * arguments.dying // 100:
        arguments.die.append((rank, 1))
    return arguments


def piece(task: int, tasks: int, points: int) -> float:
    """Compute one task: the midpoint rule for the integral of 4 / (1 + x^2) on its piece of [0, 1]."""
    width = 1 / (tasks * points)
    x = (np.arange(task * points, (task + 1) * points) + 0.5) * width
    return float(np.sum(4 / (1 + x * x))) * width


def is_right(pi: float, tasks: int, points: int) -> bool:
    """Return True if a sum is the serial one bit for bit, and h^2 / 12 above pi."""
    serial = 0.0
    for task in range(tasks):
        serial += piece(task, tasks, points)
    h = 1 / (tasks * points)
    return pi == serial and abs(pi - math.pi - h * h / 12) < h**4 + 1e-13


class Master:
    """The bag, the results, and the current task of each worker."""

    def __init__(self, comm: MPI.Intracomm, arguments: argparse.Namespace) -> None:
        self.comm, self.arguments = comm, arguments
        self.bag = deque(range(arguments.tasks))
        self.done: dict[int, float] = {}
        self.doing: dict[int, int] = {}
        self.idle = deque(range(1, comm.size))
        self.dead: list[int] = []
        self.again = 0
        self.last = 0.0  # time of the last result

    def serve(self) -> None:
        """Distribute tasks until the bag is empty and all workers are idle."""
        answer, status, request = np.zeros(2), MPI.Status(), MPI.REQUEST_NULL
        self.give()
        while len(self.done) < self.arguments.tasks or self.doing:
            request = request or self.comm.Irecv(answer, MPI.ANY_SOURCE, WORK)
            _, well = recovery.attempt(request.Wait, status)
            if well:
                self.take(status.source, int(answer[0]), float(answer[1]))
            else:
                bury(self)
            self.give()

    def give(self) -> None:
        """Give each idle worker a task, while there are any."""
        while self.bag and self.idle:
            task = self.bag.popleft()
            if task not in self.done:
                worker = self.idle.popleft()
                self.doing[worker] = task
                send_in_spite(self.comm, task, worker)

    def take(self, worker: int, task: int, value: float) -> None:
        """Record a result, of which only the first counts."""
        if task not in self.done:
            self.done[task] = value
            self.last = MPI.Wtime()
            recovery.die_at(self.arguments.die, len(self.done))
        if self.doing.pop(worker, None) is not None:
            self.idle.append(worker)

    def report(self) -> bool:
        """Print the sum, and return True if it is right."""
        pi = 0.0
        for task in range(self.arguments.tasks):
            pi += self.done[task]
        right = is_right(pi, self.arguments.tasks, self.arguments.points)
        print(f"# {len(self.dead)} of {self.comm.size - 1} workers died, {self.again} tasks reassigned")
        print(f"# time: all answers after {self.last * 1e6:.6f} us, {len(self.done) / (self.last or 1):.0f} a second")
        print(f"bag_of_tasks: {len(self.done)} tasks, pi {pi!r}")
        print(f"right: {right}", flush=True)
        return right

    def dismiss(self, right: bool) -> None:
        """Dismiss all workers, from the last rank to the first: see `orphaned`."""
        for worker in range(self.comm.size - 1, 0, -1):
            send_in_spite(self.comm, RIGHT if right else WRONG, worker)


def toil(comm: MPI.Intracomm, arguments: argparse.Namespace) -> int:
    """Do tasks until dismissed; return the exit status."""
    given, number = np.zeros(1, int), 0
    while True:
        comm.Recv(given, MASTER, WORK)
        task = int(given[0])
        if task < 0:
            return int(task == WRONG)
        recovery.die_at(arguments.die, number)
        number += 1
        value = piece(task, arguments.tasks, arguments.points)
        if arguments.work:
            time.sleep(arguments.work)
        comm.Send(np.array([task, value]), MASTER, WORK)


# ------------------------------------------------------------------------------------------------------------ recovery


def send_in_spite(comm: MPI.Intracomm, task: int, worker: int) -> None:
    """Send a worker a task; if it is known to have failed, the next wait reports that, too."""
    recovery.attempt(comm.Send, np.array([task]), worker, WORK)


def bury(master: Master) -> None:
    """Return the tasks of newly failed workers to the bag, and acknowledge the failures."""
    master.comm.Ack_failed()
    for worker in sorted({*recovery.known_dead(master.comm)}.difference(master.dead)):
        master.dead.append(worker)
        if worker in master.idle:
            master.idle.remove(worker)
        task = master.doing.pop(worker, None)
        if task is not None and task not in master.done:
            master.bag.append(task)
            master.again += 1
    if len(master.dead) == master.comm.size - 1:
        print(f"lost: all workers, with {master.arguments.tasks - len(master.done)} tasks undone", flush=True)
        sys.exit(1)


def orphaned(comm: MPI.Intracomm) -> None:
    """Report that the master has failed, or wait for a lower rank that does.

    Higher ranks are notified first, and the master dismisses them first. So all lower surviving ranks get here, too.
    """
    note = np.zeros(1, int)
    for lower in range(1, comm.rank):
        if recovery.attempt(comm.Recv, note, lower, NOTE)[1]:
            return
    print("lost: the master, rank 0, and the bag with it", flush=True)
    for higher in range(comm.size - 1, comm.rank, -1):
        recovery.attempt(comm.Send, note, higher, NOTE)


# ---------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    """Run the master or a worker."""
    arguments = parse_arguments()
    comm = MPI.COMM_WORLD
    if comm.rank == MASTER:
        master = Master(comm, arguments)
        master.serve()
        right = master.report()
        master.dismiss(right)
        sys.exit(int(not right))
    status, well = recovery.attempt(toil, comm, arguments)
    if not well:
        orphaned(comm)
        status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
