"""Instructions of the program that touch memory which a request or a window uses.

While a rank has such memory, Python reports each instruction of the program between two MPI calls that may access an
array (`instrumentation`). The source says which arrays an instruction works on, and by which index. To find out whether
that is the memory in question, only the name and the index are evaluated, which contain no calls. Loading means that
elements are read: naming, slicing or passing on an array is no access. If a debugger or a coverage tool already traces,
nothing is watched. Watching also ends after many events, which would take too long, for an instruction that has been
inspected `MOST_LOOKS` times, and for the code after a call that has accessed nothing as often.

Python reports only what it must. The code from one call up to the next ones is read once (`lookahead`): if it accesses
only arrays that are far from such memory, or certainly accesses just what a window shows, it needs no watching.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xsim_py.code_origin import of_program
from xsim_py.process.python.threads import is_program
from xsim_py.process.ranks import current

from .elements import bounds, covers, overlap, shared, shares
from .instrumentation import TOLD
from .lookahead import Ahead, ahead_of, is_near
from .resolve import Part, Scope, done_by_callee, done_with_held, held, part_of, takes_parts
from .sources import (
    A_TRUTH,
    LOAD,
    MAYBE,
    STORE,
    Touch,
    forget_rewritten,
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
_NO_LOOK = (A_TRUTH, ("bool",))
"""These ask for the truth of an array; that of a bytearray, or of an array of Python, is told by its length alone."""


class GuardedMemory(Protocol):
    """Memory that a rank must not touch, or not unnoticed.

    Attributes
    ----------
    pieces : list of (int, int)
        The addresses between which it lies.
    is_window : bool
        Whether it may be touched where nobody else works on the same bytes of it.
    """

    pieces: list[tuple[int, int]]
    is_window: bool

    def touched(self, how: str, place: Place, pieces: list[tuple[int, int]], array: Any, frame: FrameType) -> None:
        """Take note that an instruction of a frame is about to load from it or to store to it, by way of an array."""


class InCode:
    """The instructions of a function that may touch an array, as long as they are worth a look.

    Attributes
    ----------
    lines : set of int
        Where they are.
    touching : dict of int to (int, tuple of Touch)
        The line of each of them, and the arrays, perhaps, on which it works, by its offset.
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        file = code.co_filename
        self.touching = dict(touching(code, file)) if of_program(file) and touches_of(file) else {}
        self._looks: dict[int, int] = {}
        self._ahead: dict[int, Ahead | None] = {}
        self._judged: dict[int, int] = {}
        self.lines = {line for line, _ in self.touching.values()}

    def looked(self, offset: int) -> None:
        """Count a look at an instruction, and forget the instruction after many."""
        count = self._looks[offset] = self._looks.get(offset, 0) + 1
        if count >= MOST_LOOKS:
            del self.touching[offset]
            self.lines = {line for line, _ in self.touching.values()}
            self._ahead.clear()

    def needs_no_watch(self, frame: FrameType, state: RankState, monitor: Monitor) -> bool:
        """Return whether all that the frame touches until its next MPI call is known now, and take note of that."""
        place = frame.f_lasti
        ahead = self._ahead.get(place, _UNREAD)
        if ahead is _QUIET:
            return True  # hot path
        if ahead is None:
            return False
        scope = frame.f_locals, frame.f_globals
        if ahead is _UNREAD:
            ahead = self._ahead[place] = ahead_of(self.code, self.touching, place, scope)
        if ahead is None or not ahead.holds(scope):
            return False
        guards = [*state.buffers, *state.exposed]
        near = ahead.near(scope, guards) if ahead.arrays or ahead.aliases else ()
        if near is None or (near and state.buffers):  # a store to a buffer is to fail where it is
            return False
        if not near:
            self._judged[place] = times = self._judged.get(place, 0) + 1
            if times >= MOST_LOOKS:
                self._ahead[place] = _QUIET
            return True
        near.sort(key=attrgetter("order"))  # one instruction may have several
        doing = monitor.doing.get(state.number, "")
        for sight in near:
            _look_at(sight.touch, scope, (self.code.co_filename, sight.line, doing), guards, frame)
        for offset in {sight.offset for sight in near}:
            self.looked(offset)
        return True


