"""Instructions of the program that touch memory which a request or a window uses.

While a rank has such memory, Python tells of each line of the program between two MPI calls (`sys.settrace`), and on
lines that may touch an array of each instruction. The source says which arrays an instruction works on, and by which
index; whether that is the memory in question is found by evaluating just the name and the index, which have no calls
in them. Loading means that elements are looked at: to name, slice or pass on an array is none. Where a debugger or a
coverage tool traces already, nothing is watched; nor after `MOST_EVENTS`, for that would take too long, nor an
instruction that has been looked at `MOST_LOOKS` times.

Python is told to do so only where it has to be. What comes after a call up to the next ones is read once from the code
(`Ahead`): where it touches nothing but arrays that are far from such memory, or certainly touches just what a window
shows, all is known before it comes.
"""

from __future__ import annotations

import builtins
import dis
import sys
from bisect import bisect_right
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from xsim_py.code_origin import of_program
from xsim_py.mpi4py.handle import Handle
from xsim_py.process.ranks import current

from .elements import bounds, covers, shared, shares
from .sources import (
    LOAD,
    MAYBE,
    STORE,
    ArrayName,
    Touch,
    callees_of,
    forget_rewritten,
    instructions_of,
    key_of,
    names_in,
    touches_of,
    touching,
)

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from .monitor import Monitor, RankState
    from .sides import Place

_settrace, _gettrace = sys.settrace, sys.gettrace  # while a run lasts, there are others, of each rank

MOST_EVENTS = 100_000
MOST_LOOKS = 1_000

