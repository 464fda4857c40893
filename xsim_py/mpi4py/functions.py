"""The functions of `mpi4py.MPI`, for time, initialisation, error codes, memory etc."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence, Sized
from typing import Any

import numpy as np

from xsim_py import __version__
from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.calls import begin
from xsim_py.mpi.dynamic import ports
from xsim_py.mpi.topology import dims_create
from xsim_py.process.python import clock
from xsim_py.process.python.locks import SharedLock
from xsim_py.process.ranks import current
from xsim_py.process.ranks.meter import declare, metered

from . import send_buffers
from .comm import Intercomm, Intracomm
from .commhandle import mailbox
from .datatype import INSTANCES, _datatype_create, _datatype_decode
from .datatype import typealign as _typealign
from .datatype import typecode as _typecode
from .file import Register_datarep
from .handle import handle_of, int_list
from .info import INFO_NULL, Info, _text
from .inside import comm_of
from .interop import _addressof, _handleof, _sizeof
from .memory import BottomType, BufferAutomaticType, InPlaceType, buffer, exported
from .misplaced_calls import reject_misplaced_calls
from .object_context import context_of
from .phase import of_process_now
from .plain_arguments import integer
from .request import Request, Task

__all__ = [
    "Add_error_class",
    "Add_error_code",
    "Add_error_string",
    "Aint_add",
    "Aint_diff",
    "Alloc_mem",
    "Attach_buffer",
    "Close_port",
    "Compute_dims",
    "Detach_buffer",
    "Finalize",
    "Flush_buffer",
    "Free_mem",
    "Get_abi_fortran_info",
    "Get_abi_info",
    "Get_abi_version",
    "Get_address",
    "Get_error_class",
    "Get_error_string",
    "Get_hw_resource_info",
    "Get_library_version",
    "Get_processor_name",
    "Get_version",
    "Iflush_buffer",
    "Init",
    "Init_thread",
    "Is_finalized",
    "Is_initialized",
    "Is_thread_main",
    "Lookup_name",
    "Open_port",
    "Pcontrol",
    "Publish_name",
    "Query_thread",
    "Register_datarep",
    "Remove_error_class",
    "Remove_error_code",
    "Remove_error_string",
    "Unpublish_name",
    "Wtick",
    "Wtime",
    "_addressof",
    "_comm_lock",
    "_comm_lock_table",
    "_commctx_inter",
    "_commctx_intra",
    "_datatype_create",
    "_datatype_decode",
    "_handleof",
    "_set_abort_status",
    "_sizeof",
    "_typealign",
    "_typecode",
    "get_vendor",
]

Add_error_class = errors.add_error_class
Add_error_code = errors.add_error_code
Add_error_string = errors.add_error_string
Remove_error_class = errors.remove_error_class
Remove_error_code = errors.remove_error_code
Remove_error_string = errors.remove_error_string
Get_error_class = errors.error_class
Get_error_string = errors.error_string


def Wtime() -> float:
    return clock.read_ps() / 10**12


def Wtick() -> float:
    return 1e-12


_LEVELS = (c.THREAD_SINGLE, c.THREAD_FUNNELED, c.THREAD_SERIALIZED, c.THREAD_MULTIPLE)


def Init() -> None:
    Init_thread(c.THREAD_SINGLE)


def Init_thread(required: int = c.THREAD_MULTIPLE) -> int:
    phase = of_process_now()
    if phase.initialized:
        errors.fail(c.ERR_OTHER, "MPI is initialized already")
    phase.initialized = True
    phase.main = current.fiber
    required = operator.index(required)
    phase.thread_level = required if required in _LEVELS else c.THREAD_SINGLE
    return phase.thread_level


def Finalize() -> None:
    phase = of_process_now()
    if phase.finalized or not phase.initialized:
        errors.fail(c.ERR_OTHER, f"MPI is {'finalized already' if phase.finalized else 'not initialized'}")
    phase.finalized = True
    reject_misplaced_calls()


def Is_initialized() -> bool:
    return of_process_now().initialized


def Is_finalized() -> bool:
    return of_process_now().finalized


def Query_thread() -> int:
    return of_process_now().thread_level


def Is_thread_main() -> bool:
    fiber = current.fiber
    return fiber is None or fiber is (of_process_now().main or fiber.rank.fiber)


def Get_version() -> tuple[int, int]:
    return (c.VERSION, c.SUBVERSION)


def Get_library_version() -> str:
    fiber = current.fiber
    version = "" if fiber is None else fiber.rank.shard.fabric.settings.mpi.library_version
    return version or f"xsim_py {__version__}: a simulated MPI"


def get_vendor() -> tuple[str, tuple[int, int, int]]:
    numbers = [int(part) if part.isdigit() else 0 for part in __version__.split(".")[:3]]
    return ("xsim_py", (numbers[0], numbers[1], numbers[2]))


def Get_abi_version() -> tuple[int, int]:
    return (-1, -1)


def Get_abi_info() -> Info:
    return Info.Create({f"mpi_{name}_size": str(_size_of(name)) for name in ("aint", "count", "offset")})


def Get_abi_fortran_info() -> Info:
    info = Info.Create({f"mpi_{name}_size": str(_size_of(name)) for name in _FORTRAN_TYPES})
    for kind, sizes in _FORTRAN_SIZES.items():
        for size in sizes:
            info.Set(f"mpi_{kind}{size}_supported", "true" if _size_of(f"{kind}{size}") else "false")
    return info


_FORTRAN_TYPES = ("logical", "integer", "real", "double_precision")
_FORTRAN_SIZES: dict[str, tuple[int | str, ...]] = {
    "logical": (1, 2, 4, 8, 16),
    "integer": (1, 2, 4, 8, 16),
    "real": (2, 4, 8, 16),
    "complex": (4, 8, 16, 32),
    "double_complex": ("",),
}


def _size_of(name: str) -> int:
    """Return the size of a predefined datatype in bytes; 0 if this machine lacks it."""
    datatype = INSTANCES[name.upper()]
    return datatype.Get_size() if datatype else 0


def Get_hw_resource_info() -> Info:
    return Info.Create({"mpi_shared_memory": "true"})


def Get_processor_name() -> str:
    box = mailbox()
    name: str = box.fabric.settings.machine.processor_name(box.rank.number)
    return name[: c.MAX_PROCESSOR_NAME - 1]


def Pcontrol(level: int) -> None:
    # MPI leaves levels above 2 to profiling tools, and a real MPI ignores them: here they declare this number of
    # nanoseconds of compute time.
    if operator.index(level) > 2:
        declare(level * 1000)


@metered
def Open_port(info: Info = INFO_NULL) -> str:
    return ports.open_port(mailbox())


@metered
def Close_port(port_name: str) -> None:
    ports.check_port(_port(port_name))


@metered
def Publish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    ports.publish_name(mailbox(), _service(service_name), _port(port_name))


@metered
def Unpublish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    _port(port_name)
    ports.unpublish_name(mailbox(), _service(service_name))


@metered
def Lookup_name(service_name: str, info: Info = INFO_NULL) -> str:
    return ports.lookup_name(mailbox(), _service(service_name))


def _port(name: str) -> str:
    return _text(name, c.MAX_PORT_NAME, c.ERR_PORT)


def _service(name: str) -> str:
    return _text(name, c.MAX_PORT_NAME, c.ERR_SERVICE)


def Compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    return dims_create(nnodes, [0] * integer(dims) if not isinstance(dims, Sized) else int_list(dims))


# ------------------------------------------------------------------------------------------------------ memory


def Get_address(location: object) -> int:
    if location is None:
        return 0
    if isinstance(location, BottomType | InPlaceType | BufferAutomaticType):
        return int(location)
    if isinstance(location, buffer):
        return location.address
    return int(np.asarray(exported(location)).__array_interface__["data"][0])


def Aint_add(base: int, disp: int) -> int:
    return operator.index(base) + operator.index(disp)


def Aint_diff(addr1: int, addr2: int) -> int:
    return operator.index(addr1) - operator.index(addr2)


def Alloc_mem(size: int, info: Info = INFO_NULL) -> buffer:
    return buffer.allocate(size)


def Free_mem(mem: buffer) -> None:
    mem.release()


def Attach_buffer(buf: object) -> None:
    send_buffers.attach(send_buffers.process_owner(mailbox()), *send_buffers.size_of(buf))


def Detach_buffer() -> Any:
    box = mailbox()
    return send_buffers.detach(send_buffers.process_owner(box), box)


def Flush_buffer() -> None:
    send_buffers.flush(mailbox())


def Iflush_buffer() -> Request:
    box = mailbox()
    return handle_of(Request, Task(begin("MPI.Iflush_buffer", lambda: send_buffers.flush(box))))


# --------------------------------------------------------------------------------- mpi4py's own, underscored


def _set_abort_status(status: int) -> None:
    """Do nothing: an exception that ends a rank always ends the job here."""


def _comm_lock_table(comm: object) -> dict[Hashable, Any]:
    state = comm_of(comm)
    if state.locks is None:
        state.locks = {}
    table: dict[Hashable, Any] = state.locks
    return table


def _comm_lock(comm: object, key: Hashable | None = None) -> object:
    return _comm_lock_table(comm).setdefault(key, SharedLock())


def _commctx_intra(comm: Intracomm) -> tuple[Intracomm, int]:
    context = context_of(comm_of(comm), "mpi4py")
    return handle_of(Intracomm, context.comm), context.next_tag()


def _commctx_inter(comm: Intercomm) -> tuple[Intercomm, int, Intracomm, bool]:
    context = context_of(comm_of(comm), "mpi4py")
    assert context.comm is not None
    inter, local = handle_of(Intercomm, context.comm), handle_of(Intracomm, context.comm.local)
    return inter, context.next_tag(), local, context.low_group
