"""What of mpi4py is not simulated yet: one table, and the stubs made from it.

Every entry raises `NotImplementedError` with its MPI name when a program uses it, so a program that needs it stops
there and not somewhere later. The table of the documentation (docs/reference/api.md) is made from this one; a test
compares both with mpi4py's own list of names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from xsim_py.errors import InternalError

__all__ = ["MISSING", "fill", "stub"]

MISSING: dict[str, dict[str, str]] = {}
"""What is missing: by subject, mpi4py's name and MPI's."""

_ENTRIES = {name: (mpi_name, subject) for subject, names in MISSING.items() for name, mpi_name in names.items()}

C = TypeVar("C", bound=type)


def stub(name: str) -> Callable[..., NoReturn]:
    """Make a function that says that `name` (``"Open_port"``, ``"Win.Create"``) is not there."""
    mpi_name, subject = _ENTRIES[name]

    def not_simulated(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(
            f"{mpi_name} is not simulated yet: {subject}. The API table in the documentation (docs/reference/api.md) "
            "says what is."
        )

    not_simulated.__name__ = name.rpartition(".")[2]
    not_simulated.__qualname__ = name
    not_simulated.__module__ = "mpi4py.MPI"
    return not_simulated


def fill(cls: C) -> C:
    """Add to a class the stubs that the table lists for it; a class decorator.

    What begins with a small letter is read without a call, so its stub is a property.
    """
    for name in _ENTRIES:
        owner, _, attribute = name.rpartition(".")
        if owner != cls.__name__:
            continue
        if hasattr(cls, attribute):
            raise InternalError(f"MPI.{name} is there, and listed as missing")
        setattr(cls, attribute, property(stub(name)) if attribute[0].islower() else stub(name))
    return cls
