"""Functions of the program that MPI calls back: error handlers, operations, attributes, generalized requests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.mpi import errhandler as handlers
from xsim_py.mpi import errors
from xsim_py.mpi.attributes import create_keyval
from xsim_py.mpi.collectives.channel import Fold
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.op import ReductionOp
from xsim_py.mpi4py.handle import handle_of

from .by_hand import MAKERS, MPI, Body, Given, by_hand, register
from .calls import write_handle, write_integers
from .convert import STATUS_BYTES, CParameter, read_status, write_status

if TYPE_CHECKING:
    from .child import Child

# The kinds of callbacks.c.
_ERROR_HANDLER, _OPERATION, _OPERATION_LARGE, _COPY, _DELETE, _QUERY, _FREE, _CANCEL = range(8)

_HOST = 503  # deprecated since MPI 4.1; mpi4py lacks it
_LAST_PREDEFINED = 1000  # the ABI reserves the keys up to it


def memory_for(child: Child, size: int, *purpose: object) -> int:
    """Return the address of memory of the program that is allocated once for a purpose, and grows."""
    address, capacity = child.handles.addresses.get(purpose, (0, 0))
    if capacity < size:
        if address:
            child.release(address)
        child.handles.addresses[purpose] = address, _ = child.obtain(size), size
    return address


def _checked(code: int) -> None:
    """Raise the error whose code a function of the program has returned."""
    if code:
        raise errors.ReturnedError(code)


# ----------------------------------------------------------------------------------------------------- error handlers


def _create_errhandler(kind: str, child: Child, given: Given) -> None:
    def function(handle: Any, code: int) -> None:
        child.call_back(_ERROR_HANDLER, given[0], child.handles.lend(handle), code)
        child.handled = code

    handler = handlers.ErrorHandler(f"{kind} error handler", function, kind)
    write_handle(child, given[1], handle_of(MPI.Errhandler, handler))


for _kind in ("Comm", "Win", "File", "Session"):
    register(f"{_kind}_create_errhandler", partial(_create_errhandler, _kind))


# --------------------------------------------------------------------------------------------------------- attributes


def _create_keyval(kind: str, child: Child, given: Given) -> None:
    copy_fn, delete_fn, place, extra = given

    def copy(handle: Any, keyval: int, value: int) -> Any:
        _checked(child.call_back(_COPY, copy_fn, child.handles.lend(handle), keyval, extra, value))
        new, flag = child.arguments(2)
        return new if flag & 0xFFFFFFFF else NotImplemented

    def delete(handle: Any, keyval: int, value: int) -> None:
        _checked(child.call_back(_DELETE, delete_fn, child.handles.lend(handle), keyval, value, extra))

    copying: Any = copy if copy_fn not in (0, 1) else copy_fn == 1
    write_integers(child, place, [create_keyval(kind, copying, delete if delete_fn else None)], "i")


def _get_attr(family: Any, child: Child, given: Given) -> None:
    number, keyval, place, flag = given
    value = MPI.PROC_NULL if keyval == _HOST else child.handles.get(number, family).Get_attr(keyval)
    if value is not None and keyval <= _LAST_PREDEFINED:
        address = memory_for(child, 4, "attribute", number, keyval)
        write_integers(child, address, [int(value)], "i")
        value = address
    if value is not None:
        write_integers(child, place, [int(value)], "q")
    write_integers(child, flag, [value is not None], "i")


for _kind, _family in (("Comm", MPI.Comm), ("Type", MPI.Datatype)):
    register(f"{_kind}_get_attr", partial(_get_attr, _family))
for _kind, _name in (("Comm", "Comm"), ("Type", "Datatype"), ("Win", "Win")):
    register(f"{_kind}_create_keyval", partial(_create_keyval, _name))


# --------------------------------------------------------------------------------------------------------- operations


class _ProgramOp(ReductionOp):
    """An operation whose function is in the program."""

    __slots__ = ("address", "child", "kind")

    def __init__(self, child: Child, kind: int, address: int, *, commutative: bool) -> None:
        super().__init__(python=_no_objects, function=_no_objects, commutative=commutative)
        self.child = child
        self.kind = kind
        self.address = address

    def user_fold(self, datatype: Type) -> Fold:
        """Return the fold of elements of a type."""
        return _ProgramFold(self, datatype)


def _no_objects(*_: object) -> Any:
    raise TypeError("an operation of a compiled program reduces memory only")


class _ProgramFold:
    """The program's function, called with copies in the program's memory."""

    __slots__ = ("commutative", "datatype", "operation", "unit_bytes")

    def __init__(self, operation: _ProgramOp, datatype: Type) -> None:
        self.operation = operation
        self.datatype = datatype
        self.commutative = operation.commutative
        self.unit_bytes = datatype.size

    def __call__(self, left: bytes, right: bytes) -> bytes:
        """Fold two packed messages."""
        operation, datatype = self.operation, self.datatype
        child = operation.child
        count = len(left) // datatype.size if datatype.size else 0
        low, high = datatype.span(count)
        size = high - low
        spaced = (size + 15) // 16 * 16
        address = memory_for(child, 2 * spaced, "operation", child.depth)
        for place, data in ((address, left), (address + spaced, right)):
            side = bytearray(size)
            datatype.unpack(data, memoryview(side), -low, count)
            child.write(place, bytes(side))
        number = child.handles.lend(handle_of(MPI.Datatype, datatype))
        child.call_back(operation.kind, operation.address, address - low, address + spaced - low, count, number)
        return datatype.pack(memoryview(child.read(address + spaced, size)), -low, count)


def _op_create(parameters: list[CParameter]) -> Body:
    kind = _OPERATION_LARGE if parameters[0].ctype.endswith("_c") else _OPERATION

    def create(child: Child, given: Given) -> None:
        operation = _ProgramOp(child, kind, given[0], commutative=bool(given[1]))
        write_handle(child, given[2], handle_of(MPI.Op, operation))

    return create


MAKERS["Op_create"] = _op_create


# ----------------------------------------------------------------------------------------------- generalized requests


@by_hand
def Grequest_start(child: Child, given: Given) -> None:
    query_fn, free_fn, cancel_fn, extra, place = given

    def query(status: Any) -> None:
        address = memory_for(child, STATUS_BYTES, "status", child.depth)
        write_status(child, address, status)
        code = child.call_back(_QUERY, query_fn, extra, address)
        status.__setstate__(read_status(child, address).__getstate__())
        _checked(code)

    def free() -> None:
        _checked(child.call_back(_FREE, free_fn, extra))

    def cancel(done: bool) -> None:
        _checked(child.call_back(_CANCEL, cancel_fn, extra, int(done)))

    functions = ((query, query_fn), (free, free_fn), (cancel, cancel_fn))
    request = MPI.Grequest.Start(*[function if address else None for function, address in functions])
    write_integers(child, place, [child.handles.add(request)], "q")


@by_hand
def Grequest_complete(child: Child, given: Given) -> None:
    MPI.Grequest(child.handles.get(given[0], MPI.Request)).Complete()
