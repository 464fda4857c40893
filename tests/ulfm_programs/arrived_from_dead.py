# number of ranks: 3
"""What a process has sent before it died can be found by probes that do not wait, and received, though it is known."""

import numpy as np
from ft import MPI, attempt, comm, die, finish, phase, rank, report

if rank == 1:
    for tag in range(3):
        comm.Send(np.array([tag]), dest=0, tag=tag)
    die()
phase()
box = np.full(1, -1)
if rank == 0:
    attempt("known", comm.Recv, bytearray(1), 1, 9)
    report("named", attempt("named.class", comm.Iprobe, 1, 0))
    report("any", attempt("any.class", comm.Iprobe, MPI.ANY_SOURCE, 0))
    attempt("nothing", comm.Iprobe, 1, 8)
    for tag, source in ((0, 1), (1, MPI.ANY_SOURCE)):
        message = attempt(f"{tag}.matched", comm.Improbe, source, tag)
        attempt(f"{tag}.received", message.Recv, box)
        report(f"{tag}.value", box.tolist())
    attempt("waits", comm.Probe, 1, 2)
    attempt("waits.any", comm.Mprobe, MPI.ANY_SOURCE, 2)
    comm.Ack_failed()
    attempt("acked", comm.Recv, box, MPI.ANY_SOURCE, 2)
    report("acked.value", box.tolist())
phase()
finish()
