"""Hooks around the MPI calls of a program, for traces and failures by call site.

Only outermost calls count: calls made inside another (``Waitall`` waits for each request, a reduction calls the
program's operation, which may call MPI) do not. Nor do the fibers of nonblocking collectives, which represent a
progress thread: only calls from the program's own threads count.

Runs without hooks have unwrapped calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Any, TypeAlias

from xsim_py.mpi.failures.scheduled import schedule_failure_after
from xsim_py.process.python.threads import is_program
from xsim_py.process.ranks import current

from . import MPI
from ._install import measured_owners
from .handle import Handle

if TYPE_CHECKING:
    from xsim_py.failure import CallSite
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.patches import Patches

__all__ = ["ANY_CALL", "install_call_sites", "known_calls", "watch"]

ANY_CALL = "call"
"""Matches a call of any name."""

_FUNCTIONS = ("Init", "Init_thread", "Finalize")

Enter: TypeAlias = "Callable[[int, str, Fiber], object]"
Leave: TypeAlias = "Callable[[int, str, Fiber, BaseException | None], object]"


def _owners() -> list[type]:
    """Return the classes whose methods are MPI calls.

    Methods of all handles (their numbers) are not.
    """
    owners = set(measured_owners()) - {Handle}
    return sorted(owners, key=lambda cls: cls.__qualname__)


@cache
def known_calls() -> frozenset[str]:
    """Return the names of all calls, spelled as in mpi4py, and `ANY_CALL`."""
    methods = {
        name
        for owner in _owners()
        for name, value in vars(owner).items()
        if not name.startswith("_") and (isinstance(value, classmethod) or callable(value))
    }
    return frozenset({*methods, *_FUNCTIONS, ANY_CALL})


class _Observer:
    """An observer of calls with certain names, which tracks the fibers that are inside a call."""

    def __init__(self, names: Collection[str] | None, enter: Enter, leave: Leave) -> None:
        self.names = names
        self.enter = enter
        self.leave = leave
        self.inside: set[Fiber] = set()
        self.is_over = False

    def end(self) -> None:
        """End the observation.

        A function imported by an installed module stays wrapped, but does nothing more.
        """
        self.is_over = True


def watch(patches: Patches, *, names: Collection[str] | None = None, enter: Enter, leave: Leave) -> None:
    """Call hooks before and after each outermost MPI call, in the calling fiber.

    Install it before `process.ranks.meter`, so that the program's own compute time has passed when a call begins.

    Only calls with one of the `names`, if given, are observed; other calls still count as enclosing calls. `enter`
    takes the rank number, the name of the call and the fiber. `leave` takes the same, and the exception raised by the
    call, or None. It is not called if a rank dies in a call.
    """
    observer = _Observer(names, enter, leave)
    patches.at_end(observer.end)
    wrap = partial(_watched, observer)
    patches.wrap_calls(_owners(), lambda _, name, function: wrap(name, function))
    for name in _FUNCTIONS:
        patches.set(MPI, name, wrap(name, getattr(MPI, name)))


def _watched(observer: _Observer, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    enter, leave, inside = observer.enter, observer.leave, observer.inside
    is_observed = observer.names is None or name in observer.names

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        fiber = current.here()
        if fiber is None or fiber in inside or not is_program(fiber) or observer.is_over:
            return function(*args, **kwargs)
        inside.add(fiber)
        number = fiber.rank.number
        if is_observed:
            enter(number, name, fiber)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            inside.discard(fiber)
            if is_observed:
                leave(number, name, fiber, error)
            raise
        inside.discard(fiber)
        if is_observed:
            leave(number, name, fiber, None)
        return result

    return call


# -------------------------------------------------------------------------------------------- failures by call site


class _Trigger:
    """One call site, with its count of begun calls.

    Calls whose names differ only in case are counted separately.
    """

    __slots__ = ("begun", "others", "site")

    def __init__(self, site: CallSite) -> None:
        self.site = site
        self.begun = 0
        self.others = Counter[str]()

    def count(self, name: str) -> None:
        """Count a begun call.

        Buffer and object variants such as Recv and recv are counted separately.
        """
        if self.matches(name):
            self.begun += 1
        elif name.lower() == self.site.name.lower():
            self.others[name] += 1

    def called_instead(self) -> str:
        """Return a hint for a site never reached: a call of the rank that the user may have meant."""
        if self.begun >= self.site.ordinal or not self.others:
            return ""
        (name, count), *_ = self.others.most_common(1)
        return f"rank {self.site.rank} called {name} {count:,} time{'s' * (count > 1)}; did you mean {name}?"

    def matches(self, name: str) -> bool:
        """Return True if the site counts calls of this name."""
        return self.site.name in (name, ANY_CALL)


def install_call_sites(
    patches: Patches, sites: Iterable[CallSite], kill: Callable[[Fiber, str], object]
) -> Callable[[], dict[str, str]]:
    """Kill ranks at their calls.

    A site has the rank and call of a failure, and whether it comes before, in or after the call. Calls are counted from
    now on, separately for each site. `kill` takes the running fiber and the site's cause, and does not return; for a
    failure at some time into a call an event is scheduled instead. The returned function maps sites, as written, to
    hints about similar calls of this process's ranks.
    """
    triggers: dict[int, list[_Trigger]] = {}
    for site in sites:
        triggers.setdefault(site.rank, []).append(_Trigger(site))
    if not triggers:
        return dict

    def enter(number: int, name: str, fiber: Fiber) -> None:
        for trigger in triggers.get(number, ()):
            trigger.count(name)
        reached(True, number, name, fiber)

    def reached(before: bool, number: int, name: str, fiber: Fiber) -> None:
        for trigger in triggers.get(number, ()):
            site = trigger.site
            if site.before == before and trigger.begun == site.ordinal and trigger.matches(name):
                if site.into_ps is None:
                    kill(fiber, site.cause)
                else:
                    schedule_failure_after(fiber, site.cause, site.into_ps)

    def leave(number: int, name: str, fiber: Fiber, error: BaseException | None) -> None:
        reached(False, number, name, fiber)

    watch(patches, enter=enter, leave=leave)
    every = [trigger for listed in triggers.values() for trigger in listed]
    return lambda: {str(trigger.site): hint for trigger in every if (hint := trigger.called_instead())}
