"""MPI_Comm_spawn, MPI_Comm_spawn_multiple and MPI_Comm_get_parent (MPI 4.1, sections 11.8 and 11.10)."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence

from xsim_py.mpi import constants as c
from xsim_py.mpi.calls import Note, channel
from xsim_py.mpi.comm import Communicator, derive_cid
from xsim_py.mpi.management import broadcast, make_inter

from .commands import SpawnCommand
from .launcher import Launcher, SpawnOrder, spawn_notice_of


def spawn(
    comm: Communicator, commands: Sequence[SpawnCommand] | None, root: int, name: str
) -> tuple[Communicator, list[int]]:
    """Spawn processes: all members of `comm` call it, and the root passes the commands.

    The root sends the order to the launcher, and the answer to the others when the new processes have begun.

    Returns an intercommunicator with the new processes as its remote group, and an error code per requested process, in
    the order of the commands. Raises an `Exception` with ERR_SPAWN on all members if the processes cannot be started,
    or with ERR_ROOT.
    """
    if not 0 <= root < len(comm.ranks):
        comm.fail(c.ERR_ROOT, f"root {root} is not in 0..{len(comm.ranks) - 1}")
    cid = derive_cid(comm.cid, "spawn", comm.next_child(), root)
    ch = channel(comm, Note(name, root), check=False)
    reply = None
    if comm.me == root:
        assert commands is not None
        order = SpawnOrder(cid, comm.ranks, tuple(commands))
        answer = comm.fabric.part(Launcher).ask("spawn", order, f"{name}: the launcher")
        if isinstance(answer, str):
            reply = answer.encode()
        else:
            first, size, codes = answer
            reply = b"\0" + struct.pack(f"<{len(codes) + 2}q", first, size, *codes)
    reply = broadcast(ch, reply, root)
    if reply[0]:
        comm.fail(c.ERR_SPAWN, reply.decode())
    first, size, *codes = struct.unpack(f"<{len(reply) // 8}q", reply[1:])
    return make_inter(comm, cid, comm.ranks, range(first, first + size)), codes


def parent_of(world: Communicator) -> Communicator | None:
    """Return the intercommunicator to the parents of this rank.

    It is None on an initial rank, and after it was freed.
    """
    notice = spawn_notice_of(world.box.rank)
    if notice is None:
        return None

    def make() -> Communicator:
        made = make_inter(world, notice.order.cid, world.ranks, notice.order.parents)
        made.name = "MPI_COMM_PARENT"
        return made

    parent: Communicator = world.box.of_process("parent", make)
    return None if parent.freed else parent


def app_number(comm: Communicator) -> int:
    """Return which of the commands of its start a rank runs."""
    number = comm.box.rank.number
    notice = spawn_notice_of(comm.box.rank)
    if notice is None:
        return bisect_right(comm.fabric.settings.firsts, number) - 1
    return notice.commands[number - notice.world.first]
