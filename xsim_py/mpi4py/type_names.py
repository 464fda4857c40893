"""Full type names in interpreter messages: ``'mpi4py.MPI.Comm' object ...``.

The interpreter takes the names in its messages (``unhashable type``, ``has no attribute``) from a field of the type
that Python code cannot set directly: a class written in Python has its short name there, a class in C its full name.
"""

from __future__ import annotations

import ctypes
from typing import Any

_kept: list[bytes] = []  # the interpreter keeps only their addresses
_HEAD = tuple.__basicsize__  # the size of the header of a variable-size object; the name follows


def give_full_names(names: dict[str, Any]) -> None:
    """Set the full names of the classes of `MPI`.

    Those that are Python classes in mpi4py, too, are exempt.
    """
    for cls in names.values():
        if isinstance(cls, type) and cls.__module__ == "mpi4py.MPI" and not issubclass(cls, BaseException | int):
            name = ctypes.c_char_p.from_address(id(cls) + _HEAD)
            if name.value == cls.__name__.encode():
                _kept.append(f"mpi4py.MPI.{cls.__name__}".encode())
                name.value = _kept[-1]
