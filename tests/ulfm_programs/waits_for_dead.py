# number of ranks: 5
"""Operations that wait for a rank when it dies: each fails, in every form."""

import numpy as np
from ft import attempt, comm, die, failed, finish, phase, rank, report

victim, large = 4, np.zeros(1 << 17)
box = np.zeros(1)
if rank == victim:
    die()
elif rank == 0:
    attempt("recv", comm.Recv, box, source=victim)
elif rank == 1:
    attempt("ssend", comm.Ssend, box, dest=victim)
elif rank == 2:
    attempt("irecv", comm.Irecv(box, source=victim).Wait)
    attempt("issend", comm.Issend(box, dest=victim).Wait)
else:
    attempt("probe", comm.Probe, source=victim)
    attempt("sendrecv", comm.Sendrecv, box, dest=victim, recvbuf=box.copy(), source=victim)
report("failed", failed())
phase()
attempt("later.recv", comm.Recv, box, source=victim)
attempt("later.ssend", comm.Ssend, box, dest=victim)
attempt("later.large", comm.Send, large, dest=victim)
attempt("later.sendrecv", comm.Sendrecv, box, dest=victim, recvbuf=box.copy(), source=victim)
finish()
