"""Public methods that differ in little, made from one pattern and a line for each.

mpi4py has most calls in several forms: blocking, non-blocking and persistent, with blocks of one size or of many. They
are compiled from text, as the methods of a `dataclasses.dataclass` are: so each has a signature of its own, which
programs may ask for, a name of its own, which the deadlock report shows, and takes no time for ``*args``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, NamedTuple

__all__ = ["Method", "add_methods", "attribute"]

_ANNOTATIONS = {
    "info": "Info = INFO_NULL",
    "offset": "int",
    "op": "Op = SUM",
    "recvcounts": "Sequence[int] | None = None",
    "root": "int = 0",
    "status": "Status | None = None",
}
"""Types and defaults of parameters, which are the same wherever a parameter has this name; others may be anything."""


class Method(NamedTuple):
    """A method to be made: its name, the names of its parameters between spaces, what it returns, and its statement."""

    name: str
    parameters: str
    returns: str
    statement: str


def add_methods(cls: type, namespace: dict[str, Any], methods: Iterable[Method]) -> None:
    """Give a class some methods.

    Parameters
    ----------
    cls : type
        The class.
    namespace : dict
        The globals of the methods: all that their statements and the defaults of their parameters name, and the
        ``__name__`` and the ``__file__`` of the module.
    methods : iterable of Method
        What to make.
    """
    source = [f"class {cls.__name__}:"]
    for name, parameters, returns, statement in methods:
        declared = ", ".join(["self", *(f"{each}: {_ANNOTATIONS.get(each, 'Any')}" for each in parameters.split())])
        source.append(f"    def {name}({declared}) -> {returns}: {statement}")
    made: dict[str, Any] = {}
    # The file has a name of its own, or tracebacks would show lines of the module that have nothing to do with it; it
    # is in the folder of the module, by which the deadlock report knows calls of the program.
    exec(compile("\n".join(source), f"{namespace['__file__']} (made)", "exec"), namespace, made)
    for name, value in vars(made[cls.__name__]).items():
        if isinstance(value, FunctionType):
            setattr(cls, name, value)


def attribute(get: Callable[[Any], Any], set_: Callable[[Any, Any], None] | None = None) -> property:
    """Make a property of a ``Get_`` method, and of a ``Set_`` method if there is one; a subclass may have its own."""
    reading, writing = get.__name__, "" if set_ is None else set_.__name__

    def read(self: Any) -> Any:
        return getattr(self, reading)()

    def write(self: Any, value: Any) -> None:
        getattr(self, writing)(value)

    read.__annotations__["return"] = get.__annotations__["return"]
    return property(read, write if writing else None)
