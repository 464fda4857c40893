"""Falanx: a resource manager, a replicated data store, and workers that repeat lost tasks.

After the data-flow runtime of AIST (Ikegami and others, SC14; for OpenFMO), as described by the slides on ULFM. Rank 0
is the master with the resource manager: it gives tasks to workers, and tracks the location of data. The next ranks are
the data store: --copies of them hold each result. The others form workers of --task-ranks each, on separate
communicators. A task reads its inputs from the store, is computed by all ranks of a worker, and stores its result
there.

The application is an outline of the fragment molecular orbital method: N monomers, then all pairs (dimers) once both
monomers are available, and E = sum of E_IJ - (N - 2) sum of E_I. The "densities" are sequences of integers, so E has a
closed form, and is exact for any distribution and order.

    xsim run -n 8 falanx.py
    xsim run -n 8 --fail "rank=5 before its 3rd bcast" --fail rank=2@1ms falanx.py
    mpirun --with-ft ulfm -n 8 python falanx.py --die 5@1 --die 2@9

A worker with a failed rank is stopped by revoking its communicator, and its task goes to another. Once the remaining
ranks are enough for a worker, the master lets the others finish their tasks, and revokes the global communicator. All
survivors shrink it and form new workers. Copies on a failed storage rank are replaced elsewhere. Data are lost if all
their copies fail before that: the job ends and reports them. It also ends if the master, all workers, or the whole
store fail.

The protocol, the data and their copies are real; a task takes --work seconds, in which the worker sleeps.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import recovery
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Sequence

    Task = tuple[int, ...]  # (i,): a monomer; (i, j): a dimer

MASTER = 0
TASK, PUT, GET, COPY, DATA, STORED, DONE, END = range(1, 9)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = recovery.Parser(__doc__)
    add = parser.add_argument
    add("--fragments", type=recovery.number(int, 2), default=6, help="how many monomers there are")
    add("--points", type=recovery.positive, default=64, help="the length of a density")
    add("--task-ranks", type=recovery.positive, default=2, help="how many ranks a worker has")
    add("--storage", type=recovery.positive, help="how many ranks the store has (3, or a tenth of all)")
    add("--copies", type=recovery.positive, default=2, help="how many storage ranks have each result")
    add("--placement", choices=("ring", "pairs"), default="ring", help="neighbours, or a pair")
    add("--work", type=recovery.seconds, default=0.0, help="seconds that a task takes")
    add(
        "--kill",
        type=recovery.natural,
        default=0,
        help="number of storage ranks that die together at the end of the computation",
    )
    add("--seed", type=recovery.natural, default=0, help="which ones")
    arguments = parser.parse_args()
    size = MPI.COMM_WORLD.size
    arguments.storage = arguments.storage or max(3, size // 10)
    if arguments.storage + 2 > size:
        parser.error(f"a master, {arguments.storage} storage ranks and a worker need more than {size} ranks")
    if arguments.kill > arguments.storage:
        parser.error(f"--kill {arguments.kill}: there are {arguments.storage} storage ranks")
    if arguments.placement == "pairs" and (arguments.copies != 2 or arguments.storage % 2):
        parser.error("pairs are two copies, on an even number of storage ranks")
    return arguments


# --------------------------------------------------------------------------------------------------------- application


def energy(task: Task, inputs: Sequence[np.ndarray], start: int, stop: int) -> np.ndarray:
    """Compute a part of a monomer's density, or of a dimer's energy, on the points from start to stop."""
    points = np.arange(start + 1, stop + 1)
    if len(task) == 1:
        return (task[0] + 1) * points
    one, other = (density[start:stop] for density in inputs)
    return np.array([one.sum() + other.sum() - (one * other).sum()])


def total(results: dict[Task, np.ndarray], fragments: int) -> int:
    """Return the total energy of the two-body expansion."""
    energies = {task: int(result.sum()) for task, result in results.items()}
    monomers = sum(energies[i,] for i in range(fragments))
    return sum(energies[i, j] for i in range(fragments) for j in range(i)) - (fragments - 2) * monomers


def closed_form(fragments: int, points: int) -> int:
    """Return it by formula: sum n sum k - e_2(n) sum k^2, n = 1 to N, k = 1 to the points."""
    numbers, squares = fragments * (fragments + 1) // 2, fragments * (fragments + 1) * (2 * fragments + 1) // 6
    pairs = (numbers * numbers - squares) // 2
    return numbers * points * (points + 1) // 2 - pairs * points * (points + 1) * (2 * points + 1) // 6


# ---------------------------------------------------------------------------------------------------------- data store


class Store:
    """The data of a storage rank, on the communicator of all survivors."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.held: dict[Task, np.ndarray] = {}
        self.served = 0

    def serve(self, base: MPI.Intracomm) -> None:
        """Serve requests until the communicator is revoked or the master fails."""
        status = MPI.Status()
        while True:
            request, well = recovery.attempt(base.recv, source=MPI.ANY_SOURCE, status=status)
            if well:
                recovery.die_at(self.arguments.die, self.served)
                self.served += 1
                self.answer(base, request, status.source, status.tag)
            elif base.Is_revoked() or MASTER in recovery.known_dead(base):
                return
            else:
                base.Ack_failed()

    def answer(self, base: MPI.Intracomm, request: Any, source: int, tag: int) -> None:
        """Store or send a result."""
        if tag == END:
            recovery.die()
        task = request[0]
        if tag == PUT:
            self.held[task] = request[1]
            recovery.attempt(base.send, (task, base.rank), request[2], STORED)
        elif tag == GET:
            recovery.attempt(base.send, self.held[task], source, DATA)
        else:
            recovery.attempt(base.send, (task, self.held[task], MASTER), request[1], PUT)


