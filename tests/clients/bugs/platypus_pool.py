"""A pool whose workers hand in large results, for small tasks or, with an argument, for large ones."""

import sys

from platypus.mpipool import MPIPool


def large(task):
    return task * (100_000 // len(task))


pool = MPIPool()
if pool.is_master():
    tasks = [bytes(100_000 if len(sys.argv) > 1 else 1)] * 6
    print([len(each) for each in pool.map(large, tasks)])
    pool.close()
else:
    pool.wait()
