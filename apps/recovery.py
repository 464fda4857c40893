"""Recovery: what programs need to get over failures of processes; plain mpi4py, to be copied into others.

    import recovery

    comm = recovery.joined()
    result, comm = recovery.until_agreed(comm, work)       # work(comm) is begun anew, with new processes for the dead
    recovery.conclude(comm, [f"result {result}"], right)   # somebody who lives prints it

It rests on four rules.

* Nothing waits outside of an attempt, and nothing is done in an `except`: there a second failure would find nobody who
  handles it.
* Whether something went well is agreed on (`agree`), before anybody relies on it.  That a call of one's own got through
  does not mean that it did at all others.
* Who cannot go on revokes the communicators in which others may wait for it.
* Reductions and splits of objects are left out: mpi4py makes some of them on a communicator of its own, which a
  revocation of the program's does not reach.  Arrays, and `bcast`, `gather`, `allgather` and `sendrecv` of objects are
  safe.

Replacing processes is MPIX_Comm_replace of the ULFM tutorials (Bosilca and others), with one change: there is no
agreement over the intercommunicator.  The new processes would wait in it for ever once the survivors have given an
attempt up, for a revocation does not end an agreement.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import zlib
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# Open MPI 5 says ERR_OTHER of a Barrier with a dead member.
FAILURES = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED, MPI.ERR_OTHER)
TAG = 0  # of messages here; who leaves messages lying takes another
HALF = 0x7FFF  # the bits of half a flag of an agreement
REFUSALS = 3  # so many times in a row no process could be started: there is no place for it
IN_VAIN = 3  # so many times ERR_OTHER, and nobody has died meanwhile: it is another error


class Lost(Exception):
    """Data of which no copy is left; the text says which.

    All members have to raise it, or none: who finds a loss alone lets the others know first.
    """


# ------------------------------------------------------------------------------------------------ attempts, agreements


def attempt(call: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, bool]:
    """Return what a call gives, and whether it got through; other errors than those of failures are raised.

    That data are lost is something that a call gives, too: the `Lost` that it raised.
    """
    try:
        return call(*args, **options), True
    except Lost as lost:
        return lost, True
    except MPI.Exception as error:
        if error.Get_error_class() not in FAILURES:
            raise
        return None, False


def agree(comm: MPI.Intracomm, well: bool) -> bool:
    """Return whether all members live and found it well, the same at all of them: Agree raises at all or at none."""
    flag, through = attempt(comm.Agree, int(well))
    return through and flag == 1


def agree_on(comm: MPI.Intracomm, flags: int) -> int:
    """Return the bitwise AND of what the living members say, in spite of the dead; it is no commit."""
    while True:
        try:
            return comm.Agree(flags)
        except MPI.Exception as error:
            if error.Get_error_class() != MPI.ERR_PROC_FAILED:
                raise
        comm.Ack_failed()


def agreed_dead(comm: MPI.Intracomm) -> list[int]:
    """Acknowledge failures until all that live have acknowledged the same ones; return these ranks, ascending.

    An agreement alone does not say so: a process may take part in it, and die before a late one has begun.
    """
    while True:
        count = comm.Ack_failed()
        dead = sorted(ranks_of(comm.Get_failed(), comm)[:count])
        digest = zlib.crc32(repr(dead).encode()) & HALF
        flags, through = attempt(comm.Agree, digest | (digest ^ HALF) << HALF.bit_length())
        if through and flags & HALF | flags >> HALF.bit_length() == HALF:
            return dead


def missing(comm: MPI.Intracomm, living: MPI.Intracomm) -> list[int]:
    """Return the ranks in a communicator of its members that are not in another, ascending."""
    return ranks_of(MPI.Group.Difference(comm.group, living.group), comm)


def known_dead(comm: MPI.Intracomm) -> list[int]:
    """Return the ranks in a communicator that this process knows to be dead, ascending."""
    return sorted(ranks_of(comm.Get_failed(), comm))


def ranks_of(group: MPI.Group, comm: MPI.Intracomm) -> list[int]:
    """Return the ranks in a communicator of the members of a group, in the group's order."""
    return list(MPI.Group.Translate_ranks(group, None, comm.group))


# ------------------------------------------------------------------------------------------------------------- repairs


