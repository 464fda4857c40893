# number of ranks: 4
"""What still works on a revoked communicator: whatever is local, shrinking, and freeing."""

from ft import MPI, attempt, comm, finish, phase, rank, report, total

world = comm.Dup()
world.Set_name("worn out")
keyval = MPI.Comm.Create_keyval()
world.Set_attr(keyval, {"rank": rank})
phase()  # a real one may not survive a revocation that arrives before the communicator is made
if rank == 3:
    world.Revoke()
phase()
attempt("barrier", world.Barrier)
report("revoked", world.Is_revoked())
report("size", world.Get_size())
report("rank", world.Get_rank())
report("name", world.Get_name())
report("group", world.Get_group().size)
report("attribute", world.Get_attr(keyval))
world.Set_attr(keyval, "new")
report("attribute.new", world.Get_attr(keyval))
report("compare", MPI.Comm.Compare(world, comm) == MPI.CONGRUENT)
report("inter", world.Is_inter())
report("topology", world.Get_topology() == MPI.UNDEFINED)
report("failed", world.Get_failed().size)
report("acked", world.Ack_failed())
new = attempt("shrink", world.Shrink)
report("shrunk.revoked", new.Is_revoked())
report("shrunk.sum", total(new, rank))
attempt("free", world.Free)
report("null", world == MPI.COMM_NULL)
report("after.sum", total(comm, rank))
finish()
