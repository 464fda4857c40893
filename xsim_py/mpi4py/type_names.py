"""Have the interpreter name the types of mpi4py as it names those of a module in C: ``'mpi4py.MPI.Comm' object ...``.

It takes the names in its messages (``unhashable type``, ``has no attribute``) from a field of the type that Python code
cannot set by itself: a class that is written in Python has its short name there, and one in C the full name.
"""

from __future__ import annotations

import ctypes
from typing import Any

_kept: list[bytes] = []  # the interpreter keeps their addresses only
_HEAD = tuple.__basicsize__  # the size of what each object of variable size begins with; then comes the name


def give_full_names(names: dict[str, Any]) -> None:
    """Give the classes of `MPI` their full names, except those that are classes of Python in mpi4py, too."""
    for cls in names.values():
        if isinstance(cls, type) and cls.__module__ == "mpi4py.MPI" and not issubclass(cls, BaseException | int):
            name = ctypes.c_char_p.from_address(id(cls) + _HEAD)
            if name.value == cls.__name__.encode():
                _kept.append(f"mpi4py.MPI.{cls.__name__}".encode())
                name.value = _kept[-1]
