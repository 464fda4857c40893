# ranks: 1 2 4 5
"""Groups: set operations, ranges, translation and comparison."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
world = comm.Get_group()


def members(group: MPI.Group) -> list[int]:
    """Return the world ranks of a group."""
    return group.Translate_ranks(list(range(group.size)), world) if group.size else []


print(f"rank {rank}: world {world.Get_size()} {world.Get_rank()} {members(world)}")
even = world.Incl(list(range(0, size, 2)))
odd = world.Excl(list(range(0, size, 2)))
print(f"rank {rank}: even {members(even)} odd {members(odd)}")
print(f"rank {rank}: my place {even.rank if even.rank != MPI.UNDEFINED else None}")
print(f"rank {rank}: undefined {odd.Get_rank() == MPI.UNDEFINED}")
union = MPI.Group.Union(odd, even)
print(f"rank {rank}: union {members(union)}")
print(f"rank {rank}: intersection {members(MPI.Group.Intersection(union, even))}")
print(f"rank {rank}: difference {members(MPI.Group.Difference(world, even))}")
last = world.Range_incl([(size - 1, 0, -1)])
print(f"rank {rank}: backwards {members(last)}")
print(f"rank {rank}: ranges {members(world.Range_incl([(0, size - 1, 2)]))} {members(world.Range_excl([(0, 0, 1)]))}")

names = {MPI.IDENT: "identical", MPI.SIMILAR: "similar", MPI.UNEQUAL: "unequal"}
print(f"rank {rank}: compare {names[world.Compare(world)]} {names[MPI.Group.Compare(world, last)]}")
print(f"rank {rank}: even and odd {names[MPI.Group.Compare(even, odd)]}, copy {names[world.Compare(world.Dup())]}")
translated = even.Translate_ranks(list(range(even.size)), odd)
print(f"rank {rank}: not there {[one == MPI.UNDEFINED for one in translated]}")
print(f"rank {rank}: null {even.Translate_ranks([MPI.PROC_NULL], odd) == [MPI.PROC_NULL]}")
print(f"rank {rank}: empty {MPI.GROUP_EMPTY.size} {MPI.Group.Intersection(even, odd).Get_size()}")

part = comm.Create(odd)
if part != MPI.COMM_NULL:
    print(f"rank {rank}: of the odd ones {part.rank} of {part.size}, sum {part.allreduce(rank)}")
    part.Free()
turned = comm.Create_group(last, tag=3)
print(f"rank {rank}: turned {turned.rank} {turned.allgather(rank)}")
turned.Free()
for group in (even, odd, union, last):
    group.Free()
print(f"rank {rank}: freed {even == MPI.GROUP_NULL}")
