"""Source analysis of array accesses and called functions."""

from __future__ import annotations

import ast
import copy
import dis
import linecache
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from xsim_py.code_origin import lines_of

if TYPE_CHECKING:
    from types import CodeType

_Cached = TypeVar("_Cached")

LOAD, STORE, MAYBE = "load", "store", "store, perhaps"
"""Kinds of accesses; `MAYBE` stores to some elements or to none."""

A_METHOD, A_TEXT, A_TRUTH = ("a method",), ("a text",), ("a truth",)
"""Callees without a name: a method of the array, string formatting, or a truth or equality test."""

_LOADING_METHODS = frozenset(
    (
        *("sum", "min", "max", "mean", "std", "var", "prod", "any", "all", "copy", "astype", "tolist"),
        *("tobytes", "item", "dot", "argmax", "argmin", "cumsum", "cumprod", "round", "argsort", "nonzero"),
        *("trace", "ptp", "clip", "take", "flatten", "searchsorted", "compress", "choose", "repeat", "conj"),
        *("conjugate", "dump", "dumps", "tofile"),
    )
)
_STORING_METHODS = frozenset(("fill", "sort", "partition", "put", "itemset"))
_SELECTING = frozenset(("item", "take", "compress", "extract", "choice", "trace", "put", "itemset"))
"""Functions and methods that read, or store to, some elements of their argument."""
_VIEWING_METHODS = frozenset(("reshape", "ravel", "transpose", "swapaxes", "squeeze", "view"))
"""Methods that return an array of the same elements."""
VIEWING = frozenset(
    (
        *("asarray", "asanyarray", "ascontiguousarray", "reshape", "ravel", "transpose", "swapaxes", "moveaxis"),
        *("rollaxis", "squeeze", "expand_dims", "atleast_1d", "atleast_2d", "atleast_3d", "flip", "flipud"),
        *("fliplr", "rot90", "matrix_transpose"),
    )
)
"""Functions of numpy, called as `np.something`, that also do so."""
_NUMPY = ("np", "numpy")
_ADDING_DIMENSIONS = frozenset(("reshape", "expand_dims", "atleast_2d", "atleast_3d"))
"""Functions and methods that may add dimensions: iterating over the result yields arrays."""
_BY_ELEMENT = frozenset(("nditer", "ndenumerate"))
_ROWS = frozenset(("list", "tuple", "diag", "unstack"))
"""Functions that read no element of a two-dimensional array."""
_LAZY = frozenset(("enumerate", "zip", "reversed", "map", "filter", "iter"))
"""Python functions whose result reads elements of their arguments when it is iterated over."""
_ITERATING = frozenset(("list", "tuple", "set", "frozenset", "dict", "sorted", "sum", "min", "max", "any", "all"))
"""Python functions that iterate over their argument."""
_VIEWS_OF_DICT = frozenset(("items", "keys", "values"))
_SAFE = (
    *(ast.Constant, ast.Name, ast.Slice, ast.Tuple, ast.List, ast.UnaryOp, ast.BinOp, ast.Compare, ast.Load),
    *(ast.operator, ast.unaryop, ast.cmpop),
)

_GROUPS = {
    **dict.fromkeys(("BINARY_SUBSCR", "BINARY_SLICE"), "get"),
    **dict.fromkeys(("STORE_SUBSCR", "STORE_SLICE"), "set"),
    **dict.fromkeys(("BINARY_OP", "COMPARE_OP", "CONTAINS_OP"), "binary"),
    **dict.fromkeys(("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT", "UNARY_NOT"), "unary"),
    **dict.fromkeys(("CALL", "CALL_KW", "CALL_FUNCTION_EX"), "call"),
    **dict.fromkeys(("UNPACK_SEQUENCE", "UNPACK_EX", "LIST_EXTEND", "SET_UPDATE"), "unpack"),
    **dict.fromkeys(("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"), "format"),
    **dict.fromkeys(("GET_ITER", "GET_YIELD_FROM_ITER"), "iterate"),
    "STORE_ATTR": "attribute",
}
"""The instruction groups used in this file."""


