"""Recovery from process failures; plain mpi4py, to be copied into other programs.

    import recovery

    comm = recovery.joined()
    result, comm = recovery.until_agreed(comm, work)       # repeats work(comm) with new processes for failed ones
    recovery.conclude(comm, [f"result {result}"], right)   # a survivor prints it

It is based on four rules.

* All waits are inside an attempt, and no recovery work is in an `except`, where a second failure would not be handled.
* Success is agreed on (`agree`) before any rank relies on it. A call that succeeds on one rank may fail on others.
* A rank that cannot continue revokes the communicators in which others may wait for it.
* Reductions and splits of objects are not used: mpi4py runs some of them on an internal communicator, which a
  revocation of the program's does not reach. Arrays, and `bcast`, `gather`, `allgather` and `sendrecv` of objects are
  safe.

Replacing processes follows MPIX_Comm_replace of the ULFM tutorials (Bosilca and others), with one change: there is no
agreement over the intercommunicator. The new processes would wait in it forever once the survivors have given up an
attempt, because a revocation does not end an agreement.
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

# Open MPI 5 reports ERR_OTHER for a Barrier with a failed member.
FAILURES = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED, MPI.ERR_OTHER)
TAG = 0  # of messages here; a program with pending messages uses another tag
HALF = 0x7FFF  # bits of one half of an agreement's flag
REFUSALS = 3  # number of consecutive failed spawns after which there is no slot
MAX_ATTEMPTS = 3  # number of consecutive ERR_OTHER without a failure after which it is another error


class Lost(Exception):
    """Data without a remaining copy, described by the text.

    All members must raise it, or none: a rank that finds a loss alone informs the others first.
    """


# ------------------------------------------------------------------------------------------------ attempts, agreements


def attempt(call: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, bool]:
    """Return the result of a call, and True if it succeeded; re-raise errors other than failures.

    A `Lost` that the call raises is also a result.
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
    """Return True if all members are alive and succeeded, consistently on all of them."""
    flag, through = attempt(comm.Agree, int(well))
    return through and flag == 1


def agree_on(comm: MPI.Intracomm, flags: int) -> int:
    """Return the bitwise AND of the survivors' values, despite failures; it is not a commit."""
    while True:
        try:
            return comm.Agree(flags)
        except MPI.Exception as error:
            if error.Get_error_class() != MPI.ERR_PROC_FAILED:
                raise
        comm.Ack_failed()


def agreed_dead(comm: MPI.Intracomm) -> list[int]:
    """Acknowledge failures until all survivors have acknowledged the same; return these ranks.

    They are in ascending order. An agreement alone does not determine them: a process may take part in it, and fail
    before a late one has begun.
    """
    while True:
        count = comm.Ack_failed()
        dead = sorted(ranks_of(comm.Get_failed(), comm)[:count])
        digest = zlib.crc32(repr(dead).encode()) & HALF
        flags, through = attempt(comm.Agree, digest | (digest ^ HALF) << HALF.bit_length())
        if through and flags & HALF | flags >> HALF.bit_length() == HALF:
            return dead


def missing(comm: MPI.Intracomm, living: MPI.Intracomm) -> list[int]:
    """Return the ranks in a communicator of its members missing from another, ascending."""
    return ranks_of(MPI.Group.Difference(comm.group, living.group), comm)


def known_dead(comm: MPI.Intracomm) -> list[int]:
    """Return the ranks in a communicator that this process knows to have failed, ascending."""
    return sorted(ranks_of(comm.Get_failed(), comm))


def ranks_of(group: MPI.Group, comm: MPI.Intracomm) -> list[int]:
    """Return the ranks in a communicator of the members of a group, in the group's order."""
    return list(MPI.Group.Translate_ranks(group, None, comm.group))


# ------------------------------------------------------------------------------------------------------------- repairs


