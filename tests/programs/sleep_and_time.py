# ranks: 1 2 3
"""Sleeping and clocks: time goes on where it should, and the order of events follows it."""

import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

clocks = (time.time, time.perf_counter, time.monotonic, MPI.Wtime)
before = [clock() for clock in clocks]
time.sleep(0.01)
passed = [clock() - start for clock, start in zip(clocks, before, strict=True)]
print(f"rank {rank}: slept {all(0.0099 <= one < 5 for one in passed)}")

# A barrier lets nobody go before the last has come.
comm.Barrier()
start = MPI.Wtime()
if rank == size - 1:
    time.sleep(0.1)
comm.Barrier()
print(f"rank {rank}: waited {MPI.Wtime() - start >= 0.05}")  # who left the first barrier late has waited less

# The receiver of a message that is sent late waits; the one that comes late finds it there.
if size > 1:
    if rank == 0:
        time.sleep(0.1)
        comm.send("late", dest=1)
    elif rank == 1:
        start = time.monotonic()
        message = comm.recv(source=0)
        print(f"rank {rank}: {message} {time.monotonic() - start > 0.01}")
comm.Barrier()
nanoseconds = time.perf_counter_ns()
time.sleep(0.001)
print(f"rank {rank}: nanoseconds {time.perf_counter_ns() - nanoseconds >= 900_000}, {isinstance(time.time_ns(), int)}")
