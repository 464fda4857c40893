# number of ranks: 4
"""Who polls for a message that only a dead process can bring learns of its failure, by name and from any source."""

import time

from ft import MPI, attempt, comm, die, failed, finish, phase, rank, report


def poll(look, *args):
    """Look until something is there."""
    while not look(*args):
        time.sleep(1e-3)


if rank == 3:
    die()
if rank == 0:
    attempt("Iprobe", poll, comm.Iprobe, 3, 1)
    report("known", failed())
if rank == 1:
    attempt("Improbe", poll, comm.Improbe, MPI.ANY_SOURCE, 1)
    comm.Ack_failed()
    report("acked", attempt("acked.class", comm.iprobe, MPI.ANY_SOURCE, 1))
if rank == 2:
    attempt("iprobe", poll, comm.iprobe)
phase()
finish()
