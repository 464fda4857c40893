"""The collectives of `MPI.Comm` and `MPI.Intracomm`: signatures, and execution of plans.

The operations are in `collective_plans` and, for lower-case calls, in `object_plans`. A plan runs at once, in a
separate fiber, or at each start of a persistent request (MPI 4.1, 6.13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from xsim_py.mpi import errors
from xsim_py.mpi.calls import begin, channel, leave, note, record, refused, timed
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.failures.implicit import uniformly
from xsim_py.mpi.transport.message import Operation
from xsim_py.process.ranks import current

from . import collective_plans as plans
from . import neighbor_plans as neighbors
from . import object_plans as objects
from .call_table import COLLECTIVES, Collective
from .collective_plans import Plan
from .commhandle import CommHandle
from .handle import handle_of
from .info import INFO_NULL, Info
from .memory import KnownViews
from .methods import Method, add_methods
from .op import INSTANCES, Op
from .request import Prequest, Request, Task, persistent

__all__ = ["Collectives", "NeighborCollectives", "Scans", "handled", "persist", "plan_of", "run", "start"]

SUM = INSTANCES["SUM"]


def run(comm: Communicator, plan: Callable[..., Plan], name: str, *args: object) -> Any:
    """Prepare a plan and run it now."""
    if comm.implicit.uniform == "coll":
        return uniformly(comm, partial(_run_once, comm, plan, name, *args), name)
    fiber: Any = current.fiber
    start_ps = fiber.clock_ps
    ch = None
    try:
        size_bytes, body, ch = plan(comm, name, *args)
        result = body()
    except Exception as error:
        if ch is None:
            note_refusal(comm, name, error)
        else:
            leave(ch)
        if not isinstance(error, errors.Exception) or not comm.report(error):
            raise
        return None
    except BaseException:
        if ch is not None:
            leave(ch)
        raise
    record(comm, ch, size_bytes, fiber.clock_ps - start_ps)
    return result


def note_refusal(comm: Communicator, name: str, error: Exception) -> None:
    """Record for the deadlock report that this rank has not taken part in a call."""
    if not isinstance(error, errors.Exception):
        comm.fabric.order.refuse(comm, name, f"{type(error).__name__}: {error}")
    elif not errors.is_about_failures(error):
        comm.fabric.order.refuse(comm, name, str(error))


def _run_once(comm: Communicator, plan: Callable[..., Plan], name: str, *args: object) -> object:
    """Prepare a plan and run it now, without uniform error handling.

    The caller does that.
    """
    saved, comm.implicit = comm.implicit, comm.implicit._replace(uniform="agreed")
    try:
        return run(comm, plan, name, *args)
    finally:
        comm.implicit = saved


def start(comm: Communicator, plan: Callable[..., Plan], name: str, *args: Any) -> Request:
    """Prepare a plan and start it."""
    operation = refused(comm, None, collective=name)
    if operation is not None:
        channel(comm, note(name), admitted=True)  # it counts as a call nevertheless
        return handle_of(Request, Task(operation, comm=comm))
    try:
        planned = handled(comm, plan, comm, name, *args)
    except Exception as error:
        note_refusal(comm, name, error)
        raise
    if planned is None:
        return Request()
    return handle_of(Request, Task(begin(name, partial(timed, *planned)), comm=comm))


def handled(comm: Communicator, function: Callable[..., Any], *args: object) -> Any:
    """Call a function whose MPI errors go to the communicator's error handler.

    Return None if that handled one.
    """
    try:
        return function(*args)
    except errors.Exception as error:
        if not comm.report(error):
            raise
        return None


def persist(comm: Communicator, plan: Callable[..., Plan], name: str, *args: object) -> Prequest:
    """Initialise a persistent collective; wrong arguments are rejected now.

    It takes its number on the communicator now, and each start uses that number again: so processes may start the
    collectives they have initialised in any order. The arguments are read again at each start, when the buffers hold
    the data to send.
    """
    first = _numbers(comm)
    views = KnownViews()
    with views:
        handled(comm, plan, comm, name, *args)

    def start() -> Operation | None:
        operation = refused(comm, None, collective=name)
        if operation is not None:
            return operation
        now = _numbers(comm)
        counted = comm.fabric.order.counted
        counted.add(comm)
        _set_numbers(comm, first)
        try:
            with views:
                planned = handled(comm, plan, comm, name, *args)
        finally:
            _set_numbers(comm, now)
            counted.discard(comm)
        return None if planned is None else begin(name, partial(timed, *planned))

    return persistent(Task(None, None, comm), start)


def _numbers(comm: Communicator) -> tuple[int, int]:
    """Return how many collectives this rank has begun on the communicator and within its group."""
    return comm.collectives, 0 if comm.local is None else comm.local.collectives


def _set_numbers(comm: Communicator, numbers: tuple[int, int]) -> None:
    comm.collectives, local = numbers
    if comm.local is not None:
        comm.local.collectives = local


class Collectives(CommHandle):
    """The collective methods of `Comm`."""

    __slots__ = ()

    def Reduce_scatter_init(
        self,
        sendbuf: object,
        recvbuf: object,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
        info: Info = INFO_NULL,
    ) -> Prequest:
        comm, name = self._comm(), "Comm.Reduce_scatter_init"
        counts = handled(comm, plans.counts_of, comm, name, sendbuf, recvbuf, recvcounts)
        return persist(comm, plans.reduce_scatter, name, sendbuf, recvbuf, counts, op)


class Scans(CommHandle):
    """The reductions that only an `Intracomm` has."""

    __slots__ = ()


class NeighborCollectives(CommHandle):
    """The collectives of a `Topocomm` in which ranks exchange data with their neighbours only."""

    __slots__ = ()


def _methods(owner: str) -> Iterator[Method]:
    """Yield the methods of a class: each call in all its forms."""
    for row in COLLECTIVES.values():
        if row.owner == owner and row.name != "barrier":
            hows = ("return run", "Any") if row.is_of_objects else ("run", "None")
            for name, (how, returns) in zip(
                row.forms, (hows, ("return start", "Request"), ("return persist", "Prequest")), strict=False
            ):
                parameters = " ".join((*row.parameters, *("info",) * name.endswith("_init")))
                arguments = ", ".join((_plan(row), repr(f"{owner}.{name}"), *map(repr, _first(row)), *row.parameters))
                yield Method(name, parameters, returns, f"{how}(self._comm(), {arguments})")


def _plan(row: Collective) -> str:
    """Return the plan of a call: those of operations with blocks of different forms, or objects, share one."""
    name = row.name.lower()
    if row.is_of_neighbors:
        return f"neighbors.{name.removeprefix('neighbor_').rstrip('vw')}{'_objects' * row.is_of_objects}"
    return f"{'objects' if row.is_of_objects else 'plans'}.{'scan' if 'scan' in name else name.rstrip('vw')}"


def _first(row: Collective) -> Sequence[str | bool]:
    """Return the arguments that tell a plan which of its calls it is for."""
    name = row.name.lower()
    if "scan" in name:
        return [name == "exscan" if row.is_of_objects else name]
    if row.is_of_objects or row.reduces:
        return []
    return [each.blocks for each in (row.received, row.sent) if each is not None and each.blocks is not None][:1]


def plan_of(row: Collective) -> Callable[..., Plan]:
    """Return the plan of a call, which takes the communicator, the name, and the call's arguments."""
    module, _, name = _plan(row).partition(".")
    plan, first = getattr(_NAMES[module], name), _first(row)
    return lambda comm, name, *args: plan(comm, name, *first, *args)


_NAMES: dict[str, Any] = {
    "__name__": __name__,
    "__file__": __file__,
    "run": run,
    "start": start,
    "persist": persist,
    "plans": plans,
    "objects": objects,
    "neighbors": neighbors,
    "SUM": SUM,
    "INFO_NULL": INFO_NULL,
}

for _cls, _owner in ((Collectives, "Comm"), (Scans, "Intracomm"), (NeighborCollectives, "Topocomm")):
    add_methods(_cls, _NAMES, [method for method in _methods(_owner) if method.name not in vars(_cls)])
add_methods(Collectives, _NAMES, [Method("barrier", "", "None", "run(self._comm(), plans.barrier, 'Comm.Barrier')")])
