# ranks: 1 2 3 4
"""Conway's game of life on a torus, cut into stripes of rows."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
ROWS, COLUMNS, GENERATIONS = 12, 10, 20

whole = np.zeros((ROWS, COLUMNS), dtype=np.uint8)
for row, column in ((0, 1), (1, 2), (2, 0), (2, 1), (2, 2)):  # a glider
    whole[row, column] = 1
whole[8, 4:7] = 1  # and a blinker

first, last = ROWS * rank // size, ROWS * (rank + 1) // size
up, down = (rank - 1) % size, (rank + 1) % size
field = np.zeros((last - first + 2, COLUMNS), dtype=np.uint8)
field[1:-1] = whole[first:last]


def next_generation(padded: np.ndarray) -> np.ndarray:
    """Return the inner rows one generation later; the columns wrap round."""
    around = sum(
        np.roll(padded, shift, axis=1)[1 + drow : padded.shape[0] - 1 + drow]
        for drow in (-1, 0, 1)
        for shift in (-1, 0, 1)
        if (drow, shift) != (0, 0)
    )
    inner = padded[1:-1]
    return ((around == 3) | ((inner == 1) & (around == 2))).astype(np.uint8)


for _ in range(GENERATIONS):
    requests = [
        comm.Irecv(field[0], source=up, tag=1),
        comm.Irecv(field[-1], source=down, tag=2),
        comm.Isend(field[-2], dest=down, tag=1),
        comm.Isend(field[1], dest=up, tag=2),
    ]
    MPI.Request.Waitall(requests)
    field[1:-1] = next_generation(field)

for row, cells in enumerate(field[1:-1], start=first):
    print(f"row {row:02d}: {''.join('.#'[cell] for cell in cells)}")
print(f"rank {rank}: alive {int(field[1:-1].sum())} of {comm.allreduce(int(field[1:-1].sum()))}")

for _ in range(GENERATIONS):
    whole = next_generation(np.vstack([whole[-1:], whole, whole[:1]]))
print(f"rank {rank}: right {np.array_equal(field[1:-1], whole[first:last])}")
