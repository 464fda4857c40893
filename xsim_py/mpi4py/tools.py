"""The tools of the door besides the checks: the meter of computation, failures at calls, and the spans of a trace.

Failures and spans regard outermost calls only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from xsim_py.mpi import errors
from xsim_py.mpi.failures.guard import FailureGuard
from xsim_py.mpi.failures.scheduled import schedule_failure_after
from xsim_py.mpi.transport.call_sites import line_of
from xsim_py.process.ranks import meter

from .door import ANY_CALL, COMMUNICATING, BoundCall, Callee, Handlers, Tool, is_mpi_call

if TYPE_CHECKING:
    from xsim_py.config import MpiSpec
    from xsim_py.failure import CallSite
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.trace import Recorder

__all__ = ["FailingCalls", "Metering", "Spans", "guard_of", "layers"]


class Metering(Tool):
    """Charges for the computation of ranks."""

    def handlers(self, method: Callee) -> Handlers | None:
        """Return what to do about the calls of a method."""
        return Handlers(_meter_before, _meter_after, _meter_after) if method.owner in COMMUNICATING else None


def _meter_before(call: BoundCall) -> None:
    assert call.frame is not None
    meter.enter(call.fiber, call, call.frame)


def _meter_after(call: BoundCall, outcome: object) -> None:
    meter.leave(call.fiber, call)


# ----------------------------------------------------------------------------------------------- failures at calls


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

    def handlers(self, method: Callee) -> Handlers | None:
        """Return what to do about the calls of a method."""
        return Handlers(self._before, self._after, self._after) if is_mpi_call(method) else None

    def _before(self, call: BoundCall) -> None:
        triggers = self._triggers.get(call.fiber.rank.number)
        if triggers and call.outer is None:
            for trigger in triggers:
                trigger.count(call.name)
            self._reached(call, triggers, before=True)

    def _after(self, call: BoundCall, outcome: object) -> None:
        triggers = self._triggers.get(call.fiber.rank.number)
        if triggers and call.outer is None:
            self._reached(call, triggers, before=False)

    def _reached(self, call: BoundCall, triggers: list[_Trigger], *, before: bool) -> None:
        for trigger in triggers:
            site = trigger.site
            if site.before == before and trigger.begun == site.ordinal and trigger.matches(call.name):
                if site.into_ps is None:
                    self._kill(call.fiber, site.cause)
                else:
                    schedule_failure_after(call.fiber, site.cause, site.into_ps)


# ----------------------------------------------------------------------------------------------------------- spans

_LOCAL = ("Get_", "Set_", "Is_")
_RECORDED_LOCAL = frozenset({"Get_failed", "Is_revoked"})


class Spans(Tool):
    """Records each call of a rank as a span in its shard's trace.

    Local queries without duration, such as ``Get_rank``, are omitted: they would hide other calls. A rank has one line
    in the timeline: if several of its threads are in calls at the same time, only the one that began first is drawn.
    """

    def handlers(self, method: Callee) -> Handlers | None:
        """Return what to do about the calls of a method."""
        return Handlers(_begin, _returned, _end) if is_mpi_call(method) else None


class _Drawn:
    """The call of a rank being drawn: its thread, and the end of the previous one."""

    __slots__ = ("call", "until_ps")

    def __init__(self) -> None:
        self.call: BoundCall | None = None
        self.until_ps = 0


def _begin(call: BoundCall) -> None:
    rank = call.fiber.rank
    drawn: _Drawn = rank.private("drawn call", _Drawn)
    if drawn.call is None and call.outer is None:
        drawn.call = call
        drawn.until_ps = max(call.fiber.clock_ps, drawn.until_ps)  # each thread has a separate clock
        file, line = line_of((call.code, call.at))
        _recorder(call.fiber).begin(rank.number, call.name, drawn.until_ps, f"{file}:{line}")


def _returned(call: BoundCall, result: object) -> None:
    _end(call, None)


def _end(call: BoundCall, error: BaseException | None) -> None:
    fiber = call.fiber
    drawn: _Drawn = fiber.rank.private("drawn call", _Drawn)
    if drawn.call is not call:
        return
    drawn.call = None
    drawn.until_ps = max(fiber.clock_ps, drawn.until_ps)
    local = error is None and call.name.startswith(_LOCAL) and call.name not in _RECORDED_LOCAL
    _recorder(fiber).end(fiber.rank.number, drawn.until_ps, _described(error), skip_if_instant=local)


def _recorder(fiber: Fiber) -> Recorder:
    recorder: Recorder = fiber.rank.shard.fabric.trace
    return recorder


def _described(error: BaseException | None) -> str:
    """Return the error class or type of an exception; empty without one."""
    if error is None:
        return ""
    error_class = ""
    if isinstance(error, errors.Exception):
        error_class = errors.error_string(error.Get_error_class()).partition(":")[0].removeprefix("MPI_")
    return error_class or type(error).__name__


# ---------------------------------------------------------------------------------------------------------- layers


def layers(spec: MpiSpec) -> Iterator[Tool]:
    """Yield the layer between programs and the library, if there is one."""
    if spec.resilience is not None:
        from .resilience import Legio  # most runs have none, and must start quickly

        yield Legio()


def guard_of(spec: MpiSpec) -> type[FailureGuard]:
    """Return the class of the guard that calls consult after a failure."""
    if spec.resilience is None:
        return FailureGuard
    from .resilience import TolerantGuard

    return TolerantGuard
