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


def join(comm_self: Communicator, fd: int) -> Communicator | None:
    """Connect to the process at the other end of a socket, after waiting for its call.

    Each sends the other its rank and its time, so both know when they are connected: when the message of each would
    have reached the other over the network.

    `fd` is a connected stream socket without data in flight. Returns None if the other end is not a process of this
    run.
    """
    fiber = current.running()
    box = comm_self.box
    try:
        sock = socket.socket(fileno=os.dup(fd))
    except OSError as problem:
        errors.fail(c.ERR_ARG, f"descriptor {fd}: {problem.strerror}")
    with sock:
        sock.setblocking(True)
        me = box.rank.number
        sock.sendall(_HELLO.pack(_MAGIC, me, fiber.clock_ps))
        received = b""
        while len(received) < _HELLO.size and (chunk := sock.recv(_HELLO.size - len(received))):
            received += chunk
    if len(received) < _HELLO.size or not received.startswith(_MAGIC):
        return None
    _, other, clock_ps = _HELLO.unpack(received)
    fiber.clock_ps = max(fiber.clock_ps, clock_ps + box.fabric.link(other, me).latency_ps)
    joins: dict[int, int] = box.of_process("joined", dict)
    joins[other] = joins.get(other, 0) + 1
    cid = derive_cid("join", min(me, other), max(me, other), joins[other])
    return make_inter(comm_self, cid, comm_self.ranks, range(other, other + 1))
