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

Function: TypeAlias = "Callable[[Child], int | None]"
"""Executes a call; returns a result, None for success."""
Body: TypeAlias = "Callable[[Child, tuple[int, ...]], int | None]"
"""Executes a call with its arguments as signed integers; returns a result if that is not an error code of 0."""

_FILES = ("collectives", "lifetime", "requests", "rma")
_bodies: dict[str, Body] = {}
MAKERS: dict[str, Callable[[list[CParameter]], Function]] = {}
"""Makers of functions that depend on the parameters, by name without prefix."""


def by_hand(function: Body) -> Body:
    """Register the body of the function of the same name, without the prefix ``MPI_``."""
    _bodies[function.__name__] = function
    return function


def load() -> None:
    """Register all bodies."""
    for file in _FILES:
        import_module(f"{__package__}.{file}")


def body_of(name: str) -> Body | None:
    """Return the body of a function, by its name without prefix; None if the general rule applies."""
    return _bodies.get(name)
