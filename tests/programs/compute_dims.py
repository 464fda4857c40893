# ranks: 1 2
"""Compute_dims for many sizes: balanced, in falling order, with some dimensions given."""

from mpi4py import MPI

rank = MPI.COMM_WORLD.rank
for nodes in (1, 2, 3, 4, 6, 7, 8, 12, 16, 24, 30, 36, 60, 64, 100, 128, 1000, 1024):
    print(f"rank {rank}: {nodes} {[MPI.Compute_dims(nodes, dimensions) for dimensions in (1, 2, 3)]}")
print(f"rank {rank}: given {MPI.Compute_dims(12, [0, 3])} {MPI.Compute_dims(12, [2, 0, 0])}")
print(f"rank {rank}: all given {MPI.Compute_dims(6, [3, 2])}, four {MPI.Compute_dims(48, [0, 0, 0, 0])}")
