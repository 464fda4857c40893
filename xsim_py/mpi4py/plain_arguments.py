"""Arguments as programs give them, made plain.

What is not a plain `int` becomes one at the face, or is refused as mpi4py does.

An argument that mpi4py declares as a C integer is converted by its ``__int__``: members of an `enum`, numpy's scalars
and truth values will do, a float loses what is behind its point, and an object that has only ``__index__`` is refused.
What the floors below keep, compare, and send to other shards is plain then, whatever class the program has made up.

Sequences of integers are another matter: they go by ``__index__`` (see `handle.int_list`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

__all__ = ["integer", "plain_text", "take_integers", "taking"]


_TOO_LARGE = 2**63


def integer(value: Any) -> int:
    """The plain integer of an argument."""
    if type(value) is int:
        return value
    convert = getattr(type(value), "__int__", None)
    if convert is None:
        raise TypeError("an integer is required")
    return int(convert(value))


def plain_text(text: str) -> str:
    """The plain text of an argument: it may go to other shards, which do not know the program's classes."""
    return str.__str__(text)


def fitting(value: int) -> int:
    """Return the same integer, unless C has none that is so large."""
    if -_TOO_LARGE <= value < _TOO_LARGE:
        return value
    raise OverflowError("value too large to convert to int")


def take_integers(namespace: dict[str, Any], *, but: tuple[str, ...]) -> None:
    """Have all functions and methods in a namespace take integers as mpi4py does, by their annotations.

    Not those of the files `but`, which do so themselves: where it has to be quick.
    """
    for name, value in list(namespace.items()):
        if inspect.isfunction(value):
            namespace[name] = taking(value)
        elif isinstance(value, type):
            for owner in value.__mro__:
                if owner.__module__ == "mpi4py.MPI" or owner.__module__.startswith("xsim_py.mpi4py"):
                    _of_class(owner, but)


def _of_class(owner: type, but: tuple[str, ...]) -> None:
    for name, value in list(vars(owner).items()):
        function = value.__func__ if isinstance(value, classmethod) else value
        if name.startswith("_") or not inspect.isfunction(function) or hasattr(function, "__wrapped__"):
            continue
        if function.__module__.rpartition(".")[2] in but:
            continue
        taken = taking(function)
        if taken is not function:
            setattr(owner, name, classmethod(taken) if isinstance(value, classmethod) else taken)


def taking(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function, with plain integers for the parameters that are annotated as such."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    places = [place for place, name in enumerate(names) if function.__annotations__.get(name) == "int"]
    if not places:
        return function
    wanted = frozenset(names[place] for place in places)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for place in places:
            if place < len(args):
                if type(args[place]) is not int:
                    args = (*args[:place], integer(args[place]), *args[place + 1 :])
                fitting(args[place])
        for name in kwargs:
            if name in wanted:
                kwargs[name] = fitting(integer(kwargs[name]))
        return function(*args, **kwargs)

    return call
