"""Lines of the program that touch memory which a request or a window uses: found before they are executed.

While a rank has such memory, Python tells of each line of the program (`sys.settrace`) that it comes to between two MPI
calls. Of each line is known from its source which arrays it loads from or stores to, and by which index; whether that
is the memory in question is found by evaluating just the name and the index. Only indices without calls are evaluated,
so nothing happens twice. Where a debugger or a coverage tool traces already, nothing is watched.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np

from xsim_py.code_origin import of_program
from xsim_py.mpi4py.handle import Handle
from xsim_py.process.ranks import current

if TYPE_CHECKING:
    from types import FrameType

    from .monitor import Monitor

LOAD, STORE = "load", "store"

_METADATA = frozenset({"len", "id", "type", "isinstance", "hasattr", "getattr", "memoryview"})
_OF_SHAPE = frozenset({"shape", "ndim", "size", "may_share_memory", "shares_memory", "empty_like", "zeros_like"})
_VIEWS = frozenset({"view", "reshape", "ravel", "transpose", "swapaxes", "squeeze", "setflags"})
_STORING = frozenset({"fill", "sort", "partition", "put", "itemset", "resize", "byteswap"})
_SAFE = (ast.Constant, ast.Name, ast.Slice, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.Load)


class Guard(Protocol):
    """Memory that a rank must not touch, or not unnoticed.

    Attributes
    ----------
    pieces : list of (int, int)
        The addresses between which it lies.
    """

    pieces: list[tuple[int, int]]

    def touched(self, how: str, place: tuple[str, int], pieces: list[tuple[int, int]]) -> None:
        """Take note that a line loads from it or stores to it."""


class Touch(NamedTuple):
    """An array in a line of source."""

    how: str
    """`LOAD` or `STORE`."""
    names: tuple[str, ...]
    """A variable, and attributes from there."""
    index: Any
    """The code of the index; None: the whole array."""
    callee: tuple[str, ...]
    """The function that it is given to, if any."""
    makes_view: bool
    """Whether the line only gives another name to a part of the array, where that part is an array."""


@cache
def _touches(file: str) -> dict[int, tuple[Touch, ...]]:
    """Return the arrays, perhaps, that each line of a file touches."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, list[Touch]] = {}
    for statement in ast.walk(tree):
        if isinstance(statement, ast.stmt):
            for line, touch in _of_statement(statement):
                found.setdefault(line, []).append(touch)
    return {line: tuple(dict.fromkeys(touches)) for line, touches in found.items()}


def _of_statement(statement: ast.stmt) -> Iterator[tuple[int, Touch]]:
    """Yield what a statement itself touches, without the statements in it; a line event names its first line."""
    for field in ast.iter_child_nodes(statement):
        if not isinstance(field, ast.stmt | ast.excepthandler | ast.arguments):
            alone = isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return) and field is statement.value
            if isinstance(statement, ast.For | ast.AsyncFor) and field is statement.target:
                continue
            stores = isinstance(statement, ast.AugAssign) and field is statement.target
            for touch in _of_expression(field, alone=alone, stores=stores):
                yield statement.lineno, touch


def _of_expression(node: ast.AST, *, alone: bool, stores: bool = False) -> Iterator[Touch]:
    names = _names(node)
    if names:
        if not alone and (stores or isinstance(getattr(node, "ctx", None), ast.Load)):
            yield Touch(STORE if stores else LOAD, names, None, (), False)
        return
    if isinstance(node, ast.Subscript):
        names = _names(node.value)
        if names:
            stores = stores or isinstance(node.ctx, ast.Store)
            yield Touch(STORE if stores else LOAD, names, _index(node.slice), (), alone)
        else:
            yield from _of_expression(node.value, alone=alone, stores=stores or isinstance(node.ctx, ast.Store))
        yield from _of_expression(node.slice, alone=False)
    elif isinstance(node, ast.Attribute):
        yield from _of_expression(node.value, alone=True)
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Tuple | ast.List):
        for element in node.elts:
            yield from _of_expression(element, alone=alone)
    elif not isinstance(node, ast.Lambda):
        for inner in ast.iter_child_nodes(node):
            yield from _of_expression(inner, alone=False)


def _of_call(node: ast.Call) -> Iterator[Touch]:
    callee = _names(node.func)
    if isinstance(node.func, ast.Attribute):
        owner = _names(node.func.value)
        if owner and node.func.attr not in _VIEWS:
            yield Touch(STORE if node.func.attr in _STORING else LOAD, owner, None, (*owner, node.func.attr), False)
        elif not owner:
            yield from _of_expression(node.func.value, alone=node.func.attr in _VIEWS)
    for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
        for touch in _of_expression(argument, alone=False):
            yield touch if touch.callee else touch._replace(callee=callee or ("?",))


