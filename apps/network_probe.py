"""Network probe: measure the cost of messages within a node and between nodes.

Rank 0 exchanges messages with the first other rank of its node, and with the first one of another node, if these exist.
Start three ranks on two nodes to measure both. The times are medians over repetitions, as CSV:

    layer,op,bytes,median_s,p25_s,p75_s,count

`pingpong` is half of a round trip, `isend` the time inside MPI_Isend, and `recv` the time inside MPI_Recv for a message
that has arrived while the receiver was busy. Sizes are drawn log-uniformly, to favour no power of two, up to twice the
requested maximum. Operations and sizes come in random order, so that a temporary disturbance of the machine does not
look like a property of a size. Each is done once before the measurement.

    mpiexec -n 3 --host a:2,b:1 python network_probe.py --largest 4194304
"""

from __future__ import annotations

import argparse
import math
import random
import time

import numpy as np
from mpi4py import MPI

OPERATIONS = ("pingpong", "isend", "recv")
READY, DATA, NEVER = 1, 2, 3
PAUSE_S = 20e-6
SLOWEST_BYTES_PER_S = 1e9


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=4194304, metavar="BYTES", help="largest message size")
    parser.add_argument("--sizes", type=int, default=120, metavar="N", help="number of sizes")
    parser.add_argument("--repetitions", type=int, default=20, metavar="N", help="measurements of each size")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="seed of sizes and their order")
    arguments = parser.parse_args()
    if arguments.largest < 1 or arguments.sizes < 1 or arguments.repetitions < 1:
        parser.error("--largest, --sizes and --repetitions are at least 1")
    return arguments


def drawn_sizes(chance: random.Random, largest: int, count: int) -> list[int]:
    """Return zero, one, twice the maximum, and sizes in between, log-uniformly."""
    top = math.log(2 * largest)
    return sorted({0, 1, 2 * largest, *(round(math.exp(chance.uniform(0, top))) for _ in range(max(count - 3, 0)))})


class Pair:
    """Two ranks that exchange messages; the first one measures all except the receives."""

    def __init__(self, comm: MPI.Comm, first: int, second: int, most_bytes: int) -> None:
        self.comm = comm
        self.leads = comm.rank == first
        self.other = second if self.leads else first
        self.out = np.ones(most_bytes, dtype=np.uint8)
        self.into = np.zeros(most_bytes, dtype=np.uint8)

    def in_step(self) -> None:
        """Let the first rank continue when the second one is ready."""
        nothing = np.empty(0, dtype=np.uint8)
        if self.leads:
            self.comm.Recv(nothing, source=self.other, tag=READY)
        else:
            self.comm.Send(nothing, dest=self.other, tag=READY)

    def pingpong(self, size: int) -> float:
        """Return half of a round trip."""
        out, into = self.out[:size], self.into[:size]
        self.in_step()
        start = MPI.Wtime()
        if self.leads:
            self.comm.Send(out, dest=self.other, tag=DATA)
            self.comm.Recv(into, source=self.other, tag=DATA)
        else:
            self.comm.Recv(into, source=self.other, tag=DATA)
            self.comm.Send(out, dest=self.other, tag=DATA)
        return (MPI.Wtime() - start) / 2

    def isend(self, size: int) -> float:
        """Return the time inside MPI_Isend, with its receive posted."""
        if self.leads:
            self.in_step()
            start = MPI.Wtime()
            request = self.comm.Isend(self.out[:size], dest=self.other, tag=DATA)
            elapsed = MPI.Wtime() - start
            request.Wait()
            return elapsed
        request = self.comm.Irecv(self.into[:size], source=self.other, tag=DATA)
        self.in_step()
        request.Wait()
        return 0.0

    def recv(self, size: int) -> float:
        """Return the time inside MPI_Recv of a message that has arrived while its receiver was busy."""
        self.in_step()
        if self.leads:
            self.comm.Send(self.out[:size], dest=self.other, tag=DATA)
            return 0.0
        while not self.comm.Iprobe(source=self.other, tag=DATA):
            pass
        ready = MPI.Wtime() + PAUSE_S + size / SLOWEST_BYTES_PER_S
        while MPI.Wtime() < ready:
            self.comm.Iprobe(source=self.other, tag=NEVER)
        start = MPI.Wtime()
        self.comm.Recv(self.into[:size], source=self.other, tag=DATA)
        return MPI.Wtime() - start

    def measured(self, arguments: argparse.Namespace) -> dict[tuple[str, int], list[float]]:
        """Return all times by operation and size, on the first rank."""
        chance = random.Random(arguments.seed)
        sizes = drawn_sizes(chance, arguments.largest, arguments.sizes)
        plan = [(operation, size) for operation in OPERATIONS for size in sizes]
        for operation, size in plan:  # warms up: connections, registered memory, clocks of processors
            getattr(self, operation)(size)
        times: dict[tuple[str, int], list[float]] = {entry: [] for entry in plan}
        for _ in range(arguments.repetitions):
            chance.shuffle(plan)
            for operation, size in plan:
                times[operation, size].append(getattr(self, operation)(size))
        if not self.leads:
            self.comm.send({entry: each for entry, each in times.items() if entry[0] == "recv"}, dest=self.other)
            return {}
        return times | self.comm.recv(source=self.other)


def partners(comm: MPI.Comm) -> dict[str, int]:
    """Return the partner of rank 0 for each layer."""
    names = comm.allgather(MPI.Get_processor_name())
    same = [rank for rank in range(1, comm.size) if names[rank] == names[0]]
    other = [rank for rank in range(1, comm.size) if names[rank] != names[0]]
    return {layer: ranks[0] for layer, ranks in (("network", other), ("same_node", same)) if ranks}


def wait_idly(comm: MPI.Comm) -> None:
    """Wait for all ranks without using the processor."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.01)


def main() -> None:
    """Measure each layer and print the medians on rank 0."""
    comm = MPI.COMM_WORLD
    arguments = parse_arguments()
    if comm.size < 2:
        raise SystemExit("network_probe: needs two ranks; this run has one")
    if comm.rank == 0:
        print("layer,op,bytes,median_s,p25_s,p75_s,count", flush=True)
    for layer, partner in partners(comm).items():
        if comm.rank in (0, partner):
            times = Pair(comm, 0, partner, 2 * arguments.largest).measured(arguments)
            for (operation, size), each in sorted(times.items()):
                low, median, high = np.quantile(each, (0.25, 0.5, 0.75))
                print(f"{layer},{operation},{size},{median:.9e},{low:.6e},{high:.6e},{len(each)}", flush=True)
        wait_idly(comm)


if __name__ == "__main__":
    main()
