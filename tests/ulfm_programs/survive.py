"""What the programs share that get over any failure at any call: plain mpi4py, for a real MPI as for a simulated one.

Words of the command line such as `2@3` are deaths: rank 2 of the first processes kills itself when it comes to step 3.
With the word `finalize` processes end as MPI wants it, by MPI_Finalize, which after a failure a real one may not leave.
The first processes print lines `rank key value`, of which `result` is what no failure may change; those that are
started later say nothing, and what they have comes out through the others. Who cannot go on says what is `lost`.

How they recover is apps/recovery.py.
"""

import os
import sys
import time

from mpi4py import MPI

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "apps"))
import recovery
from recovery import (  # noqa: F401
    FAILURES,
    Buddies,
    agree,
    attempt,
    die,
    joined,
    missing,
    replace,
    shrink,
    uniformly,
    until_agreed,
    with_parts,
)

FINALIZE = "finalize" in sys.argv
WORDS = [word for word in sys.argv[1:] if "@" not in word and word != "finalize"]
DEATHS = [tuple(map(int, word.split("@"))) for word in sys.argv[1:] if "@" in word]

first = MPI.COMM_WORLD
is_new = recovery.is_new()
rank = first.rank


def report(key, value):
    """Print one line, at once, if this is one of the first processes."""
    if not is_new:
        sys.stdout.write(f"{rank} {key} {value}\n")
        sys.stdout.flush()


def lost(comm, what):
    """End the job, and say why."""
    sys.stdout.write(f"{rank} lost {what}\n")
    sys.stdout.flush()
    comm.Abort(1)


def die_at(step):
    """Die if the command line says so."""
    if not is_new and (rank, step) in DEATHS:
        time.sleep(0.1)  # the others wait by then
        die()


def finish():
    """End without MPI_Finalize, unless told otherwise, when no one needs this process any more."""
    if not FINALIZE:
        time.sleep(0.8)
        os._exit(0)