class ArrayName(NamedTuple):
    """The way in which a program names an array or a part of one."""

    names: tuple[str, ...]
    """A variable, and attributes from there."""
    indices: tuple[Any, ...] = ()
    """Each is an `Index`, None if it cannot be evaluated twice, or a string for an attribute of the indexed object."""


class Index(NamedTuple):
    """An index expression of a program."""

    code: CodeType
    dotted: tuple[tuple[str, ...], ...]
    """The attributes in it, each of which is one dotted name in the code."""


class Touch(NamedTuple):
    """An access of an instruction to an array."""

    how: str
    array: ArrayName
    callee: tuple[str, ...] = ()
    """The function to which it is passed, or its method, if any."""
    position: int = -1
    """Its index among the arguments of that function."""
    most_dims: int | None = None
    """The number of dimensions above which the instruction only takes parts of the array, if any."""
    target: ArrayName | None = None
    """The assignment target, if any: only an array there copies the elements; others keep a reference."""
    is_spread: bool = False
    """True if the elements of the array are passed as separate arguments."""


def names_in(touch: Touch) -> set[str]:
    """Return the names that determine which array elements an instruction accesses."""
    arrays = [touch.array, *([touch.target] if touch.target else [])]
    found = {name for array in arrays for name in array.names}
    for index in [index for array in arrays for index in array.indices]:
        if isinstance(index, Index):
            found.update(part for name in index.code.co_names for part in name.split("."))
        elif index is not None:
            found.add(index)
    return found


Key = tuple[str, int, int]
"""The key of an instruction: its group, and the line and column where its expression ends or its loop begins."""


_lines_read: dict[str, list[str]] = {}
"""The lines of each file that has been read."""


def clear_changed() -> None:
    """Clear all caches if a file has changed: a program may be edited between two runs."""
    for file, lines in _lines_read.items():
        linecache.checkcache(file)
        if lines_of(file) != lines:
            _lines_read.clear()
            for function in _caches:
                function.cache_clear()
            return


_caches: list[Any] = []
"""Functions whose caches are cleared when a file they have read changes."""


def cleared_on_change(function: _Cached) -> _Cached:
    """Clear the cache of a decorated function when a file changes."""
    _caches.append(function)
    return function


@cleared_on_change
@lru_cache(maxsize=1)
def nodes_of(file: str) -> list[ast.AST]:
    """Return the syntax nodes of a file; empty if it is not valid Python."""
    lines = _lines_read[file] = lines_of(file)
    try:
        return list(ast.walk(ast.parse("".join(lines))))
    except (SyntaxError, ValueError):
        return []


@cleared_on_change
@cache
def touches_of(file: str) -> dict[Key, tuple[Touch, ...]]:
    """Return the possible array accesses of each instruction of a file."""
    found: dict[Key, list[Touch]] = {}
    for node in nodes_of(file):
        for group, end, touch in _accesses_of(node):
            begins = group == "iterate"
            line, column = (end.lineno, end.col_offset) if begins else (end.end_lineno, end.end_col_offset)
            found.setdefault((group, line, column), []).append(touch)
    return {key: tuple(dict.fromkeys(touches)) for key, touches in found.items()}


@cleared_on_change
@lru_cache(maxsize=128)
def instructions_of(code: CodeType, file: str) -> list[dis.Instruction]:
    """Return the instructions of a function.

    The file is part of the key, because equal code may be in two files.
    """
    return list(dis.get_instructions(code))


@cleared_on_change
@lru_cache(maxsize=128)
def touching(code: CodeType, file: str) -> dict[int, tuple[int, tuple[Touch, ...]]]:
    """Return the line and the possible array accesses of each instruction, by offset."""
    of_file = touches_of(file)
    found = {}
    line = 0
    for instruction in instructions_of(code, file):
        line = instruction.starts_line or line if not isinstance(instruction.starts_line, bool) else line
        key = key_of(instruction)
        here = None if key is None else of_file.get(key)
        if here:
            assert instruction.positions is not None
            found[instruction.offset] = instruction.positions.lineno or line, here
    return found


