"""The functions of MPI that have no method of equal name and parameters, or another meaning in C.

Each file of this package that registers such functions is imported by `load`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from .child import Child
    from .convert import CParameter

MPI: Any = import_module("xsim_py.mpi4py.MPI")
"""The interface of mpi4py, whose names appear when it is imported."""

Given: TypeAlias = tuple[int, ...]
"""The arguments of a call, as signed integers."""

Body: TypeAlias = "Callable[[Child, Given], int | None]"
"""Executes a call with its arguments; returns a result, None for success."""

Function: TypeAlias = "Callable[[Child], int | None]"
"""The same, with the arguments in the page."""

_FILES = (
    *("collectives", "functions", "hot", "lifetime", "objects", "processes", "requests", "rma", "system", "topologies"),
)
SERVICES: list[Callable[[Child], int]] = []
"""Services that are not functions of MPI, in the order of page.h."""
FIRST_SERVICE = 0x8000
_bodies: dict[str, Body] = {}
HOT: dict[str, Callable[[Function], Function]] = {}
"""Makers of fast forms of functions, for runs without tools; each is given the general form."""
AHEAD: dict[str, Function] = {}
"""The functions that a program queues; their arguments are in `Child.queued`."""
MAKERS: dict[str, Callable[[list[CParameter]], Body | None]] = {}
"""Makers of functions that depend on the parameters, by name without prefix."""


def by_hand(function: Body) -> Body:
    """Register the body of the function of the same name, without the prefix ``MPI_``."""
    register(function.__name__, function)
    return function


def register(name: str, function: Body) -> None:
    """Register the body of the function with a name, without prefix."""
    _bodies[name] = function


def load() -> None:
    """Register all bodies."""
    for file in _FILES:
        import_module(f"{__package__}.{file}")


def body_of(name: str) -> Body | None:
    """Return the body of a function, by its name without prefix; None if the general rule applies."""
    return _bodies.get(name)
