"""Resolution of a program's names and expressions to arrays, without running its code."""

from __future__ import annotations

from array import array as array_of_python
from collections.abc import Collection, Mapping
from enum import Enum
from itertools import islice
from types import GeneratorType, MappingProxyType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from xsim_py.code_origin import of_program
from xsim_py.mpi4py.comm import Comm
from xsim_py.mpi4py.handle import Handle
from xsim_py.mpi4py.inside import comm_of

from .elements import picked
from .sources import A_METHOD, A_TEXT, A_TRUTH, LOAD, MAYBE, STORE, VIEWING, ArrayName, Index, Touch

_READING = frozenset(
    (
        *("print", "sum", "min", "max", "sorted", "float", "int", "bool", "complex", "str", "repr", "format"),
        *("list", "tuple", "set", "any", "all", "abs", "round", "bytes", "bytearray", "divmod", "pow"),
    )
)
"""Python functions that read the elements of an array."""
_READING_ITEMS = frozenset(("print", "sum", "str", "repr", "format"))
"""Of these, functions that also read arrays in a list or tuple; in a dict, all but `sum` do."""
_METADATA_ONLY = frozenset(
    (
        *("shape", "ndim", "size", "isscalar", "iterable", "isfortran", "iscomplexobj", "isrealobj"),
        *("result_type", "common_type", "can_cast", "min_scalar_type", "may_share_memory", "shares_memory"),
        *("byte_bounds", "empty_like", "zeros_like", "ones_like", "full_like", "diag_indices_from"),
        *("tril_indices_from", "triu_indices_from", "broadcast", "nditer", "info", "getmask", "getmaskarray"),
        *("is_masked", "isMaskedArray"),
    )
)
"""Functions of numpy that use only types, shapes and addresses."""
_SHARING = VIEWING.union(
    (
        *("asfortranarray", "asmatrix", "require", "permute_dims", "broadcast_to", "broadcast_arrays"),
        *("split", "array_split", "hsplit", "vsplit", "dsplit", "diagonal", "real", "imag", "real_if_close"),
        *("isreal", "iscomplex", "frombuffer", "from_dlpack"),
        *("ndarray", "as_strided", "sliding_window_view", "ix_", "ndenumerate", "Arrayterator", "MaskedArray"),
        *("filled", "getdata"),
    )
)
"""Functions of numpy whose results mostly share the memory of their array arguments; a list is copied."""
_STORING = frozenset(("copyto", "put", "putmask", "place", "put_along_axis", "fill_diagonal", "shuffle"))
"""Functions of numpy that store to their first argument."""
_OF_LIBRARY = {
    **dict.fromkeys(("zlib", "binascii", "_hashlib", "_blake2", "_md5", "_sha1", "_sha2", "_sha3"), None),
    "statistics": None,
    "array": ("array",),
    "copy": ("copy", "deepcopy"),
    "_struct": ("unpack", "unpack_from"),
    "_operator": (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "neg", "abs"),
        *("lt", "le", "gt", "ge", "contains", "countOf", "indexOf"),
    ),
}
"""Standard modules whose functions read their arguments, with the functions that do; None means all."""
_MEMORY = (bytearray, array_of_python)
"""Python classes whose objects are buffers; slices of them are copies."""
_SCALARS = {each for each in np.sctypeDict.values() if not issubclass(each, np.object_ | np.void)}
_MOST_PICKED_BYTES = 1 << 20
_MOST_HELD = 1000
_PLAIN = frozenset((*(int, float, complex, bool, str, bytes, range, type(None), type(Ellipsis)), *_SCALARS))
_MOST_PLAIN = 10_000
_NO_NAMES: dict[str, Any] = {"__builtins__": {}}
_WITHOUT_CODE = (Handle, Enum)
_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})
_VIEWS = ("T", "real", "imag", "flat")
"""Attributes of an array that share its elements."""
_VIEWED = {"real": "biufc", "imag": "c"}
"""For some of them, the required kinds of elements."""
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE

Scope = tuple[Mapping[str, Any], dict[str, Any]]
"""The variables of a function and of its module; reading them from a frame is slow."""


class Part(NamedTuple):
    """The array that an expression refers to when it is evaluated."""

    array: Any
    owner: Any = None
    """The named array of which it is a part."""
    is_known: bool = True
    """True if all of the array is meant rather than some elements."""
    pieces: list[tuple[int, int]] | None = None
    """The pieces of the elements selected by an array or list index, if known."""
    is_of_python: bool = False
    """True for a buffer that is shown here as an array but is not one of numpy."""


