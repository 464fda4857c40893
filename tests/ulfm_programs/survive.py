"""What the programs share that get over any failure at any call: plain mpi4py, for a real MPI as for a simulated one.

Words of the command line such as `2@3` are deaths: rank 2 of the first processes kills itself when it comes to step 3.
With the word `finalize` processes end as MPI wants it, by MPI_Finalize, which after a failure a real one may not leave.
The first processes print lines `rank key value`, of which `result` is what no failure may change; those that are
started later say nothing, and what they have comes out through the others. Who cannot go on says what is `lost`.

Nothing here may wait in a call that is not in an attempt, and nothing is done in an `except`: there a second failure
would find nobody who handles it. Reductions of objects are left out: mpi4py makes them on a communicator of its own,
which a revocation of the program's does not reach.
"""

import os
import signal
import sys
import time

from mpi4py import MPI

# Open MPI 5 says ERR_OTHER of a Barrier with a dead member.
FAILURES = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED, MPI.ERR_OTHER)
FINALIZE = "finalize" in sys.argv
WORDS = [word for word in sys.argv[1:] if "@" not in word and word != "finalize"]
DEATHS = [tuple(map(int, word.split("@"))) for word in sys.argv[1:] if "@" in word]

first = MPI.COMM_WORLD
parent = MPI.Comm.Get_parent()
is_new = parent != MPI.COMM_NULL
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


def die():
    """End as a failure does, and tell nobody."""
    os.kill(os.getpid(), signal.SIGKILL)


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


def attempt(call, *args, **options):
    """Return what a call gives, and whether it got through."""
    try:
        return call(*args, **options), True
    except MPI.Exception as error:
        if error.Get_error_class() not in FAILURES:
            raise
        return None, False


def agree(comm, well):
    """Return whether all members live and found it well, the same at all of them."""
    flag, through = attempt(comm.Agree, int(well))
    return through and flag == 1


def missing(comm, living):
    """Return the ranks in a communicator of its members that are in no other, ascending."""
    return list(MPI.Group.Translate_ranks(MPI.Group.Difference(comm.group, living.group), None, comm.group))


def replace(comm, in_order=True):
    """Return a communicator with a new process for each dead member of a revoked one: in its place, or at the end."""
    while True:
        living = comm.Shrink()
        dead = missing(comm, living)
        if not dead:
            return living
        inter, well = attempt(living.Spawn, sys.executable, sys.argv, maxprocs=len(dead))
        everybody = made = None
        if agree(living, well):
            everybody, well = attempt(inter.Merge, high=False)
            if agree(living, well):
                keys = dead if in_order else range(comm.size, comm.size + len(dead))
                _, told = attempt(everybody.bcast, list(keys), root=0)
                made, split = attempt(everybody.Split, 0, comm.rank)
                if agree(everybody, told and split):
                    return made
        for unfinished in (inter, everybody, made):
            if unfinished is not None:
                unfinished.Revoke()


def born():
    """Join those who have started this process, or die."""
    everybody, well = attempt(parent.Merge, high=True)
    keys, told = attempt(everybody.bcast, None, root=0) if well else (None, False)
    if not told:
        die()
    made, split = attempt(everybody.Split, 0, keys[first.rank])
    if not agree(everybody, split):
        die()
    return made


def joined():
    """Return the communicator with which this process begins."""
    return born() if is_new else first


def until_agreed(comm, work, repair=replace):
    """Do some work until all have done it, repairing what it is done on; return what it gives, and on what."""
    while True:
        result, well = attempt(work, comm)
        if not well:
            comm.Revoke()
        if agree(comm, well):
            return result, comm
        comm.Revoke()
        comm = repair(comm)


def uniformly(comm, make):
    """Make communicators from one, at all of its members or at none: where one cannot, the error is raised at all."""
    made, well = attempt(make, comm)
    if not agree(comm, well):
        raise MPI.Exception(MPI.ERR_REVOKED)
    return made


def with_parts(comm, make, use):
    """Use communicators made from one, and wake all who wait on any of them when one of its members cannot go on."""
    parts = uniformly(comm, make)
    result, well = attempt(use, comm, *parts)
    if not well:
        for part in parts:
            part.Revoke()
        raise MPI.Exception(MPI.ERR_REVOKED)
    return result


def shrink(comm):
    """Repair a communicator by leaving out the dead."""
    return comm.Shrink()


class Buddies:
    """Checkpoints in memory: each rank has its own, and its right neighbour a copy."""

    def __init__(self):
        self.kept, self.held, self.saved = {}, {}, False

    def save(self, comm, step, data):
        """Make a checkpoint of a step, and forget the one before when all have the new one."""
        if step not in self.kept:
            self.kept[step] = data
            self._duplicate(comm, step)

    def _duplicate(self, comm, step):
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        self.held[step] = comm.sendrecv(self.kept[step], dest=right, source=left)
        comm.Barrier()
        self.kept, self.held, self.saved = {step: self.kept[step]}, {step: self.held[step]}, True

    def restore(self, comm):
        """Return the last step of which all have data, and this rank's; or None, if nothing has been saved by all."""
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        there = {*self.kept, *comm.sendrecv(list(self.held), dest=left, source=right)}
        of_all = comm.allgather((there, self.saved))
        if not any(saved for _, saved in of_all):
            self.kept, self.held = {}, {}
            return None
        common = set.intersection(*(steps for steps, _ in of_all))
        if not common:
            if comm.rank == 0:
                lost(comm, f"data of {[one for one, (steps, _) in enumerate(of_all) if not steps]}")
            comm.Barrier()
        step = max(common)
        needs = step not in self.kept
        if comm.sendrecv(needs, dest=right, source=left):
            comm.send(self.held[step], dest=left)
        if needs:
            self.kept[step] = comm.recv(source=right)
        self._duplicate(comm, step)
        return step, self.kept[step]
