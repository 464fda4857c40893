"""Notification by Python before each instruction of a program that may access an array.

Until Python 3.11 only a tracer (`sys.settrace`) is notified of instructions, and of all in a line. All ranks share one
tracer, so it is stopped in each MPI call and whenever a rank gives control to the simulator. Later versions have
`sys.monitoring`, which disables events per instruction and stays on for all ranks. It takes half the time; and in
Python 3.12 a tracer that reads variables changes those of comprehensions.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

from xsim_py.code_origin import of_program
from xsim_py.process.python.threads import at_thread_start
from xsim_py.process.ranks import current
from xsim_py.process.ranks.fiber import Fiber, wrap_control_switch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

# During a run each rank has its own versions of these.
_settrace, _gettrace, _frame = sys.settrace, sys.gettrace, sys._getframe
_monitoring: Any = getattr(sys, "monitoring", None)
_real: Any = {name: getattr(_monitoring, name) for name in dir(_monitoring) if not name.startswith("_")}

MOST_EVENTS = 100_000


class Watchable(Protocol):
    """The code of a function, with the instructions to be notified of."""

    lines: set[int]
    """Those of the instructions."""
    touching: dict[int, Any]
    """The accesses of each instruction, by offset."""


class InstructionEvents:
    """The source of instruction events; one per run."""

    def __init__(
        self,
        in_code: Callable[[CodeType], Watchable],  # returns the watched instructions of a function
        # Called before each instruction with its function's `Watchable`, its offset and its frame.
        inspect: Callable[[Watchable, int, FrameType], None],
        is_silent: Callable[[Fiber], bool],  # returns True if a fiber is watched although it has made no MPI call
    ) -> None:
        self._watched_in = in_code
        self._inspect = inspect
        self._is_silent = is_silent
        self._events = 0
        self.is_usable = _gettrace() is None  # whether Python can deliver further events

    def begin(self) -> None:
        """Prepare before the program begins."""

    def resume(self, frame: FrameType) -> None:
        """Watch the rest of the running fiber's frame, its callers, and the functions they call."""
        raise NotImplementedError

    def pause(self) -> None:
        """Stop watching the running fiber, because an MPI call has begun."""
        raise NotImplementedError

    def end(self) -> None:
        """Stop all events."""
        raise NotImplementedError

    def _stop(self) -> None:
        self.is_usable = False
        self.end()


class ByTracing(InstructionEvents):
    """Instruction events from a tracer."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._line_tracer, self._entry_tracer = (
            self._on_line,
            self._on_entry,
        )  # one object each, not a new bound method each time
        self._has_threads = False

    def begin(self) -> None:
        """Prepare before the program begins."""
        at_thread_start(self._on_thread)

    def resume(self, frame: FrameType) -> None:
        """Watch the rest of the running fiber's frame, its callers, and the functions they call."""
        if _gettrace() not in (None, self._entry_tracer):  # the program may trace itself
            return
        frame.f_trace_opcodes = bool(self._watched_in(frame.f_code).lines)  # for the rest of the calling line
        self._trace(frame)

    def _trace(self, frame: FrameType | None) -> None:
        self._start()
        while frame is not None and frame.f_trace is not self._line_tracer:  # its callers have the tracer already
            if of_program(frame.f_code.co_filename):
                frame.f_trace = self._line_tracer
            frame = frame.f_back

    def _start(self) -> None:
        wrap_control_switch(self._wait)
        _settrace(self._entry_tracer)

    def pause(self) -> None:
        """Stop watching the running fiber, because an MPI call has begun."""
        if self.is_usable and _gettrace() is self._entry_tracer:
            _settrace(None)
            if not self._has_threads:
                wrap_control_switch(None)  # most waits are in calls and are cheaper without it

    def end(self) -> None:
        """Stop all events."""
        if _gettrace() is self._entry_tracer:
            _settrace(None)
        wrap_control_switch(None)
        at_thread_start(None)

    def _wait(self, switch: Callable[[Any], Any], hub: object) -> Any:
        """Switch to the simulator, and restore the tracer when the fiber resumes."""
        fiber, was_tracing = current.fiber, _gettrace() is self._entry_tracer
        if was_tracing:
            _settrace(None)
        try:
            return switch(hub)
        finally:
            if fiber is not None and fiber.greenlet is not None and self.is_usable:  # else a different rank begins here
                if was_tracing:
                    self._start()
                elif self._has_threads:
                    self._watch(fiber)

    def _on_thread(self, fiber: Fiber) -> None:
        """Watch a new thread, and from now on all that wait.

        Some may wait before any memory is in use.
        """
        if self.is_usable:
            self._has_threads = True
            wrap_control_switch(self._wait)
            self._watch(fiber)

    def _watch(self, fiber: Fiber) -> None:
        if self._is_silent(fiber) and _gettrace() is None:
            self._trace(_frame(1))

    def _on_entry(self, frame: FrameType, event: str, argument: object) -> Any:
        if not self._watched_in(frame.f_code).lines:
            return None
        return self._line_tracer if of_program(frame.f_code.co_filename) else None

    def _on_line(self, frame: FrameType, event: str, argument: object) -> Any:
        self._events += 1
        code = self._watched_in(frame.f_code)
        if event == "line":
            frame.f_trace_opcodes = frame.f_lineno in code.lines
            if not code.lines:
                frame.f_trace_lines = False
            if self._events > MOST_EVENTS:
                self._stop()
        elif event == "opcode" and frame.f_lasti in code.touching:
            self._inspect(code, frame.f_lasti, frame)
        return self._line_tracer


