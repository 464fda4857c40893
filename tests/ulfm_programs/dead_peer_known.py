# number of ranks: 4
# quirk: * barrier* OTHER is PROC_FAILED -- Open MPI's barrier may report another class at the root
"""A rank that is known to be dead: barriers and messages fail, also when acknowledged; the living go on in pairs."""

from ft import attempt, comm, die, finish, phase, rank, report

if rank == 1:
    die()
phase()
attempt("barrier", comm.Barrier)
phase()
attempt("barrier.again", comm.Barrier)
attempt("send", comm.send, "hello", dest=1)
attempt("recv", comm.recv, source=1)
phase()
report("acknowledged", comm.Ack_failed())
attempt("barrier.acknowledged", comm.Barrier)
attempt("send.acknowledged", comm.send, "hello", dest=1)
attempt("recv.acknowledged", comm.recv, source=1)

living = [0, 2, 3]
me = living.index(rank)
got = attempt("pair", comm.sendrecv, f"from {rank}", dest=living[(me + 1) % 3], source=living[me - 1])
report("pair.value", got)
finish()
