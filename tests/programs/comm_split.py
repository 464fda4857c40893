# ranks: 1 2 4 5
"""Split by colour and key, nested splits, and Split_type."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

half = comm.Split(color=rank % 2, key=rank)
print(f"rank {rank}: half {half.rank} of {half.size} {half.allgather(rank)}")
turned = comm.Split(color=0, key=-rank)
print(f"rank {rank}: turned {turned.rank} {turned.allgather(rank)}")
same_key = comm.Split(color=5, key=7)
print(f"rank {rank}: ties keep their order {same_key.allgather(rank)}")

only = comm.Split(color=0 if rank == 0 else MPI.UNDEFINED)
print(f"rank {rank}: null {only == MPI.COMM_NULL}")
if only != MPI.COMM_NULL:
    print(f"rank {rank}: alone {only.size}")
    only.Free()

# Rows and columns of a grid two wide.
row, column = comm.Split(rank // 2, rank), comm.Split(rank % 2, rank)
print(f"rank {rank}: row {row.allreduce([rank])}, column {column.allreduce([rank])}")
print(f"rank {rank}: nested {half.Split(half.rank % 2).allgather(rank)}")

# Different work in different parts at the same time.
if rank % 2 == 0:
    result = half.bcast(f"even {half.size}", root=0)
else:
    result = half.allreduce(rank, op=MPI.MAX)
print(f"rank {rank}: result {result}")

# Ranks in the new communicator and in the world.
group, world = half.Get_group(), comm.Get_group()
print(f"rank {rank}: translated {group.Translate_ranks(list(range(group.size)), world)}")

shared = comm.Split_type(MPI.COMM_TYPE_SHARED, key=rank)
print(f"rank {rank}: shared part {shared.size >= 1} {shared.allreduce(1) == shared.size}")
nothing = comm.Split_type(MPI.UNDEFINED)
print(f"rank {rank}: no type {nothing == MPI.COMM_NULL}")
for one in (half, turned, same_key, row, column, shared):
    one.Free()
