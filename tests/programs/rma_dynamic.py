# ranks: 1 2 3
"""Memory that is attached later, and addressed by its address; memory that the ranks of a node share."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right = (rank + 1) % size

win = MPI.Win.Create_dynamic(comm=comm)
print(f"rank {rank}: flavor {win.flavor == MPI.WIN_FLAVOR_DYNAMIC} attributes {win.attrs}")
memory = np.zeros(4)
other = np.zeros(2, "i4")
win.Attach(memory)
win.Attach(other)
addresses = comm.allgather((MPI.Get_address(memory), MPI.Get_address(other)))
win.Lock_all()
win.Put(np.array([rank + 0.25]), right, MPI.Aint_add(addresses[right][0], 8))
win.Accumulate(np.array([rank, 1], "i4"), right, addresses[right][1])
win.Flush(right)
got = np.zeros(2)
win.Get(got, right, addresses[right][0])
win.Unlock_all()
comm.Barrier()
print(f"rank {rank}: {memory.tolist()} {other.tolist()} {got.tolist()}")
win.Detach(memory)
win.Detach(other)
win.Free()

# However many ranks share memory here, the first of them sees what all have written.
node = comm.Split_type(MPI.COMM_TYPE_SHARED)
shared = MPI.Win.Allocate_shared(8, 8, comm=node)
mine = np.frombuffer(shared.tomemory(), "f8")
shared.Lock_all()
mine[0] = 1.5
shared.Sync()
node.Barrier()
shared.Sync()
parts = [shared.Shared_query(other) for other in range(node.size)]
total = sum(float(np.frombuffer(memory, "f8")[0]) for memory, _ in parts)
whole, unit = shared.Shared_query(MPI.PROC_NULL)
print(f"rank {rank}: shared {total == 1.5 * node.size} {len(whole)} {unit} {shared.flavor == MPI.WIN_FLAVOR_SHARED}")
node.Barrier()
shared.Unlock_all()
shared.Free()
node.Free()