def takes_parts(touch: Touch, found: Part, scope: Scope) -> bool:
    """Return True if an instruction takes an array or parts of it without reading elements."""
    if touch.target is not None:
        into = part_of(touch.target, scope).array
        return type(into) is not np.ndarray or into.dtype.hasobject
    most = touch.most_dims
    if found.is_of_python:
        return most == 0 and found.array is found.owner
    if most == 0 and found.is_known and (found.array is found.owner or found.array.dtype.names):
        return True  # an element of a list, or a record
    return most is not None and bool(found.is_known or most) and found.array.ndim > most


def part_of(array: ArrayName, scope: Scope) -> Part:
    """Return the array that an expression refers to."""
    names = array.names
    is_view = names[-1] in _VIEWS and len(names) > 1
    part = owner = value_of(names[:-1] if is_view else names, scope)
    is_of_python = type(part) in _MEMORY
    if is_of_python:
        part = owner = np.asarray(part)
    for index in (names[-1], *array.indices) if is_view else array.indices:
        if index is None:
            return Part(part, owner, is_known=False, is_of_python=is_of_python)
        if isinstance(index, str):
            is_part = type(part) is np.ndarray
            part = _attribute(part, index)
            owner = owner if is_part else part
            continue
        if type(part) is np.flatiter:
            part, owner = _flattened(part), part.base
        values = _plain_values(index, scope)
        if values is None and type(part) is np.ndarray and not part.dtype.hasobject:
            return Part(part, owner, is_known=False, is_of_python=is_of_python)
        if values is None or (type(part) is dict and not _all_plain(part)):
            return Part(None)
        key = eval(index.code, _NO_NAMES, values)
        if type(part) in (list, tuple, dict) or (type(part) is np.ndarray and part.dtype.kind == "O"):
            part = owner = part[key]
            is_of_python = type(part) in _MEMORY
            if is_of_python:
                part = owner = np.asarray(part)
            continue
        keys = key if isinstance(key, tuple) else (key,)
        if type(part) is not np.ndarray:
            return Part(None)
        if isinstance(key, str):
            part = part[key]
            continue
        if any(isinstance(key, np.ndarray | list) for key in keys):
            if index is not array.indices[-1]:
                return Part(None)  # selected elements are copied
            return Part(part, owner, False, picked(part, key) if part.nbytes <= _MOST_PICKED_BYTES else None)
        part = part[keys if Ellipsis in keys else (*keys, Ellipsis)]
    base = owner if type(part) is not np.flatiter else part.base
    return Part(_flattened(part), base, is_of_python=is_of_python)


def _plain_values(index: Index, scope: Scope) -> dict[str, Any] | None:
    """Return the values of the names in an index.

    The result is None if evaluating it would run program code.
    """
    values: dict[str, Any] = {"Ellipsis": Ellipsis}
    for name in index.code.co_names:
        names = tuple(name.split("."))
        value = value_of(names, scope)
        is_none = value is None and (is_defined(name, scope) or names[-1] == "newaxis")
        if value is not None or is_none:
            values[name] = value
        if name not in values or not _is_plain(values[name]):
            return None
    return values


def _is_plain(value: Any) -> bool:
    """Return True if a value, with all it holds, consists of Python's or numpy's own types."""
    kind = type(value)
    if kind in (list, tuple):
        return _all_plain(value)
    if kind is slice:
        return _all_plain((value.start, value.stop, value.step))
    return kind in _PLAIN or (kind is np.ndarray and not value.dtype.hasobject)


def _all_plain(values: Collection[Any]) -> bool:
    return len(values) <= _MOST_PLAIN and all(map(_is_plain, values))


def _flattened(part: object) -> Any:
    """Return the one-dimensional array behind an array's `flat`.

    The result is None if there is none.
    """
    if type(part) is np.flatiter:
        return part.base.reshape(-1) if part.base.flags.c_contiguous else None
    return part


def value_of(names: tuple[str, ...], scope: Scope) -> Any:
    """Return the value of names without running any code; None if they are undefined."""
    if not names:
        return None
    variables, first = scope[0], names[0]
    value = variables[first] if first in variables else scope[1].get(first)
    if len(names) == 1:
        return value  # hot path
    for name in names[1:]:
        own = getattr(value, "__dict__", _NO_ATTRIBUTES)  # hot path
        value = own[name] if name in own else _attribute(value, name)
    return value


