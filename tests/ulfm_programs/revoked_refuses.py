# number of ranks: 4
"""What raises REVOKED on a revoked communicator: everything that communicates, even with PROC_NULL."""

import numpy as np
from ft import MPI, attempt, comm, finish, phase, rank

world = comm.Dup()
early = world.Irecv(np.zeros(1), source=(rank + 1) % 4, tag=9)
phase()  # a real one may not survive a revocation that arrives before the communicator is made
if rank == 2:
    world.Revoke()
phase()
box, boxes = np.zeros(1), np.zeros(4)
attempt("irecv.earlier", early.Wait)
attempt("send", world.Send, box, dest=(rank + 1) % 4)
attempt("ssend", world.Ssend, box, dest=(rank + 1) % 4)
attempt("recv", world.Recv, box, source=(rank + 1) % 4)
attempt("recv.any", world.Recv, box, source=MPI.ANY_SOURCE)
attempt("iprobe", world.Iprobe, source=(rank + 1) % 4)
attempt("probe", world.Probe, source=(rank + 1) % 4)
attempt("send.null", world.Send, box, dest=MPI.PROC_NULL)
attempt("recv.null", world.Recv, box, source=MPI.PROC_NULL)
attempt("barrier", world.Barrier)
attempt("bcast", world.Bcast, box, root=0)
attempt("reduce", world.Reduce, box, boxes[:1], root=0)
attempt("allreduce", world.Allreduce, box, boxes[:1])
attempt("gather", world.Gather, box, boxes, root=0)
attempt("alltoall", world.Alltoall, boxes, boxes.copy())
attempt("dup", world.Dup)
attempt("split", world.Split, rank % 2, rank)
attempt("create", world.Create, world.Get_group())
attempt("create_group", world.Create_group, world.Get_group())
attempt("cart", world.Create_cart, [4])
finish()
