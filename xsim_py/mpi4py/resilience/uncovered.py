"""The calls that the layer rejects: with a failed process they would fail or wait forever."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from xsim_py.mpi4py.comm import Comm, Intercomm, Intracomm
from xsim_py.mpi4py.file import File
from xsim_py.mpi4py.management import Management
from xsim_py.mpi4py.partitioned import Partitioned
from xsim_py.mpi4py.processes import ProcessCreation
from xsim_py.mpi4py.topologies import Topologies
from xsim_py.mpi4py.win import Win
from xsim_py.process.ranks.patches import Patches

from .alias import not_covered

__all__ = ["install_refusals", "uncovered_calls"]

_NAMED: Final[dict[type, str]] = {
    Management: "Idup Idup_with_info",
    Topologies: "Create_cart Create_graph Create_dist_graph_adjacent Create_dist_graph Cart_map Graph_map",
    ProcessCreation: "Spawn Spawn_multiple Accept Connect",
    Partitioned: "Psend_init Precv_init",
    Comm: "Join",
    Intracomm: "Create_intercomm",
    Intercomm: "Create_from_groups Merge",
    Win: "Allocate_shared Create_dynamic Attach Detach Accumulate Get_accumulate Fetch_and_op Compare_and_swap Rput "
    "Rget Raccumulate Rget_accumulate Start Complete Post Wait Test Lock Unlock Lock_all Unlock_all Flush Flush_all "
    "Flush_local Flush_local_all",
}

_REACHING: Final = ("Accept", "Connect", "Create_intercomm")
"""The rejected calls that reach other processes.

They are also rejected on a communicator of one process.
"""


def uncovered_calls() -> list[tuple[type, str]]:
    """Return the rejected methods, each with its class, except for uncovered collectives."""
    named = [(owner, name) for owner, names in _NAMED.items() for name in names.split()]
    for name in vars(File):
        is_split = name.endswith(("_begin", "_end"))
        is_shared = name.endswith(("_shared", "_ordered")) and not name.startswith("_")
        is_background = name.startswith("I") and name.endswith("_all")
        if is_split or is_shared or is_background:
            named.append((File, name))
    return named


def install_refusals(patches: Patches) -> None:
    """Make these calls raise an error, unless they concern only this process."""
    for owner, name in uncovered_calls():
        value = vars(owner)[name]
        if isinstance(value, classmethod):
            patches.set(owner, name, classmethod(_refusing(owner, name, value.__func__)))
        else:
            patches.set(owner, name, _refusing(owner, name, value))


def _refusing(owner: type, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, type) and name not in _REACHING and _is_alone(self):
            return function(self, *args, **kwargs)
        kind = owner.__name__ if owner in (File, Intercomm, Win) else "Comm"
        return not_covered(f"{kind}.{name}")

    return call


def _is_alone(handle: Any) -> bool:
    """Return True if a handle's communicator, window or file has only one process."""
    if isinstance(handle, Win):
        return handle._window().comm.context.size == 1
    if isinstance(handle, File):
        return handle._file().comm.context.size == 1
    comm = handle._comm()
    return comm.local is None and comm.context.size == 1
