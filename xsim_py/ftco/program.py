"""Questions of a program about collectives by FTCO, and its wishes; see `xsim_py.ftco`.

Nothing is imported here before a call, so that a program loses no time if nobody simulates it.
"""

from __future__ import annotations

from typing import Any


def failed(comm: Any) -> list[int]:
    """Which ranks of a communicator this rank knows to be dead, however it came to know it.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        A communicator of the simulated program.

    Returns
    -------
    list of int
        Ranks in `comm`, ascending (of an intercommunicator, of the local group). The same as ``comm.Get_failed()``,
        without a group. Ranks need not agree on it: each knows what it has found itself and what others have told it.

    Raises
    ------
    XsimError
        The program is not being simulated.
    """
    state = _state(comm, "failed")
    return sorted(state.context.places(state.failed_members()))


def missing(comm: Any) -> list[int]:
    """Whose contributions the last collective by FTCO that this rank has completed on a communicator lacked.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        A communicator of the simulated program.

    Returns
    -------
    list of int
        Ranks in `comm`, ascending; of a Bcast or Scatter the root, if its data was lost with it. All ranks that get a
        result have the same list for it; of a Reduce or Gather only the root knows, and the others have an empty one.
        The contribution of a rank that died during or after an operation may be in its result.

    Raises
    ------
    XsimError
        The program is not being simulated.
    """
    return sorted(_state(comm, "missing").missing)


def replace(comm: Any, value: Any) -> None:
    """Say what stands for the contributions of the dead in collectives by FTCO from now on.

    All members must ask for the same, like the arguments of a collective: each rank puts it into its own result.
    Duplicates of `comm` do not inherit it.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        A communicator of the simulated program.
    value : object or callable
        A value; or a function that gets the rank (in `comm`) of who is missing and returns one, which must depend on
        that rank only and must not call MPI. For calls with buffers it is a number, which all elements are set to, an
        array with as many elements, or bytes of the same length; for calls with objects it is any object. In a
        reduction it is an operand, in a gather a block or an element, and in a Bcast or Scatter what a receiver gets if
        the root's data was lost. None: leave them out again, as the machine's ``mpi.ftco.missing`` says.

    Raises
    ------
    XsimError
        The program is not being simulated.
    """
    _state(comm, "replace").replacement = None if value is None else (value,)


def _state(comm: Any, name: str) -> Any:
    """The simulated communicator behind a handle of the program."""
    from xsim_py.errors import XsimError
    from xsim_py.process.ranks import current

    if current.here() is None or not hasattr(comm, "_comm"):
        raise XsimError(
            f"xsim_py.ftco.{name}: this needs a simulated communicator, and there is none here; "
            "run the program by: xsim run -n N --collectives ftco PROGRAM"
        )
    return comm._comm()