def shrink(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Repair a communicator by leaving out the dead: all others get new ranks, in the old order."""
    return comm.Shrink()


def replace(comm: MPI.Intracomm, *, in_order: bool = True) -> MPI.Intracomm:
    """Repair a revoked communicator by a new process for each dead member, in its rank, or else at the end.

    The new processes run the program of this one with its arguments, and begin with `joined()`.  When any member fails
    during an attempt, all survivors give it up, and begin another one from the last communicator that all had; its new
    processes kill themselves, which makes them failures like any other.
    """
    refused = 0
    while True:
        living = comm.Shrink()
        dead = missing(comm, living)
        if not dead:
            return living
        inter, _ = attempt(_started, living, len(dead))
        refused = refused + 1 if inter == MPI.COMM_NULL else 0
        if refused == REFUSALS:
            _abort(comm, f"{len(dead)} new processes cannot be started")
        everybody = made = None
        if agree(living, bool(inter)):
            everybody, well = attempt(inter.Merge, high=False)
            if agree(living, well):
                keys = dead if in_order else range(comm.size, comm.size + len(dead))
                _, told = attempt(everybody.bcast, list(keys), root=0)
                made, split = attempt(everybody.Split, 0, comm.rank)
                if agree(everybody, told and split):
                    return made
        for unfinished in (inter, everybody, made):
            if unfinished:
                unfinished.Revoke()  # wakes those who are in Merge, bcast or Split


def _started(comm: MPI.Intracomm, count: int) -> MPI.Intercomm:
    """Return the intercommunicator to `count` new processes, or MPI_COMM_NULL where they could not be started."""
    try:
        return comm.Spawn(sys.executable, sys.argv, maxprocs=count)
    except MPI.Exception as error:
        if error.Get_error_class() not in (MPI.ERR_SPAWN, MPI.ERR_OTHER):
            raise
        return MPI.COMM_NULL


def joined() -> MPI.Intracomm:
    """Return the communicator with which this process begins: COMM_WORLD, or what a new process is to complete.

    A new process has one chance; if it misses it, it dies.
    """
    parent = MPI.Comm.Get_parent()
    if parent == MPI.COMM_NULL:
        return MPI.COMM_WORLD
    everybody, well = attempt(parent.Merge, high=True)
    keys, told = attempt(everybody.bcast, None, root=0) if well else (None, False)
    if not told:  # nobody else may come to the agreement
        die()
    made, split = attempt(everybody.Split, 0, keys[MPI.COMM_WORLD.rank])
    if not agree(everybody, split):
        die()
    return made


def is_new() -> bool:
    """Return whether this process has been started in place of a dead one."""
    return MPI.Comm.Get_parent() != MPI.COMM_NULL


# --------------------------------------------------------------------------------------------------------------- loops


def until_agreed(
    comm: MPI.Intracomm, work: Callable[[MPI.Intracomm], Any], repair: Callable[..., MPI.Intracomm] = replace
) -> tuple[Any, MPI.Intracomm]:
    """Do some work until all members have done it, repairing what it is done on; return what it gives, and on what.

    Where it finds that data are lost (`Lost`), or that an error is none of a failure, the job ends.  With `replace`
    there is one such loop a program: a new process begins with the first one, and does not meet those who are in
    another.
    """
    return _until_agreed(comm, work, repair, _Doubts())


class _Doubts:
    """Counts attempts that have ended with ERR_OTHER since somebody is known to have died."""

    def __init__(self) -> None:
        self.count = 0
        self.error: MPI.Exception | None = None

    def watched(self, work: Callable[..., Any], comm: MPI.Intracomm) -> Any:
        """Do some work, and take down the error with which it ends if that may not be one of a failure."""
        self.error = None
        try:
            return work(comm)
        except MPI.Exception as error:
            self.error = error if error.Get_error_class() == MPI.ERR_OTHER else None
            raise

    def resolve(self, comm: MPI.Intracomm) -> None:
        """End the job if it is none; all have agreed on who has failed in the communicator of the attempt."""
        self.count = 0 if known_dead(comm) else self.count + bool(self.error)
        if self.count == IN_VAIN:
            _abort(comm, f"{IN_VAIN} attempts in vain, and nobody has died: {self.error}")


def _until_agreed(
    comm: MPI.Intracomm, work: Callable[[MPI.Intracomm], Any], repair: Callable[..., MPI.Intracomm], doubts: _Doubts
) -> tuple[Any, MPI.Intracomm]:
    while True:
        result, well = attempt(doubts.watched, work, comm)
        if not well:
            comm.Revoke()
        if agree(comm, well):
            if isinstance(result, Lost):
                give_up(comm, str(result))
            return result, comm
        comm.Revoke()
        repaired = repair(comm)
        doubts.resolve(comm)
        comm = repaired


def roll_back_until_agreed(
    comm: MPI.Intracomm,
    compute: Callable[[MPI.Intracomm], Any],
    restore: Callable[[MPI.Intracomm], Any],
    repair: Callable[..., MPI.Intracomm] = replace,
    *,
    restoring: bool | None = None,
) -> tuple[Any, MPI.Intracomm]:
    """Compute until all members have got through; after each failure repair, and restore before going on.

    New processes begin with restoring, if `restoring` does not say otherwise.  `compute` goes on from where `restore`
    has put it.
    """
    restoring = is_new() if restoring is None else restoring

    def work(comm: MPI.Intracomm) -> Any:
        return restore(comm) if restoring else compute(comm)

    def repaired(comm: MPI.Intracomm) -> MPI.Intracomm:
        nonlocal restoring
        restoring = True
        return repair(comm)

    doubts = _Doubts()
    while True:
        result, comm = _until_agreed(comm, work, repaired, doubts)
        if not restoring:
            return result, comm
        restoring = False


def uniformly(comm: MPI.Intracomm, make: Callable[[MPI.Intracomm], Any]) -> Any:
    """Make communicators from one, at all of its members or at none: if one cannot, all raise ERR_REVOKED."""
    made, well = attempt(make, comm)
    if not agree(comm, well):
        raise MPI.Exception(MPI.ERR_REVOKED)
    return made


def with_parts(
    comm: MPI.Intracomm,
    make: Callable[[MPI.Intracomm], Sequence[MPI.Intracomm]],
    use: Callable[..., Any],
) -> Any:
    """Use communicators made from one, and wake all who wait on any of them when one of its members cannot go on."""
    parts = uniformly(comm, make)
    result, well = attempt(use, comm, *parts)
    if not well:
        for part in parts:
            part.Revoke()
        raise MPI.Exception(MPI.ERR_REVOKED)
    if isinstance(result, Lost):
        raise result
    return result


# ------------------------------------------------------------------------------------------ checkpoints in memory


class Buddies:
    """Checkpoints in memory: each rank has its own, and its right neighbour a copy.

    They outlive any failures but those of a rank and its right neighbour together, if the dead are replaced in their
    ranks: after `shrink` nobody asks for the data of the dead.  The data are any object that can
    be pickled; who changes it later gives a copy.
    """

    def __init__(self) -> None:
        self.kept: dict[int, Any] = {}  # this rank's data at a step
        self.held: dict[int, Any] = {}  # the left neighbour's
        self.saved = False  # whether all ranks are known to have made a checkpoint

    def save(self, comm: MPI.Intracomm, step: int, data: Any) -> None:
        """Make a checkpoint of a step, and forget the one before when all have the new one."""
        if step not in self.kept:
            self.kept[step] = data
            self._duplicate(comm, step)

    def _duplicate(self, comm: MPI.Intracomm, step: int) -> None:
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        self.held[step] = comm.sendrecv(self.kept[step], right, TAG, source=left, recvtag=TAG)
        comm.Barrier()
        self.kept, self.held, self.saved = {step: self.kept[step]}, {step: self.held[step]}, True

    def restore(self, comm: MPI.Intracomm) -> tuple[int, Any] | None:
        """Return the last step of which all have data, and this rank's; or None, if nothing has been saved by all.

        Raises `Lost` with the ranks of which there are no data of any common step.
        """
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        there = {*self.kept, *comm.sendrecv(list(self.held), left, TAG, source=right, recvtag=TAG)}
        # Who has a later step than another has not met that one at it, and so has the earlier one, too.
        mine, of_all = np.array([max(there, default=sys.maxsize), -int(self.saved)]), np.empty(2, np.int64)
        comm.Allreduce(mine, of_all, op=MPI.MIN)
        if not of_all[1]:
            self.kept, self.held = {}, {}
            return None
        self.saved = True  # a new process knows it too, should all others die now
        step, everywhere = int(of_all[0]), np.empty(1, np.bool_)
        comm.Allreduce(np.array([step in there]), everywhere, op=MPI.LAND)
        if not everywhere[0]:
            gone = [rank for rank, has in enumerate(comm.allgather(step in there)) if not has]
            raise Lost(f"the data of ranks {gone}, with all copies")
        needs = step not in self.kept
        if comm.sendrecv(needs, right, TAG, source=left, recvtag=TAG):
            comm.send(self.held[step], left, TAG)
        if needs:
            self.kept[step] = comm.recv(None, right, TAG)
        self._duplicate(comm, step)
        return step, self.kept[step]


class Copies:
    """Each rank's own copy of its own data, at the last step that all have come to: what the dead had is gone."""

    def __init__(self) -> None:
        self.kept: dict[int, Any] = {}

    def save(self, comm: MPI.Intracomm, step: int, data: Any) -> None:
        """Make a copy, and forget the one before when all have the new one."""
        self.kept[step] = data
        comm.Barrier()
        self.kept = {step: data}

    def last(self, comm: MPI.Intracomm) -> tuple[int, np.ndarray]:
        """Return the last step that all have who have anything, or 0; and who those are.

        Who has a later one has not met all others at it, and so has this one, too.
        """
        mine, steps = np.array([max(self.kept, default=sys.maxsize)]), np.empty(1, np.int64)
        comm.Allreduce(mine, steps, op=MPI.MIN)
        step, there = int(steps[0]) % sys.maxsize, np.empty(comm.size, np.bool_)
        comm.Allgather(np.array([step in self.kept]), there)
        return step, there


# --------------------------------------------------------------------------------------------------- deaths and endings


def die() -> NoReturn:
    """End as a failure does, and tell nobody."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class Parser(argparse.ArgumentParser):
    """A command line with `--die RANK@STEP`, for deaths under a real MPI; what is wrong with it is said once."""

    def __init__(self, description: str | None) -> None:
        name = os.path.splitext(os.path.basename(sys.argv[0]))[0]
        super().__init__(name, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.add_argument(
            "--die",
            action="append",
            default=[],
            type=death,
            metavar="RANK@STEP",
            help="that rank of the first processes kills itself when it comes to that step; may be given several times",
        )

    def parse_args(self, *args: Any, **options: Any) -> Any:
        """Read the command line; a death of a rank that there is not would be without effect, and is refused."""
        told = super().parse_args(*args, **options)
        ranks = MPI.COMM_WORLD.size
        for rank, step in told.die:
            if rank >= ranks and not is_new():
                self.error(f"--die {rank}@{step}: there are {ranks} ranks, from 0 on")
        return told

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, on the first rank, and end with status 2."""
        if MPI.COMM_WORLD.rank == 0:
            super().error(message)
        sys.exit(2)


def number(
    kind: type, least: float = -math.inf, most: float = math.inf, *, above: float = -math.inf, below: float = math.inf
) -> Callable[[str], Any]:
    """Return what reads an argument that is a whole number (`int`), or any (`float`), within these bounds."""
    bounds = {"at least": least, "at most": most, "above": above, "below": below}
    said = " and ".join(f"{words} {bound:,.12g}" for words, bound in bounds.items() if math.isfinite(bound))

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not (least <= value <= most and above < value < below):  # nor is a nan
            raise argparse.ArgumentTypeError(f"{text!r} is not a {'whole ' * (kind is int)}number {said}".rstrip())
        return value

    return read


natural, positive = number(int, 0), number(int, 1)
above_0, fraction = number(float, above=0), number(float, above=0, below=1)
seconds = number(float, 0, 1e6)


def death(text: str) -> tuple[int, int]:
    """Read `RANK@STEP`."""
    rank, at, step = text.partition("@")
    if not (at and rank.isdecimal() and step.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not RANK@STEP, as in 2@20")
    return int(rank), int(step)


def die_at(deaths: Iterable[tuple[int, int]], step: int) -> None:
    """Die if this is one of the first processes, and `--die` says that it dies at this step."""
    if (MPI.COMM_WORLD.rank, step) in deaths and not is_new():
        die()


def _abort(comm: MPI.Intracomm, why: str) -> None:
    print(f"{os.path.basename(sys.argv[0])}: {why}", file=sys.stderr, flush=True)
    comm.Abort(1)


def conclude(comm: MPI.Intracomm, lines: Iterable[str], right: bool) -> NoReturn:
    """Print a result that all members have, and `right: True` or `right: False`; end with status 0 or 1.

    It is printed once more, by the first of those who live, if anybody dies before all know that it has been printed.
    """
    _leave(comm, [*lines, f"right: {right}"], int(not right))


def give_up(comm: MPI.Intracomm, what: str) -> NoReturn:
    """Say that data are lost for good, and which, and end with status 1; all members call it."""
    _leave(comm, [f"lost: {what}"], 1)


def _leave(comm: MPI.Intracomm, lines: Sequence[str], status: int) -> NoReturn:
    while True:
        if comm.rank == 0:
            print(*lines, sep="\n", flush=True)
        if agree(comm, True):
            if comm != MPI.COMM_WORLD:
                comm.Free()
            sys.exit(status)
        comm = comm.Shrink()