# --------------------------------------------------------------------------------------------- while the run lasts


class LineWatch:
    """Has Python tell of the instructions of a program between its MPI calls, while a rank has guards."""

    def __init__(self, monitor: Monitor) -> None:
        forget_rewritten()
        self._monitor = monitor
        self._known: dict[tuple[CodeType, str], InCode] = {}  # by the file, too: code may be equal in two of them
        # By the addresses of code objects, of which each rank may have its own: to hash one takes microseconds.
        self._by_address: dict[int, tuple[InCode, CodeType]] = {}
        self._told = TOLD(self._in, self._look, self._is_silent)
        self.begin, self.pause, self.end = self._told.begin, self._told.pause, self._told.end

    def go_on(self, frame: FrameType, state: RankState, *, raised: bool = False) -> None:
        """Watch what comes after an MPI call of a rank, which `frame` has made, perhaps after an exception."""
        told = self._told
        if not told.is_usable:
            return
        if not raised:  # else what catches it may be anywhere
            known = self._by_address.get(id(frame.f_code))  # hot path: as `_in`, with one call less
            code = self._in(frame.f_code) if known is None else known[0]
            if code.needs_no_watch(frame, state, self._monitor):
                return
        told.go_on(frame)

    def _in(self, code: CodeType) -> InCode:
        found = self._by_address.get(id(code))
        if found is None:
            key = code, code.co_filename
            if key not in self._known:
                self._known[key] = InCode(code)
            found = self._by_address[id(code)] = self._known[key], code
        return found[0]

    def _is_silent(self, fiber: Fiber) -> bool:
        """Return whether a thread that has made no MPI call may come to memory in use."""
        if fiber in self._monitor.calls or not is_program(fiber):
            return False
        state = self._monitor.ranks.get(fiber.rank.number)
        return state is not None and bool(state.buffers or state.exposed)

    def _look(self, code: InCode, offset: int, frame: FrameType) -> None:
        """Look at the arrays of an instruction that comes next in a frame, perhaps."""
        fiber = current.here()
        call = self._monitor.calls.get(fiber)
        if fiber is None or (call is not None and call.is_open):
            return
        state = self._monitor.rank(fiber.rank.number)
        guards = [*state.buffers, *state.exposed]
        if not guards:
            return
        line, touches = code.touching[offset]
        code.looked(offset)
        scope = frame.f_locals, frame.f_globals
        place = frame.f_code.co_filename, line, self._monitor.doing.get(state.number, "")
        for touch in touches:
            _look_at(touch, scope, place, guards, frame)


def _look_at(touch: Touch, scope: Scope, place: Place, guards: list[Any], frame: FrameType) -> None:
    """Find out whether an array of an instruction is memory that is guarded, and tell the guards."""
    try:
        found = part_of(touch.array, scope)
        part = found.array
        if type(part) in (list, tuple, dict) and part:
            near = [each for each in held(part) if each.size and is_near(each, guards)]
            how = done_with_held(touch, part, scope) if near else ""
            for each in near if how else ():
                _tell(how, Part(each, each), place, guards, frame)
            return
        if type(part) is not np.ndarray or not part.size or takes_parts(touch, found, scope):
            return
    except Exception:  # the instruction itself will say what is wrong
        return
    how = touch.how
    if found.is_of_python and (touch.callee in _NO_LOOK or (how == STORE and not touch.array.indices)):
        return
    if touch.callee:
        how = done_by_callee(touch, scope) if is_near(part, guards) else ""
        if how != LOAD and found.pieces is not None:  # a copy is stored to
            return
    if how:
        _tell(how, found, place, guards, frame)


def _tell(how: str, found: Part, place: Place, guards: list[Any], frame: FrameType) -> None:
    """Tell the guards of an array whose memory is guarded, perhaps."""
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
        guard.touched(does, place, pieces, None if found.is_of_python else found.owner, frame)
