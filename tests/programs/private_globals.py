# ranks: 1 2 4
"""Module globals are private to a rank: its own, its helper's, and the state of random and of sys."""

import random
import sys

import numpy as np
import private_globals_helper as helper
from mpi4py import MPI
from private_globals_helper import Ledger, counter

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

total = 0
for number in range(rank + 1):
    total += number
    helper.count()
    comm.Barrier() if number == 0 else None
comm.Barrier()
print(f"rank {rank}: total {total}, counted {helper.value}, imported before {counter}")
print(f"rank {rank}: ledger {Ledger('a').number} {Ledger('b').number}, list {helper.history}")

helper.history.append(rank)
comm.Barrier()
print(f"rank {rank}: history {helper.history}")

random.seed(rank)
np.random.seed(rank)  # noqa: NPY002
first = random.random()
comm.Barrier()
second = random.random()
comm.Barrier()
again = random.Random(rank)
print(f"rank {rank}: own random state {[first, second] == [again.random(), again.random()]}")
drawn = [float(np.random.rand()) for _ in range(2) if comm.Barrier() is None]  # noqa: NPY002
state = np.random.RandomState(rank)
print(f"rank {rank}: own numpy state {drawn == [state.rand(), state.rand()]}")

sys.argv.append(f"argument {rank}")
comm.Barrier()
print(f"rank {rank}: {sys.argv[1:]}, name {__name__}, main {sys.modules['__main__'].rank}")
print(f"rank {rank}: helper is one module {sys.modules['private_globals_helper'] is helper}, {Ledger.__module__}")
ledgers = comm.gather(Ledger("sent"), root=0)
print(f"rank {rank}: {[type(one) is Ledger for one in ledgers] if ledgers else None}")