def _attribute(owner: object, name: str) -> Any:
    """Return an attribute of an object without running program code."""
    if isinstance(owner, Comm) and name in ("rank", "size"):
        try:
            core = comm_of(owner)
        except Exception:  # the instruction itself reports the error
            return None
        return core.me if name == "rank" else len(core.ranks)
    if type(owner) is np.ndarray and name in _VIEWS:
        return getattr(owner, name) if name in ("T", "flat") or owner.dtype.kind in _VIEWED[name] else None
    own = getattr(owner, "__dict__", _NO_ATTRIBUTES)
    return own[name] if name in own else _of_class(owner, name)


def _of_class(owner: object, name: str) -> Any:
    """Return an attribute found in an object's class or slots, or in a base class."""
    if type(owner) is ModuleType or isinstance(owner, Handle):
        return None
    classes = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
    found = next((each.__dict__[name] for each in classes if name in each.__dict__), None)
    if type(found) is MemberDescriptorType and not isinstance(owner, type):
        try:
            return found.__get__(owner)
        except AttributeError:
            return None
    return None if hasattr(type(found), "__get__") else found


def access_to_items(touch: Touch, holder: object, scope: Scope) -> str:
    """Return what an instruction does with the arrays in a list, tuple or dict; "" if nothing."""
    if touch.target is not None:
        into = part_of(touch.target, scope).array
        takes = type(into) is np.ndarray and not into.dtype.hasobject and type(holder) is not dict
        return LOAD if takes else ""
    return access_by_callee(touch, scope, type(holder)) if touch.callee not in ((), A_METHOD, A_TRUTH) else ""


def arrays_in(holder: Any) -> list[Any]:
    """Return the arrays in a list, tuple or dict."""
    values = holder.values() if type(holder) is dict else holder
    return [each for each in islice(values, _MOST_HELD) if type(each) is np.ndarray]


def is_defined(name: str, scope: Scope) -> bool:
    """Return True if the program defines a variable of this name, which hides the builtin."""
    return name in scope[0] or name in scope[1]


def access_by_callee(touch: Touch, scope: Scope, holder: type | None = None) -> str:
    """Return what a function of Python or numpy does with an array argument; "" if nothing.

    `holder` is the type of the container, a list, tuple or dict, in which the arrays are passed.
    """
    callee = touch.callee
    if callee in (A_METHOD, A_TEXT, A_TRUTH):
        return touch.how
    if callee[0] == "an iterator":
        return LOAD if holder is None and not any(is_defined(name, scope) for name in callee[1:]) else ""
    if callee[0] == "in a list":
        callee, holder = callee[1:], list
    elif touch.is_spread:
        holder = None  # the arrays themselves are passed
    if len(callee) == 1 and not is_defined(callee[0], scope):
        looking = _READING if holder is None else _READING_ITEMS
        return LOAD if callee[0] in looking and (callee[0], holder) != ("sum", dict) else ""
    if holder is dict:
        return ""
    function = value_of(callee, scope)
    owner = value_of(callee[:-1], scope) if function is None else None
    if isinstance(function, np.ufunc):
        return STORE if touch.position >= function.nin else touch.how
    if isinstance(owner, np.ufunc):
        return STORE if callee[-1] == "at" and touch.position == 0 else touch.how
    # A method of a numpy object cannot be looked up without running code; the program may rename a function.
    name = callee[-1] if function is None else getattr(function, "__name__", callee[-1])
    defined = type(owner) if function is None else function
    module = getattr(defined, "__module__", None) or type(getattr(defined, "__self__", None)).__module__
    top = module.partition(".")[0]
    if _is_of_program(function, value_of(callee[:1], scope)):
        return ""  # the program's own module may have the name of a library
    if top in _OF_LIBRARY:
        names = _OF_LIBRARY[top]
        return LOAD if not holder and (names is None or name in names) else ""
    if top not in ("numpy", "math"):
        return ""
    if name in _STORING and touch.position == 0 and type(owner) is not np.ndarray:
        return "" if holder else STORE if name in ("copyto", "fill_diagonal", "shuffle") else MAYBE
    if (
        name in _METADATA_ONLY
        or (name in _SHARING and not holder)
        or (name == "array" and module.startswith("numpy.ma"))
    ):
        return ""
    return touch.how


def _is_of_program(function: object, owner: object) -> bool:
    """Return True if a function, possibly in a module, is defined in a file of the program."""
    code = getattr(function, "__code__", None)
    file = getattr(owner if type(owner) is ModuleType else None, "__file__", None) if code is None else code.co_filename
    return file is not None and of_program(file)


def runs_code(value: object) -> bool:
    """Return True if computing with a value, or testing its truth, may run program code."""
    kind = type(value)
    return bool(kind.__flags__ & HEAP_TYPE and not isinstance(value, _WITHOUT_CODE)) or kind is GeneratorType
