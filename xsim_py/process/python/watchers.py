"""Observers of a process: trace and profile functions, ``cProfile``, and the tools of ``sys.monitoring``.

The interpreter has one set for all ranks. So those of a rank's thread are installed when its greenlet resumes and
removed when it waits; meanwhile the simulator is not observed, whose returns a profiler would take for the program's.
Both happen inside the greenlet: since Python 3.12 the interpreter instruments the functions to be observed, and when
observation begins, it instruments those that are running in the calling greenlet.

Compiled tracers, such as coverage's, install themselves as trace function without a call that we can intercept; but
programs that start them also set a trace function for threads. From then on the trace function is read when a rank
waits.

An observer of the simulator itself (a debugger, coverage) also sees the ranks that have not set their own.
"""

from __future__ import annotations

import _lsprof
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import greenlet

from xsim_py.process.ranks import current
from xsim_py.process.ranks.fiber import Fiber, is_hub
from xsim_py.process.ranks.patches import Patches, Table, Wrapper

from .debugger import hide_simulator

if TYPE_CHECKING:
    from _typeshed import ProfileFunction, TraceFunction

PRIVATE = ("coverage", "pytest_cov")
"""Packages that record the active observer, of which each rank therefore has a private copy."""

_WATCHED = "watchers"
"""The key under which a rank keeps its `_Watched`."""

_Function = Callable[..., Any]


def separate_coverage_stacks() -> None:
    """Make coverage in this process keep a call stack per greenlet, as with ``concurrency = greenlet``.

    It has one per thread: functions of ranks that wait for each other return in a different order than they were
    called, and lines executed after the wait would be counted for another file. Coverage by ``sys.monitoring`` has no
    stack.
    """
    coverage: Any = sys.modules.get("coverage")
    collector = getattr(coverage and coverage.Coverage.current(), "_collector", None)
    if collector is not None and not collector.concur_id_func:
        for tracer in collector.tracers:
            if hasattr(tracer, "concur_id_func"):
                tracer.concur_id_func = greenlet.getcurrent
            elif hasattr(tracer, "data_stack"):
                _separate_stacks(tracer)


_STACK: dict[str, Callable[[], Any]] = {
    "cur_file_data": lambda: None,
    "cur_file_name": lambda: None,
    "data_stack": list,
    "last_line": int,
    "started_context": bool,
}
"""The attributes in which coverage's Python tracer keeps the calls in progress, and their initial values."""


def _separate_stacks(tracer: Any) -> None:
    """Add per-greenlet stacks to coverage's Python tracer, which its C tracer supports itself."""
    trace = tracer._cached_bound_method_trace
    if not isinstance(trace, MethodType) or sys.gettrace() != trace:
        return  # already done, or it follows another thread
    stacks: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
    running = greenlet.getcurrent()

    def trace_apart(frame: object, event: str, arg: object) -> Any:
        nonlocal running
        now = greenlet.getcurrent()
        if now is not running:
            stacks[running] = [getattr(tracer, name) for name in _STACK]
            vars(tracer).update(zip(_STACK, stacks.get(now) or [begin() for begin in _STACK.values()], strict=True))
            running = now
        return trace(frame, event, arg)

    tracer._cached_bound_method_trace = trace_apart
    sys.settrace(trace_apart)


