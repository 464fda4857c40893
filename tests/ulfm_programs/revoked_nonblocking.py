# number of ranks: 3
# quirk: * idup.wait INTERN is REVOKED -- Open MPI's MPI_Comm_idup ends with another class
# free: * isend.wait SUCCESS REVOKED -- a small message may be sent on its way without a look
# free: * irecv.null.wait SUCCESS REVOKED -- what needs nobody may complete
"""Non-blocking calls on a revoked communicator begin as ever; their completion is REVOKED."""

import numpy as np
from ft import MPI, attempt, comm, finish, phase, rank

world = comm.Dup()
box, other = np.zeros(1), (rank + 1) % 3
persistent = world.Recv_init(box, source=other)
phase()  # a real one may not survive a revocation that arrives before the communicator is made
if rank == 2:
    world.Revoke()
phase()
CALLS = {
    "isend": lambda: world.Isend(box, dest=other),
    "irecv": lambda: world.Irecv(box, source=other),
    "irecv.any": lambda: world.Irecv(box, source=MPI.ANY_SOURCE),
    "irecv.null": lambda: world.Irecv(box, source=MPI.PROC_NULL),
    "ibarrier": lambda: world.Ibarrier(),
    "iallreduce": lambda: world.Iallreduce(box, box.copy()),
    "idup": lambda: world.Idup()[1],
}
for name, call in CALLS.items():
    request = attempt(f"{name}.start", call)
    if request is not None:
        attempt(f"{name}.wait", request.Wait)
attempt("start.start", persistent.Start)
attempt("start.wait", persistent.Wait)
finish()
