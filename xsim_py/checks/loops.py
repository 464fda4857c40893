"""Source analysis: loops and recursive functions that poll memory for a value.

A rank may poll a location of its window that another rank puts to (MPI 4.1, 12.7, of the unified memory model: "this
permits polling on a location for a change from zero to non-zero or for a particular value"). Such a load is in a loop,
or in a recursive function, and the loaded value may decide whether that continues. The analysis follows names through
assignments, calls, and values that functions return or keep. In doubt a load is polling.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.code_origin import of_program
from xsim_py.mpi4py.door import known_calls

from .sources import cleared_on_change, nodes_of

if TYPE_CHECKING:
    from types import FrameType

_LEAVES = (ast.Break, ast.Return, ast.Continue, ast.Raise)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_REPEATING = ("map", "filter", "iter", "reduce", "accumulate", "starmap")
"""Functions that call a function of the program repeatedly."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class LoopLines(NamedTuple):
    """The lines of a file that matter for polling."""

    in_loops: frozenset[int]
    """Lines inside a loop."""
    deciding: frozenset[int]
    """Lines that read a value which may decide whether a loop continues."""
    outgoing: frozenset[int]
    """Lines that read a value which their function may return or keep outside itself."""
    asking: frozenset[int]
    """Lines that call a function which may decide, by its result or exception, whether a loop continues."""


def is_polling(line: int, frame: FrameType) -> bool:
    """Return True if a value read in a line may decide whether a loop continues.

    The loop may be in the frame or in one of its callers.
    """
    is_called = False
    for number, lines in _stack(line, frame):
        if number in lines.deciding or (is_called and number in lines.asking):
            return True
        is_called = True
        if number not in lines.outgoing:
            return False
    return False


def is_repeated(line: int, frame: FrameType) -> bool:
    """Return True if a line of a frame, or of one of its callers, is in a loop."""
    return any(number in lines.in_loops for number, lines in _stack(line, frame))


def _stack(line: int, frame: FrameType | None) -> Iterator[tuple[int, LoopLines]]:
    """Yield a line of a frame, possibly a later one, and the lines of the program's callers."""
    while frame is not None:
        if of_program(frame.f_code.co_filename):
            yield line, lines_of(frame.f_code.co_filename)
        frame = frame.f_back
        line = frame.f_lineno if frame is not None else 0


