"""Failures at MPI calls: a rank is killed before, in or after a call.

Only outermost calls count, and only those of the program's own threads; see `door`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from xsim_py.mpi.failures.scheduled import schedule_failure_after

from .door import ANY_CALL, Call, Handlers, Method, Tool, is_mpi_call

if TYPE_CHECKING:
    from xsim_py.failure import CallSite
    from xsim_py.process.ranks.fiber import Fiber

__all__ = ["FailingCalls"]


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


class FailingCalls(Tool):
    """Kills ranks at their calls.

    A site has the rank and call of a failure, and whether it comes before, in or after the call. `kill` takes the
    running fiber and the site's cause, and does not return; for a failure at some time into a call an event is
    scheduled instead.
    """

    def __init__(self, kill: Callable[[Fiber, str], object]) -> None:
        self._kill = kill
        self._triggers: dict[int, list[_Trigger]] = {}

    def begin(self, sites: Iterable[CallSite]) -> None:
        """Count calls from now on, separately for each of these sites."""
        self._triggers.clear()
        for site in sites:
            self._triggers.setdefault(site.rank, []).append(_Trigger(site))

    def hints(self) -> dict[str, str]:
        """Return hints about similar calls of this process's ranks for sites never reached, as written."""
        every = [trigger for listed in self._triggers.values() for trigger in listed]
        return {str(trigger.site): hint for trigger in every if (hint := trigger.called_instead())}

    def handlers(self, method: Method) -> Handlers | None:
        """Return what to do about the calls of a method."""
        return Handlers(self._before, self._after, self._after) if is_mpi_call(method) else None

    def _before(self, call: Call) -> None:
        triggers = self._triggers.get(call.fiber.rank.number)
        if triggers and call.outer is None:
            for trigger in triggers:
                trigger.count(call.name)
            self._reached(call, triggers, before=True)

    def _after(self, call: Call, outcome: object) -> None:
        triggers = self._triggers.get(call.fiber.rank.number)
        if triggers and call.outer is None:
            self._reached(call, triggers, before=False)

    def _reached(self, call: Call, triggers: list[_Trigger], *, before: bool) -> None:
        for trigger in triggers:
            site = trigger.site
            if site.before == before and trigger.begun == site.ordinal and trigger.matches(call.name):
                if site.into_ps is None:
                    self._kill(call.fiber, site.cause)
                else:
                    schedule_failure_after(call.fiber, site.cause, site.into_ps)
