"""Creation and release of windows (MPI 4.1, 12.2): collective calls that exchange memory sizes."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from contextlib import suppress
from typing import Any, Final

import numpy as np

from xsim_py.mpi import constants as c
from xsim_py.mpi.calls import Note, channel
from xsim_py.mpi.comm import Communicator, derive_cid, shared_context
from xsim_py.mpi.errors import fail
from xsim_py.mpi.management import gather_everywhere
from xsim_py.mpi.memory import Memory, address_of
from xsim_py.process.ranks import current
from xsim_py.units import format_size

from .service import Rma, service_of, windows_of
from .synchronise import barrier
from .window import Shape, Window

_SIZE_AND_UNIT = struct.Struct("<qq")
_MEMORY = "/dev/shm"

shares_files = False
"""Whether programs in other processes may map shared windows, whose memory is then a file; set by `compiled`."""


def create(comm: Communicator, name: str, flavor: int, memory: Memory, unit: int, origin: object = None) -> Window:
    """Create a window: MPI_Win_create, MPI_Win_allocate and MPI_Win_create_dynamic.

    `memory` has writable bytes, and `unit` is the displacement unit, in bytes. `origin` is an object to keep alive as
    long as the window.
    """
    window = _register(comm, flavor, memory, unit, origin)
    _exchange_shapes(comm, name, window, len(memory))
    return window


def _register(comm: Communicator, flavor: int, memory: Memory, unit: int, origin: object) -> Window:
    """Create this rank's side of a new window.

    Operations may arrive before all ranks have created theirs.
    """
    if unit <= 0:
        comm.fail(c.ERR_DISP, f"the unit of displacements is {unit}")
    cid = derive_cid(comm.cid, "window", comm.next_child())
    own = Communicator(shared_context(comm.fabric, cid, comm.ranks), comm.box, me=comm.me)
    window = Window(service_of(comm.fabric), own, flavor=flavor, memory=memory, unit=unit, origin=origin)
    windows_of(comm.box)[cid] = window
    comm.box.background += 1  # its NIC may have to reply at any time
    return window


def _exchange_shapes(comm: Communicator, name: str, window: Window, size_bytes: int) -> None:
    packed = _SIZE_AND_UNIT.pack(size_bytes, window.unit)
    table = gather_everywhere(channel(comm, Note(name), check=False), packed)
    shapes = window.service.shapes
    found = shapes.get(window.comm.cid) if comm.fabric.alike else None
    if found is None:
        each = [(0, 1) if entry is None else _SIZE_AND_UNIT.unpack(entry) for entry in table]
        found = shapes[window.comm.cid] = Shape([size for size, _ in each], [unit for _, unit in each])
    window.shape = found


class _Segment:
    """Memory shared by the ranks of a node, one rank's part after the other's.

    If ranks are in several processes, it is a file (at a path), and each rank maps the part that it knows of.
    """

    __slots__ = ("__weakref__", "file", "memory", "path")

    def __init__(self, size_bytes: int, *, path: str | None = None, file: Any = None) -> None:
        size_bytes = max(size_bytes, 1)
        self.path, self.file = path, file
        if path is not None:
            with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as opened:
                self.memory = self._mapped(opened, size_bytes)
        elif file is not None:
            self.memory = self._mapped(file, size_bytes)
        else:
            self.memory = np.zeros(size_bytes, np.uint8).data.cast("B")

    def _mapped(self, opened: Any, size_bytes: int) -> memoryview:
        room = os.fstatvfs(opened.fileno())
        if size_bytes > room.f_bavail * room.f_frsize:  # accessing it would be fatal
            fail(
                c.ERR_NO_MEM, f"a shared window of {format_size(size_bytes)}: {self.path or _MEMORY} has no room for it"
            )
        fcntl.flock(opened, fcntl.LOCK_EX)
        if os.fstat(opened.fileno()).st_size < size_bytes:
            opened.truncate(size_bytes)
        fcntl.flock(opened, fcntl.LOCK_UN)
        return memoryview(mmap.mmap(opened.fileno(), size_bytes))


_NO_MEMORY: Final = (
    "the ranks are on several nodes, which share no memory: take --machine shmem, or more machine.cores_per_node, or "
    "the ranks of one node by Split_type"
)


def create_shared(comm: Communicator, name: str, size_bytes: int, unit: int) -> Window:
    """Create a shared window: MPI_Win_allocate_shared. All ranks must be on one node."""
    node_of = comm.fabric.settings.machine.node_of
    if any(node_of[number] != node_of[comm.ranks[0]] for number in comm.ranks):
        comm.fail(c.ERR_RMA_SHARED, _NO_MEMORY)
    shard = comm.fabric.shard
    settings = comm.fabric.settings
    if settings.segments is settings.folder is None and not all(shard.local(number) for number in comm.ranks):
        raise NotImplementedError(
            "MPI_Win_allocate_shared: the ranks of this node are simulated by several real processes, which share no "
            "memory; use no more processes than there are nodes, or `--shards` in one process"
        )
    window = _register(comm, c.WIN_FLAVOR_SHARED, memoryview(bytearray()), unit, None)
    _exchange_shapes(comm, name, window, size_bytes)
    window.segment = _segment_of(window.service, window)
    window.memory = _part(window, comm.me)
    barrier(window, name)
    return window


def _segment_of(service: Rma, window: Window) -> _Segment:
    """Return the memory of a shared window: one per process unless its ranks may have different sizes."""
    segments, fabric = service.segments, window.comm.fabric
    found: _Segment | None = segments.get(window.comm.cid)
    if found is not None and fabric.alike:
        return found
    folder, file = fabric.settings.folder, None
    with current.outside():  # files of a rank are not the simulator's
        if folder is None and (shares_files or not fabric.alike):
            file = _file_in_memory() if found is None else found.file
        path = None if folder is None else f"{folder}/window-{window.comm.cid}"
        made = _Segment(sum(window.shape.sizes), path=path, file=file)
    segments.setdefault(window.comm.cid, made)
    return made


def _file_in_memory() -> object:
    from tempfile import TemporaryFile  # few runs need it

    return TemporaryFile(dir=_MEMORY if os.path.isdir(_MEMORY) else None)


def _part(window: Window, place: int) -> memoryview:
    first = sum(window.shape.sizes[:place])
    part: memoryview = window.segment.memory[first : first + window.shape.sizes[place]]
    return part


def shared_memory(window: Window, place: int) -> tuple[Memory, int]:
    """Return another rank's accessible memory and displacement unit: MPI_Win_shared_query."""
    if window.flavor == c.WIN_FLAVOR_DYNAMIC:
        fail(c.ERR_RMA_FLAVOR, "Win.Shared_query of a window to which memory is attached")
    sizes, units = window.shape.sizes, window.shape.units
    if place == c.PROC_NULL:
        place = next((other for other, size in enumerate(sizes) if size), 0)
    elif not 0 <= place < len(sizes):
        fail(c.ERR_RANK, f"Win.Shared_query: rank {place} is not in 0..{len(sizes) - 1}")
    if window.flavor == c.WIN_FLAVOR_SHARED:
        return _part(window, place), units[place]
    if place == window.comm.me:
        return window.memory, window.unit
    return memoryview(bytearray()), 0


