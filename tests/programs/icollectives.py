# ranks: 1 2 3 5
"""Every non-blocking collective with equal counts, several of them in flight at once."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
root = size - 1

comm.Ibarrier().Wait()
data = np.arange(4.0) + 7 if rank == root else np.zeros(4)
comm.Ibcast(data, root=root).Wait()
print(f"rank {rank}: Ibcast {data.tolist()}")

box = np.zeros(size, dtype=int) if rank == root else None
comm.Igather(np.array([rank * 2]), box, root=root).Wait()
print(f"rank {rank}: Igather {box.tolist() if rank == root else None}")
part = np.zeros(2, dtype=int)
comm.Iscatter(np.arange(2 * size) if rank == root else None, part, root=root).Wait()
print(f"rank {rank}: Iscatter {part.tolist()}")
everyone = np.zeros(size, dtype=int)
comm.Iallgather(np.array([rank + 1]), everyone).Wait()
print(f"rank {rank}: Iallgather {everyone.tolist()}")
comm.Ialltoall(np.arange(size) + 10 * rank, everyone).Wait()
print(f"rank {rank}: Ialltoall {everyone.tolist()}")

total = np.zeros(2)
comm.Ireduce(np.array([rank, 0.5]), total if rank == 0 else None, op=MPI.SUM, root=0).Wait()
print(f"rank {rank}: Ireduce {total.tolist() if rank == 0 else None}")
comm.Iallreduce(np.array([rank, -rank * 1.0]), total, op=MPI.MAX).Wait()
print(f"rank {rank}: Iallreduce {total.tolist()}")
comm.Iallreduce(MPI.IN_PLACE, total, op=MPI.SUM).Wait()
print(f"rank {rank}: Iallreduce in place {total.tolist()}")
part = np.zeros(2, dtype=int)
comm.Ireduce_scatter_block(np.arange(2 * size), part).Wait()
print(f"rank {rank}: Ireduce_scatter_block {part.tolist()}")
comm.Iscan(np.array([rank, 1]), part).Wait()
print(f"rank {rank}: Iscan {part.tolist()}")
comm.Iexscan(np.array([rank, 1]), part).Wait()
print(f"rank {rank}: Iexscan {part.tolist() if rank else None}")

# Several at once, completed in the opposite order, with messages in between.
sums = [np.zeros(1, dtype=int) for _ in range(5)]
requests = [comm.Iallreduce(np.array([rank + number]), sums[number]) for number in range(5)]
requests.append(comm.Ibarrier())
note = comm.sendrecv(rank, dest=(rank + 1) % size, source=(rank - 1) % size)
for request in reversed(requests):
    request.Wait()
print(f"rank {rank}: at once {[int(one[0]) for one in sums]}, note {note}")
request = comm.Ibarrier()
while not request.Test():
    pass
data = np.full(50_000, rank if rank == 0 else -1)
requests = [comm.Ibcast(data, root=0), comm.Iallreduce(np.array([1]), sums[0])]
MPI.Request.Waitall(requests)
print(f"rank {rank}: large {data.sum()} {sums[0][0]}")
