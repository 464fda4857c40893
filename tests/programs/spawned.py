"""What programs of this folder spawn: it tells its parents what it is, and takes part in what they do."""

import os
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
parent = MPI.Comm.Get_parent()
what = sys.argv[1]
if what == "report":
    told = {
        "world": (world.rank, world.size),
        "parent": (parent.rank, parent.size, parent.remote_size, parent.is_inter, parent.Get_name()),
        "args": sys.argv[2:],
        "app": world.Get_attr(MPI.APPNUM),
        "folder": os.path.basename(os.getcwd()) if "--folder" in sys.argv else "",
    }
    parent.gather(told, root=0)
elif what == "collectives":
    root = parent.bcast(None, root=0)
    parent.barrier()
    parent.allreduce(world.rank + 1)
    parent.allgather(("child", world.rank))
    parent.alltoall([f"{world.rank}>{peer}" for peer in range(parent.remote_size)])
    parent.reduce(world.rank, op=MPI.MAX, root=root)
    if world.rank == world.size - 1:
        parent.send({"from": world.rank, "got": parent.recv(source=0, tag=3)}, dest=0, tag=4)
elif what == "merge":
    both = parent.Merge(high="high" in sys.argv)
    both.gather(("child", world.rank, both.rank))
    odd = both.Split(both.rank % 2, -both.rank)
    both.gather((odd.rank, odd.size))
    odd.Free()
    both.Free()
elif what == "generations":
    left = int(sys.argv[2])
    below = []
    if left:
        child = MPI.COMM_SELF.Spawn(sys.executable, [__file__, "generations", str(left - 1)], 2)
        below = child.gather(None, root=MPI.ROOT)
        child.Disconnect()
    parent.gather((left, world.rank, below), root=0)
parent.Disconnect()
