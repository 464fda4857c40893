"""Instructions of the program that access memory used by a request or a window.

While a rank has such memory, Python reports each instruction of the program between two MPI calls that may access an
array (`instrumentation`). The source shows which arrays an instruction accesses, and by which index. To decide whether
that is the memory in question, only the name and the index are evaluated, which contain no calls. Loading means that
elements are read: naming, slicing or passing on an array is not an access. If a debugger or a coverage tool already
traces, nothing is watched. Watching also ends after many events, which would take too long, for an instruction
inspected `MOST_LOOKS` times, and for the code after a call that has accessed nothing as often.

Python reports as little as possible. The code from one call to the next is analysed once (`lookahead`): if it accesses
only arrays that are far from such memory, or certainly accesses only window memory, it is not watched.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xsim_py.code_origin import of_program
from xsim_py.process.python.threads import is_program
from xsim_py.process.ranks import current

from .elements import bounds, covers, overlap, shared, shares
from .instrumentation import EVENT_SOURCE
from .lookahead import CodeAhead, is_near, read_ahead
from .resolve import Part, Scope, access_by_callee, access_to_items, arrays_in, part_of, takes_parts
from .sources import (
    A_TRUTH,
    LOAD,
    MAYBE,
    STORE,
    Touch,
    clear_changed,
    touches_of,
    touching,
)

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from xsim_py.process.ranks.fiber import Fiber

    from .monitor import Monitor, RankState
    from .records import Place

MOST_LOOKS = 1_000
_UNREAD: Any = object()
_QUIET: Any = object()
_TRUTH_TESTS = (A_TRUTH, ("bool",))
"""Truth tests; that of a bytearray, or of an array of Python, depends only on its length."""


class GuardedMemory(Protocol):
    """Memory that a rank must not access, or whose accesses are recorded."""

    pieces: list[tuple[int, int]]
    """The addresses between which it lies."""
    is_window: bool
    """Whether accesses are allowed as long as no others touch the same bytes."""

    def record_access(
        self, how: str, place: Place, pieces: list[tuple[int, int]], array: object, frame: FrameType
    ) -> None:
        """Record that an instruction is about to load from the memory or store to it."""


class WatchedCode:
    """The instructions of a function that may access an array, while they are worth watching."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        file = code.co_filename
        # The line and the possible array accesses of each instruction, by offset.
        self.touching = dict(touching(code, file)) if of_program(file) and touches_of(file) else {}
        self._inspections: dict[int, int] = {}
        self._ahead: dict[int, CodeAhead | None] = {}
        self._quiet_lines: dict[int, int] = {}
        self.lines = {line for line, _ in self.touching.values()}

    def count_inspection(self, offset: int) -> None:
        """Count an inspection of an instruction; drop the instruction after `MOST_LOOKS` of them."""
        count = self._inspections[offset] = self._inspections.get(offset, 0) + 1
        if count >= MOST_LOOKS:
            del self.touching[offset]
            self.lines = {line for line, _ in self.touching.values()}
            self._ahead.clear()

    def needs_no_watch(self, frame: FrameType, state: RankState, monitor: Monitor) -> bool:
        """Return True if all accesses of a frame before its next MPI call are known; record them."""
        place = frame.f_lasti
        ahead = self._ahead.get(place, _UNREAD)
        if ahead is _QUIET:
            return True  # hot path
        if ahead is None:
            return False
        scope = frame.f_locals, frame.f_globals
        if ahead is _UNREAD:
            ahead = self._ahead[place] = read_ahead(self.code, self.touching, place, scope)
        if ahead is None or not ahead.is_valid(scope):
            return False
        guards = [*state.buffers, *state.exposed]
        near = ahead.near(scope, guards) if ahead.arrays or ahead.aliases else ()
        if near is None or (near and state.buffers):  # a store to a buffer must fail at its own line
            return False
        if not near:
            self._quiet_lines[place] = times = self._quiet_lines.get(place, 0) + 1
            if times >= MOST_LOOKS:
                self._ahead[place] = _QUIET
            return True
        near.sort(key=attrgetter("order"))  # one instruction may have several
        doing = monitor.doing.get(state.number, "")
        for access in near:
            _inspect_access(access.touch, scope, (self.code.co_filename, access.line, doing), guards, frame)
        for offset in {access.offset for access in near}:
            self.count_inspection(offset)
        return True


# --------------------------------------------------------------------------------------------- while the run lasts


