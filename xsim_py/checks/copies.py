"""Check of receives into a temporary copy of an array, whose data are lost.

Indexing with a list or mask copies, as do `astype`, and `ravel` or `reshape` of an array with gaps. The source shows
which arguments are such expressions; comparing the two arrays shows whether one is a copy.
"""

from __future__ import annotations

import ast
from functools import cache
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from xsim_py.findings import INVALID_PARAMETER

from .resolve import value_of
from .sources import cleared_on_change, nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .monitor import Monitor, MpiCall

_COPYING = ("asarray", "ascontiguousarray", "asfortranarray", "ravel", "reshape", "require", "squeeze")
"""Functions of numpy whose result may be a copy of their argument."""
_NUMPY = ("np", "numpy")
Names = tuple[str, ...]


def into_copy(monitor: Monitor, call: MpiCall, buf: object, position: int, name: str) -> None:
    """Find a receive into a copy that has no other reference.

    `buf` is the receive buffer, and `position` and `name` are those of that argument.
    """
    code, offset, _ = call.place
    if isinstance(code, str):
        return
    key = id(code), offset
    sources = monitor.copies.get(key)
    if sources is None:
        sources = monitor.copies[key] = _of_call(code, offset)
    names = sources.get(position) or sources.get(name)
    if names is not None:
        _check(monitor, call, buf, names)


def _check(monitor: Monitor, call: MpiCall, buf: Any, names: Names) -> None:
    array = buf[0] if type(buf) in (list, tuple) and buf else buf
    frame = call.frame
    while frame is not None and frame.f_code is not call.place[0]:
        frame = frame.f_back
    original = None if frame is None else value_of(names, (frame.f_locals, frame.f_globals))
    if type(array) is not np.ndarray or type(original) is not np.ndarray or original.dtype.hasobject:
        return
    if array is not original and not np.may_share_memory(array, original):
        text = f"{call.title} receives into a temporary copy of {'.'.join(names)}: the received data is lost"
        monitor.note(INVALID_PARAMETER, call.place, text, call.rank.number)


def _of_call(code: CodeType, offset: int) -> dict[int | str, Names]:
    """Return the arguments of a call that may be copies, by position or name.

    Each comes with the name of the copied array.
    """
    positions = next(iter([*code.co_positions()][offset // 2 :]), None)
    if positions is None or positions[1] is None or positions[3] is None:
        return {}
    return copied_in(code.co_filename).get((positions[1], positions[3]), {})


@cleared_on_change
@cache
def copied_in(file: str) -> dict[tuple[int, int], dict[int | str, Names]]:
    """Return the arguments of each call in a file that may be copies, by the call's end."""
    found = {}
    for node in nodes_of(file):
        if isinstance(node, ast.Call) and not any(isinstance(each, ast.Starred) for each in node.args):
            copies = dict(_copies(node))
            if copies:
                found[node.end_lineno or 0, node.end_col_offset or 0] = copies
    return found


def _copies(node: ast.Call) -> Iterator[tuple[int | str, Names]]:
    arguments: list[tuple[int | str, ast.expr]] = [*enumerate(node.args)]
    arguments += [(each.arg, each.value) for each in node.keywords if each.arg is not None]
    for where, value in arguments:
        if isinstance(value, ast.List | ast.Tuple) and value.elts:
            value = value.elts[0]
        if not isinstance(value, ast.Name | ast.Attribute) and (names := _copied(value)):
            yield where, names


def _copied(node: ast.expr) -> Names:
    """Return the name of the array from which an expression takes elements.

    The result is empty for other expressions.
    """
    if isinstance(node, ast.Subscript):
        return _copied(node.value)
    if isinstance(node, ast.Call):
        function = node.func
        if not isinstance(function, ast.Attribute):
            return ()
        if isinstance(function.value, ast.Name) and function.value.id in _NUMPY:
            return _copied(node.args[0]) if function.attr in _COPYING and node.args else ()
        return _copied(function.value) if function.attr != "copy" else ()  # `copy` is intentional
    if isinstance(node, ast.Attribute):
        inner = _copied(node.value)
        return (*inner, node.attr) if inner else ()
    return (node.id,) if isinstance(node, ast.Name) else ()