class ByMonitoring(InstructionEvents):
    """Instruction events from `sys.monitoring`, for whole functions in any thread."""

    _TOOLS = (5, 4, 3)
    """The tool numbers least likely used by a program: the first is reserved for optimisers."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._tool = next((tool for tool in self._TOOLS if _real["get_tool"](tool) is None), None)
        self.is_usable = self.is_usable and self._tool is not None
        self._enabled: dict[int, CodeType] = {}
        self._known: set[Fiber | None] = set()
        self._paused: set[Fiber | None] = set()

    def resume(self, frame: FrameType) -> None:
        """Watch the rest of the running fiber's frame, its callers, and the functions they call."""
        fiber = current.fiber
        self._paused.discard(fiber)
        if fiber in self._known:
            return
        if not self._known:
            self._begin()
        self._known.add(fiber)
        outer: FrameType | None = frame
        while outer is not None:
            self._enable(outer.f_code)
            outer = outer.f_back

    def pause(self) -> None:
        """Stop watching the running fiber, because an MPI call has begun."""
        self._paused.add(current.fiber)

    def end(self) -> None:
        """Stop all events."""
        if self._known:
            self._known.clear()
            _real["set_events"](self._tool, 0)
            for code in self._enabled.values():
                _real["set_local_events"](self._tool, code, 0)
            self._enabled.clear()
            _real["free_tool_id"](self._tool)

    def _begin(self) -> None:
        events = _real["events"]
        _real["use_tool_id"](self._tool, "xsim_py checks")
        for event in (events.PY_START, events.PY_RESUME):
            _real["register_callback"](self._tool, event, self._on_entry)
        _real["register_callback"](self._tool, events.INSTRUCTION, self._on_instruction)
        _real["set_events"](self._tool, events.PY_START | events.PY_RESUME)

    def _enable(self, code: CodeType) -> None:
        if id(code) not in self._enabled and of_program(code.co_filename) and self._watched_in(code).touching:
            self._enabled[id(code)] = code
            _real["set_local_events"](self._tool, code, _real["events"].INSTRUCTION)

    def _on_entry(self, code: CodeType, offset: int) -> Any:
        self._enable(code)
        return _real["DISABLE"]

    def _on_instruction(self, code: CodeType, offset: int) -> Any:
        in_code = self._watched_in(code)
        if offset not in in_code.touching:
            return _real["DISABLE"]
        if current.fiber not in self._paused:
            self._events += 1
            self._inspect(in_code, offset, _frame(1))
            if self._events > MOST_EVENTS:
                self._stop()
        return None


EVENT_SOURCE = ByTracing if _monitoring is None else ByMonitoring