@cleared_on_change
@cache
def lines_of(file: str) -> LoopLines:
    """Return the lines of a file that matter for polling."""
    in_loops, deciding, outgoing, asking = set[int](), set[int](), set[int](), set[int]()
    awaited = set[str]()
    imports = [node for node in nodes_of(file) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {alias.asname or alias.name.partition(".")[0] for node in imports for alias in node.names}
    for node in nodes_of(file):
        if isinstance(node, ast.While | ast.For):
            in_loops.update(_span(node))
            ends = list(_conditions(node))
            awaits = [node.test, *ends] if isinstance(node, ast.While) else ends
            awaited |= {part for each in awaits for part in _elements(each)}
            deciding |= _leading_to(node, awaits, modules)
            asking |= _asking(node)
        elif isinstance(node, _COMPREHENSIONS) or (isinstance(node, ast.Call) and _called(node) in _REPEATING):
            in_loops.update(_span(node))
        elif isinstance(node, _FUNCTIONS):
            outgoing |= _leading_to(node, list(_results(node)), modules)
        elif isinstance(node, ast.Lambda):
            outgoing.update(_span(node.body))
    recursive = set[str]()
    for name, function, recursive_calls in _recursive(file):
        recursive.add(name)
        in_loops.update(_span(function))
        ends = [*_conditions(function), *_recursion_conditions(function, recursive_calls)]
        assigned = [(call, _parameters(function)) for call in recursive_calls]
        awaited |= {part for each in [*ends, *recursive_calls] for part in _elements(each)}
        deciding |= _leading_to(function, ends, modules, assigned)
    for node in nodes_of(
        file
    ):  # a look before a loop, or a call, that waits for the same is the first one of its looks
        if isinstance(node, ast.If) and awaited & _elements(node.test):
            if any(isinstance(each, ast.While | ast.For) for each in ast.walk(node)):
                deciding.update(_span(node.test))
        elif isinstance(node, ast.Call) and awaited & _elements(node) and _called(node) in recursive:
            deciding.update(_span(node))
    return LoopLines(*map(frozenset, (in_loops, deciding, outgoing, asking)))


def _span(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _may_leave(statement: ast.stmt) -> bool:
    return any(isinstance(each, _LEAVES) for each in ast.walk(statement))


def _conditions(block: ast.AST) -> Iterator[ast.expr]:
    """Yield the conditions under which statements leave a loop or function."""
    for each in ast.walk(block):
        if isinstance(each, ast.If | ast.Match) and _may_leave(each):
            yield each.test if isinstance(each, ast.If) else each.subject
        elif isinstance(each, ast.Try):
            yield from (inner.test for inner in ast.walk(each) if isinstance(inner, ast.Assert))


def _recursive(file: str) -> list[tuple[str, _Function, list[ast.Call]]]:
    """Return the directly or indirectly recursive functions of a file, with their recursive calls."""
    functions = list(_functions(file))
    reached: dict[str, set[str]] = {name: set() for name, _ in functions}
    callees = _callees(file, reached.keys())
    calls = [[(each, callees(each)) for each in ast.walk(node) if isinstance(each, ast.Call)] for _, node in functions]
    for (name, _), inside in zip(functions, calls, strict=True):
        reached[name].update(*(called for _, called in inside))
    for middle in reached:
        for others in reached.values():
            if middle in others:
                others |= reached[middle]
    found = []
    for (name, node), inside in zip(functions, calls, strict=True):
        recursive_calls = [call for call, called in inside if name in called.union(*(reached[each] for each in called))]
        if recursive_calls:
            found.append((name, node, recursive_calls))
    return found


def _functions(file: str) -> Iterator[tuple[str, _Function]]:
    """Yield the functions of a file, each with its name.

    A function that is not assigned to a variable has its position as its name.
    """
    for node in nodes_of(file):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.Lambda):
            yield ast.dump(node, include_attributes=True), node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            yield from ((name, node.value) for name in _roots(node.targets))


def _callees(file: str, functions: Collection[str]) -> Callable[[ast.Call], set[str]]:
    """Return a function that finds the functions of a file that a call may call.

    That may be directly or through an argument.

    A function that is named without being called is a value, which any assigned name may call.
    """
    nodes = nodes_of(file)
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    assigned = {name for node in nodes for name in _assigned_names(node)}

    def named(node: ast.AST) -> set[str]:
        name = ast.dump(node, include_attributes=True) if isinstance(node, ast.Lambda) else _last_name(node)
        return {name}.intersection(functions)

    values = {name for node in nodes if id(node) not in called for name in named(node)} | ({"__call__"} & {*functions})

    def find(call: ast.Call) -> set[str]:
        function, arguments = call.func, [*call.args, *(keyword.value for keyword in call.keywords)]
        found = {_called(call)}.intersection(functions).union(*map(named, arguments))
        is_plain = isinstance(function, ast.Name | ast.Attribute)
        return found if is_plain and _last_name(function) not in assigned else found | values

    return find


def _last_name(node: ast.AST) -> str:
    """Return the name of a variable or attribute."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _assigned_names(node: ast.AST) -> Iterator[str]:
    """Yield the variable, attribute or parameter that a node assigns."""
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield _last_name(node)
    elif isinstance(node, ast.arg | ast.keyword) and node.arg:
        yield node.arg


def _called(call: ast.Call) -> str:
    """Return the name of the program function or method that may be called."""
    function = call.func
    if isinstance(function, ast.Attribute):
        is_own = isinstance(function.value, ast.Name) and function.value.id in ("self", "cls")
        return function.attr if is_own or not _is_mpi(function) else ""
    return function.id if isinstance(function, ast.Name) else ""


def _parameters(function: _Function) -> set[str]:
    return {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}


def _recursion_conditions(function: _Function, recursive_calls: list[ast.Call]) -> Iterator[ast.expr]:
    """Yield the conditions under which a function calls itself."""
    for each in ast.walk(function):
        if isinstance(each, ast.If | ast.IfExp | ast.Match | ast.BoolOp) and any(
            one in recursive_calls for one in ast.walk(each)
        ):
            if isinstance(each, ast.BoolOp):
                yield from each.values
            else:
                yield each.subject if isinstance(each, ast.Match) else each.test


def _elements(node: ast.AST) -> set[str]:
    """Return the subscripted elements in an expression, as text."""
    return {ast.dump(each) for each in ast.walk(node) if isinstance(each, ast.Subscript)}


def _asking(loop: ast.While | ast.For) -> set[int]:
    """Return the lines of a loop that call its iterator, or what may raise its end."""
    lines = set(_span(loop.iter)) if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) else set[int]()
    for each in ast.walk(loop):
        if isinstance(each, ast.Try) and _may_leave(each):
            lines.update(line for statement in each.body for line in _span(statement))
    return lines


def _results(function: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """Yield the values that a function returns or keeps outside itself."""
    outside = {
        name for each in ast.walk(function) if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            yield node.value
        elif isinstance(node, ast.If) and any(isinstance(each, ast.Raise) for each in ast.walk(node)):
            yield node.test
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(not isinstance(target, ast.Name) or target.id in outside for target in targets):
                yield node


def _leading_to(
    block: ast.AST, wanted: list[Any], modules: set[str], assigned: Iterable[tuple[ast.expr, set[str]]] = ()
) -> set[int]:
    """Return the lines of a block whose values may flow into some of its nodes.

    The lines of these are included. Attributes of modules do not change. `assigned` adds expressions that change
    variables, each with those variables.
    """
    lines, names = set[int](), set[str]()
    steps = [*_steps(block), *assigned]
    while wanted:
        node = wanted.pop()
        lines.update(_span(node))
        names |= _read(node) - modules
        wanted += [source for source, changed in steps if changed & names]
        steps = [step for step in steps if not step[1] & names]
    return lines


def _steps(block: ast.AST) -> Iterator[tuple[ast.stmt | ast.expr, set[str]]]:
    """Yield the nodes of a block that change variables or their contents, with these variables."""
    for node in ast.walk(block):
        if isinstance(node, ast.Assign):
            yield node, _roots(node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            yield node, _roots([node.target])
        elif isinstance(node, ast.For) and node is not block:
            yield node.iter, _roots([node.target])
        elif isinstance(node, ast.Call) and not _is_harmless(node.func):
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            owner = [node.func.value] if isinstance(node.func, ast.Attribute) and not _is_mpi(node.func) else []
            yield node, _roots([*arguments, *owner])


def _roots(nodes: Iterable[ast.expr]) -> set[str]:
    """Return the variables that expressions consist of or are parts of."""
    return {name for node in nodes for name in _names(node)}


def _read(node: ast.AST) -> set[str]:
    """Return the variables read by a node, and the objects whose attributes it reads."""
    names = _names(node)
    return {*names, *(name.partition(".")[0] for name in names)}


def _names(node: ast.AST) -> set[str]:
    """Return the variables in a node, with each attribute of ``self`` as a separate variable.

    Functions, and objects whose MPI methods are called, are excluded.
    """
    called, skipped, names = set[int](), set[int](), set[str]()
    for each in ast.walk(node):  # from the outside in
        if isinstance(each, ast.Call):
            called.add(id(each.func))
        elif isinstance(each, ast.Attribute):
            inner = each.value
            if id(each) in skipped or (id(each) in called and _is_mpi(each)):
                skipped.add(id(inner))
            elif isinstance(inner, ast.Name) and inner.id == "self" and id(each) not in called:
                skipped.add(id(inner))
                names.add(f"self.{each.attr}")
        elif isinstance(each, ast.Name) and id(each) not in skipped | called:
            names.add(each.id)
    return names


def _is_harmless(function: ast.AST) -> bool:
    """Return True if a function is a Python builtin that does not change its arguments."""
    return isinstance(function, ast.Name) and hasattr(builtins, function.id) and function.id not in ("next", "setattr")


def _is_mpi(method: ast.Attribute) -> bool:
    return method.attr in _methods()


@cache
def _methods() -> frozenset[str]:
    """Return the names of MPI calls that no Python container has as a method."""
    return known_calls().difference(*map(dir, (dict, list, set)))
