# number of ranks: 4
# by heartbeat only: it asks for failures that nobody has waited for
"""MPI_Comm_get_failed and MPI_Comm_ack_failed: nothing at first, then the dead; counts of what is acknowledged."""

from ft import comm, die, failed, finish, phase, rank, report

report("before.failed", failed())
report("before.ack_0", comm.Ack_failed(0))
report("before.ack_all", comm.Ack_failed())
comm.Barrier()
if rank == 2:
    die()
phase()
report("after.failed", failed())
report("after.size", comm.Get_failed().size)
report("after.ack_0", comm.Ack_failed(0))
report("after.ack_all", comm.Ack_failed())
report("after.ack_0_again", comm.Ack_failed(0))
report("after.size_again", comm.Get_failed().size)
report("comm.size", comm.size)
report("group.size", comm.Get_group().size)
finish()
