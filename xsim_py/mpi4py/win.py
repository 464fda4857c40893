"""`MPI.Win`: windows, and one-sided communication."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from xsim_py.mpi import attributes as attrs
from xsim_py.mpi import constants as c
from xsim_py.mpi import errhandler as handlers
from xsim_py.mpi import errors
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.datatype import NULL, Type
from xsim_py.mpi.group import Members
from xsim_py.mpi.memory import Memory, address_of
from xsim_py.mpi.op import ReductionOp
from xsim_py.mpi.rma import create as make
from xsim_py.mpi.rma import operations as operate
from xsim_py.mpi.rma import synchronise as order
from xsim_py.mpi.rma.window import Transfer, Window

from .attribute_calls import Attributed
from .buffer_protocol import exporting
from .bufspec import UserBuffer, message, type_of, usable
from .comm import Intracomm
from .commhandle import SELF
from .errhandling import BoundHandler, HandleFactory, HasErrorHandler, Reporting, first_handler
from .group import Group, group_of
from .handle import Null, handle_of, predefine_null
from .info import INFO_NULL, Info, items_of
from .inside import comm_of, impl_of, members_of
from .memory import buffer, flat_view, is_bottom
from .methods import attribute
from .op import INSTANCES, Op
from .plain_arguments import plain_text
from .request import Request, Task

__all__ = ["WIN_NULL", "Win"]

R = TypeVar("R")

_SUM = INSTANCES["SUM"]
_COMM_SELF: Any = handle_of(Intracomm, SELF)
_HINTS = {
    "no_locks": "false",
    "accumulate_ordering": "rar,raw,war,waw",
    "accumulate_ops": "same_op_no_op",
    "same_size": "false",
    "same_disp_unit": "false",
}


@exporting
class Win(HasErrorHandler, Attributed):
    """Remote memory access context."""

    __slots__ = ()

    _kind = "Win"

    _null: ClassVar[Null] = Null("WIN_NULL")
    _error = c.ERR_WIN

    def __new__(cls, win: Win | None = None) -> Self:
        return cls._copy(win)

    def __buffer__(self, flags: int, /) -> memoryview:
        return memoryview(self._window().memory)  # type: ignore[arg-type]

    def _window(self) -> Window:
        window: Window = self._live()
        if window.freed:
            errors.fail(c.ERR_WIN, "the window was freed")
        return window

    def _do(self, function: Callable[..., R], *args: object) -> R | None:
        """Call a function of the window; return None if the error handler has handled an error."""
        window = self._window()
        try:
            return function(window, *args)
        except errors.Exception as error:
            if not window.comm.report(error):
                raise
            return None

    def free(self) -> None:
        if self:
            self.Free()

    # ------------------------------------------------------------------------------------------------- creation

    @classmethod
    def Create(cls, memory: object, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = _COMM_SELF) -> Self:
        view = memoryview(bytearray()) if is_bottom(memory) else cls._exposed(memory)
        return cls._created("Win.Create", c.WIN_FLAVOR_CREATE, view, disp_unit, info, comm, memory)

    @classmethod
    def Allocate(cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = _COMM_SELF) -> Self:
        view = cls._allocated(_size(comm, size))
        return cls._created("Win.Allocate", c.WIN_FLAVOR_ALLOCATE, view, disp_unit, info, comm, view)

    @classmethod
    def Allocate_shared(
        cls, size: int, disp_unit: int = 1, info: Info = INFO_NULL, comm: Intracomm = _COMM_SELF
    ) -> Self:
        size = _size(comm, size)
        window = make.create_shared(_intra(comm), "Win.Allocate_shared", size, operator.index(disp_unit))
        return cls._with_hints(window, info)

    @classmethod
    def Create_dynamic(cls, info: Info = INFO_NULL, comm: Intracomm = _COMM_SELF) -> Self:
        nothing = memoryview(bytearray())
        return cls._created("Win.Create_dynamic", c.WIN_FLAVOR_DYNAMIC, nothing, 1, info, comm, None)

    @classmethod
    def _created(
        cls, name: str, flavor: int, view: Memory, unit: int, info: Info, comm: Intracomm, origin: object
    ) -> Self:
        return cls._with_hints(make.create(_intra(comm), name, flavor, view, operator.index(unit), origin), info)

    @classmethod
    def _with_hints(cls, window: Window, info: Info) -> Self:
        window.comm.info = items_of(info)
        factory: object = HandleFactory(cls, window)
        window.comm.errhandler = first_handler(factory, BoundHandler(handlers.ARE_FATAL, factory))
        return cls._make(window)

    @staticmethod
    def _exposed(memory: object) -> Memory:
        """Return the memory of an argument; those of a compiled program are in another process."""
        return flat_view(memory, writable=True)

    @staticmethod
    def _allocated(size: int) -> Memory:
        """Return new memory of the program."""
        return np.zeros(size, np.uint8).data.cast("B") if size else memoryview(bytearray())

    @staticmethod
    def _shown(memory: Memory) -> buffer:
        """Return memory as the program sees it."""
        return buffer(memory) if len(memory) else buffer()

    def Shared_query(self, rank: int) -> tuple[buffer, int]:
        window = self._window()
        with Reporting(window.comm):
            memory, unit = make.shared_memory(window, operator.index(rank))
            return self._shown(memory), unit
        return buffer(), 0

    def Attach(self, memory: object) -> None:
        self._window()
        self._do(make.attach, self._exposed(memory))

    def Detach(self, memory: object) -> None:
        self._window()
        self._do(make.detach, self._exposed(memory))

    def Free(self) -> None:
        window = self._window()
        with Reporting(window.comm):
            window.epochs.close()
            attrs.delete_all(self, window.comm.attributes)
            make.free(window)
            self._impl = self._null

    # ------------------------------------------------------------------------------------------------ properties

    def Get_group(self) -> Group:
        return group_of(Members(self._window().comm.shown.ranks))

    group = attribute(Get_group)

    @property
    def group_size(self) -> int:
        return len(self._window().comm.shown.ranks)

    @property
    def group_rank(self) -> int:
        return self._window().comm.shown.me

    def Get_name(self) -> str:
        return self._window().name if self else "MPI_WIN_NULL"

    def Set_name(self, name: str) -> None:
        window = self._window()
        window.name = plain_text(name)[: c.MAX_OBJECT_NAME - 1]
        window.comm.name = window.name or window.comm.name

    name = attribute(Get_name, Set_name)

    def Set_info(self, info: Info) -> None:
        window = self._window()
        window.comm.info.update(info.items())

    def Get_info(self) -> Info:
        return Info.Create({**_HINTS, **self._window().comm.info})

    info = attribute(Get_info, Set_info)

    def tomemory(self) -> buffer:
        return self._shown(self._window().memory)

    # --------------------------------------------------------------------------------------------- attributes

    def _attributes(self) -> attrs.Attributes:
        return attrs.attributes_of(self._window().comm)

    def Get_attr(self, keyval: int) -> int | Any | None:
        window = self._window()
        if keyval == c.WIN_BASE:
            return address_of(window.memory)
        if keyval == c.WIN_SIZE:
            return len(window.memory)
        if keyval == c.WIN_DISP_UNIT:
            return window.unit
        if keyval == c.WIN_CREATE_FLAVOR:
            return window.flavor
        if keyval == c.WIN_MODEL:
            return c.WIN_UNIFIED
        return super().Get_attr(keyval)

    @property
    def attrs(self) -> tuple[int, int, int]:
        window = self._window()
        return address_of(window.memory), len(window.memory), window.unit

    @property
    def flavor(self) -> int:
        return self._window().flavor

    @property
    def model(self) -> int:
        self._window()
        return c.WIN_UNIFIED

    # ------------------------------------------------------------------------------------------------- errors

    def _handler_owner(self) -> Communicator:
        return self._window().comm

    def _handle_factory(self) -> HandleFactory:
        return HandleFactory(type(self), self._window())

    # ---------------------------------------------------------------------------------------------- operations

    def Put(self, origin: object, target_rank: int, target: object = None) -> None:
        self._put(origin, target_rank, target, "Win.Put")

    def _put(self, origin: object, target_rank: int, target: object, call: str) -> int:
        window = self._window()
        source = _message(origin, target_rank, writable=False)
        where = place_in_target(source, target)
        if target_rank != c.PROC_NULL:
            with Reporting(window.comm):
                return operate.put(window, source.pack(), target_rank, where, call)
        return 0

    def Get(self, origin: object, target_rank: int, target: object = None) -> None:
        self._get(origin, target_rank, target, "Win.Get")

    def _get(self, origin: object, target_rank: int, target: object, call: str) -> Transfer | None:
        window = self._window()
        result = _message(origin, target_rank, writable=True)
        where = place_in_target(result, target)
        if target_rank != c.PROC_NULL:
            with Reporting(window.comm):
                return operate.get(window, result.unpack, result.nbytes, target_rank, where, call)
        return None

    def Accumulate(self, origin: object, target_rank: int, target: object = None, op: Op = _SUM) -> None:
        self._accumulate(origin, target_rank, target, op, "Win.Accumulate")

    def _accumulate(self, origin: object, target_rank: int, target: object, op: Op, call: str) -> int:
        window = self._window()
        source = _message(origin, target_rank, writable=False)
        where = place_in_target(source, target)
        if target_rank != c.PROC_NULL:
            with Reporting(window.comm):
                return operate.accumulate(window, source.pack(), target_rank, where, _reduction(op), call)
        return 0

    def Get_accumulate(
        self, origin: object, result: object, target_rank: int, target: object = None, op: Op = _SUM
    ) -> None:
        self._fetch(origin, result, target_rank, target, op, "Win.Get_accumulate")

    def _fetch(
        self, origin: object, result: object, target_rank: int, target: object, op: Op, call: str
    ) -> Transfer | None:
        window = self._window()
        source = _message(origin, target_rank, writable=True)  # mpi4py requires that, though nothing writes to it
        where = place_in_target(source, target)
        into = _message(result, target_rank, writable=True)
        if target_rank == c.PROC_NULL:
            return None
        with Reporting(window.comm):
            data = source.pack()
            return operate.fetch(window, data, into.unpack, into.nbytes, target_rank, where, _reduction(op), call)
        return None

    def Fetch_and_op(
        self, origin: object, result: object, target_rank: int, target_disp: int = 0, op: Op = _SUM
    ) -> None:
        window = self._window()
        source = _message(origin, target_rank, writable=False)
        into = _message(result, target_rank, writable=True)
        if target_rank == c.PROC_NULL:
            return
        _check_single(origin=source, result=into)
        where = source.datatype, operator.index(target_disp), 1
        with Reporting(window.comm):
            if not source.datatype.is_predefined:
                errors.fail(c.ERR_TYPE, "Win.Fetch_and_op takes predefined datatypes only")
            operate.fetch(
                window, source.pack(), into.unpack, into.nbytes, target_rank, where, _reduction(op), "Win.Fetch_and_op"
            )

    def Compare_and_swap(
        self, origin: object, compare: object, result: object, target_rank: int, target_disp: int = 0
    ) -> None:
        window = self._window()
        source = _message(origin, target_rank, writable=False)
        compared = _message(compare, target_rank, writable=False)
        into = _message(result, target_rank, writable=True)
        if target_rank == c.PROC_NULL:
            return
        _check_single(origin=source, compare=compared, result=into)
        where = source.datatype, operator.index(target_disp), 1
        with Reporting(window.comm):
            data, expected = source.pack(), compared.pack()
            operate.compare_and_swap(window, data, expected, into.unpack, target_rank, where, "Win.Compare_and_swap")

    # ---------------------------------------------------------------------------------------- with a request

    def Rput(self, origin: object, target_rank: int, target: object = None) -> Request:
        return self._origin_request(self._put(origin, target_rank, target, "Win.Rput"), "Win.Rput")

    def Rget(self, origin: object, target_rank: int, target: object = None) -> Request:
        return self._result_request(self._get(origin, target_rank, target, "Win.Rget"), "Win.Rget")

    def Raccumulate(self, origin: object, target_rank: int, target: object = None, op: Op = _SUM) -> Request:
        departure_ps = self._accumulate(origin, target_rank, target, op, "Win.Raccumulate")
        return self._origin_request(departure_ps, "Win.Raccumulate")

    def Rget_accumulate(
        self, origin: object, result: object, target_rank: int, target: object = None, op: Op = _SUM
    ) -> Request:
        transfer = self._fetch(origin, result, target_rank, target, op, "Win.Rget_accumulate")
        return self._result_request(transfer, "Win.Rget_accumulate")

    def _origin_request(self, departure_ps: int, call: str) -> Request:
        window = self._window()
        return handle_of(Request, Task(operate.departure_of(window, departure_ps, call), comm=window.comm))

    def _result_request(self, transfer: Transfer | None, call: str) -> Request:
        """Return the request of an operation that fetches data.

        An error goes to the window's handler.
        """
        window = self._window()
        operation = None
        if transfer is not None:
            with Reporting(window.comm):
                operation = operate.result_of(window, transfer, call)
        return handle_of(Request, Task(operation, comm=window.comm))

    # ------------------------------------------------------------------------------------------ active target

    def Fence(self, assertion: int = 0) -> None:
        self._do(order.fence, assertion)

    def Start(self, group: Group, assertion: int = 0) -> None:
        self._do(lambda window: order.start(window, members_of(group).ranks, assertion))

    def Complete(self) -> None:
        self._do(order.complete)

    def Post(self, group: Group, assertion: int = 0) -> None:
        self._do(lambda window: order.post(window, members_of(group).ranks, assertion))

    def Wait(self) -> Literal[True]:
        self._do(order.wait)
        return True

    def Test(self) -> bool:
        return self._do(order.test) or False

    # ----------------------------------------------------------------------------------------- passive target

    def Lock(self, rank: int, lock_type: int = c.LOCK_EXCLUSIVE, assertion: int = 0) -> None:
        self._do(order.lock, rank, lock_type, assertion)

    def Unlock(self, rank: int) -> None:
        self._do(order.unlock, rank)

    def Lock_all(self, assertion: int = 0) -> None:
        self._do(order.lock_all, assertion)

    def Unlock_all(self) -> None:
        self._do(order.unlock_all)

    def Flush(self, rank: int) -> None:
        self._do(order.flush, rank, "Win.Flush")

    def Flush_all(self) -> None:
        self._do(order.flush, None, "Win.Flush_all")

    def Flush_local(self, rank: int) -> None:
        self._do(order.flush_local, rank, "Win.Flush_local")

    def Flush_local_all(self) -> None:
        self._do(order.flush_local, None, "Win.Flush_local_all")

    def Sync(self) -> None:
        self._do(order.sync)


def _intra(comm: Intracomm) -> Communicator:
    if not isinstance(comm, Intracomm):
        kind = type(comm).__name__
        raise TypeError(f"Argument 'comm' has incorrect type (expected mpi4py.MPI.Intracomm, got mpi4py.MPI.{kind})")
    found: Communicator = comm_of(comm)
    return found


def _reduction(op: Op) -> ReductionOp:
    if not isinstance(op, Op):
        raise TypeError(f"Argument 'op' has incorrect type (expected mpi4py.MPI.Op, got {type(op).__name__})")
    operation: ReductionOp = impl_of(op)
    return operation


def _size(comm: Intracomm, size: int) -> int:
    size = operator.index(size)
    if size < 0:
        _intra(comm).fail(c.ERR_SIZE, f"a window of {size} bytes")
    return size


_NOTHING = memoryview(b"")


def _message(spec: object, rank: int, *, writable: bool) -> UserBuffer:
    """Return a parsed buffer argument; for PROC_NULL it is ignored."""
    return UserBuffer(_NOTHING, 0, 0, NULL) if rank == c.PROC_NULL else message(spec, writable=writable)


def place_in_target(origin: UserBuffer, target: object) -> tuple[Type, int, int]:
    """Return the type, displacement and count of the target, by default those of the origin."""
    displacement, count, datatype = 0, origin.count, origin.datatype
    if target is None:
        return datatype, displacement, count
    if isinstance(target, (list, tuple)):
        if len(target) > 3:
            raise ValueError("target: expecting 3 items at most")
        if len(target) > 0:
            displacement = operator.index(target[0])
        if len(target) > 1:
            count = operator.index(target[1])
        if len(target) > 2:
            datatype = type_of(target[2])
            usable(datatype)
        return datatype, displacement, count
    if not hasattr(target, "__index__"):
        raise ValueError("target: expecting integral or list/tuple")
    return datatype, operator.index(target), count


def _check_single(**messages: UserBuffer) -> None:
    """Check that all of these are one element of the same type."""
    origin = messages["origin"]
    for name, found in messages.items():
        if found.count != 1:
            raise ValueError(f"{name}: expecting a single element, got {found.count}")
    for name, found in messages.items():
        if found.datatype is not origin.datatype:
            raise ValueError(f"mismatch in origin and {name} MPI datatypes")


WIN_NULL: Any = predefine_null(Win, 0x110)
