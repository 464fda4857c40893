"""Names and expressions of a program mean arrays, which are found without running any of its code."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .sources import LOAD, MAYBE, STORE, ArrayName, Touch

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
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE

Scope = tuple[Mapping[str, Any], dict[str, Any]]
"""The variables of a function and of its module; to read them from a frame is slow."""


class Part(NamedTuple):
    """The array that an expression means, at the time when it is evaluated."""

    array: Any
    owner: Any = None
    """The array that has a name, of which it is a part."""
    is_known: bool = True
    """True if all of the array is meant, and not just some elements."""
    is_some: bool = False
    """True if at least one element is meant, where not all are."""


def takes_parts(touch: Touch, found: Part, scope: Scope) -> bool:
    """Return whether an instruction takes the array, or parts of it that are arrays, and looks at no element."""
    if touch.target is not None:
        into = part_of(touch.target, scope).array
        return type(into) is not np.ndarray or into.dtype.hasobject
    most = touch.most_dims
    return most is not None and bool(found.is_known or most) and found.array.ndim > most


def part_of(array: ArrayName, scope: Scope) -> Part:
    """Return what an expression means."""
    part = owner = value_of(array.names, scope)
    for index in array.indices:
        if index is None:
            return Part(part, owner, is_known=False)
        dotted = {".".join(names): value_of(names, scope) for names in index.dotted}
        key = eval(index.code, scope[1], {**scope[0], **dotted})
        if type(part) in (list, tuple, dict):
            part = owner = part[key]
            continue
        keys = key if isinstance(key, tuple) else (key,)
        if type(part) is not np.ndarray:
            return Part(None)
        if any(isinstance(key, np.ndarray | list) for key in keys):
            picked = part[key] if part.nbytes <= _MOST_PICKED_BYTES else None
            if picked is not None and not picked.size:
                return Part(None)
            return Part(part, owner, is_known=False, is_some=picked is not None)
        part = part[keys if Ellipsis in keys else (*keys, Ellipsis)]
    return Part(part, owner)


def value_of(names: tuple[str, ...], scope: Scope) -> Any:
    """Return what names mean, without running any code; None where they mean nothing."""
    if not names:
        return None
    variables, first = scope[0], names[0]
    value = variables[first] if first in variables else scope[1].get(first)
    for name in names[1:]:
        if type(value) is np.ndarray and (name == "T" or (name in ("real", "imag") and value.dtype.kind == "c")):
            value = getattr(value, name)
        else:
            value = getattr(value, "__dict__", {}).get(name)
    return value


def is_defined(name: str, scope: Scope) -> bool:
    """Return whether the program has a variable of a name, which then is no function of Python."""
    return name in scope[0] or name in scope[1]


def done_by_callee(touch: Touch, scope: Scope) -> str:
    """Return what a function of Python or of numpy does with an array that it is given; "" where it does nothing."""
    callee = touch.callee
    if callee == ("a method",):
        return touch.how
    if callee[0] == "an iterator":
        return LOAD if not any(is_defined(name, scope) for name in callee[1:]) else ""
    is_in_list = callee[0] == "in a list"
    callee = callee[is_in_list:]
    if len(callee) == 1 and not is_defined(callee[0], scope):
        return LOAD if callee[0] in _LOOKING and hasattr(builtins, callee[0]) and not is_in_list else ""
    if callee[-1] == "at" and isinstance(value_of(callee[:-1], scope), np.ufunc):
        return STORE if touch.position == 0 else LOAD
    function = value_of(callee, scope)
    if isinstance(function, np.ufunc):
        return STORE if touch.position >= function.nin else touch.how
    if (getattr(function, "__module__", None) or "").partition(".")[0] != "numpy":
        return ""
    name = getattr(function, "__name__", callee[-1])  # the program may call it otherwise
    if name in _STORING and touch.position == 0:
        return STORE if name in ("copyto", "fill_diagonal", "shuffle") else MAYBE
    return touch.how if name not in _NOT_LOOKING else ""


def is_of_python_class(value: Any) -> bool:
    """Return whether the class of a value is written in Python, be it of the program or of a package."""
    return bool(type(value).__flags__ & HEAP_TYPE)
