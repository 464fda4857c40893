# ranks: 1 2 4
"""Dup, Clone, Idup, comparison and isolation of contexts."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
names = {MPI.IDENT: "identical", MPI.CONGRUENT: "congruent", MPI.SIMILAR: "similar", MPI.UNEQUAL: "unequal"}

copy = comm.Dup()
print(f"rank {rank}: copy {copy.rank} of {copy.size}, {names[comm.Compare(copy)]}, {names[comm.Compare(comm)]}")
print(f"rank {rank}: other object {copy != comm}, self {names[MPI.Comm.Compare(comm, MPI.COMM_SELF)]}")

# A message in one context is never received in another, whatever its tag.
left, right = (rank - 1) % size, (rank + 1) % size
first = comm.isend("world", dest=right, tag=1)
second = copy.isend("copy", dest=right, tag=1)
print(f"rank {rank}: {copy.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)}, {comm.recv(source=left, tag=1)}")
MPI.Request.waitall([first, second])

# Nor do collectives mix with messages, even with wildcards.
box = np.zeros(1, dtype=int)
request = copy.Irecv(box, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
total = copy.allreduce(rank)
copy.Send(np.array([rank + 100]), dest=right, tag=0)
request.Wait()
print(f"rank {rank}: total {total}, message {box[0]}")

other, request = comm.Idup()
request.Wait()
print(f"rank {rank}: Idup {other.allreduce(1)}, clone {comm.Clone().bcast(rank, root=0)}")
deep = copy.Dup().Dup().Dup()
print(f"rank {rank}: dup of a dup {names[deep.Compare(comm)]} {deep.allgather(rank)}")
backwards = comm.Split(0, size - rank)
print(f"rank {rank}: backwards {names[backwards.Compare(comm)]}, rank {backwards.rank}")
for one in (copy, other, deep, backwards):
    one.Free()
print(f"rank {rank}: freed {copy == MPI.COMM_NULL}, truth {bool(copy)} {bool(comm)}")
print(f"rank {rank}: kinds {comm.Is_inter()} {comm.Is_intra()} {comm.Get_topology() == MPI.UNDEFINED} {comm.is_intra}")

alone = MPI.COMM_SELF
print(f"rank {rank}: self {alone.rank} {alone.size} {alone.allreduce(rank)} {alone.sendrecv('me', dest=0, source=0)}")
