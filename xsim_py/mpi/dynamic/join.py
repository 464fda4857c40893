"""MPI_Comm_join: two processes that share a socket get an intercommunicator (MPI 4.1, section 11.10.5)."""

from __future__ import annotations

import os
import socket
import struct

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.comm import Communicator, derive_cid
from xsim_py.mpi.management import make_inter
from xsim_py.process.ranks import current

_MAGIC = b"xsim-joi"
_HELLO = struct.Struct("<8sqq")


def join(alone: Communicator, fd: int) -> Communicator | None:
    """Connect to the process at the other end of a socket, after waiting for its call.

    Each sends the other its rank and its time, so both know when they are connected: when the message of each would
    have reached the other over the network.

    Parameters
    ----------
    alone : Communicator
        The rank's COMM_SELF.
    fd : int
        A connected stream socket without data in flight.

    Returns
    -------
    Communicator or None
        None if the other end is not a process of this run.
    """
    fiber = current.running()
    box = alone.box
    try:
        ours = socket.socket(fileno=os.dup(fd))
    except OSError as problem:
        errors.fail(c.ERR_ARG, f"descriptor {fd}: {problem.strerror}")
    with ours:
        ours.setblocking(True)
        me = box.rank.number
        ours.sendall(_HELLO.pack(_MAGIC, me, fiber.clock_ps))
        said = b""
        while len(said) < _HELLO.size and (more := ours.recv(_HELLO.size - len(said))):
            said += more
    if len(said) < _HELLO.size or not said.startswith(_MAGIC):
        return None
    _, other, clock_ps = _HELLO.unpack(said)
    fiber.clock_ps = max(fiber.clock_ps, clock_ps + box.fabric.link(other, me).latency_ps)
    met: dict[int, int] = box.of_process("joined", dict)
    met[other] = met.get(other, 0) + 1
    cid = derive_cid("join", min(me, other), max(me, other), met[other])
    return make_inter(alone, cid, alone.ranks, range(other, other + 1))