class LineWatch:
    """Watches the instructions of a program between its MPI calls, while a rank has guards."""

    def __init__(self, monitor: Monitor) -> None:
        clear_changed()
        self._monitor = monitor
        self._known: dict[tuple[CodeType, str], WatchedCode] = {}  # also by file: code may be equal in two files
        # By addresses of code objects, of which each rank may have separate ones: hashing one takes microseconds.
        self._by_address: dict[int, tuple[WatchedCode, CodeType]] = {}
        self._events = EVENT_SOURCE(self._code_of, self._inspect, self._is_silent)
        self.begin, self.pause, self.end = self._events.begin, self._events.pause, self._events.end

    def resume(self, frame: FrameType, state: RankState, *, raised: bool = False) -> None:
        """Watch the code after an MPI call of a rank in `frame`, possibly after an exception."""
        events = self._events
        if not events.is_usable:
            return
        if not raised:  # else the handler may be anywhere
            known = self._by_address.get(id(frame.f_code))  # hot path: as `_code_of`, with one call fewer
            code = self._code_of(frame.f_code) if known is None else known[0]
            if code.needs_no_watch(frame, state, self._monitor):
                return
        events.resume(frame)

    def _code_of(self, code: CodeType) -> WatchedCode:
        found = self._by_address.get(id(code))
        if found is None:
            key = code, code.co_filename
            if key not in self._known:
                self._known[key] = WatchedCode(code)
            found = self._by_address[id(code)] = self._known[key], code
        return found[0]

    def _is_silent(self, fiber: Fiber) -> bool:
        """Return True if a thread that has made no MPI call may access memory in use."""
        if fiber.call is not None or not is_program(fiber):
            return False
        state = self._monitor.ranks.get(fiber.rank.number)
        return state is not None and bool(state.buffers or state.exposed)

    def _inspect(self, code: WatchedCode, offset: int, frame: FrameType) -> None:
        """Inspect the possible accesses of the next instruction of a frame."""
        fiber = current.here()
        if fiber is None or (fiber.call is not None and fiber.call.is_open):
            return
        state = self._monitor.rank(fiber.rank.number)
        guards = [*state.buffers, *state.exposed]
        if not guards:
            return
        line, touches = code.touching[offset]
        code.count_inspection(offset)
        scope = frame.f_locals, frame.f_globals
        place = frame.f_code.co_filename, line, self._monitor.doing.get(state.number, "")
        for touch in touches:
            _inspect_access(touch, scope, place, guards, frame)


def _inspect_access(touch: Touch, scope: Scope, place: Place, guards: list[GuardedMemory], frame: FrameType) -> None:
    """Notify the guards if an array of an instruction is guarded memory."""
    try:
        found = part_of(touch.array, scope)
        part = found.array
        if type(part) in (list, tuple, dict) and part:
            near = [each for each in arrays_in(part) if each.size and is_near(each, guards)]
            how = access_to_items(touch, part, scope) if near else ""
            for each in near if how else ():
                _notify_guards(how, Part(each, each), place, guards, frame)
            return
        if type(part) is not np.ndarray or not part.size or takes_parts(touch, found, scope):
            return
    except Exception:  # the instruction itself reports the error
        return
    how = touch.how
    if found.is_of_python and (touch.callee in _TRUTH_TESTS or (how == STORE and not touch.array.indices)):
        return
    if touch.callee:
        how = access_by_callee(touch, scope) if is_near(part, guards) else ""
        if how != LOAD and found.pieces is not None:  # stores to a copy
            return
    if how:
        _notify_guards(how, found, place, guards, frame)


def _notify_guards(how: str, found: Part, place: Place, guards: list[GuardedMemory], frame: FrameType) -> None:
    """Notify the guards whose memory an array overlaps."""
    part = found.array
    low, high = bounds(part)
    for guard in guards:
        pieces = [(max(start, low), min(end, high)) for start, end in guard.pieces if start < high and low < end]
        if not pieces:
            continue
        does = how
        if found.pieces is not None:
            if not overlap(found.pieces, guard.pieces):
                continue
            if guard.is_window:
                first, last = pieces[0]
                pieces = [(max(a, first), min(b, last)) for a, b in found.pieces if a < last and first < b]
        elif guard.is_window:
            pieces = shared(part, *pieces[0]) if found.is_known else []
            if not pieces:
                continue
        elif found.is_known:
            if not any(shares(part, *piece) for piece in pieces[:64]):
                continue
        elif how == STORE or not covers(pieces, part):
            if how == LOAD:
                continue
            does = MAYBE
        guard.record_access(does, place, pieces, None if found.is_of_python else found.owner, frame)
