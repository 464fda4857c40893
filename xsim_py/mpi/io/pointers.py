"""Shared file pointers (MPI 4.1, 14.4.4): one position for all ranks of a file.

It is eight bytes of memory on the file's rank 0, in a window: an access reads and advances it by an atomic
fetch-and-add, performed by the NIC of rank 0 (see `rma.service`), so accesses are in the order of arrival. ROMIO keeps
it in a hidden file under a lock; a window is the solution of Latham, Ross and Thakur, "Implementing MPI-IO atomic mode
and shared file pointers using MPI one-sided communication" (2007).

Ordered access needs one request for all: the sizes are gathered on rank 0, which advances the pointer and scatters the
begins of the parts.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from xsim_py.mpi import constants as c
from xsim_py.mpi.calls import CollectiveChannel, pick
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.op import PREDEFINED as OPERATIONS
from xsim_py.mpi.predefined import PREDEFINED
from xsim_py.mpi.rma.operations import fetch, result_of
from xsim_py.mpi.rma.service import service_of, windows_of
from xsim_py.mpi.rma.window import Shape, Window
from xsim_py.mpi.transport.p2p import wait
from xsim_py.process.ranks import current

_POSITION = struct.Struct("<q")
_WHERE = (PREDEFINED["INT64_T"], 0, 1)


def install(comm: Communicator) -> Window:
    """Return this rank's window of a new file's pointer.

    All have it before any leaves the opening call.
    """
    memory = memoryview(bytearray(_POSITION.size if comm.me == 0 else 0))
    service = service_of(comm.fabric)
    label = comm.name
    window = Window(service, comm, flavor=c.WIN_FLAVOR_ALLOCATE, memory=memory, unit=1, origin=None)
    comm.name = label
    shape = service.shapes.get(comm.cid)
    if shape is None:
        others = len(comm.ranks) - 1
        shape = service.shapes[comm.cid] = Shape([_POSITION.size, *[0] * others], [1] * (others + 1))
    window.shape = shape
    window.epochs.lock_all()
    window.unchecked.add(0)
    windows_of(comm.box)[comm.cid] = window
    if comm.me == 0:
        comm.box.background += 1  # its NIC may have to reply at any time
    return window


def forget(window: Window) -> None:
    """Release the pointer of a closed file."""
    if windows_of(window.comm.box).pop(window.comm.cid, None) is not None and window.comm.me == 0:
        window.comm.box.background -= 1


def set_to(window: Window, position: int) -> None:
    """Set the pointer, on rank 0, when all ranks have entered the call that sets it."""
    _wait_for_others()
    window.memory[:] = _POSITION.pack(position)


def _wait_for_others() -> None:
    """Wait until earlier operations of other ranks are done."""
    current.running().sync()


def fetch_and_add(window: Window, amount: int, name: str) -> int:
    """Advance the pointer; return its previous value."""
    if window.comm.me == 0:
        _wait_for_others()
        (position,) = _POSITION.unpack(window.memory[:])
        window.memory[:] = _POSITION.pack(position + amount)
        return int(position)
    taken: list[bytes] = []
    operation = OPERATIONS["SUM" if amount else "NO_OP"]
    data = _POSITION.pack(amount)
    transfer = fetch(window, data, taken.append, _POSITION.size, 0, _WHERE, operation, name)
    wait(result_of(window, transfer, name))
    (position,) = _POSITION.unpack(taken[0])
    return int(position)


def in_order(window: Window, gather_ch: CollectiveChannel, scatter_ch: CollectiveChannel, amount: int) -> int:
    """Return the begin of this rank's part, of parts in the order of ranks from the pointer on."""
    comm = window.comm
    values: Sequence[Any] | None = pick(comm, "gather", _POSITION.size)(gather_ch, _POSITION.pack(amount), 0)
    begins = None
    if comm.me == 0:
        assert values is not None
        amounts = [0 if entry is None else _POSITION.unpack(entry)[0] for entry in values]
        position = fetch_and_add(window, sum(amounts), "")
        begins = []
        for one in amounts:
            begins.append(_POSITION.pack(position))
            position += one
    (begin,) = _POSITION.unpack(pick(comm, "scatter", _POSITION.size)(scatter_ch, begins, 0))
    return int(begin)
