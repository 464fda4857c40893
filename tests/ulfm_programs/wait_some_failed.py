# number of ranks: 4
"""Waitany, Testany, Waitsome, Testsome and Testall over requests of which one is from a dead rank."""

import numpy as np
from ft import MPI, attempt, comm, die, finish, phase, rank, report


def receives(tag):
    """Two receives: from the dead rank, and from a living one that sends later."""
    boxes = np.zeros(1), np.zeros(1)
    return [comm.Irecv(box, source=source, tag=tag) for source, box in zip((1, 2), boxes, strict=True)]


if rank == 1:
    die()
phase()
if rank == 0:
    for tag, name in enumerate(("Waitany", "Testany", "Waitsome", "Testsome", "Testall")):
        requests = receives(tag)
        attempt(name, getattr(MPI.Request, name), requests)
        report(f"{name}.null", [request == MPI.REQUEST_NULL for request in requests])
        comm.send(None, dest=2, tag=tag)
        attempt(f"{name}.rest", requests[1].Wait)
elif rank == 2:
    for tag in range(5):
        comm.recv(source=0, tag=tag)
        comm.Send(np.ones(1), dest=0, tag=tag)
finish()
