"""Calls before MPI_Init and after MPI_Finalize: nearly all of them end the job, as in MPICH.

MPI 4.1, 11.4.1, defines the exceptions: queries of versions, errors, info objects and of the state of MPI are allowed
at any time, as is everything obtained from a session, which here means everything in a process that has had one. (As in
Open MPI, Wtime and some other functions of the module work, too.)

Runs in which no process leaves this interval pay nothing: calls are checked only from then on.
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
from .options import Options, on_unusual_options
from .phase import of_process_now
from .request import Request
from .win import Win

__all__ = ["abort_misplaced", "reject_misplaced_calls"]

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
"""The methods through which calls access the object of a handle."""


def reject_misplaced_calls() -> None:
    """Reject calls outside MPI_Init and MPI_Finalize from now on."""
    if current.host is None and not hasattr(CommHandle._comm, "__wrapped__"):
        for cls, name in _NAMED:
            Patches.latest.set(cls, name, _checking(getattr(cls, name)))


def _checking(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(function)
    def check(handle: object) -> Any:
        phase = of_process_now()
        if (phase.finalized or not phase.initialized) and not phase.has_session:
            abort_misplaced("after MPI_Finalize" if phase.finalized else "before MPI_Init")
        return function(handle)

    return check


def abort_misplaced(when: str) -> None:
    """End the job because of a misplaced call."""
    if current.events is not None:
        current.events.misplaced(when)
    abort_job(1, f"MPI is used {when}")


def _begin(options: Options) -> None:
    if not options.initialize:
        reject_misplaced_calls()


on_unusual_options(_begin)