def fetch(base: MPI.Intracomm, task: Task, holders: Sequence[int]) -> np.ndarray | None:
    """Return a result from the first of its surviving holders, or None."""
    for holder in holders:
        if recovery.attempt(base.send, (task,), holder, GET)[1]:
            result, well = recovery.attempt(base.recv, source=holder, tag=DATA)
            if well:
                return result
    return None


def keep(base: MPI.Intracomm, task: Task, result: np.ndarray, holders: Sequence[int]) -> list[int]:
    """Send a result to its holders, and return those that have confirmed it."""
    for holder in holders:
        recovery.attempt(base.send, (task, result, base.rank), holder, PUT)
    return [holder for holder in holders if recovery.attempt(base.recv, source=holder, tag=STORED)[1]]


# ------------------------------------------------------------------------------------------------------------- workers


class Worker:
    """One rank of a worker."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.done = 0

    def toil(self, base: MPI.Intracomm, group: MPI.Intracomm) -> None:
        """Do tasks with the rest of the worker; its first rank talks to master and store."""
        while True:
            order, holders = None, []
            if group.rank == 0:
                task, sources, holders = base.recv(source=MASTER, tag=TASK)
                order = (task, [fetch(base, *source) for source in sources])
            task, inputs = group.bcast(order, root=0)
            recovery.die_at(self.arguments.die, self.done)
            self.done += 1
            lacks = any(each is None for each in inputs)
            result = None if lacks else self.compute(group, task, inputs)
            if group.rank == 0:
                kept = [] if result is None else keep(base, task, result, holders)
                base.send((task, kept), MASTER, DONE)

    def compute(self, group: MPI.Intracomm, task: Task, inputs: Sequence[np.ndarray]) -> np.ndarray | None:
        """Compute a task, each rank its share of the points; the first has the result."""
        points = self.arguments.points
        if self.arguments.work:
            time.sleep(self.arguments.work)
        start, stop = points * group.rank // group.size, points * (group.rank + 1) // group.size
        parts = group.gather(energy(task, inputs, start, stop), root=0)
        if group.rank:
            return None
        return np.concatenate(parts) if len(task) == 1 else np.sum(parts, axis=0)


# -------------------------------------------------------------------------------------------------------------- master


class Layout:
    """The roles on a communicator: storage ranks keep their numbers, workers are regrouped."""

    def __init__(self, base: MPI.Intracomm, arguments: argparse.Namespace) -> None:
        first = range(arguments.storage + 1)
        ranks = MPI.Group.Translate_ranks(MPI.COMM_WORLD.group, first, base.group)
        self.place = {number: rank for number, rank in zip(first, ranks, strict=True) if rank != MPI.UNDEFINED}
        self.stores = {rank: number for number, rank in self.place.items() if number != MASTER}
        self.first = len(self.place)
        self.computing = base.size - self.first
        self.size = min(arguments.task_ranks, self.computing)
        self.workers = self.computing // max(1, self.size)

    def worker(self, rank: int) -> int | None:
        """Return the worker of a rank, or None for a spare rank."""
        number = (rank - self.first) // max(1, self.size)
        return number if 0 <= number < self.workers else None


class Master:
    """Tasks, their workers, and the storage ranks (from 1, as initially) of results."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.todo: deque[Task] = deque((i,) for i in range(arguments.fragments))
        self.tasks = arguments.fragments * (arguments.fragments + 1) // 2
        self.where: dict[Task, list[int]] = {}
        self.stores = set(range(1, arguments.storage + 1))
        self.again = self.copied = self.rebuilt = 0
        self.outcome: tuple[list[str], bool] | str | None = None

    def run(self, base: MPI.Intracomm, layout: Layout) -> None:
        """Manage until all is done, new workers can be formed, or data are lost; return which."""
        self.base, self.layout, self.buried = base, layout, set[int]()
        self.leaders = {number: layout.first + number * layout.size for number in range(layout.workers)}
        self.idle, self.doing = deque(self.leaders), dict[int, "Task"]()
        self.copying: dict[tuple[Task, int], int] = {}
        self.bury_stores(self.stores.difference(layout.stores.values()))
        status = MPI.Status()
        while self.outcome is None:
            self.assign()
            if len(self.where) == self.tasks and not self.copying:
                self.finish()
            elif self.should_make_up() and not self.doing and not self.copying:
                self.rebuilt += 1
                return
            else:
                message, well = recovery.attempt(base.recv, source=MPI.ANY_SOURCE, status=status)
                if not well:
                    self.bury()
                elif status.tag == STORED:
                    self.take_copy(*message)
                else:
                    self.take(*message, status.source)

    def assign(self) -> None:
        """Give idle workers the available tasks, unless all are to become idle."""
        while self.todo and self.idle and not self.should_make_up():
            task = self.todo.popleft()
            if task not in self.where:
                number = self.idle.popleft()
                self.doing[number] = task
                inputs = [(i,) for i in task] if len(task) == 2 else []
                sources = [(each, [self.layout.place[store] for store in self.where[each]]) for each in inputs]
                holders = [self.layout.place[store] for store in self.circle(task)[: self.arguments.copies]]
                recovery.attempt(self.base.send, (task, sources, holders), self.leaders[number], TASK)

    def circle(self, task: Task) -> list[int]:
        """Return the surviving storage ranks, in the order of their requests."""
        size = self.arguments.storage
        monomer, *others = task
        number = self.arguments.fragments + monomer * (monomer - 1) // 2 + others[0] if others else monomer
        start = number % size
        places = [start, start ^ 1] if self.arguments.placement == "pairs" else [start]
        places += [place for i in range(size) if (place := (start + i) % size) not in places]
        return [place + 1 for place in places if place + 1 in self.stores]

    def take(self, task: Task, kept: list[int], leader: int) -> None:
        """Record a finished task, and enable dependent ones; the first result counts."""
        number = self.layout.worker(leader)
        if self.doing.pop(number, None) is not None:
            self.idle.append(number)
        stores = [store for rank in kept if (store := self.layout.stores[rank]) in self.stores]
        if task in self.where:
            return
        if not stores:
            self.redo(task)
            return
        if len(task) == 1:
            self.todo += [(max(task[0], i), min(task[0], i)) for i, *pair in self.where if not pair]
        self.where[task] = stores
        recovery.die_at(self.arguments.die, len(self.where))
        self.copy(task)

    def finish(self) -> None:
        """Read all results from the store, and check their sum."""
        arguments = self.arguments
        for store in random.Random(arguments.seed).sample(sorted(self.stores), min(arguments.kill, len(self.stores))):
            recovery.attempt(self.base.send, None, self.layout.place[store], END)
        arguments.kill = 0
        results, last = {}, MPI.Wtime()
        for task, stores in sorted(self.where.items()):
            results[task] = fetch(self.base, task, [self.layout.place[store] for store in stores])
            if results[task] is None:
                print("# kept 0", flush=True)
                self.bury()
                return
        energy = total(results, arguments.fragments)
        about = f"{self.again} tasks and {self.copied} copies recomputed, workers rebuilt data {self.rebuilt} times"
        lines = ["# kept 1", f"# time: all results after {last:.9f} s; {about}"]
        lines.append(f"falanx: {arguments.fragments} fragments, {self.tasks} tasks, energy {energy}")
        self.outcome = (lines, energy == closed_form(arguments.fragments, arguments.points))

    # -------------------------------------------------------------------------------------------------------- recovery

    def bury(self) -> None:
        """Stop the workers with newly failed ranks, and give their tasks to others."""
        self.base.Ack_failed()
        for rank in sorted({*recovery.known_dead(self.base)}.difference(self.buried)):
            self.buried.add(rank)
            number = self.layout.worker(rank)
            if rank in self.layout.stores:
                self.bury_stores({self.layout.stores[rank]})
            elif self.leaders.pop(number, None) is not None:
                if number in self.idle:
                    self.idle.remove(number)
                if number in self.doing:
                    self.redo(self.doing.pop(number))

    def redo(self, task: Task) -> None:
        """Return a task to the queue."""
        if task not in self.where:
            self.todo.appendleft(task)
            self.again += 1

    def should_make_up(self) -> bool:
        """Return True if the survivors could form more workers than now, and tasks remain."""
        living = self.layout.computing - sum(rank >= self.layout.first for rank in self.buried)
        return bool(self.todo) and len(self.leaders) < max(1, living // self.arguments.task_ranks)

    def bury_stores(self, dead: set[int]) -> None:
        """Replace copies on failed storage ranks, or return the lost data."""
        self.stores -= dead
        self.copying = {key: source for key, source in self.copying.items() if not {key[1], source} & dead}
        lost = []
        for task, stores in self.where.items():
            stores[:] = [store for store in stores if store in self.stores]
            if stores:
                self.copy(task)
            else:
                lost.append(task)
        if lost or not self.stores:
            self.outcome = f"{len(lost)} results with all copies, the first of task {lost[0]}" if lost else "the store"

    def copy(self, task: Task) -> None:
        """Replace missing copies of a result."""
        there, wanted = self.where[task], min(self.arguments.copies, len(self.stores))
        under_way = [store for each, store in self.copying if each == task] if self.copying else []
        if len(there) + len(under_way) < wanted:
            others = [store for store in self.circle(task) if store not in there and store not in under_way]
            for store in others[: wanted - len(there) - len(under_way)]:
                self.copying[task, store] = there[0]
                message = (task, self.layout.place[store])
                recovery.attempt(self.base.send, message, self.layout.place[there[0]], COPY)

    def take_copy(self, task: Task, rank: int) -> None:
        """Record a replaced copy on a storage rank."""
        store = self.layout.stores[rank]
        if self.copying.pop((task, store), None) is not None and store in self.stores:
            self.where[task].append(store)
            self.copied += 1


def make_up(base: MPI.Intracomm, actor: Master | Store | Worker) -> tuple[Any, Layout, MPI.Intracomm]:
    """Receive the state from the master, and form workers of all survivors."""
    layout = Layout(base, actor.arguments)
    if MASTER not in layout.place:
        raise recovery.Lost("the master, rank 0, and its data")
    outcome = base.bcast(actor.outcome if isinstance(actor, Master) else None, root=0)
    if isinstance(outcome, str):
        raise recovery.Lost(outcome)
    if outcome is None and not (layout.computing and layout.stores):
        raise recovery.Lost("all workers" if layout.stores else "the store")
    number = layout.worker(base.rank)
    return outcome, layout, base.Split(MPI.UNDEFINED if number is None else number, base.rank)


def play(actor: Master | Store | Worker, base: MPI.Intracomm, layout: Layout, group: MPI.Intracomm) -> None:
    """Play a role until the communicator is revoked, or must be; a failed worker waits for that."""
    if isinstance(actor, Master):
        actor.run(base, layout)
    elif isinstance(actor, Store):
        actor.serve(base)
    else:
        if group != MPI.COMM_NULL:
            recovery.attempt(actor.toil, base, group)
            group.Revoke()
        recovery.attempt(base.recv, source=MASTER, tag=END)
    base.Revoke()


# ---------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    """Play a role in the runtime, repeatedly as workers are regrouped."""
    arguments = parse_arguments()
    base = MPI.COMM_WORLD
    kind = Master if base.rank == MASTER else Store if base.rank <= arguments.storage else Worker
    actor = kind(arguments)
    while True:
        (outcome, layout, group), base = recovery.until_agreed(base, lambda comm: make_up(comm, actor), recovery.shrink)
        if outcome is not None:
            recovery.conclude(base, *outcome)
        play(actor, base, layout, group)
        base = base.Shrink()


if __name__ == "__main__":
    main()
