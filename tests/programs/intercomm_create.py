# ranks: 2 3 4 5
"""Intercommunicators: creation, messages between the groups, and Merge."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
low = rank < size // 2
local = comm.Split(0 if low else 1, rank)
inter = local.Create_intercomm(0, comm, size // 2 if low else 0, tag=9)
print(f"rank {rank}: {inter.Get_rank()} of {inter.Get_size()} against {inter.Get_remote_size()}")
print(f"rank {rank}: kinds {inter.Is_inter()} {inter.Is_intra()} {type(inter).__name__}")
remote = inter.Get_remote_group().Translate_ranks(list(range(inter.remote_size)), comm.Get_group())
own = inter.Get_group().Translate_ranks(None, comm.Get_group())
print(f"rank {rank}: remote {remote} own {own}")

# A rank of a call is a rank of the other group.
peer = inter.rank if inter.rank < inter.remote_size else None
if peer is not None:
    print(f"rank {rank}: from the other side {inter.sendrecv(f'{rank}', dest=peer, source=peer)}")
    box = np.zeros(2, dtype=int)
    inter.Sendrecv(np.array([rank, 10]), dest=peer, recvbuf=box, source=peer)
    print(f"rank {rank}: buffer {box.tolist()}")
if low:
    for other in range(inter.remote_size):
        inter.send((rank, other), dest=other, tag=2)
else:
    messages = []
    for _ in range(inter.remote_size):
        status = MPI.Status()
        messages.append((inter.recv(source=MPI.ANY_SOURCE, tag=2, status=status), status.source))
    print(f"rank {rank}: got {sorted(messages)}")

merged = inter.Merge(high=not low)
print(f"rank {rank}: merged {merged.rank} {merged.allgather(rank)}")
turned = inter.Merge(high=low)
print(f"rank {rank}: turned {turned.rank} {turned.allgather(rank)}")
copy = inter.Dup()
print(f"rank {rank}: copy {copy.Compare(inter) == MPI.CONGRUENT} {copy.remote_size}")
pairs = inter.Split(inter.rank % 2, inter.rank)
if pairs != MPI.COMM_NULL:
    print(f"rank {rank}: split {pairs.Is_inter()} {pairs.size} {pairs.remote_size}")
    pairs.Free()
for one in (merged, turned, copy, inter, local):
    one.Free()