def key_of(instruction: dis.Instruction) -> Key | None:
    """Return the key of an instruction in the source; None if it accesses no value."""
    group, position = _GROUPS.get(instruction.opname), instruction.positions
    if group is None or position is None:
        return None
    line, column = position.end_lineno, position.end_col_offset
    if group == "iterate":
        line, column = position.lineno, position.col_offset
    return None if line is None or column is None else (group, line, column)


def _accesses_of(node: ast.AST) -> Iterator[tuple[str, Any, Touch]]:
    """Yield the accesses of a node.

    Each has an instruction group and the node where it ends.
    """
    if isinstance(node, ast.Subscript):
        array = _array(node.value)
        if array is not None and array.names[-1] in ("r_", "c_") and array.names[0] in _NUMPY:
            yield from _loads("get", node, *_parts(node.slice))
        elif array is not None and isinstance(node.ctx, ast.Store):
            yield "set", node, Touch(STORE, array._replace(indices=(*array.indices, _index(node.slice))))
        elif array is not None and isinstance(node.ctx, ast.Load):
            item = array._replace(indices=(*array.indices, _index(node.slice)))
            yield "get", node, Touch(LOAD, item, most_dims=0)
    elif isinstance(node, ast.AugAssign):
        array = _array(node.target)
        if array is not None and isinstance(node.target, ast.Subscript):
            yield "set", node.target, Touch(STORE, array)
            yield "set", node, Touch(STORE, array)
        elif array is not None:
            yield "binary", node, Touch(STORE, array)
        yield from _loads("binary", node, node.value)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_text(node.left):
        for each in _parts(node.right):
            yield from _loads("binary", node, each, callee=A_TEXT)
            yield from _loads("format", each, each, callee=A_TEXT)  # Python may compile it so
    elif isinstance(node, ast.BinOp):
        yield from _loads("binary", node, node.left, node.right)
    elif isinstance(node, ast.Compare):
        operands = [each for operand in (node.left, *node.comparators) for each in _parts(operand)]
        is_equality = all(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops)
        yield from _loads("binary", node, *operands, callee=A_TRUTH if is_equality else ())
    elif isinstance(node, ast.UnaryOp):
        yield from _loads("unary", node, node.operand, callee=A_TRUTH if isinstance(node.op, ast.Not) else ())
    elif isinstance(node, ast.For):
        yield from _iterated(node, node.iter)
    elif isinstance(node, ast.YieldFrom):
        yield from _iterated(node, node.value)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        yield from _iterated(node, node.generators[0].iter)
        for generator in node.generators[1:]:
            yield from _iterated(generator.iter, generator.iter)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _assigned(target, node.value)
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        for element in node.elts:
            if isinstance(element, ast.Starred):
                yield from _loads("unpack", node, element.value, most_dims=1)
    elif isinstance(node, ast.FormattedValue):
        yield from _loads("format", node, node.value, callee=A_TEXT)
    elif isinstance(node, ast.Call):
        yield from _accesses_of_call(node)


def _loads(
    group: str, end: ast.AST, *operands: ast.AST, most_dims: int | None = None, callee: tuple[str, ...] = ()
) -> Iterator[tuple[str, Any, Touch]]:
    for operand in operands:
        array = _elements(operand) if most_dims is None else _iterable(operand)
        if array is not None:
            yield group, end, Touch(LOAD, array, callee, most_dims=most_dims)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _iterated(node: ast.AST, iterated: ast.AST) -> Iterator[tuple[str, Any, Touch]]:
    """Yield the accesses at the start of an iteration.

    Before Python 3.13 they are located at the whole statement.
    """
    for place in dict.fromkeys((node, iterated)):
        if isinstance(iterated, ast.Call) and iterated.args and _function(iterated) in _BY_ELEMENT:
            yield from _loads("iterate", place, *_parts(iterated.args[0]))
        yield from _loads("iterate", place, iterated, most_dims=1)
        for touch in _iterated_lazily(iterated):
            yield "iterate", place, touch


def _iterated_lazily(iterated: ast.AST, *callees: str) -> Iterator[Touch]:
    """Yield the arrays read by iterating over the result of a function such as `zip`."""
    if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) and iterated.func.id in _LAZY:
        callee = (*(callees or ("an iterator",)), iterated.func.id)
        for argument in iterated.args:
            array = _iterable(argument)
            if array is not None:
                yield Touch(LOAD, array, callee=callee, most_dims=1)
            yield from _iterated_lazily(argument, *callee)


