"""Hooks around the MPI calls of a program, for as long as a run lasts: what traces and failures by call site need.

A call counts once: what it calls itself (``Waitall`` waits for each request, a reduction calls the program's own
operation, which may call MPI) is inside it. Nor do the fibers of non-blocking collectives count, which stand for a
progress thread: only what the program's own threads call is a call of the program.

Nothing of this is there in a run that watches nothing: the calls are not wrapped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Any, TypeAlias

from xsim_py.mpi.failures.scheduled import doom_later
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
"""What stands for a call of any name."""

_FUNCTIONS = ("Init", "Init_thread", "Finalize")

Enter: TypeAlias = "Callable[[int, str, Fiber], object]"
Leave: TypeAlias = "Callable[[int, str, Fiber, BaseException | None], object]"


def _owners() -> list[type]:
    """The classes whose methods are MPI calls; what all handles have (their numbers) is none."""
    owners = set(measured_owners()) - {Handle}
    return sorted(owners, key=lambda cls: cls.__qualname__)


@cache
def known_calls() -> frozenset[str]:
    """The names that a call can have, spelled as in mpi4py, and `ANY_CALL`."""
    methods = {
        name
        for owner in _owners()
        for name, value in vars(owner).items()
        if not name.startswith("_") and (isinstance(value, classmethod) or callable(value))
    }
    return frozenset({*methods, *_FUNCTIONS, ANY_CALL})


class _Observer:
    """A watcher of the calls of some names, which knows the fibers that are inside one."""

    def __init__(self, names: Collection[str] | None, enter: Enter, leave: Leave) -> None:
        self.names = names
        self.enter = enter
        self.leave = leave
        self.inside: set[Fiber] = set()
        self.gone = False

    def go(self) -> None:
        """The run is over; a function that an installed module has imported stays wrapped, and does nothing more."""
        self.gone = True


def watch(patches: Patches, *, names: Collection[str] | None = None, enter: Enter, leave: Leave) -> None:
    """Have something called before and after each outermost MPI call, in the fiber that makes it.

    Install it before `process.ranks.meter`, so that the time of a program's own work has passed when a call begins.

    Parameters
    ----------
    patches : Patches
        Keeps what to put back.
    names : collection of str, optional
        Only for calls of these names; others still count as what a call may be inside of.
    enter : callable
        Takes the rank's number, the name of the call and the fiber.
    leave : callable
        Takes the same, and the exception that the call raised, or None. It is not called where a rank dies in a call.
    """
    observer = _Observer(names, enter, leave)
    patches.at_end(observer.go)
    wrap = partial(_watched, observer)
    patches.wrap_calls(_owners(), lambda _, name, function: wrap(name, function))
    for name in _FUNCTIONS:
        patches.set(MPI, name, wrap(name, getattr(MPI, name)))


def _watched(observer: _Observer, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    enter, leave, inside = observer.enter, observer.leave, observer.inside
    wanted = observer.names is None or name in observer.names

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        fiber = current.here()
        if fiber is None or fiber in inside or not is_program(fiber) or observer.gone:
            return function(*args, **kwargs)
        inside.add(fiber)
        number = fiber.rank.number
        if wanted:
            enter(number, name, fiber)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            inside.discard(fiber)
            if wanted:
                leave(number, name, fiber, error)
            raise
        inside.discard(fiber)
        if wanted:
            leave(number, name, fiber, None)
        return result

    return call


# -------------------------------------------------------------------------------------------- failures by call site


class _Trigger:
    """One call site, how many of its calls have begun, and how many whose names differ in the case of letters only."""

    __slots__ = ("begun", "others", "site")

    def __init__(self, site: CallSite) -> None:
        self.site = site
        self.begun = 0
        self.others = Counter[str]()

    def count(self, name: str) -> None:
        """Count a call that begins: mpi4py has another one for buffers than for objects, as Recv and recv."""
        if self.concerns(name):
            self.begun += 1
        elif name.lower() == self.site.name.lower():
            self.others[name] += 1

    def called_instead(self) -> str:
        """Return what the rank has called where the site's call has not come, if that may be what was meant."""
        if self.begun >= self.site.ordinal or not self.others:
            return ""
        (name, count), *_ = self.others.most_common(1)
        return f"rank {self.site.rank} called {name} {count:,} time{'s' * (count > 1)}; did you mean {name}?"

    def concerns(self, name: str) -> bool:
        """Return whether a call of this name is one that the site counts."""
        return self.site.name in (name, ANY_CALL)


def install_call_sites(
    patches: Patches, sites: Iterable[CallSite], kill: Callable[[Fiber, str], object]
) -> Callable[[], dict[str, str]]:
    """Have ranks killed at their calls.

    Parameters
    ----------
    patches : Patches
        Keeps what to put back.
    sites : iterable of CallSite
        Which rank, before, after or in which of its calls. Calls are counted from now on, for each site by itself.
    kill : callable
        Takes the running fiber and the site's cause, and does not return. Who is to die some time into a call is not
        killed by it, but by an event of that time.

    Returns
    -------
    callable
        Says by sites, as they are written, what ranks of this process have called instead that may be what was meant.
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
            if site.before == before and trigger.begun == site.ordinal and trigger.concerns(name):
                if site.into_ps is None:
                    kill(fiber, site.cause)
                else:
                    doom_later(fiber, site.cause, site.into_ps)

    def leave(number: int, name: str, fiber: Fiber, error: BaseException | None) -> None:
        reached(False, number, name, fiber)

    watch(patches, enter=enter, leave=leave)
    every = [trigger for listed in triggers.values() for trigger in listed]
    return lambda: {str(trigger.site): said for trigger in every if (said := trigger.called_instead())}
