# ranks: 1 2 3 5
"""The non-blocking collectives with counts, displacements and types per rank."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
counts = [peer % 3 for peer in range(size)]
total = sum(counts)
places = [3 * peer for peer in range(size)]
mine = np.full(counts[rank], rank, dtype="i4")

box = np.full(3 * size, -1, dtype="i4") if rank == 0 else None
request = comm.Igatherv(mine, [box, counts, places, MPI.INT] if rank == 0 else None, root=0)
request.Wait()
print(f"rank {rank}: Igatherv {box.tolist() if rank == 0 else None}")
part = np.full(2, -1.0)
source = np.arange(float(total)) if rank == 0 else None
comm.Iscatterv([source, counts, None, MPI.DOUBLE] if rank == 0 else None, part[: counts[rank]], root=0).Wait()
print(f"rank {rank}: Iscatterv {part.tolist()}")
box = np.full(total, -1, dtype="i4")
comm.Iallgatherv(mine, [box, counts]).Wait()
print(f"rank {rank}: Iallgatherv {box.tolist()}")

counts = [(rank + peer) % 3 for peer in range(size)]
data = np.concatenate([np.full(count, 10 * rank + peer) for peer, count in enumerate(counts)]).astype("i4")
box = np.full(sum(counts), -1, dtype="i4")
comm.Ialltoallv([data, counts], [box, counts]).Wait()
print(f"rank {rank}: Ialltoallv {box.tolist()}")
box[:] = -1
starts = (4 * np.concatenate(([0], np.cumsum(counts)[:-1]))).astype(int).tolist()
types = [MPI.INT] * size
comm.Ialltoallw([data, counts, starts, types], [box, counts, starts, types]).Wait()
print(f"rank {rank}: Ialltoallw {box.tolist()}")

lengths = [(peer + 1) % 3 for peer in range(size)]
part = np.zeros(lengths[rank])
comm.Ireduce_scatter(np.arange(float(sum(lengths))) + rank, part, lengths, op=MPI.SUM).Wait()
print(f"rank {rank}: Ireduce_scatter {part.tolist()}")

# A user's operation in a non-blocking reduction: "the left one", which does not commute.
op = MPI.Op.Create(lambda a, b, _: np.copyto(np.frombuffer(b, "i8"), np.frombuffer(a, "i8")))
result = np.zeros(1, dtype="i8")
comm.Iallreduce(np.array([rank + 5], dtype="i8"), result, op=op).Wait()
print(f"rank {rank}: user op {result[0]}")
op.Free()