def attach(window: Window, memory: Memory) -> None:
    """Attach memory to a window: MPI_Win_attach."""
    _dynamic(window, "Win.Attach")
    address = address_of(memory)
    for other, attached in window.regions.items():
        if address < other + len(attached) and other < address + len(memory):
            fail(c.ERR_RMA_ATTACH, "Win.Attach of memory that is attached already")
    window.regions[address] = memory


def detach(window: Window, memory: Memory) -> None:
    """Detach memory from a window: MPI_Win_detach."""
    _dynamic(window, "Win.Detach")
    if window.regions.pop(address_of(memory), None) is None:
        fail(c.ERR_RMA_ATTACH, "Win.Detach of memory that is not attached")


def _dynamic(window: Window, call: str) -> None:
    if window.flavor != c.WIN_FLAVOR_DYNAMIC:
        fail(c.ERR_RMA_FLAVOR, f"{call} on a window that was made with its memory")


def free(window: Window) -> None:
    """Free a window after all ranks have called it and all operations are done: MPI_Win_free."""
    window.epochs.close()
    window.wait_until_done("Win.Free")
    barrier(window, "Win.Free")
    windows_of(window.comm.box).pop(window.comm.cid, None)
    window.comm.box.background -= 1
    window.freed = True
    window.memory = memoryview(bytearray())
    if window.segment is not None and window.segment.path is not None:
        with current.outside(), suppress(FileNotFoundError):  # the first rank unlinks it for all
            os.unlink(window.segment.path)
    window.origin = window.segment = None
