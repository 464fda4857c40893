"""A layer between program and library that lets an unmodified program tolerate failures.

It does what Legio does (Rocco, Gadioli and Palermo 2021; see ``docs/guides/legio-and-non-collective-repair.md``), in
the same position: it intercepts calls of the program, as by PMPI, and passes them to the simulated MPI library. Calls
that it covers are replaced at the door; those that would fail or wait forever with a failed process are rejected; and
after a failure messages consult its guard.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from xsim_py.mpi4py.comm import Intercomm
from xsim_py.mpi4py.door import BoundCall, Callee, Handlers, Tool, methods_of
from xsim_py.mpi4py.file import File
from xsim_py.mpi4py.inside import comm_of, file_of, window_of
from xsim_py.mpi4py.win import Win

from . import collectives, communicators, openfiles, windows
from .alias import not_covered
from .messages import TolerantGuard

__all__ = ["Legio", "TolerantGuard"]

_COVERED: Final[dict[str, Callable[..., Any]]] = {**communicators.COVERED, **windows.COVERED, **openfiles.COVERED}
"""The function for each covered call that is not a collective, by the title of the call.

It takes the method, and the arguments of the call.
"""
_UNCOVERED: Final = {
    "Comm": "Idup Idup_with_info Create_cart Create_graph Create_dist_graph_adjacent Create_dist_graph Cart_map "
    "Graph_map Spawn Spawn_multiple Accept Connect Psend_init Precv_init Join Create_intercomm Create_from_groups "
    "Merge",
    "Win": "Allocate_shared Create_dynamic Attach Detach Accumulate Get_accumulate Fetch_and_op Compare_and_swap Rput "
    "Rget Raccumulate Rget_accumulate Start Complete Post Wait Test Lock Unlock Lock_all Unlock_all Flush Flush_all "
    "Flush_local Flush_local_all",
    "File": " ".join(name for name in methods_of(File) if openfiles.is_uncovered(name)),
}
_REJECTED: Final = {f"{kind}.{name}" for kind, names in _UNCOVERED.items() for name in names.split()}

_REACHING: Final = ("Comm.Accept", "Comm.Connect", "Comm.Create_intercomm")
"""The rejected calls that reach other processes.

They are also rejected on a communicator of one process.
"""


class Legio(Tool):
    """The layer."""

    def handlers(self, method: Callee) -> Handlers | None:
        """Return what replaces the calls of a method."""
        act = _COVERED.get(method.title) or collectives.replacement(method)
        if method.title in _REJECTED:
            act = partial(_reject, method)
        return None if act is None else Handlers(instead=partial(_replace, act), bound=True)


def _replace(act: Callable[..., Any], call: BoundCall, go: Callable[..., Any]) -> Any:
    assert call.arguments is not None
    return act(go, *call.arguments)


def _reject(method: Callee, go: Callable[..., Any], handle: object, *args: object) -> object:
    """Raise an error, unless the call concerns only this process."""
    if not isinstance(handle, type) and method.title not in _REACHING and _is_alone(handle):
        return go(handle, *args)
    return not_covered(f"Intercomm.{method.name}" if method.owner is Intercomm else method.title)


def _is_alone(handle: object) -> bool:
    """Return True if a handle's communicator, window or file has only one process."""
    if isinstance(handle, Win):
        comm = window_of(handle).comm
    else:
        comm = file_of(handle).comm if isinstance(handle, File) else comm_of(handle)
    return comm.local is None and comm.context.size == 1
