"""Replacement of the real mpi4py by the simulated one during a run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from xsim_py.mpi import per_process
from xsim_py.mpi.calls import complete_pending
from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Patches

from . import MPI, code_tables, functions, options, rc
from .pickling import reset_changes

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

__all__ = ["PRIVATE", "bind_tables", "install_interface", "unfinalized"]

PRIVATE = ("mpi4py.futures", "mpi4py.util.pkl5", "mpi4py.util.pool")
"""Modules of mpi4py that are private to each process: they keep its threads, datatypes and pools."""


def install_interface(patches: Patches, namespace: dict[str, Any] | None) -> None:
    """Make ``import mpi4py`` in a program find the simulated package.

    Restore the real one at the end. `namespace` has the globals of a function to simulate: its references to the real
    mpi4py are replaced, because in a notebook the import is in a separate cell.
    """
    real = _remove_modules()
    patches.at_end(lambda: (_remove_modules(), sys.modules.update(real)))
    reset_changes()
    code_tables.reset_changes()
    if namespace is not None and "mpi4py.MPI" in real:
        _substitute(patches, namespace, real)
    sys.modules["mpi4py"] = package = sys.modules[__package__]
    _name(patches, package, "mpi4py")  # ``from mpi4py import ...`` looks for modules under it
    sys.modules["mpi4py.MPI"] = MPI
    _name(patches, MPI, "mpi4py.MPI")
    sys.modules["mpi4py.rc"] = rc  # type: ignore[assignment]
    bind_tables()
    patches.at_end(lambda: per_process.bind(None) if current.host is None else None)
    options.read_environment()


def _name(patches: Patches, module: ModuleType, name: str) -> None:
    """Give a module the names of the real one."""
    spec = module.__spec__
    assert spec is not None
    patches.set(spec, "name", name)
    patches.set(module, "__package__", spec.parent)
    patches.set(module, "__name__", name)


def bind_tables() -> None:
    """Make per-process tables those of the running rank."""
    per_process.bind(_table_of_rank)


def _remove_modules() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if "mpi4py" in name and name.partition(".")[0] == "mpi4py"]
    return {name: sys.modules.pop(name) for name in names}


@cache
def _twins(real: ModuleType) -> dict[int, tuple[Any, Any]]:
    """Return each object of the real module with the simulated one, by its address."""
    return {id(value): (value, getattr(MPI, name)) for name, value in vars(real).items() if hasattr(MPI, name)}


def _substitute(patches: Patches, namespace: dict[str, Any], real: dict[str, ModuleType]) -> None:
    twins = _twins(real["mpi4py.MPI"])
    for name, value in list(namespace.items()):
        if value is real["mpi4py.MPI"]:
            patches.put(namespace, name, MPI)
        elif value is real["mpi4py"]:
            patches.put(namespace, name, sys.modules[__package__])
        elif "mpi4py.MPI" in (type(value).__module__, getattr(value, "__module__", None)) and id(value) in twins:
            patches.put(namespace, name, twins[id(value)][1])


def _table_of_rank(name: str, make: Callable[[], Any]) -> Any:
    fiber = current.fiber
    if fiber is None:
        return make()
    rank = fiber.rank
    box = rank.mpi or rank.shard.fabric.open(rank)
    return box.of_process(name, make)


def unfinalized(rank: Rank) -> bool:
    """Return True if a rank has skipped MPI_Finalize.

    mpi4py calls it at exit unless `mpi4py.rc` disables that.
    """
    complete_pending(rank)
    if options.current_options().finalize or rank.mpi is None:
        return False
    return functions.Is_initialized() and not functions.Is_finalized()
