"""The class `Op` and the predefined operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from xsim_py.mpi import constants as c
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi.op import OP_NULL, PREDEFINED, ReductionOp, make_fold
from xsim_py.mpi4py.bufspec import check_same, message
from xsim_py.mpi4py.datatype import Datatype
from xsim_py.mpi4py.handle import CONSTANTS, Handle, UserFunctions, handle_of
from xsim_py.mpi4py.memory import buffer

__all__ = ["INSTANCES", "Op"]

UserFunction = Callable[[Any, Any, Any], Any]


class Op(Handle):
    """ReductionOp operation."""

    __slots__ = ("_by_number",)

    _null = OP_NULL  # type: ignore[assignment]
    _error = c.ERR_OP

    _impl: ReductionOp
    _by_number: bool

    def __new__(cls, op: Op | None = None) -> Self:
        return cls._copy(op)

    if TYPE_CHECKING:

        def _live(self) -> ReductionOp: ...

    def __call__(self, x: object, y: object, /) -> Any:
        return self._impl.python(x, y)

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = self._name()
        if name is not None:
            return name
        operation = self._impl
        if self.is_predefined:
            return (type(self), (INSTANCES[operation.name or "OP_NULL"],))
        if hasattr(self, "_by_number"):  # a real mpi4py does not know the function of a mere handle
            raise ValueError("cannot serialize a user-defined reduction operation that comes from a handle")
        return (type(self).Create, (operation.python.function, operation.commutative))  # type: ignore[attr-defined]

    @classmethod
    def fromhandle(cls, handle: int) -> Self:
        self: Self = super().fromhandle(handle)
        self._by_number = True
        return self

    def free(self) -> None:
        if self.is_predefined:
            self._set_null()
        else:
            self.Free()

    @classmethod
    def Create(cls, function: Callable[[Any, Any, Datatype], None], commute: bool = False) -> Self:
        function.__call__  # type: ignore[operator] # noqa: B018  # rejects an object that is not callable
        operation = ReductionOp(python=_OnObjects(function), function=_OnMemory(function), commutative=bool(commute))
        return cls._make(UserFunctions.of("reduction operation").register(operation))

    def Free(self) -> None:
        operation = self._live()
        if operation.name:
            fail(c.ERR_OP, f"{operation.name} is predefined and cannot be freed")
        UserFunctions.of("reduction operation").unregister(operation)
        self._set_null()

    def Is_commutative(self) -> bool:
        return self._live().commutative

    is_commutative = property(Is_commutative)

    def Reduce_local(self, inbuf: object, inoutbuf: object) -> None:
        target = message(inoutbuf, writable=True)
        source = message(inbuf, writable=False)
        check_same(source, target)
        target.unpack(make_fold(self._impl, target.datatype)(source.pack(), target.pack()))

    @property
    def is_predefined(self) -> bool:
        return self._impl.function is None


class _OnObjects:
    """The user's function for lower-case calls, which have no datatype."""

    __slots__ = ("function",)

    def __init__(self, function: UserFunction) -> None:
        self.function = function

    def __call__(self, x: object, y: object) -> Any:
        return self.function(x, y, None)


class _OnMemory:
    """The user's function for upper-case calls."""

    __slots__ = ("function",)

    def __init__(self, function: UserFunction) -> None:
        self.function = function

    def __call__(self, source: memoryview, target: memoryview, datatype: Type) -> None:
        self.function(buffer(source), buffer(target), handle_of(Datatype, datatype))


def _instances() -> dict[str, Op]:
    found = {}
    for name, operation in PREDEFINED.items():
        found[name] = handle_of(Op, operation)
        CONSTANTS[name] = found[name]
    return found


INSTANCES: dict[str, Op] = _instances()
"""All `Op` constants of the module MPI, by name."""
