"""Windows under the layer: re-created after a repair, with the operations of the open epoch.

Only Fence synchronises, as in Legio. The Put and Get operations begun since the last successful Fence are begun again
in the new window, so an epoch is complete among the survivors when its Fence returns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from xsim_py.mpi import attributes as attrs
from xsim_py.mpi import errors
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.per_process import of_process
from xsim_py.mpi.rma import create as make
from xsim_py.mpi.rma import synchronise as order
from xsim_py.mpi.rma.service import windows_of
from xsim_py.mpi.rma.window import Window
from xsim_py.mpi4py.comm import Intracomm
from xsim_py.mpi4py.handle import handle_of
from xsim_py.mpi4py.inside import comm_of, window_of
from xsim_py.mpi4py.plain_arguments import integer
from xsim_py.mpi4py.win import Win

from .alias import Alias, alias_of, attempt_call, give_up, is_failure, options_of, raise_on

__all__ = ["COVERED"]


class _Operation(NamedTuple):
    """A Put or a Get, which may be begun again."""

    option: str
    function: Callable[..., Any]
    origin: Any
    target_rank: int
    target: Any


class AliasedWindow:
    """A window of the program, and its current replacement."""

    __slots__ = ("alias", "current", "earlier", "first", "inner", "pending", "problem", "report_name")

    def __init__(self, alias: Alias, first: Window, inner: Communicator) -> None:
        self.alias = alias  # of the communicator on which it was created
        self.first = self.current = first  # the window of the program's handles, and the current one, over `inner`
        self.inner = inner
        self.earlier: list[Window] = []  # a late message for one of them may be in flight
        self.pending: list[_Operation] = []  # begun since the last successful Fence
        # The first error of an operation that was begun again: the Fence raises it after the agreement.
        self.problem: errors.Exception | None = None
        size = alias.outer.context.size
        # Of `current` in reports, with ranks of the communicator on which it was created.
        self.report_name = alias.report_name_for(f"a window of {size} rank{'s' * (size > 1)}")
        self.report_name.apply_to(first.comm)

    def run_collective(self, act: Callable[[Window], None]) -> None:
        """Make a collective call on the current window among the survivors."""
        self.alias.run_collective(lambda inner: act(self.on_inner(inner)), begun=lambda: self.current.comm.collectives)
        self.report_name.done(self.current.comm)

    def on_inner(self, inner: Communicator) -> Window:
        """Return the window over an inner communicator, re-created if that has changed."""
        if inner is not self.inner:
            first = self.first
            self.earlier.append(self.current)
            self.current = make.create(inner, "Win.Create", first.flavor, first.memory, first.unit, first.origin)
            self.inner = inner
            self.alias.report_name.apply_to(inner)
            self.report_name.apply_to(self.current.comm)
            order.fence(self.current, 0)
            self.report_name.apply_to(self.current.comm)
            for operation in self.pending:
                try:
                    self.do(operation)
                except errors.Exception as error:
                    self.problem = self.problem or error
        return self.current

    def do(self, operation: _Operation) -> None:
        """Begin a Put or a Get, or skip it if its target has failed."""
        place = self.alias.place(operation.target_rank, self.current.comm)
        option, function, origin, _, target = operation
        comm, error = self.first.comm, None
        if place is not None:
            face = handle_of(Win, self.current)
            _, error = attempt_call(self.current.comm, function, face, origin, place, target)
        if error is not None and not is_failure(error):
            raise_on(comm, error)
        elif place is None or error is not None:
            why = f"its target, rank {operation.target_rank}, has failed"
            give_up(comm, getattr(options_of(comm), option), f"Win.{option.title()}", why)


def _aliased_windows() -> dict[Window, AliasedWindow]:
    found: dict[Window, AliasedWindow] = of_process("aliased windows", dict)
    return found


def _create(go: Callable[..., Any], cls: type[Win], *args: object) -> object:
    """Create a window over the survivors."""
    if not isinstance(args[-1], Intracomm):
        return go(cls, *args)  # which rejects it
    alias = alias_of(comm_of(args[-1]))
    created = alias.run_collective(lambda inner: go(cls, *args[:-1], handle_of(Intracomm, inner)))
    if created is None:
        return cls()
    first = window_of(created)
    _aliased_windows()[first] = AliasedWindow(alias, first, alias.inner)
    return created


def _begin(option: str, go: Callable[..., Any], self: Win, origin: object, target_rank: int, target: object) -> None:
    """Begin a Put or a Get, which is repeated if its epoch fails."""
    operation = _Operation(option, go, origin, integer(target_rank), target)
    aliased = _aliased_windows()[self._window()]
    aliased.do(operation)
    aliased.pending.append(operation)


def _fence(go: object, self: Win, assertion: int) -> None:
    """End an epoch and begin the next, among the survivors."""
    assertion = integer(assertion)
    aliased = _aliased_windows()[self._window()]
    order.check_fence(assertion)
    aliased.run_collective(lambda window: order.fence(window, assertion))
    aliased.pending.clear()
    problem, aliased.problem = aliased.problem, None
    if problem is not None:
        raise problem


def _free(go: object, self: Win) -> None:
    """Free the window, when all survivors have called it."""
    first = self._window()
    aliased = _aliased_windows()[first]
    aliased.run_collective(make.free)
    attrs.delete_all(self, first.comm.attributes)
    for window in aliased.earlier:
        windows_of(window.comm.box).pop(window.comm.cid, None)
        window.comm.box.background -= 1
        window.freed = True
    del _aliased_windows()[first]
    self._impl = self._null


COVERED: Final[dict[str, Callable[..., Any]]] = {
    "Win.Create": _create,
    "Win.Allocate": _create,
    "Win.Put": partial(_begin, "put"),
    "Win.Get": partial(_begin, "get"),
    "Win.Fence": _fence,
    "Win.Free": _free,
    "Win.free": lambda go, self: _free(go, self) if self else None,
}