def _assigned(target: ast.AST, value: ast.AST) -> Iterator[tuple[str, Any, Touch]]:
    array = _elements(value)
    if isinstance(target, ast.Attribute) and target.attr in ("flat", "real", "imag"):
        stored = _array(target)
        if stored is not None:
            yield "attribute", target, Touch(STORE, stored)
    elif isinstance(target, ast.Subscript) and array is not None:
        into = _array(target.value)
        if into is not None:
            yield "set", target, Touch(LOAD, array, target=into)
    elif isinstance(target, ast.Tuple | ast.List):
        yield from _loads("unpack", target, value, most_dims=1)
        for touch in _iterated_lazily(value):
            yield "unpack", target, touch
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            assigned = set[str]()
            for into_one, one in zip(target.elts, value.elts, strict=True):
                if isinstance(into_one, ast.Starred) or isinstance(one, ast.Starred):
                    return
                if not assigned & {name.id for name in ast.walk(one) if isinstance(name, ast.Name)}:
                    yield from _assigned(into_one, one)
                assigned |= {name.id for name in ast.walk(into_one) if isinstance(name, ast.Name)}


def _accesses_of_call(node: ast.Call) -> Iterator[tuple[str, Any, Touch]]:
    callee = _names(node.func)
    if isinstance(node.func, ast.Attribute):
        method, owner = node.func.attr, node.func.value
        if method in _LOADING_METHODS | _STORING_METHODS and not (method == "astype" and _shares(node)):
            how = STORE if method in _STORING_METHODS else LOAD
            array = _array(owner) if how == STORE else _elements(owner)
            if array is not None:
                yield "call", node, Touch(how, _selected(array, method, node), callee=A_METHOD)
        if method == "format" and _is_text(owner):
            yield from _loads("call", node, *node.args, callee=A_TEXT)
    if callee:
        for touch in _of_arguments(node, callee):
            yield "call", node, touch


def _of_arguments(node: ast.Call, callee: tuple[str, ...]) -> Iterator[Touch]:
    """Yield the arrays that a call passes to a named function."""
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    arguments = [] if _shares(node) and callee[-1] != "nan_to_num" else node.args
    most_dims = 1 if callee[-1] in _ROWS else None
    for i, argument in enumerate(arguments):
        is_list = isinstance(argument, ast.List | ast.Tuple)
        for each in _parts(argument):
            array = _elements(each)
            if array is not None:
                named_callee, spread = ("in a list", *callee) if is_list else callee, isinstance(argument, ast.Starred)
                array = _selected(array, callee[-1], node)
                yield Touch(LOAD, array, named_callee, i, None if is_list else most_dims, is_spread=spread)
        if len(callee) == 1 and callee[0] in _ITERATING:
            yield from _iterated_lazily(argument, "an iterator", *callee)
    for name, value in named.items():
        for each in _parts(value) if name == "out" else [value]:
            array = _elements(each)
            if array is not None:
                how = LOAD if name != "out" else MAYBE if "where" in named else STORE
                yield Touch(how, array, callee)


def _selected(array: ArrayName, function: str, call: ast.Call) -> ArrayName:
    """Return an array, or unknown elements of it if a function selects some."""
    return array._replace(indices=(*array.indices, None)) if function in _SELECTING and call.args else array


def _shares(call: ast.Call) -> bool:
    """Return True if the result of a call may share or hold the memory of its arguments."""
    named = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg in ("copy", "dtype")}
    return named.get("copy", "True") != "True" or named.get("dtype") == "object"


def _parts(argument: ast.AST) -> list[ast.expr]:
    """Return the expressions in an argument: numpy functions also read the arrays in a list."""
    if isinstance(argument, ast.List | ast.Tuple):
        return [each for element in argument.elts for each in _parts(element)]
    return [cast(ast.expr, argument.value if isinstance(argument, ast.Starred) else argument)]


def _elements(node: ast.AST) -> ArrayName | None:
    """Return the name of the array that an expression is or reshapes."""
    while isinstance(node, ast.Call):
        if _function(node) in VIEWING and len(node.args) > 0:
            node = node.args[0]
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWING_METHODS:
            node = node.func.value
        else:
            break
    return _array(node)


