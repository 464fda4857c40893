# ranks: 2 3 4 5
"""Collectives between two groups: data comes from the other side."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
low = rank < size // 2
local = comm.Split(0 if low else 1, rank)
inter = local.Create_intercomm(0, comm, size // 2 if low else 0)
local_size, remote_size = inter.Get_size(), inter.Get_remote_size()

inter.Barrier()


def root_in_low() -> int:
    """Return the root argument when the low group's rank 0 is the root."""
    if not low:
        return 0
    return MPI.ROOT if inter.rank == 0 else MPI.PROC_NULL


root = root_in_low()
data = np.arange(3) if root == MPI.ROOT else np.full(3, -1)
inter.Bcast(data, root=root)
print(f"rank {rank}: Bcast {data.tolist()}")
print(f"rank {rank}: bcast {inter.bcast({'key': 1} if root == MPI.ROOT else None, root=root)}")

box = np.full(remote_size, -1) if root == MPI.ROOT else None
inter.Gather(np.array([rank]) if not low else None, box, root=root)
print(f"rank {rank}: Gather {box.tolist() if root == MPI.ROOT else None}")
part = np.full(2, -1)
inter.Scatter(np.arange(2 * remote_size) if root == MPI.ROOT else None, part if not low else None, root=root)
print(f"rank {rank}: Scatter {part.tolist()}")
everyone = np.full(remote_size, -1)
inter.Allgather(np.array([rank]), everyone)
print(f"rank {rank}: Allgather {everyone.tolist()}, objects {inter.allgather(chr(65 + rank))}")
swapped = np.full(remote_size, -1)
inter.Alltoall(np.arange(remote_size) + 10 * rank, swapped)
print(f"rank {rank}: Alltoall {swapped.tolist()}, {inter.alltoall([(rank, peer) for peer in range(remote_size)])}")

total = np.zeros(1, dtype=int)
inter.Allreduce(np.array([rank + 1]), total, op=MPI.SUM)
print(f"rank {rank}: Allreduce {total[0]}, {inter.allreduce(rank, op=MPI.MAX)}")
total[:] = -1
inter.Reduce(np.array([rank]) if not low else None, total if root == MPI.ROOT else None, op=MPI.SUM, root=root)
print(f"rank {rank}: Reduce {total[0]}, {inter.reduce(rank, op=MPI.SUM, root=root)}")
print(f"rank {rank}: gather {inter.gather(f'g{rank}', root=root)}")
print(f"rank {rank}: scatter {inter.scatter(list(range(remote_size)) if root == MPI.ROOT else None, root=root)}")
counts = [peer + 1 for peer in range(remote_size)]
box = np.full(sum(counts), -1)
inter.Allgatherv(np.full(inter.rank + 1, rank), [box, counts])
print(f"rank {rank}: Allgatherv {box.tolist()}")
inter.Ibarrier().Wait()
inter.Free()
local.Free()
