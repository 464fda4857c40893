# number of ranks: 4
"""Non-blocking collective operations with a dead member: the error comes with the completion."""

import numpy as np
from ft import attempt, comm, die, finish, phase, rank

box, boxes = np.ones(1), np.ones(4)
if rank == 2:
    die()
attempt("ibarrier", comm.Ibarrier().Wait)
phase()
for name, arguments in {
    "Ibarrier": (),
    "Iallreduce": (box, box.copy()),
    "Iallgather": (box, boxes),
    "Ialltoall": (boxes, boxes.copy()),
}.items():
    request = attempt(f"{name}.start", getattr(comm, name), *arguments)
    if request is not None:
        attempt(name, request.Wait)
finish()
