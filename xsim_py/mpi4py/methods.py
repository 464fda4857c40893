"""Public methods that differ only slightly, compiled from a pattern and a line for each.

mpi4py has most calls in several forms: blocking, nonblocking and persistent, with equal or varying blocks. They are
compiled from text, like the methods of a `dataclasses.dataclass`: so each has its own signature, which programs may
inspect, its own name, which the deadlock report shows, and no overhead for ``*args``.
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
"""Types and defaults of parameters, equal for all parameters of this name; others accept any value."""


class Method(NamedTuple):
    """A method to compile: its name, space-separated parameters, return type, and statement."""

    name: str
    parameters: str
    returns: str
    statement: str


def add_methods(cls: type, namespace: dict[str, Any], methods: Iterable[Method]) -> None:
    """Add compiled methods to a class.

    `namespace` has the globals of the methods: all names in their statements and parameter defaults, and the
    ``__name__`` and ``__file__`` of the module.
    """
    source = [f"class {cls.__name__}:"]
    for name, parameters, returns, statement in methods:
        declared = ", ".join(["self", *(f"{each}: {_ANNOTATIONS.get(each, 'Any')}" for each in parameters.split())])
        source.append(f"    def {name}({declared}) -> {returns}: {statement}")
    made: dict[str, Any] = {}
    # The file has a separate name, or tracebacks would show unrelated lines of the module; it is in the module's
    # directory, by which the deadlock report recognises calls of the program.
    exec(compile("\n".join(source), f"{namespace['__file__']} (made)", "exec"), namespace, made)
    for name, value in vars(made[cls.__name__]).items():
        if isinstance(value, FunctionType):
            setattr(cls, name, value)


def attribute(get: Callable[[Any], Any], set_: Callable[[Any, Any], None] | None = None) -> property:
    """Return a property for a ``Get_`` method, and a ``Set_`` method if given.

    Subclasses may override both.
    """
    reading, writing = get.__name__, "" if set_ is None else set_.__name__

    def read(self: object) -> Any:
        return getattr(self, reading)()

    def write(self: object, value: object) -> None:
        getattr(self, writing)(value)

    read.__annotations__["return"] = get.__annotations__["return"]
    return property(read, write if writing else None)
