"""What the programs with failures share: plain mpi4py, for a real MPI as for a simulated one.

Each line printed is `rank key value`. After a failure nothing synchronises the survivors but time, so a program comes
in phases that begin at fixed times: what one phase sends has arrived, and what died in it is known, in the next.
"""

import os
import signal
import sys
import time
from array import array

from mpi4py import MPI

PHASE_S = 0.8

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
CLASSES = {getattr(MPI, name): name.removeprefix("ERR_") for name in dir(MPI) if name.startswith("ERR_")}
CLASSES = {number: name for number, name in CLASSES.items() if isinstance(number, int)} | {MPI.SUCCESS: "SUCCESS"}


def report(key, value):
    """Print one line, at once: who is killed later has printed it."""
    sys.stdout.write(f"{rank} {key} {value}\n")
    sys.stdout.flush()


def class_of(error):
    """The name of an exception's, or a code's, error class."""
    code = error.Get_error_code() if isinstance(error, MPI.Exception) else error
    return CLASSES[MPI.Get_error_class(code)]


def outcome(function, *args, **kwargs):
    """Call a function, and return which error class that gave and its result or None."""
    try:
        return "SUCCESS", function(*args, **kwargs)
    except MPI.Exception as error:
        return class_of(error), None


def attempt(key, function, *args, **kwargs):
    """Call a function, report which error class that gave, and return its result or None."""
    name, result = outcome(function, *args, **kwargs)
    report(key, name)
    return result


def total(of, value):
    """Sum over a communicator, by one MPI call: mpi4py's allreduce of objects uses a hidden communicator besides."""
    result = array("q", [0])
    of.Allreduce(array("q", [value]), result)
    return result[0]


def die(after_s=0.2):
    """Be killed, when all others have begun the phase's first operation and wait, or are done with it."""
    time.sleep(after_s)
    os.kill(os.getpid(), signal.SIGKILL)


def progress_until(end):
    """Let time pass in which MPI can act on what arrives: a real one needs calls for that."""
    while MPI.Wtime() < end:
        time.sleep(0.02)
        MPI.COMM_SELF.Iprobe()


def phase():
    """Wait for the next phase."""
    global phases
    phases += 1
    if MPI.Wtime() > begin + phases * PHASE_S:
        print(f"rank {rank} comes too late to phase {phases}", file=sys.stderr)
    progress_until(begin + phases * PHASE_S)


def finish():
    """End without MPI_Finalize, which may wait for the dead, when no one needs this rank any more."""
    phase()
    sys.stdout.flush()
    os._exit(0)


def world_ranks(group):
    """The members of a group as ranks of COMM_WORLD."""
    return group.Translate_ranks(range(group.size), comm.Get_group()) if group.size else []


def failed(of=comm):
    """Who is known to have failed, as ranks of COMM_WORLD, in MPI's order."""
    return world_ranks(of.Get_failed())


comm.Barrier()
begin = MPI.Wtime()
phases = 0
