# ranks: 1 2 3 4
"""Probe: learn the size of a message before receiving it."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

request = comm.Isend(np.arange(3 * rank + 1, dtype="f4"), dest=0, tag=10 + rank)
if rank == 0:
    for source in range(size):
        status = MPI.Status()
        comm.Probe(source=source, tag=MPI.ANY_TAG, status=status)
        count = status.Get_count(MPI.FLOAT)
        data = np.empty(count, dtype="f4")
        comm.Recv(data, source=status.Get_source(), tag=status.Get_tag())
        print(f"rank {rank}: from {status.source} tag {status.tag} count {count} bytes {status.count} {data.tolist()}")
request.Wait()

# With wildcards: the order is free, the set of answers is not.
comm.Barrier()
request = comm.isend("x" * rank, dest=0, tag=rank)
if rank == 0:
    answers = []
    for _ in range(size):
        status = MPI.Status()
        comm.probe(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
        answers.append((status.source, status.tag, comm.recv(source=status.source, tag=status.tag)))
    print(f"rank {rank}: {sorted(answers)}")
request.wait()

# Probing the null process returns at once.
status = MPI.Status()
comm.Probe(source=MPI.PROC_NULL, status=status)
print(f"rank {rank}: null source {status.source == MPI.PROC_NULL}, count {status.Get_count()}")
