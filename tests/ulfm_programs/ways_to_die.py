# number of ranks: 4
# arguments of a run: exit; abort; terminate; kill
"""A process is dead however it ended, unless it called MPI_Finalize."""

import os
import signal
import sys
import time

from ft import attempt, comm, failed, finish, phase, rank, report, total

if rank == 2:
    time.sleep(0.2)
    match sys.argv[1]:
        case "exit":
            os._exit(0)
        case "abort":
            os.abort()
        case "terminate":
            os.kill(os.getpid(), signal.SIGTERM)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
attempt("recv", comm.recv, source=2)
report("failed", failed())
phase()
attempt("allreduce", total, comm, 1)
report("shrunk", comm.Shrink().size)
finish()
