# ranks: 1 2 4 5
"""Cartesian communicators: creation, coordinates, ranks and shifts."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size


def name(other: int) -> str:
    """Return a rank, or the word null."""
    return "null" if other == MPI.PROC_NULL else str(other)


dims = MPI.Compute_dims(size, 2)
grid = comm.Create_cart(dims, periods=[True, False], reorder=False)
print(f"rank {rank}: dims {dims}, coords {grid.Get_coords(rank)}, {type(grid).__name__} {grid.Get_dim()}")
print(f"rank {rank}: topology {grid.Get_topo()} {grid.Get_topology() == MPI.CART}")
everyone = [grid.Get_cart_rank(grid.Get_coords(other)) for other in range(size)]
print(f"rank {rank}: back {grid.Get_cart_rank(grid.coords)} {everyone}")
print(f"rank {rank}: wrapped {grid.Get_cart_rank([-1, 0])}, {grid.Get_cart_rank([dims[0] + 1, dims[1] - 1])}")
for direction in (0, 1):
    for disp in (1, -1, 2):
        print(f"rank {rank}: shift {direction} {disp} {[name(other) for other in grid.Shift(direction, disp)]}")
print(f"rank {rank}: attributes {grid.dims} {grid.periods} {grid.coords} {grid.ndim}")
line = comm.Create_cart([size], periods=[True])
source, dest = line.Shift(0, 1)
print(f"rank {rank}: ring {line.sendrecv(rank, dest=dest, source=source)}")

# A grid smaller than the communicator leaves ranks out.
small = comm.Create_cart([max(1, size - 1)], periods=[False])
print(f"rank {rank}: left out {small == MPI.COMM_NULL}")
if small != MPI.COMM_NULL:
    print(f"rank {rank}: neighbours {[name(other) for other in small.Shift(0, 1)]}")
    small.Free()
cube = comm.Create_cart([1, size, 1], periods=[True, True, True])
print(f"rank {rank}: cube {cube.coords} {cube.Shift(0, 1)} {cube.Shift(1, 1)} {cube.Shift(2, 5)}")
print(f"rank {rank}: map {comm.Cart_map([size])}, copy {type(cube.Dup()).__name__} {cube.Dup().dims}")
point = comm.Create_cart([])
print(f"rank {rank}: no dimensions {point.size if point != MPI.COMM_NULL else 'null'}")
for one in (grid, line, cube):
    one.Free()
