"""Buffers for buffered sends, of a process or a communicator (MPI 4.1, 3.6)."""

from __future__ import annotations

from typing import TypeAlias

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.comm import AttachedBuffer, Communicator
from xsim_py.mpi.errors import fail
from xsim_py.mpi.session import SessionState, session_of
from xsim_py.mpi.transport.mailbox import Mailbox
from xsim_py.mpi.transport.p2p import wait

from .memory import BOTTOM, BUFFER_AUTOMATIC, flat_view

__all__ = ["attach", "detach", "flush", "process_owner", "reserve_space", "size_of"]

_KEY = "attached buffer"


class ProcessBuffer:
    """The owner of a process's buffer, as opposed to a communicator's."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer: AttachedBuffer | None = None


Owner: TypeAlias = Communicator | SessionState | ProcessBuffer


def size_of(buf: object) -> tuple[object, int | None]:
    """Return a buffer to attach, as it is returned later, and its size.

    The size is None for automatic buffering.
    """
    if buf is None or buf is BUFFER_AUTOMATIC:
        return BUFFER_AUTOMATIC, None
    if buf is BOTTOM:
        fail(c.ERR_ARG, "no buffer can be attached at the null address")
    size_bytes = len(flat_view(buf, writable=True))
    if not size_bytes:
        fail(c.ERR_BUFFER, "a buffer without a byte cannot be attached")
    return buf, size_bytes


def attach(owner: Owner, buf: object, capacity_bytes: int | None) -> None:
    """Attach a buffer to `owner` (a mailbox's table or a communicator).

    A size of None means unlimited.
    """
    if owner.buffer is not None:
        fail(c.ERR_BUFFER, "a buffer is attached already")
    owner.buffer = AttachedBuffer(buf, capacity_bytes)


def detach(owner: Owner, box: Mailbox) -> object:
    """Detach the buffer after its messages have been sent or have failed.

    The first error is raised.

    The buffer is empty then, so it is detached whatever the outcome of its messages.
    """
    if owner.buffer is None:
        fail(c.ERR_BUFFER, "no buffer is attached")
    buf = owner.buffer.buf
    try:
        flush(box)
    finally:
        owner.buffer = None
    return buf


def flush(box: Mailbox) -> None:
    """Wait until all buffered messages of this rank are sent; raise the first error."""
    first = None
    for send in [send for send in box.sends.values() if send.buffered]:
        try:
            wait(send)
        except errors.Exception as error:
            first = first or error
    if first is not None:
        raise first


def reserve_space(comm: Communicator, dest: int, size_bytes: int) -> None:
    """Reserve space for a message in the buffer that serves `comm`.

    It is ERR_BUFFER if none is attached or it is full.
    """
    if dest == c.PROC_NULL:
        return
    session = session_of(comm)
    owner: Owner = session if session is not None and session.buffer is not None else process_owner(comm.box)
    owner = comm if comm.buffer is not None else owner
    attached = owner.buffer
    if attached is None:
        comm.reject(c.ERR_BUFFER, "no buffer is attached for buffered sends (MPI.Attach_buffer)")
        return
    waiting = [send for send in comm.box.sends.values() if send.buffered]  # eager ones have left at once
    used = sum(len(send.data) + c.BSEND_OVERHEAD for send in waiting)
    if attached.capacity_bytes is not None and used + size_bytes + c.BSEND_OVERHEAD > attached.capacity_bytes:
        room = attached.capacity_bytes - used
        needed = f"{size_bytes} bytes and {c.BSEND_OVERHEAD} of overhead"
        comm.reject(c.ERR_BUFFER, f"{needed} do not fit into the {room} that are left of the attached buffer")


def process_owner(box: Mailbox) -> ProcessBuffer:
    """Return the owner of the buffer attached by `MPI.Attach_buffer`."""
    owner: ProcessBuffer = box.of_process(_KEY, ProcessBuffer)
    return owner
