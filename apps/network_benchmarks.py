"""Network benchmarks: the OSU micro-benchmarks' measurements, printed in their layout.

`latency` and `bw` are between rank 0 and the last rank; collectives use all ranks. A time is the mean over the ranks
and repetitions of the time in the call, with a barrier between two calls.

    mpiexec -n 64 python network_benchmarks.py allreduce --sizes 4 1024 1048576
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

WINDOW = 64  # messages in flight in `bw`
SIZES = [4**power for power in range(11)]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operation", choices=["latency", "bw", "barrier", *COLLECTIVES])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="BYTES", help="message sizes")
    parser.add_argument("--repetitions", type=int, default=10, metavar="N", help="measurements of each size")
    arguments = parser.parse_args()
    if min(arguments.sizes) < 0 or arguments.repetitions < 1:
        parser.error("sizes are at least 0, and --repetitions at least 1")
    return arguments


def buffers(comm: MPI.Comm, size: int, *, sent: int = 1, received: int = 1) -> list[np.ndarray]:
    """Return send and receive buffers of a multiple of `size` bytes, as floats if possible."""
    kind = np.float32 if size % 4 == 0 else np.uint8
    each = size // np.dtype(kind).itemsize
    return [np.ones(sent * each, dtype=kind), np.zeros(received * each, dtype=kind)]


def allreduce(comm: MPI.Comm, size: int) -> Callable[[], None]:
    """Return a sum on all ranks."""
    out, into = buffers(comm, size)
    return lambda: comm.Allreduce(out, into)


def reduce(comm: MPI.Comm, size: int) -> Callable[[], None]:
    """Return a sum on rank 0."""
    out, into = buffers(comm, size)
    return lambda: comm.Reduce(out, into)


def bcast(comm: MPI.Comm, size: int) -> Callable[[], None]:
    """Return a broadcast from rank 0."""
    out, _ = buffers(comm, size)
    return lambda: comm.Bcast(out)


def allgather(comm: MPI.Comm, size: int) -> Callable[[], None]:
    """Return a gathering of `size` bytes of each rank on all ranks."""
    out, into = buffers(comm, size, received=comm.size)
    return lambda: comm.Allgather(out, into)


def gather(comm: MPI.Comm, size: int) -> Callable[[], None]:
    """Return a gathering of `size` bytes of each rank on rank 0."""
    out, into = buffers(comm, size, received=comm.size if comm.rank == 0 else 0)
    return lambda: comm.Gather(out, into)


def scatter(comm: MPI.Comm, size: int) -> Callable[[], None]:
    """Return a scattering of `size` bytes to each rank from rank 0."""
    out, into = buffers(comm, size, sent=comm.size if comm.rank == 0 else 0)
    return lambda: comm.Scatter(out, into)


def alltoall(comm: MPI.Comm, size: int) -> Callable[[], None]:
    """Return an exchange of `size` bytes between each two ranks."""
    out, into = buffers(comm, size, sent=comm.size, received=comm.size)
    return lambda: comm.Alltoall(out, into)


COLLECTIVES = {
    "allreduce": allreduce,
    "reduce": reduce,
    "bcast": bcast,
    "allgather": allgather,
    "gather": gather,
    "scatter": scatter,
    "alltoall": alltoall,
}


def mean_seconds(comm: MPI.Comm, call: Callable[[], None], repetitions: int) -> float:
    """Return on rank 0 the mean time of a collective, without the first call."""
    elapsed = 0.0
    for repetition in range(repetitions + 1):
        start = MPI.Wtime()
        call()
        elapsed += (MPI.Wtime() - start) * (repetition > 0)
        comm.Barrier()
    return (comm.reduce(elapsed) or 0.0) / (repetitions * comm.size)


def one_way_seconds(comm: MPI.Comm, size: int, repetitions: int) -> float:
    """Return half of a mean round trip between rank 0 and the last rank."""
    out, into = np.ones(size, dtype=np.uint8), np.zeros(size, dtype=np.uint8)
    last = comm.size - 1
    comm.Barrier()
    start = 0.0
    for repetition in range(repetitions + 1):
        if repetition == 1:
            start = MPI.Wtime()
        if comm.rank == 0:
            comm.Send(out, dest=last)
            comm.Recv(into, source=last)
        elif comm.rank == last:
            comm.Recv(into, source=0)
            comm.Send(out, dest=0)
    return (MPI.Wtime() - start) / (2 * repetitions)


def bytes_per_second(comm: MPI.Comm, size: int, repetitions: int) -> float:
    """Return the rate of messages from rank 0 to the last, which acknowledges each window."""
    last = comm.size - 1
    out, into = np.ones(size, dtype=np.uint8), np.zeros((WINDOW, size), dtype=np.uint8)
    answer = np.zeros(4, dtype=np.uint8)
    comm.Barrier()
    start = 0.0
    for repetition in range(repetitions + 1):
        if repetition == 1:
            start = MPI.Wtime()
        if comm.rank == 0:
            MPI.Request.Waitall([comm.Isend(out, dest=last) for _ in range(WINDOW)])
            comm.Recv(answer, source=last)
        elif comm.rank == last:
            MPI.Request.Waitall([comm.Irecv(row, source=0) for row in into])
            comm.Send(answer, dest=0)
    elapsed = MPI.Wtime() - start
    return size * WINDOW * repetitions / elapsed if elapsed else 0.0


def main() -> None:
    """Measure each size and print a table on rank 0."""
    comm = MPI.COMM_WORLD
    arguments = parse_arguments()
    operation, repetitions = arguments.operation, arguments.repetitions
    pairs = {"latency": (one_way_seconds, 1e6, "Latency (us)"), "bw": (bytes_per_second, 1e-6, "Bandwidth (MB/s)")}
    if operation in pairs and comm.size < 2:
        raise SystemExit("network_benchmarks: needs two ranks; this run has one")
    if comm.rank == 0:
        name = {"latency": "Latency", "bw": "Bandwidth"}.get(operation, f"{operation.capitalize()} Latency")
        column = pairs[operation][2] if operation in pairs else "Avg Latency(us)"
        print(f"# OSU MPI {name} Test, as network_benchmarks.py has it")
        print(f"# {column}" if operation == "barrier" else f"# Size      {column}", flush=True)
    if operation == "barrier":
        mean_us = mean_seconds(comm, comm.Barrier, repetitions) * 1e6
        if comm.rank == 0:
            print(f"{mean_us:>20.6f}")
        return
    for size in arguments.sizes:
        if operation in pairs:
            measure, factor, _ = pairs[operation]
            value = measure(comm, size, repetitions) * factor
        else:
            value = mean_seconds(comm, COLLECTIVES[operation](comm, size), repetitions) * 1e6
        if comm.rank == 0:
            print(f"{size:<10}{value:>20.6f}", flush=True)


if __name__ == "__main__":
    main()