class _Tool:
    """A tool of ``sys.monitoring``: its name, its events and their callbacks."""

    __slots__ = ("callbacks", "events", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.events = 0
        self.callbacks: dict[int, Any] = {}


class _Watched:
    """The observers of a rank: tools by number, trace and profile functions by fiber."""

    __slots__ = ("profile", "tools", "trace")

    def __init__(self) -> None:
        self.tools: dict[int, _Tool] = {}
        self.trace: dict[Fiber, Any] = {}
        self.profile: dict[Fiber, Any] = {}


class _Watchers:
    """The installed observers, in one run."""

    def __init__(self) -> None:
        self._follows = False
        self._outside: tuple[Any, Any] = sys.gettrace(), sys.getprofile()
        self._fiber: Fiber | None = None  # the fiber whose observers are installed
        self._tools: dict[int, _Tool] = {}
        self._held: set[int] = set()
        self._trace, self._profile, self._trace_threads = sys.settrace, sys.setprofile, threading.settrace
        self._profiler: Any = _lsprof.Profiler
        # A callback that returns DISABLE switches off its events for all ranks; another rank's observer has to see
        # them.
        self._restart: Callable[[], object] = lambda: None
        self._real: dict[str, _Function] = {}
        self._gettrace = sys.gettrace
        if sys.version_info >= (3, 12):
            self._restart = sys.monitoring.restart_events
            self._real = {name: getattr(sys.monitoring, name) for name in _OF_MONITORING}

    def put_back(self) -> None:
        """Resume the simulator's own trace function, which Python removes on an exception in it, as at a wall limit."""
        if self._gettrace() is None:
            self._trace(self._outside[0])

    def _watchers_of(self, fiber: Fiber) -> _Watched:
        """Return the rank's observers, which are installed whenever it runs from now on."""
        if not self._follows:
            self._follows = True
            before = greenlet.settrace(self._switched)
            Patches.latest.at_end(partial(greenlet.settrace, before))
        watched: _Watched = fiber.rank.private(_WATCHED, _Watched)
        self._tools = watched.tools
        self._fiber = fiber
        return watched

    def _switched(self, _: str, greenlets: tuple[Any, Any]) -> None:
        """Switch the observers; greenlet calls this in the greenlet that resumes."""
        trace, profile = self._outside
        tools: dict[int, _Tool] = {}
        before, self._fiber = self._fiber, None
        if before is not None and (before.rank.extra or {}).get(_WATCHED) is not None:
            # A tracer in C installs itself by the C interface, which cannot be patched, so it is read here.
            before.rank.extra[_WATCHED].trace[before] = self._gettrace()  # type: ignore[index]
        fiber = current.fiber
        if fiber is not None and not is_hub(greenlets[1]):
            watched: _Watched | None = (fiber.rank.extra or {}).get(_WATCHED)
            if watched is not None:
                self._fiber = fiber
                tools = watched.tools
                trace, profile = watched.trace.get(fiber, trace), watched.profile.get(fiber, profile)
        if self._gettrace() is not trace:
            self._trace(trace)
        if sys.getprofile() is not profile:
            # `sys.setprofile` does not accept a profiler in C.
            if isinstance(profile, self._profiler):
                self._profiler.enable(profile)
            else:
                self._profile(profile)
        if self._tools is not tools:
            self._change_tools(tools)
        if trace is not None or profile is not None or tools:
            self._restart()

    # ------------------------------------------------------------------------------------- functions called by programs

    def settrace_of_threads(self, function: TraceFunction) -> None:
        fiber = current.here()
        if fiber is not None:
            self._watchers_of(fiber)
        self._trace_threads(function)

    def settrace(self, function: TraceFunction) -> None:
        fiber = current.here()
        if fiber is not None:
            self._watchers_of(fiber).trace[fiber] = function
            hide_simulator()
        self._trace(function)

    def setprofile(self, function: ProfileFunction) -> None:
        fiber = current.here()
        if fiber is not None:
            self._watchers_of(fiber).profile[fiber] = function
        self._profile(function)

    def enable_profiler(self, profiler: object, *args: object, **kwargs: object) -> None:
        fiber = current.here()
        if fiber is not None:
            self._watchers_of(fiber).profile[fiber] = profiler
        self._profiler.enable(profiler, *args, **kwargs)

    def disable_profiler(self, profiler: object) -> None:
        fiber = current.here()
        if fiber is not None:
            self._watchers_of(fiber).profile[fiber] = None
        self._profiler.disable(profiler)

    # --------------------------------------------------------------------------------------- sys.monitoring

    def _change_tools(self, tools: dict[int, _Tool]) -> None:
        real = self._real
        for number, tool in self._tools.items():
            real["set_events"](number, 0)
            for event in tool.callbacks:
                real["register_callback"](number, event, None)
        self._tools = tools
        for number, tool in tools.items():
            for event, function in tool.callbacks.items():
                real["register_callback"](number, event, function)
            real["set_events"](number, tool.events)

    def use_tool_id(self, number: int, name: str, /) -> None:
        fiber = current.here()
        if fiber is None:
            self._real["use_tool_id"](number, name)
            return
        tools = self._watchers_of(fiber).tools
        if number in tools:
            raise ValueError(f"tool {number} is already in use")
        if number not in self._held:  # by any rank
            self._real["use_tool_id"](number, name)
            self._held.add(number)
            Patches.latest.at_end(partial(self._real["free_tool_id"], number))
        tools[number] = _Tool(name)

    def free_tool_id(self, number: int, /) -> None:
        if current.here() is None or number not in self._held:
            self._real["free_tool_id"](number)
            return
        tool = self._tools.pop(number, None)
        if tool is not None:
            self._real["set_events"](number, 0)
            for event in tool.callbacks:
                self._real["register_callback"](number, event, None)

    def get_tool(self, number: int, /) -> str | None:
        if current.here() is None or number not in self._held:
            name: str | None = self._real["get_tool"](number)
            return name
        return self._tools[number].name if number in self._tools else None

    def register_callback(self, number: int, event: int, function: object, /) -> object:
        before = self._real["register_callback"](number, event, function)
        if number in self._tools and current.here() is not None:
            self._tools[number].callbacks[event] = function
        return before

    def set_events(self, number: int, events: int, /) -> None:
        if current.here() is not None and number in self._held:
            if number not in self._tools:
                raise ValueError(f"tool {number} is not in use")
            self._tools[number].events = events
        self._real["set_events"](number, events)


_watchers: _Watchers


def _by(method: _Function) -> _Function:
    """Return a function that calls a method of the run's observers; as a class attribute it becomes a method."""
    return lambda *args, **kwargs: method(_watchers, *args, **kwargs)


def _unless_tools(real: object, value: object) -> object:
    """Return `value` before Python 3.12; since then profilers are tools of ``sys.monitoring``."""
    return real if sys.version_info >= (3, 12) else value


_OF_PROFILERS = {"enable": _by(_Watchers.enable_profiler), "disable": _by(_Watchers.disable_profiler)}
_OF_MONITORING = {
    "free_tool_id": _by(_Watchers.free_tool_id),
    "get_tool": _by(_Watchers.get_tool),
    "register_callback": _by(_Watchers.register_callback),
    "set_events": _by(_Watchers.set_events),
    "use_tool_id": _by(_Watchers.use_tool_id),
}
_OWN = "private: observes only its rank"
PATCHED: Table = (
    ("threading", _OWN, {"settrace": _by(_Watchers.settrace_of_threads)}),
    ("sys", _OWN, {"settrace": _by(_Watchers.settrace), "setprofile": _by(_Watchers.setprofile)}),
    ("sys.monitoring", _OWN, _OF_MONITORING),
    ("_lsprof", _OWN, {"Profiler": Wrapper(_unless_tools, type("Profiler", (_lsprof.Profiler,), _OF_PROFILERS))}),
    ("cProfile.Profile", _OWN, {name: Wrapper(_unless_tools, value) for name, value in _OF_PROFILERS.items()}),
)


def install(patches: Patches) -> None:
    """Give each rank its own observers for the duration of a run."""
    global _watchers
    _watchers = _Watchers()
    patches.at_end(_watchers.put_back)
    patches.install(PATCHED)