def shrink(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Repair a communicator by excluding failed ranks; the others are renumbered in order."""
    return comm.Shrink()


def replace(comm: MPI.Intracomm, *, in_order: bool = True) -> MPI.Intracomm:
    """Repair a revoked communicator by a new process for each failed member, with the same rank.

    Without `in_order` new processes get ranks at the end. They run the program of this one with its arguments, and
    begin with `joined()`. If any member fails during an attempt, all survivors abandon it and retry from the last
    communicator that all had. The new processes of the attempt kill themselves, which makes them ordinary failures.
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
                _, received = attempt(everybody.bcast, list(keys), root=0)
                made, split = attempt(everybody.Split, 0, comm.rank)
                if agree(everybody, received and split):
                    return made
        for unfinished in (inter, everybody, made):
            if unfinished:
                unfinished.Revoke()  # wakes ranks in Merge, bcast or Split


def _started(comm: MPI.Intracomm, count: int) -> MPI.Intercomm:
    """Return the intercommunicator to `count` new processes, or MPI_COMM_NULL."""
    try:
        return comm.Spawn(sys.executable, sys.argv, maxprocs=count)
    except MPI.Exception as error:
        if error.Get_error_class() not in (MPI.ERR_SPAWN, MPI.ERR_OTHER):
            raise
        return MPI.COMM_NULL


def joined() -> MPI.Intracomm:
    """Return the initial communicator: COMM_WORLD, or the one that a new process completes.

    A new process has one attempt; if it fails, the process kills itself.
    """
    parent = MPI.Comm.Get_parent()
    if parent == MPI.COMM_NULL:
        return MPI.COMM_WORLD
    everybody, well = attempt(parent.Merge, high=True)
    keys, received = attempt(everybody.bcast, None, root=0) if well else (None, False)
    if not received:  # no other rank may reach the agreement
        die()
    made, split = attempt(everybody.Split, 0, keys[MPI.COMM_WORLD.rank])
    if not agree(everybody, split):
        die()
    return made


def is_new() -> bool:
    """Return True if this process was started to replace a failed one."""
    return MPI.Comm.Get_parent() != MPI.COMM_NULL


# --------------------------------------------------------------------------------------------------------------- loops


def until_agreed(
    comm: MPI.Intracomm, work: Callable[[MPI.Intracomm], Any], repair: Callable[..., MPI.Intracomm] = replace
) -> tuple[Any, MPI.Intracomm]:
    """Repeat work until all members succeed, with repairs; return result and communicator.

    If it finds that data are lost (`Lost`), or an error that is not a failure, the job ends. With `replace` a program
    has only one such loop: a new process begins with the first one, and never meets ranks in another.
    """
    return _until_agreed(comm, work, repair, _Doubts())


class _Doubts:
    """A counter of attempts that ended with ERR_OTHER since the last known failure."""

    def __init__(self) -> None:
        self.count = 0
        self.error: MPI.Exception | None = None

    def watched(self, work: Callable[..., Any], comm: MPI.Intracomm) -> Any:
        """Do some work, and record its error if that may not be a failure."""
        self.error = None
        try:
            return work(comm)
        except MPI.Exception as error:
            self.error = error if error.Get_error_class() == MPI.ERR_OTHER else None
            raise

    def resolve(self, comm: MPI.Intracomm) -> None:
        """End the job if the error is not a failure; all have agreed on the failed ranks."""
        self.count = 0 if known_dead(comm) else self.count + bool(self.error)
        if self.count == MAX_ATTEMPTS:
            _abort(comm, f"{MAX_ATTEMPTS} attempts failed without a process failure: {self.error}")


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
    """Compute until all members succeed; after each failure repair and restore, then continue.

    New processes begin by restoring, unless `restoring` is given. `compute` continues from the state set by `restore`.
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
    """Create communicators on all members or on none: if one fails, all raise ERR_REVOKED."""
    made, well = attempt(make, comm)
    if not agree(comm, well):
        raise MPI.Exception(MPI.ERR_REVOKED)
    return made


def with_parts(
    comm: MPI.Intracomm,
    make: Callable[[MPI.Intracomm], Sequence[MPI.Intracomm]],
    use: Callable[..., Any],
) -> Any:
    """Use derived communicators; wake all their waiting members if one cannot continue."""
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

    They survive all failures except those of a rank and its right neighbour together, if failed ranks are replaced;
    after `shrink` the data of failed ranks are not used. Data may be any picklable object; if the program changes it
    later, it passes a copy.
    """

    def __init__(self) -> None:
        self.kept: dict[int, Any] = {}  # this rank's data by step
        self.held: dict[int, Any] = {}  # those of the left neighbour
        self.saved = False  # whether all ranks are known to have made a checkpoint

    def save(self, comm: MPI.Intracomm, step: int, data: Any) -> None:
        """Make a checkpoint of a step, and drop the last one when all have the new one."""
        if step not in self.kept:
            self.kept[step] = data
            self._duplicate(comm, step)

    def _duplicate(self, comm: MPI.Intracomm, step: int) -> None:
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        self.held[step] = comm.sendrecv(self.kept[step], right, TAG, source=left, recvtag=TAG)
        comm.Barrier()
        self.kept, self.held, self.saved = {step: self.kept[step]}, {step: self.held[step]}, True

    def restore(self, comm: MPI.Intracomm) -> tuple[int, Any] | None:
        """Return the last common step and this rank's data; None if no checkpoint is complete.

        Raises `Lost` with the ranks whose data are missing from any common step.
        """
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        there = {*self.kept, *comm.sendrecv(list(self.held), left, TAG, source=right, recvtag=TAG)}
        # A rank with a later step than another has not met that one at it, and so has the earlier one, too.
        mine, of_all = np.array([max(there, default=sys.maxsize), -int(self.saved)]), np.empty(2, np.int64)
        comm.Allreduce(mine, of_all, op=MPI.MIN)
        if not of_all[1]:
            self.kept, self.held = {}, {}
            return None
        self.saved = True  # a new process knows it too, in case all others fail now
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
    """Copies of each rank's data at the last common step; data of failed ranks are lost."""

    def __init__(self) -> None:
        self.kept: dict[int, Any] = {}

    def save(self, comm: MPI.Intracomm, step: int, data: Any) -> None:
        """Make a copy, and drop the last one when all have the new one."""
        self.kept[step] = data
        comm.Barrier()
        self.kept = {step: data}

    def last(self, comm: MPI.Intracomm) -> tuple[int, np.ndarray]:
        """Return the last common step of all ranks with data, or 0, and these ranks.

        A rank with a later one has not met all others at it, and so has this one, too.
        """
        mine, steps = np.array([max(self.kept, default=sys.maxsize)]), np.empty(1, np.int64)
        comm.Allreduce(mine, steps, op=MPI.MIN)
        step, there = int(steps[0]) % sys.maxsize, np.empty(comm.size, np.bool_)
        comm.Allgather(np.array([step in self.kept]), there)
        return step, there


# ------------------------------------------------------------------------------------------------- failures and endings


def die() -> NoReturn:
    """End as in a failure, without notice."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class Parser(argparse.ArgumentParser):
    """A command line with `--die RANK@STEP`, for failures under a real MPI."""

    def __init__(self, description: str | None) -> None:
        name = os.path.splitext(os.path.basename(sys.argv[0]))[0]
        super().__init__(name, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.add_argument(
            "--die",
            action="append",
            default=[],
            type=death,
            metavar="RANK@STEP",
            help="this rank of the initial processes kills itself at this step; repeatable",
        )

    def parse_args(self, *args: Any, **options: Any) -> Any:
        """Read the command line; reject a failure of a rank that does not exist."""
        parsed = super().parse_args(*args, **options)
        ranks = MPI.COMM_WORLD.size
        for rank, step in parsed.die:
            if rank >= ranks and not is_new():
                self.error(f"--die {rank}@{step}: there are {ranks} ranks, from 0 on")
        return parsed

    def error(self, message: str) -> NoReturn:
        """Print the problem on the first rank, and end with status 2."""
        if MPI.COMM_WORLD.rank == 0:
            super().error(message)
        sys.exit(2)


def number(
    kind: type, least: float = -math.inf, most: float = math.inf, *, above: float = -math.inf, below: float = math.inf
) -> Callable[[str], Any]:
    """Return a reader of an argument that is an `int` or `float` within bounds."""
    bounds = {"at least": least, "at most": most, "above": above, "below": below}
    said = " and ".join(f"{words} {bound:,.12g}" for words, bound in bounds.items() if math.isfinite(bound))

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not (least <= value <= most and above < value < below):  # NaN is invalid, too
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
    """Die if this is an initial process that `--die` kills at this step."""
    if (MPI.COMM_WORLD.rank, step) in deaths and not is_new():
        die()


def _abort(comm: MPI.Intracomm, why: str) -> None:
    print(f"{os.path.basename(sys.argv[0])}: {why}", file=sys.stderr, flush=True)
    comm.Abort(1)


def conclude(comm: MPI.Intracomm, lines: Iterable[str], right: bool) -> NoReturn:
    """Print a result that all members have, and `right: True` or `right: False`; set the status.

    The status is 0 or 1. The first survivor prints again if a rank fails before all know that it was printed.
    """
    _leave(comm, [*lines, f"right: {right}"], int(not right))


def give_up(comm: MPI.Intracomm, what: str) -> NoReturn:
    """Report permanently lost data, and end with status 1; all members call it."""
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
