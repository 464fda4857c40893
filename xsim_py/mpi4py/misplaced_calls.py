"""Calls before MPI_Init and after MPI_Finalize: nearly every one ends the job, as in MPICH.

What is allowed there is said in MPI 4.1, 11.4.1: who asks for versions, for errors, for info objects or whether MPI has
begun or ended may do so at any time. So it is with all that a session gives, which here means with everything in a
process that has had one. (That Wtime and some other functions of the module work, too, is as in Open MPI.)

Nobody pays for this in a run in which no process comes to be outside: until one does, nothing is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from xsim_py.process.lifecycle import abort_job
from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Patches

from .commhandle import CommHandle
from .datatype import Datatype
from .file import File
from .group import Group
from .handle import Handle
from .op import Op
from .options import Options, when_taken
from .phase import of_process_now
from .request import Request
from .win import Win

__all__ = ["look_for_misplaced_calls", "refuse"]

_NAMED: tuple[tuple[type[Handle], str], ...] = (
    (CommHandle, "_comm"),
    (Datatype, "_live"),
    (File, "_file"),
    (Group, "_live"),
    (Op, "_live"),
    (Request, "_live"),
    (Request, "_task"),
    (Win, "_live"),
)
"""Calls come to the object that a handle names by way of these."""


def look_for_misplaced_calls() -> None:
    """Have the calls of processes refused from now on that are outside."""
    if current.host is None and not hasattr(CommHandle._comm, "__wrapped__"):
        for cls, name in _NAMED:
            Patches.latest.set(cls, name, _looking(getattr(cls, name)))


def _looking(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(function)
    def look(handle: Any) -> Any:
        phase = of_process_now()
        if (phase.finalized or not phase.initialized) and not phase.has_session:
            refuse("after MPI_Finalize" if phase.finalized else "before MPI_Init")
        return function(handle)

    return look


def refuse(when: str) -> None:
    """End the job, because of a call that is made outside."""
    abort_job(1, f"MPI is used {when}")


def _begin(options: Options) -> None:
    if not options.initialize:
        look_for_misplaced_calls()


when_taken(_begin)