_LOOKING = frozenset(
    (
        *("print", "sum", "min", "max", "sorted", "float", "int", "bool", "complex", "str", "repr", "format"),
        *("list", "tuple", "set", "any", "all", "abs", "round", "bytes", "bytearray", "divmod", "pow"),
    )
)
"""The functions of Python that look at the elements of an array."""
_NOT_LOOKING = frozenset(
    (
        *("shape", "ndim", "size", "may_share_memory", "shares_memory", "empty_like", "zeros_like"),
        *("ones_like", "full_like", "asarray", "asanyarray", "ascontiguousarray", "reshape", "ravel"),
        *("transpose", "swapaxes", "squeeze", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to"),
        *("expand_dims", "split", "array_split", "hsplit", "vsplit", "frombuffer", "result_type"),
        *("iscomplexobj", "isrealobj"),
    )
)
"""The functions of numpy that do not."""
_STORING = frozenset(("copyto", "put", "putmask", "place", "put_along_axis", "fill_diagonal", "shuffle"))
"""The functions of numpy that store to their first argument."""
_MOST_PICKED_BYTES = 1 << 20
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE


Scope = tuple[Mapping[str, Any], dict[str, Any]]
"""The variables of a function and of its module; to read them from a frame is slow."""


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


class _Part(NamedTuple):
    """The array that an expression means, at the time when it is evaluated."""

    array: Any
    owner: Any = None
    """The array that has a name, of which it is a part."""
    is_known: bool = True
    """True if all of the array is meant, and not just some elements."""
    is_some: bool = False
    """True if at least one element is meant, where not all are."""


class InCode:
    """The instructions of a function that may touch an array, as long as they are worth a look.

    Attributes
    ----------
    lines : set of int
        Where they are.
    touches : dict of int to tuple of Touch
        The arrays, perhaps, on which each of them works, by its offset.
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        file = code.co_filename
        found = touching(code, file) if of_program(file) and touches_of(file) else {}
        self.touches = {offset: touches for offset, (_, touches) in found.items()}
        self._line_of = {offset: line for offset, (line, _) in found.items()}
        self._looks: dict[int, int] = {}
        self._ahead: dict[int, Ahead | None] = {}
        self.lines = set(self._line_of.values())

    def line_of(self, offset: int) -> int:
        """Return the line of an instruction that may touch an array."""
        return self._line_of[offset]

    def looked(self, offset: int) -> None:
        """Count a look at an instruction, and forget the instruction after many."""
        count = self._looks[offset] = self._looks.get(offset, 0) + 1
        if count >= MOST_LOOKS:
            del self.touches[offset], self._line_of[offset]
            self.lines = set(self._line_of.values())
            self._ahead.clear()

    def needs_no_watch(self, frame: FrameType, state: RankState, doing: str) -> bool:
        """Return whether all that the frame touches until its next MPI call is known now, and take note of that."""
        scope = frame.f_locals, frame.f_globals
        place = frame.f_lasti
        if place not in self._ahead:
            self._ahead[place] = _ahead_of(self, place, scope)
        ahead = self._ahead[place]
        if ahead is None or not ahead.holds(scope):
            return False
        if not ahead.arrays:
            return True  # hot path
        guards = [*state.buffers, *state.exposed]
        near = ahead.near(scope, guards)
        if near is None or (near and state.buffers):  # a store to a buffer is to fail where it is
            return False
        near.sort()
        for sight in near:
            _look_at(sight.touch, scope, (self.code.co_filename, sight.line, doing), guards, frame)
        for offset in {sight.offset for sight in near}:
            self.looked(offset)
        return True


class Sight(NamedTuple):
    """An instruction that is to come touches an array, perhaps."""

    order: int
    offset: int
    line: int
    touch: Touch


class ArrayAhead(NamedTuple):
    """The instructions to come that touch what a name means, perhaps, or give it to one function."""

    sights: tuple[Sight, ...]
    are_certain: bool
    """True if they come on all ways, and their names mean until then what they mean now."""


class Ahead(NamedTuple):
    """Between a place in a function and its next MPI call lies this, if no other code of the program is run there."""

    owners: frozenset[tuple[str, ...]]
    """Names that mean objects of mpi4py, or classes: a method of each of these is the next call."""
    harmless: frozenset[tuple[str, ...]]
    """Names that mean functions of Python which run none of the program."""
    arrays: tuple[ArrayAhead, ...]
    """The code works on these arrays, perhaps."""
    stored: frozenset[str]
    """The variables and attributes that it stores to."""
    attributes: frozenset[tuple[tuple[str, ...], str]]
    """The names of objects, each with an attribute of it: the program may have defined what runs for that."""

    def holds(self, scope: Scope) -> bool:
        """Return whether names of functions mean what they meant when this was found out."""
        for owner in self.owners:  # hot path
            if not _is_of_mpi(_value(owner, scope)):
                return False
        if any(_runs_code(_value(owner, scope), name) for owner, name in self.attributes):
            return False
        return not self.harmless or all(_is_harmless(callee, scope) for callee in self.harmless)

    def near(self, scope: Scope, guards: list[Any]) -> list[Sight] | None:
        """Return what touches guarded memory; None where that cannot be known before it comes."""
        near: list[Sight] = []
        for sights, are_certain in self.arrays:
            touch = sights[0].touch
            names = touch.array.names
            value = _value(names, scope)
            if isinstance(value, _NO_ARRAYS):
                if any(sight.touch.array.indices for sight in sights) and not self.stored.isdisjoint(names):
                    return None  # what has elements then is something else
                continue
            if type(value) is np.ndarray and not value.dtype.hasobject:
                if not are_certain and not self.stored.isdisjoint(names):
                    return None
                if value.size and _is_near(value, guards):
                    if not are_certain:
                        return None
                    near += sights
            elif not touch.callee or value is None or _is_of_python_class(value) or _of_callee(touch, scope):
                return None
        return near


def _is_near(array: Any, guards: list[Any]) -> bool:
    """Return whether guarded memory lies between the addresses where an array has its elements."""
    low, high = bounds(array)
    for guard in guards:
        pieces = guard.pieces
        if pieces and pieces[0][0] < high and low < pieces[-1][1]:
            return True
    return False


def _ahead_of(code: InCode, offset: int, scope: Scope) -> Ahead | None:
    """Return what comes between a place and the next MPI call, on all ways; None where other code is run, perhaps.

    There is none between two calls that begin a receive and a send, as often as not. It is asked once for a place.
    """
    file = code.code.co_filename
    callees = callees_of(file)
    instructions = instructions_of(code.code, file)
    at = {instruction.offset: i for i, instruction in enumerate(instructions)}
    # Within a call the frame stands somewhere in the cache behind the instruction.
    ahead, seen = [bisect_right(list(at), offset)], set[int]()
    owners, harmless, arrays = set[tuple[str, ...]](), set[tuple[str, ...]](), dict[Any, ArrayAhead]()
    stored, attributes, chain = set[str](), set[tuple[tuple[str, ...], str]](), tuple[str, ...]()
    has_forked = False
    entries = dis.Bytecode(code.code).exception_entries  # type: ignore[attr-defined]  # typeshed has it not
    caught = [range(each.start, each.end) for each in entries]
    while ahead:
        place = ahead.pop()
        if place in seen:
            continue
        seen.add(place)
        instruction = instructions[place]
        name = instruction.opname
        if any(instruction.offset in each for each in caught):
            return None  # what raises an exception has something else come
        if name.startswith("CALL"):
            key = key_of(instruction)
            callee = callees.get(key, ()) if key is not None else ()
            if len(callee) > 1 and callee[-1] in _methods() and _is_of_mpi(_value(callee[:-1], scope)):
                owners.add(callee[:-1])
                continue
            has_names = name == "CALL_KW" or any(each.opname == "KW_NAMES" for each in instructions[place - 2 : place])
            if has_names or not _is_harmless(callee, scope):  # a function of Python may call its key
                return None
            harmless.add(callee)
        elif name.startswith(_LEAVING):
            return None
        elif name in _OF_ATTRIBUTES:
            if chain:
                attributes.add((chain, instruction.argval))
            elif instructions[place - 1].opname != "SWAP":  # it has been loaded before, for `box.total += 1`
                return None
        chain = _chain(chain, instruction)
        if name.startswith(_CHANGING):
            stored.update([instruction.argval] if type(instruction.argval) is str else instruction.argval or ())
        for touch in code.touches.get(instruction.offset, ()):
            sight = Sight(len(seen), instruction.offset, code.line_of(instruction.offset), touch)
            is_certain = not has_forked and stored.isdisjoint(names_in(touch))
            sights, are_certain = arrays.get((touch.array.names, touch.callee), ((), True))
            arrays[touch.array.names, touch.callee] = ArrayAhead((*sights, sight), are_certain and is_certain)
        jumps = instruction.opcode in _JUMPS
        if jumps:
            ahead.append(at[instruction.argval])
        if not (jumps and name in _ALWAYS):
            ahead.append(place + 1)
            has_forked = has_forked or jumps
    near = tuple(arrays.values())
    return Ahead(frozenset(owners), frozenset(harmless), near, frozenset(stored), frozenset(attributes))


_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
_ALWAYS = frozenset(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"))
_LEAVING = (
    *("RETURN", "RERAISE", "RAISE", "YIELD", "SEND", "BEFORE_WITH", "IMPORT", "ASYNC", "GET_AWAITABLE"),
    "MAKE_FUNCTION",  # a function of Python may call it
)
_OF_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR")
_CHANGING = ("STORE_", "DELETE_")
_HARMLESS = frozenset(("range", "len", "enumerate", "zip", "isinstance", "int", "float", "min", "max", "abs"))
_NO_ARRAYS = (int, float, complex, str, bytes, bool, ModuleType, type, Handle)


def _chain(before: tuple[str, ...], instruction: dis.Instruction) -> tuple[str, ...]:
    """Return the names that mean what lies on the stack after an instruction; none where there are none."""
    name, value = instruction.opname, instruction.argval
    if name in ("LOAD_ATTR", "LOAD_METHOD"):
        return (*before, value)
    if "LOAD_" not in name or "CONST" in name:
        return before if name in ("PUSH_NULL", "COPY") else ()
    last = value[-1] if type(value) is tuple else value
    return (last,) if type(last) is str else ()


def _is_of_python_class(value: Any) -> bool:
    return bool(type(value).__flags__ & _HEAP_TYPE)


def _runs_code(owner: Any, name: str) -> bool:
    """Return whether code of the program may run where an attribute of an object is loaded or stored."""
    kind = type(owner)
    if owner is None or not kind.__flags__ & _HEAP_TYPE or isinstance(owner, Handle):
        return owner is None
    classes = kind.__mro__
    return any("__getattr__" in each.__dict__ or type(each.__dict__.get(name)) is property for each in classes)


def _is_of_mpi(owner: Any) -> bool:
    """Return whether it is an object or a class of mpi4py, before whose methods the watch is paused."""
    kind = owner if isinstance(owner, type) else type(owner)
    return issubclass(kind, Handle) and kind.__module__ == "mpi4py.MPI"  # and not one that the program has made of it


@cache
def _methods() -> frozenset[str]:
    from xsim_py.mpi4py.call_hooks import known_calls

    return known_calls()


def _is_harmless(callee: tuple[str, ...], scope: Scope) -> bool:
    """Return whether names mean a function of Python that runs none of the program."""
    if len(callee) == 1:
        return callee[0] in _HARMLESS and not _is_defined(callee[0], scope)
    return len(callee) == 2 and callee[1] in ("append", "extend") and type(_value(callee[:1], scope)) is list


# --------------------------------------------------------------------------------------------- while the run lasts


class LineWatch:
    """Has Python tell of the instructions of a program between its MPI calls, while a rank has guards."""

    def __init__(self, monitor: Monitor) -> None:
        forget_rewritten()
        self._monitor = monitor
        self._usable = _gettrace() is None
        self._events = 0
        self._tracer, self._opener = self._line, self._entered  # one object each, not a new method each time
        self._known: dict[tuple[CodeType, str], InCode] = {}  # by the file, too: code may be equal in two of them
        # By the addresses of code objects, of which each rank may have its own: to hash one takes microseconds.
        self._by_address: dict[int, tuple[InCode, CodeType]] = {}

    def pause(self) -> None:
        """Stop, for an MPI call has begun."""
        if self._usable and _gettrace() is self._opener:
            _settrace(None)

    def go_on(self, frame: FrameType, state: RankState, *, raised: bool = False) -> None:
        """Watch what comes after an MPI call of a rank, which `frame` has made, perhaps after an exception."""
        if not self._usable:
            return
        code = self._in(frame.f_code)
        # What catches an exception may be anywhere.
        if not raised and code.needs_no_watch(frame, state, self._monitor.doing.get(state.number, "")):
            return
        if _gettrace() not in (None, self._opener):  # the program may trace itself
            return
        _settrace(self._opener)
        frame.f_trace_opcodes = bool(code.lines)  # for the rest of the line that has made the call
        outer: FrameType | None = frame
        while outer is not None and outer.f_trace is not self._tracer:  # whoever has called that one has it, too
            if of_program(outer.f_code.co_filename):
                outer.f_trace = self._tracer
            outer = outer.f_back

    def _in(self, code: CodeType) -> InCode:
        found = self._by_address.get(id(code))
        if found is None:
            key = code, code.co_filename
            if key not in self._known:
                self._known[key] = InCode(code)
            found = self._by_address[id(code)] = self._known[key], code
        return found[0]

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not self._in(frame.f_code).lines:
            return None
        return self._tracer if of_program(frame.f_code.co_filename) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._events += 1
        code = self._in(frame.f_code)
        if event == "line":
            frame.f_trace_opcodes = frame.f_lineno in code.lines
            if not code.lines:
                frame.f_trace_lines = False
            if self._events > MOST_EVENTS:
                self._usable = False
                _settrace(None)
        elif event == "opcode":
            touches = code.touches.get(frame.f_lasti)
            if touches:
                self._look(touches, frame)
                code.looked(frame.f_lasti)
        return self._tracer

    def _look(self, touches: tuple[Touch, ...], frame: FrameType) -> None:
        fiber = current.here()
        call = self._monitor.calls.get(fiber)
        if fiber is None or (call is not None and call.is_open):
            return
        state = self._monitor.rank(fiber.rank.number)
        guards = [*state.buffers, *state.exposed]
        if not guards:
            return
        _settrace(None)  # what is evaluated here is no part of the program
        try:
            scope = frame.f_locals, frame.f_globals
            place = frame.f_code.co_filename, frame.f_lineno, self._monitor.doing.get(state.number, "")
            for touch in touches:
                _look_at(touch, scope, place, guards, frame)
        finally:
            _settrace(self._opener)


def _look_at(touch: Touch, scope: Scope, place: Place, guards: list[Any], frame: FrameType) -> None:
    """Find out whether an array of an instruction is memory that is guarded, and tell the guards."""
    try:
        found = _part(touch.array, scope)
        part = found.array
        if type(part) is not np.ndarray or not part.size or _takes_parts(touch, found, scope):
            return
    except Exception:  # the instruction itself will say what is wrong
        return
    how = _of_callee(touch, scope) if touch.callee else touch.how
    if not how:
        return
    low, high = bounds(part)
    for guard in guards:
        pieces = [(max(start, low), min(end, high)) for start, end in guard.pieces if start < high and low < end]
        if not pieces:
            continue
        does = how
        if guard.is_window:
            pieces = shared(part, *pieces[0]) if found.is_known else []
            if not pieces:
                continue
        elif found.is_known:
            if not any(shares(part, *piece) for piece in pieces[:64]):
                continue
        elif not covers(pieces, part) or (how == STORE and not found.is_some):
            if how == LOAD:
                continue
            does = MAYBE
        guard.touched(does, place, pieces, found.owner, frame)


def _takes_parts(touch: Touch, found: _Part, scope: Scope) -> bool:
    """Return whether an instruction takes the array, or parts of it that are arrays, and looks at no element."""
    if touch.target is not None:
        into = _part(touch.target, scope).array
        return type(into) is not np.ndarray or into.dtype.hasobject
    most = touch.most_dims
    return most is not None and bool(found.is_known or most) and found.array.ndim > most


def _part(array: ArrayName, scope: Scope) -> _Part:
    """Return what an expression means."""
    part = owner = _value(array.names, scope)
    for index in array.indices:
        if index is None:
            return _Part(part, owner, is_known=False)
        dotted = {".".join(names): _value(names, scope) for names in index.dotted}
        key = eval(index.code, scope[1], {**scope[0], **dotted})
        if type(part) in (list, tuple, dict):
            part = owner = part[key]
            continue
        keys = key if isinstance(key, tuple) else (key,)
        if type(part) is not np.ndarray:
            return _Part(None)
        if any(isinstance(key, np.ndarray | list) for key in keys):
            picked = part[key] if part.nbytes <= _MOST_PICKED_BYTES else None
            if picked is not None and not picked.size:
                return _Part(None)
            return _Part(part, owner, is_known=False, is_some=picked is not None)
        part = part[keys if Ellipsis in keys else (*keys, Ellipsis)]
    return _Part(part, owner)


def _value(names: tuple[str, ...], scope: Scope) -> Any:
    """Return what names mean, without running any code; None where they mean nothing."""
    variables, first = scope[0], names[0]
    value = variables[first] if first in variables else scope[1].get(first)
    for name in names[1:]:
        if type(value) is np.ndarray and (name == "T" or (name in ("real", "imag") and value.dtype.kind == "c")):
            value = getattr(value, name)
        else:
            value = getattr(value, "__dict__", {}).get(name)
    return value


def _is_defined(name: str, scope: Scope) -> bool:
    """Return whether the program has a variable of a name, which then is no function of Python."""
    return name in scope[0] or name in scope[1]


def _of_callee(touch: Touch, scope: Scope) -> str:
    """Return what a function of Python or of numpy does with an array that it is given; "" where it does nothing."""
    callee = touch.callee
    if callee == ("a method",):
        return touch.how
    if callee[0] == "an iterator":
        return LOAD if not any(_is_defined(name, scope) for name in callee[1:]) else ""
    is_in_list = callee[0] == "in a list"
    callee = callee[is_in_list:]
    if len(callee) == 1 and not _is_defined(callee[0], scope):
        return LOAD if callee[0] in _LOOKING and hasattr(builtins, callee[0]) and not is_in_list else ""
    if callee[-1] == "at" and isinstance(_value(callee[:-1], scope), np.ufunc):
        return STORE if touch.position == 0 else LOAD
    function = _value(callee, scope)
    if isinstance(function, np.ufunc):
        return STORE if touch.position >= function.nin else touch.how
    if (getattr(function, "__module__", None) or "").partition(".")[0] != "numpy":
        return ""
    name = getattr(function, "__name__", callee[-1])  # the program may call it otherwise
    if name in _STORING and touch.position == 0:
        return STORE if name in ("copyto", "fill_diagonal", "shuffle") else MAYBE
    return touch.how if name not in _NOT_LOOKING else ""
