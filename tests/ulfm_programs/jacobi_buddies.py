# number of ranks: 4
# arguments of a run: 67 1@42; 67 0@42 3@45
"""Jacobi's method on a grid of processes, with checkpoints at neighbours (ulfm-testing, jacobi_cpu_bckpt)."""

import math

import numpy as np
from survive import MPI, WORDS, Buddies, die_at, finish, joined, report, until_agreed, with_parts

CELLS, EVERY, COLUMNS = 6, 10, 2
ITERATIONS = int(WORDS[0]) if WORDS else 6
buddies = Buddies()


def parts(comm):
    return comm.Split(comm.rank // COLUMNS, comm.rank), comm.Split(comm.rank % COLUMNS, comm.rank)


def beside(line, before, after):
    """Return what the neighbours on a line have on their edges, and nothing at its ends."""
    low, high = np.zeros(CELLS), np.zeros(CELLS)
    left = line.rank - 1 if line.rank else MPI.PROC_NULL
    right = line.rank + 1 if line.rank + 1 < line.size else MPI.PROC_NULL
    line.Sendrecv(after, right, recvbuf=low, source=left)
    line.Sendrecv(before, left, recvbuf=high, source=right)
    return low, high


def iterate(comm, row, column):
    step, block = buddies.restore(comm) or (0, np.full((CELLS, CELLS), comm.rank + 1.0))
    while step < ITERATIONS:
        if step % EVERY == 0:
            buddies.save(comm, step, block)
        die_at(step)
        wide = np.zeros((CELLS + 2, CELLS + 2))
        wide[1:-1, 1:-1] = block
        wide[1:-1, 0], wide[1:-1, -1] = beside(row, block[:, 0].copy(), block[:, -1].copy())
        wide[0, 1:-1], wide[-1, 1:-1] = beside(column, block[0].copy(), block[-1].copy())
        new = 0.25 * (wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:])
        norm = math.fsum(comm.allgather(math.fsum(((new - block) ** 2).flat)))
        step, block = step + 1, new
    return step, norm


def work(comm):
    return with_parts(comm, parts, iterate)


(step, norm), comm = until_agreed(joined(), work)
report("rank", comm.rank)
report("result", f"{step} iterations, norm {norm!r}")
finish()
