"""Parts of repeated collectives: outcomes without a root, undoing of in-place attempts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

from xsim_py.config import ResilienceSpec
from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi4py.bufspec import is_in_place, receiver
from xsim_py.mpi4py.call_table import COLLECTIVES

from .alias import Alias, give_up, options_of

__all__ = ["NO_ROOT", "ROOTED", "check_root", "undo_in_place", "without_root"]

_OPTIONS: Final = {each.name: each.name for each in fields(ResilienceSpec)} | {"bcast": "broadcast"}
ROOTED: Final = {
    row.name: _OPTIONS[row.name.lower()]
    for row in COLLECTIVES.values()
    if row.has_root and row.name.lower() in _OPTIONS
}
"""The covered operations with a root, and the option for its failure."""

NO_ROOT: Final = object()
"""The result of an operation whose root all agree has failed."""

_IN_PLACE: Final = ("Reduce", "Allreduce", "Scan", "Gather")


def check_root(outer: Communicator, root: int) -> None:
    """Raise ERR_ROOT for a root that is not a rank of the program's communicator."""
    if not 0 <= root < outer.context.size:
        errors.fail(c.ERR_ROOT, f"root {root} is not in 0..{outer.context.size - 1}")


def without_root(alias: Alias, operation: str, name: str, args: tuple[Any, ...]) -> Any | None:
    """Apply the option for an operation whose root has failed.

    The option ``skip`` leaves all data unchanged.
    """
    how = getattr(options_of(alias.outer), ROOTED[operation])
    give_up(alias.outer, how, name, f"its root, rank {args[-1]}, has failed")
    return args[0] if operation == "bcast" else None


def undo_in_place(operation: str, args: tuple[Any, ...]) -> Callable[[], object] | None:
    """Return a function that restores an in-place operand after a failed attempt, or None."""
    if operation not in _IN_PLACE:
        return None
    sendbuf, recvbuf = args[:2]
    if not is_in_place(sendbuf):
        return None
    target = receiver(recvbuf)
    before = target.pack()
    return lambda: target.unpack(before)
