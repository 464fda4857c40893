# ranks: 1 2 4 5
"""Create and Create_group: communicators from groups."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
world = comm.Get_group()

# Create is collective over the parent; ranks outside get the null communicator.
upper = world.Incl(list(range(size // 2, size)))
part = comm.Create(upper)
print(f"rank {rank}: in upper {part != MPI.COMM_NULL}")
if part != MPI.COMM_NULL:
    print(f"rank {rank}: upper {part.rank} of {part.size} {part.allgather(rank)}")
    part.Free()

# Disjoint groups in one call.
mine = world.Incl([peer for peer in range(size) if peer % 2 == rank % 2])
part = comm.Create(mine)
print(f"rank {rank}: disjoint {part.allgather(rank)}")
part.Free()

# Create_group is collective over the group only: the others do not take part.
if rank < max(1, size - 1):
    most = world.Incl(list(range(max(1, size - 1))))
    part = comm.Create_group(most, tag=11)
    print(f"rank {rank}: most {part.allreduce(rank)}")
    inner = part.Create_group(part.Get_group().Incl([part.size - 1]), tag=12) if part.rank == part.size - 1 else None
    if inner is not None:
        print(f"rank {rank}: inner {inner.size}")
        inner.Free()
    part.Free()
else:
    print(f"rank {rank}: does not take part")

# In the order of the group, not of the parent.
order = world.Range_incl([(size - 1, 0, -1)])
part = comm.Create(order)
print(f"rank {rank}: backwards {part.rank} {part.allgather(rank)}")
print(f"rank {rank}: same group {part.Get_group().Compare(order) == MPI.IDENT}")
print(f"rank {rank}: similar {part.Compare(comm) == MPI.SIMILAR or size == 1}")
part.Free()
print(f"rank {rank}: empty {comm.Create(MPI.GROUP_EMPTY) == MPI.COMM_NULL}")
