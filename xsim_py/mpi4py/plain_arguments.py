"""Conversion of programs' arguments to plain values.

Integers that are not plain `int` objects are converted in the interface, or rejected as in mpi4py.

An argument that mpi4py declares as a C integer is converted by its ``__int__``: members of an `enum`, numpy's scalars
and truth values are accepted, a float is truncated, and an object with only ``__index__`` is rejected. So everything
that the layers below keep, compare, and send to other shards is plain, independent of the program's classes.

Sequences of integers use ``__index__`` instead (see `handle.int_list`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeAlias

__all__ = ["convert_arguments", "converting", "integer", "plain_text"]


Comm: TypeAlias = Any
"""The annotation of communicator parameters, in files from which its class is built."""

_TOO_LARGE = 2**63
_HANDLES = ("Comm", "Errhandler", "Group", "Info", "Intercomm", "Intracomm")  # those of calls that need not be fast


def integer(value: object) -> int:
    """Return the plain integer of an argument."""
    if type(value) is int:
        return value
    convert = getattr(type(value), "__int__", None)
    if convert is None:
        raise TypeError("an integer is required")
    return int(convert(value))


def plain_text(text: str) -> str:
    """Return the plain text of an argument.

    It may go to other shards, which lack the program's classes.
    """
    if isinstance(text, bytes):
        text = text.decode()
    if not isinstance(text, str):
        raise TypeError(f"expected bytes, {type(text).__name__} found")
    return str.__str__(text)


def check_range(value: int) -> int:
    """Return the same integer; raise OverflowError if it exceeds a C integer."""
    if -_TOO_LARGE <= value < _TOO_LARGE:
        return value
    raise OverflowError("value too large to convert to int")


def convert_arguments(namespace: dict[str, Any], *, except_in: tuple[str, ...]) -> None:
    """Make functions convert integers and handles by their annotations, like mpi4py.

    Functions of the modules `except_in` convert integers themselves, since they must be fast.
    """
    for name, value in list(namespace.items()):
        if inspect.isfunction(value):
            namespace[name] = converting(value, namespace)
        elif isinstance(value, type):
            for owner in value.__mro__:
                if owner.__module__ == "mpi4py.MPI" or owner.__module__.startswith("xsim_py.mpi4py"):
                    _of_class(owner, namespace, except_in)


def _of_class(owner: type, namespace: dict[str, Any], except_in: tuple[str, ...]) -> None:
    for name, value in list(vars(owner).items()):
        function = value.__func__ if isinstance(value, classmethod) else value
        if name.startswith("_") or not inspect.isfunction(function) or hasattr(function, "__wrapped__"):
            continue
        quick = function.__module__.rpartition(".")[2] in except_in
        made = converting(function, namespace, integers=not quick)
        if made is not function:
            setattr(owner, name, classmethod(made) if isinstance(value, classmethod) else made)


def converting(
    function: Callable[..., Any], namespace: dict[str, Any] | None = None, *, integers: bool = True
) -> Callable[..., Any]:
    """Return a function that rejects wrong handles and, if requested, converts integers.

    A handle of an undeclared class is a TypeError, as in mpi4py; the classes are taken from a namespace.
    """
    code = inspect.unwrap(function).__code__
    convert = {}
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        declared = str(function.__annotations__.get(name))
        kind = declared.removesuffix(" | None")
        if declared == "int" and integers:
            convert[name] = _c_integer
        elif kind in _HANDLES and namespace is not None:
            convert[name] = partial(_of_kind, namespace[kind], name, kind != declared)
    if not convert:
        return function
    places = [
        (place, convert[name]) for place, name in enumerate(code.co_varnames[: code.co_argcount]) if name in convert
    ]

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        for place, converted in places:
            if place >= len(args):
                break
            if (plain := converted(args[place])) is not args[place]:
                args = (*args[:place], plain, *args[place + 1 :])
        for name in kwargs:
            if name in convert:
                kwargs[name] = convert[name](kwargs[name])
        return function(*args, **kwargs)

    return call


def _c_integer(value: object) -> int:
    return check_range(value if type(value) is int else integer(value))


def _of_kind(kind: type, name: str, or_none: bool, value: object) -> Any:
    """Return a handle; raise mpi4py's TypeError if its class is not the declared one."""
    if isinstance(value, kind) or (or_none and value is None):
        return value
    raise TypeError(f"Argument '{name}' has incorrect type (expected mpi4py.MPI.{kind.__name__}, got {_named(value)})")


def _named(value: object) -> str:
    found = type(value)
    return f"mpi4py.MPI.{found.__name__}" if found.__module__ == "mpi4py.MPI" else found.__name__
