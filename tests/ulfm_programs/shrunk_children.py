# number of ranks: 7
"""What can be made of a shrunk communicator: everything, and old failures do not show there."""

import numpy as np
from ft import MPI, attempt, comm, die, finish, phase, rank, report, total

if rank in (0, 4):
    die()
phase()
new = attempt("shrink", comm.Shrink)
report("failed", new.Get_failed().size)
report("dup", total(new.Dup(), rank))
half = new.Split(new.rank % 2, -new.rank)
report("split", f"{half.rank} of {half.size}: {half.allgather(rank)}")
inter = half.Create_intercomm(0, new, (3, 4)[new.rank % 2])
report("inter", f"{inter.rank} of {inter.size} and {inter.remote_size}")
report("inter.sum", total(inter, rank))
merged = inter.Merge(high=bool(new.rank % 2))
report("merged", merged.allgather(rank))
box = np.zeros(1, dtype=int)
if new.rank == 0:
    for _ in range(new.size - 1):
        new.Recv(box, source=MPI.ANY_SOURCE)
        report(f"from.{box[0]}", True)
else:
    new.Send(np.array([rank]), dest=0)
report("agree", new.Agree(~(1 << new.rank) & 0xFF))
again = new.Shrink()
report("again", f"{again.rank} of {again.size}")
finish()
