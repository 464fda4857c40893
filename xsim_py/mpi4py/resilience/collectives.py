"""Collective calls under the layer: each is repeated until all agree that it succeeded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from xsim_py.mpi import management as manage
from xsim_py.mpi.calls import leave, record
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi4py.call_table import COLLECTIVES
from xsim_py.mpi4py.collective_calls import plan_of
from xsim_py.mpi4py.collective_plans import Plan
from xsim_py.mpi4py.door import Callee
from xsim_py.mpi4py.object_context import ObjectContext
from xsim_py.mpi4py.options import current_options
from xsim_py.process.ranks import current

from . import blocks, hierarchy
from .alias import Alias, alias_of, is_about_failures, not_covered, options_of
from .attempts import NO_ROOT, ROOTED, check_root, undo_in_place, without_root

__all__ = ["replacement"]

_BLOCKS: Final[dict[str, Callable[..., Plan]]] = {
    "Gather": blocks.gather,
    "gather": blocks.gather_objects,
    "Scatter": blocks.scatter,
    "scatter": blocks.scatter_objects,
}
_COVERED: Final = (*ROOTED, "Barrier", "Allreduce", "allreduce", "Scan", "scan")
_ON_DUPLICATES: Final = ("reduce", "allreduce", "scan")
_ROWS: Final = {form: row for row in COLLECTIVES.values() for form in row.forms}


def replacement(method: Callee) -> Callable[..., Any] | None:
    """Return what replaces a method, and takes it before the arguments; None unless it is a collective of the table."""
    row = COLLECTIVES["Barrier"] if method.name == "barrier" else _ROWS.get(method.name)
    if row is None:
        return None
    if row.name in _COVERED and method.name in (row.name, "barrier"):
        return partial(_run, row.name, plan_of(row), f"{row.owner}.{row.name}")
    return partial(_reject, f"{row.owner}.{method.name}")


def _reject(name: str, go: Callable[..., Any], self: object, *args: object) -> object:
    """Raise an error, unless the call concerns only this process."""
    return go(self, *args) if _comm_of(self, name).context.size == 1 else not_covered(name)


def _comm_of(self: Any, name: str) -> Communicator:
    comm: Communicator = self._comm()
    if comm.local is not None:
        not_covered(f"{name} on an intercommunicator")
    return comm


def _run_once(comm: Communicator, plan: Callable[..., Plan], name: str, *args: object) -> Any:
    """Make one attempt of a collective call, like `collective_calls.run` without the layer."""
    fiber: Any = current.fiber
    start_ps = fiber.clock_ps
    size_bytes, body, ch = plan(comm, name, *args)
    try:
        result = body()
    except Exception as error:
        if not is_about_failures(error):
            leave(ch)
        raise
    record(comm, ch, size_bytes, fiber.clock_ps - start_ps)
    return result


def _run(operation: str, plan: Callable[..., Plan], name: str, go: object, self: object, *args: object) -> object:
    """Make a blocking collective call that tolerates failures of members."""
    comm = _comm_of(self, name)
    alias = alias_of(comm)
    alias.await_agreement()  # it uses the root of the previous call
    if operation in _ON_DUPLICATES and comm.object_context is None and current_options().fast_reduce:
        _duplicate_below(alias, name)
    group = options_of(comm).group
    if group is not None and operation in hierarchy.OPERATIONS:
        result = hierarchy.run(alias, group, plan, name, operation, args)
    else:
        result = _flat(alias, plan, name, operation, args)
    if result is NO_ROOT:
        result = without_root(alias, operation, name, args)
    return result if operation.islower() else None


def _duplicate_below(alias: Alias, name: str) -> None:
    """Make the duplicate that mpi4py needs for reductions of objects; it is not a call."""
    alias.outer.object_context = ObjectContext()
    alias.run_collective(lambda inner: manage.agree_on_duplicate(inner, name))
    alias.report_name.counted -= 1
    alias.report_name.apply_to(alias.inner)


def _flat(alias: Alias, plan: Callable[..., Plan], name: str, operation: str, args: tuple[Any, ...]) -> object:
    option = ROOTED.get(operation)
    alias.report_name.root = None if option is None else args[-1]
    plan = partial(_inner_plan, alias, operation, plan)

    def act(inner: Communicator) -> object:
        if option is None:
            return _run_once(inner, plan, name, *args)
        check_root(alias.outer, args[-1])
        place = alias.place(args[-1])
        return NO_ROOT if place is None else _run_once(inner, plan, name, *args[:-1], place)

    return alias.run_collective(act, restore=undo_in_place(operation, args), name=name)


def _inner_plan(alias: Alias, operation: str, plan: Callable[..., Plan], comm: Communicator, *args: object) -> Plan:
    """Return the plan of a call on the inner communicator."""
    block_plan = _BLOCKS.get(operation)
    if block_plan is None:
        return plan(comm, *args)
    options, (name, *rest) = options_of(comm), args
    shift = options.gather_shift if "ather" in operation else options.scatter_shift
    return block_plan(comm, name, alias.outer, shift, *rest)
