# number of ranks: 4
"""Waitany, Testany, Waitsome, Testsome and Testall over requests of which one is from a dead rank."""

import time

import numpy as np
from ft import MPI, comm, die, finish, outcome, phase, rank, report


def receives(tag):
    """Two receives: from the dead rank, and from a living one that sends later."""
    boxes = np.zeros(1), np.zeros(1)
    return [comm.Irecv(box, source=source, tag=tag) for source, box in zip((1, 2), boxes, strict=True)]


def polled(function, requests):
    """Call several times, until there is an error."""
    for _ in range(20):
        name, _ = outcome(function, requests)
        if name != "SUCCESS":
            break
        time.sleep(0.001)
    return name


if rank == 1:
    die()
phase()
if rank == 0:
    for tag, name in enumerate(("Waitany", "Testany", "Waitsome", "Testsome", "Testall")):
        requests = receives(tag)
        function = getattr(MPI.Request, name)
        report(name, polled(function, requests) if name.startswith("Test") else outcome(function, requests)[0])
        report(f"{name}.null", [request == MPI.REQUEST_NULL for request in requests])
        comm.send(None, dest=2, tag=tag)
        report(f"{name}.rest", outcome(requests[1].Wait)[0])
elif rank == 2:
    for tag in range(5):
        comm.recv(source=0, tag=tag)
        comm.Send(np.ones(1), dest=0, tag=tag)
finish()