def _iterable(node: ast.AST) -> ArrayName | None:
    """Return the name of an array like `_elements`.

    The result is None if the expression may have more dimensions.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING_DIMENSIONS:
        shape = node.args[-1:]
        if not shape or not isinstance(shape[0], ast.Constant | ast.UnaryOp) or _function(node) or len(node.args) > 1:
            return None
    return _elements(node)


def _function(call: ast.Call) -> str:
    """Return the name of a called numpy function."""
    names = _names(call.func)
    return names[1] if len(names) == 2 and names[0] in _NUMPY else ""


def _array(node: ast.AST) -> ArrayName | None:
    """Return the name of the array that an expression may be."""
    if isinstance(node, ast.Subscript):
        inner = _array(node.value)
        return None if inner is None else inner._replace(indices=(*inner.indices, _index(node.slice)))
    names = _names(node)
    if not names and isinstance(node, ast.Attribute):
        inner = _array(node.value)
        return None if inner is None else inner._replace(indices=(*inner.indices, node.attr))
    return ArrayName(names) if names else None


def _names(node: ast.AST) -> tuple[str, ...]:
    """Return a variable and its attributes as names; empty for any other expression."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        inner = _names(node.value)
        return (*inner, node.attr) if inner else ()
    return ()


class _Dotted(ast.NodeTransformer):
    """A transformer that replaces each attribute by one dotted name, and collects them."""

    def __init__(self) -> None:
        self.found: list[tuple[str, ...]] = []

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:  # the name is required by the base class
        names = _names(node)
        if not names:
            return node
        self.found.append(names)
        return ast.Name(".".join(names), ast.Load())


def _index(node: ast.AST) -> Index | None:
    """Return an index if it can be evaluated twice; else None."""
    dotted = _Dotted()
    node = dotted.visit(copy.deepcopy(node))
    if all(isinstance(each, _SAFE) for each in ast.walk(node)):
        code = compile(ast.fix_missing_locations(ast.Expression(cast(ast.expr, node))), "<index>", "eval")
        return Index(code, tuple(dotted.found))
    return None


@cleared_on_change
@cache
def callees_of(file: str) -> dict[Key, tuple[str, ...]]:
    """Return the names of the function that each call of a file calls.

    For a method of an expression it is only the method's name.
    """
    found = {}
    for node in nodes_of(file):
        if isinstance(node, ast.Call):
            names = _names(node.func)
            if not names and isinstance(node.func, ast.Attribute):
                names = ("", node.func.attr)
            found["call", node.end_lineno or 0, node.end_col_offset or 0] = names
    return found


class Iterated(NamedTuple):
    """The iterable of a loop."""

    names: tuple[tuple[str, ...], ...]
    callees: tuple[tuple[str, ...], ...] = ()
    """The Python functions applied to the names, outermost first."""


@cleared_on_change
@cache
def iterated_of(file: str) -> dict[Key, Iterated]:
    """Return the iterable of each loop of a file, if it is known by names."""
    found = {}
    for node in nodes_of(file):
        places: list[tuple[ast.AST, ast.AST]] = []
        if isinstance(node, ast.For):
            places = [(node, node.iter)]
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            places = [(node, node.generators[0].iter), *((each.iter, each.iter) for each in node.generators[1:])]
        for place, iterated in places:
            known = _iterated_by(iterated)
            if known is not None:
                for each in cast(Any, (place, iterated)):
                    found["iterate", each.lineno, each.col_offset] = known
    return found


def _iterated_by(node: ast.AST) -> Iterated | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        callee = (node.func.id,)
        inner = [] if node.func.id == "range" else [_iterated_by(each) for each in node.args]
        names = [name for each in inner if each is not None for name in each.names]
        callees = [name for each in inner if each is not None for name in each.callees]
        return None if None in inner else Iterated(tuple(names), (callee, *callees))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS_OF_DICT:
        node = node.func.value
    if isinstance(node, ast.Constant):
        return Iterated(())
    array = _elements(node)
    return None if array is None else Iterated((array.names,))
