# ranks: 1 2 3
"""Parents and children in one communicator, the one or the other first; and children of children."""

import os
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "spawned.py")


def say(*what):
    print(" ".join(map(str, (comm.rank, *what))), flush=True)


for high in (False, True):
    inter = comm.Spawn(sys.executable, [CHILD, "merge", "low" if high else "high"], 2)
    both = inter.Merge(high=high)
    say("merged", high, both.rank, both.size, both.gather(("parent", comm.rank, both.rank), root=0))
    odd = both.Split(both.rank % 2, -both.rank)
    say("split", odd.rank, odd.size, both.gather((odd.rank, odd.size), root=0))
    group = MPI.Group.Difference(both.Get_group(), comm.Get_group())
    say("new ones", group.size, MPI.Group.Translate_ranks(group, None, both.Get_group()))
    odd.Free()
    both.Free()
    inter.Disconnect()
inter = comm.Spawn(sys.executable, [CHILD, "generations", "1"], 2)
told = inter.gather(None, root=MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL)
say("generations", told)
inter.Disconnect()
