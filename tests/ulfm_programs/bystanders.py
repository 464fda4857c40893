# number of ranks: 5
"""Ranks that wait for the living, by name, are disturbed neither by a failure nor by another revocation."""

import time

import numpy as np
from ft import MPI, attempt, comm, die, finish, phase, rank, report

other, pair = comm.Dup(), comm.Split(rank // 2, rank)
phase()
box = np.zeros(1)
if rank == 4:
    die(0.1)
if rank == 0:
    attempt("wait.pair", pair.Recv, box, source=MPI.ANY_SOURCE)
    report("value.pair", box.tolist())
elif rank == 1:
    time.sleep(0.5)
    pair.Send(np.array([1.0]), dest=0)
elif rank == 2:
    attempt("wait.named", comm.Recv, box, source=3)
    report("value.named", box.tolist())
else:
    time.sleep(0.2)
    other.Revoke()
    time.sleep(0.3)
    comm.Send(np.array([3.0]), dest=2)
phase()
phase()
attempt("other", other.Barrier)
report("revoked", [comm.Is_revoked(), other.Is_revoked(), pair.Is_revoked()])
attempt("pair", pair.Barrier)
finish()
