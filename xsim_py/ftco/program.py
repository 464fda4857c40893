"""Queries and settings of a program for FTCO collectives; see `xsim_py.ftco`.

Imports happen inside the calls, so that a program that is not simulated starts fast.
"""

from __future__ import annotations

from typing import Any


def failed(comm: object) -> list[int]:
    """Return the ranks of a communicator that this rank knows to have failed, from any source.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        A communicator of the simulated program.

    Returns
    -------
    list of int
        Ranks in `comm`, ascending (of an intercommunicator: in the local group). They equal those of
        ``comm.Get_failed()``. Ranks may have different lists: each knows the failures that it detected and those it was
        notified of.

    Raises
    ------
    XsimError
        The program is not simulated.
    """
    state = _state(comm, "failed")
    return sorted(state.context.places(state.failed_members()))


def missing(comm: object) -> list[int]:
    """Return the ranks whose contributions the last FTCO collective of this rank lacks.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        A communicator of the simulated program.

    Returns
    -------
    list of int
        Ranks in `comm`, ascending; for a Bcast or Scatter the root, if its data was lost. All ranks that get a result
        have the same list for it; after a Reduce or Gather only the root has it, and the others an empty list. The
        result may contain the contribution of a rank that failed during or after the operation.

    Raises
    ------
    XsimError
        The program is not simulated.
    """
    return sorted(_state(comm, "missing").missing)


def replace(comm: object, value: object) -> None:
    """Set the value that replaces contributions of failed ranks in later FTCO collectives.

    All members must set the same value, because each rank uses it for its own result. Duplicates of `comm` do not
    inherit it.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        A communicator of the simulated program.
    value : object or callable
        A value; or a function that returns the value for a missing rank (in `comm`). The function must depend only on
        that rank and must not call MPI. For calls with buffers the value is a number for all elements, an array of the
        same length, or bytes of the same length; for calls with objects, any object. It is an operand in a reduction, a
        block or an element in a gather, and the received data in a Bcast or Scatter whose root's data was lost. None
        restores the machine's ``mpi.ftco.missing``.

    Raises
    ------
    XsimError
        The program is not simulated.
    """
    _state(comm, "replace").replacement = None if value is None else (value,)


def _state(comm: object, name: str) -> Any:
    """Return the simulated communicator of a handle of the program."""
    from xsim_py.errors import XsimError
    from xsim_py.process.ranks import current

    if current.here() is None or not hasattr(comm, "_comm"):
        raise XsimError(
            f"xsim_py.ftco.{name}: needs a simulated communicator; "
            "run the program by: xsim run -n N --collectives ftco PROGRAM"
        )
    from xsim_py.mpi4py.inside import comm_of

    return comm_of(comm)