def _names(node: ast.AST) -> tuple[str, ...]:
    """Return a variable and attributes of it, as names; nothing of any other expression."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        inner = _names(node.value)
        return (*inner, node.attr) if inner else ()
    return ()


def _index(node: ast.AST) -> Any:
    """Return the code of an index that can be evaluated twice, or nothing that stands for all elements."""
    if all(isinstance(each, _SAFE) for each in ast.walk(node)):
        return compile(ast.fix_missing_locations(ast.Expression(cast(ast.expr, node))), "<index>", "eval")
    return None


# --------------------------------------------------------------------------------------------- while the run lasts


class LineWatch:
    """Has Python tell of the lines of a program between its MPI calls, while a rank has guards."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._usable = sys.gettrace() is None

    def pause(self) -> None:
        """Stop, for an MPI call has begun."""
        if self._usable and sys.gettrace() is not None:
            sys.settrace(None)

    def go_on(self, frame: FrameType) -> None:
        """Watch the lines that come after an MPI call, which `frame` has made."""
        if not self._usable:
            return
        sys.settrace(self._entered)
        outer: FrameType | None = frame
        while outer is not None:
            if of_program(outer.f_code.co_filename):
                outer.f_trace = self._line
            outer = outer.f_back

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if of_program(frame.f_code.co_filename) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event != "line":
            return self._line
        touches = _touches(frame.f_code.co_filename).get(frame.f_lineno)
        fiber = current.here() if touches else None
        if touches and fiber is not None and fiber not in self._monitor.inside:
            state = self._monitor.rank(fiber.rank.number)
            guards = [*state.buffers, *state.exposed]
            if guards:
                sys.settrace(None)  # what is evaluated here is no line of the program
                try:
                    for touch in touches:
                        _look(touch, frame, guards)
                finally:
                    sys.settrace(self._entered)
        return self._line


def _look(touch: Touch, frame: FrameType, guards: list[Any]) -> None:
    """Find out whether an array in a line is memory that is guarded, and tell the guards."""
    array = _value(touch.names, frame)
    if type(array) is not np.ndarray or not array.size or _harmless(touch.callee, frame):
        return
    try:
        part = array if touch.index is None else _part(array, eval(touch.index, frame.f_globals, frame.f_locals))
    except Exception:  # the line itself will say what is wrong
        return
    if part is None or (touch.makes_view and part.ndim):
        return
    low, high = _bounds(part)
    for guard in list(guards):
        pieces = [(max(start, low), min(end, high)) for start, end in guard.pieces if start < high and low < end]
        if pieces and any(_shares(part, start, end) for start, end in pieces[:64]):
            guard.touched(touch.how, (frame.f_code.co_filename, frame.f_lineno), pieces)


def _part(array: Any, index: Any) -> Any:
    """Return a part of an array as an array, without a copy; None where that cannot be."""
    keys = index if isinstance(index, tuple) else (index,)
    if any(isinstance(key, np.ndarray | list) for key in keys):
        return array  # of which it takes some elements
    return array[keys if Ellipsis in keys else (*keys, Ellipsis)]


def _bounds(array: Any) -> tuple[int, int]:
    """Return the addresses between which an array has all of its elements."""
    low = high = array.ctypes.data
    for count, stride in zip(array.shape, array.strides, strict=True):
        low += min((count - 1) * stride, 0)
        high += max((count - 1) * stride, 0)
    return low, high + array.itemsize


def _shares(part: Any, start: int, end: int) -> bool:
    """Return whether an array has an element between two addresses, which lie in memory that is there."""
    if part.flags.c_contiguous or part.flags.f_contiguous:
        return True
    offsets = np.zeros(1, np.int64)
    for count, stride in zip(part.shape, part.strides, strict=True):
        offsets = (offsets[:, None] + np.arange(count) * stride).reshape(-1)
        if len(offsets) > 1 << 16:
            return True
    at = part.ctypes.data + offsets
    return bool(((at < end) & (at + part.itemsize > start)).any())


def _value(names: tuple[str, ...], frame: FrameType) -> Any:
    """Return what names mean in a frame, without running any code; None where they mean nothing."""
    value = frame.f_locals.get(names[0], frame.f_globals.get(names[0]))
    for name in names[1:]:
        value = getattr(value, "__dict__", {}).get(name)
    return value


def _harmless(callee: tuple[str, ...], frame: FrameType) -> bool:
    """Return whether a function does not look at the elements: it is one of MPI, of the program, or about shapes."""
    if not callee:
        return False
    if callee[-1] in _METADATA | _OF_SHAPE:
        return True
    owner = _value(callee[:-1], frame) if len(callee) > 1 else None
    if isinstance(owner, Handle) or (isinstance(owner, type) and issubclass(owner, Handle)):
        return True
    function = _value(callee, frame)
    if function is None and owner is not None:
        function = getattr(type(owner), callee[-1], None)
    code = getattr(function, "__code__", None)
    return isinstance(function, type) or (code is not None and of_program(code.co_filename))
