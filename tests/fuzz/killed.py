"""Runs of ranks in processes of their own that are killed at chosen moments, and programs that survive that.

A moment is a number of frames: the victim gets its signal when the coordinator is about to send or receive that many
of them. So processes die before they begin, at work, while others work, and while they say what they are left with.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from xsim_py import simulate
from xsim_py.engine import frame_socket, processes
from xsim_py.report import Result

TO_BE_SURVIVED = ("ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", "ERR_REVOKED")


class Blow(NamedTuple):
    """A signal that a process gets from outside.

    Attributes
    ----------
    frames : int
        After how many frames of the coordinator's.
    victim : int
        Which of the processes that there are then, counted from the first that was started, and round.
    signal : int
        Which signal.
    at_once : bool
        Whether nothing else happens before it is dead.
    """

    frames: int
    victim: int
    signal: int
    at_once: bool


@contextmanager
def struck(blows: Sequence[Blow]) -> Iterator[list[int]]:
    """Have processes killed that are started within; gives the numbers of those that were, of the system."""
    started: list[int] = []
    hit: list[int] = []
    frames = 0
    coordinator = os.getpid()
    real_fork, real_send, real_receive = (
        processes._fork,
        frame_socket.FrameSocket.send,
        frame_socket.FrameSocket.receive,
    )

    def fork() -> int:
        pid = real_fork()
        if pid:
            started.append(pid)
        return pid

    def strike() -> None:
        nonlocal frames
        if os.getpid() != coordinator:
            return
        for blow in blows:
            if blow.frames == frames and started:
                pid = started[blow.victim % len(started)]
                try:
                    processes._kill(pid, blow.signal)
                    hit.append(pid)
                    if blow.at_once:
                        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
                except (ProcessLookupError, ChildProcessError):
                    pass  # it has ended
        frames += 1

    def send(self: Any, *args: Any) -> None:
        strike()
        real_send(self, *args)

    def receive(self: Any, *args: Any) -> Any:
        strike()
        return real_receive(self, *args)

    patched = patch.multiple(frame_socket.FrameSocket, send=send, receive=receive)
    with patch.object(processes, "_fork", fork), patched:
        yield hit


def play(steps: Sequence[tuple[str, int]], survives: bool) -> tuple[list[Any], list[int]]:
    """What a rank does: each step with the others, and after a failure on with those that are left.

    Returns what the last try of each step has given, and whether that was right; and who was left in the end.
    """
    import numpy as np
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    comm = world
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    group = world.Get_group()

    def members() -> list[int]:
        return MPI.Group.Translate_ranks(comm.Get_group(), list(range(comm.size)), group)

    def do(kind: str, size: int) -> bool:
        me, count, everyone = comm.rank, comm.size, members()
        if kind == "reduce":
            mine, whole = np.full(size, world.rank, "i8"), np.empty(size, "i8")
            comm.Allreduce(mine, whole)
            return bool((whole == sum(everyone)).all())
        if kind == "ring":
            came = comm.sendrecv((world.rank, b"x" * size), (me + 1) % count, source=(me - 1) % count)
            return came == (everyone[me - 1], b"x" * size)
        if kind == "bcast":
            root = size % count
            what = everyone[root], b"y" * size
            return comm.bcast(what if me == root else None, root) == what
        if kind == "gather":
            return comm.allgather(world.rank) == everyone
        if kind == "any":
            if me:
                comm.send(world.rank, 0, tag=at)
            return bool(me) or sorted(comm.recv(tag=at) for _ in everyone[1:]) == sorted(everyone[1:])
        if kind == "sleep":
            import time

            time.sleep(1e-6 * size * (1 + me))
            return True
        comm.Barrier()
        return True

    done: list[Any] = [None] * len(steps)
    at = 0
    while True:
        fine = 1
        try:
            if comm is not world:
                at = comm.allreduce(at, MPI.MIN)
            while at < len(steps):
                done[at] = do(*steps[at])
                at += 1
        except MPI.Exception as error:
            if not survives or error.Get_error_class() not in [getattr(MPI, name) for name in TO_BE_SURVIVED]:
                raise
            fine = 0
            comm.Revoke()
        try:
            if not survives or comm.Agree(fine):
                return done, members()
        except MPI.Exception:
            pass
        comm = comm.Shrink()
        comm.Set_errhandler(MPI.ERRORS_RETURN)


def run(
    ranks: int, each: int, steps: Sequence[tuple[str, int]], blows: Sequence[Blow], *, ft: bool, **options: Any
) -> tuple[Result, int]:
    """Simulate that; the result, and how many processes were hit."""
    with struck(blows) as hit:
        how = f"process:{each}" if each else "greenlets"
        result = simulate(play, ranks=ranks, args=[steps, ft], isolation=how, ft=ft, wall_limit=60, **options)
    return result, len(hit)
