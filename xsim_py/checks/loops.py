"""Loops, and functions that call themselves, look at memory until a value is there, as the source says.

A rank may look at a location of its window that another one puts something to, if it waits for that (MPI 4.1, 12.7, of
the unified memory model: "this permits polling on a location for a change from zero to non-zero or for a particular
value"). Such a load stands in a loop, or in a function that calls itself, and what it has loaded may decide whether
that goes on: names say so, as far as they are passed on by assignments, by calls, and by what functions return or keep.
In doubt it does.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from xsim_py.code_origin import of_program
from xsim_py.mpi4py.call_hooks import known_calls

from .sources import keep_in_step, nodes_of

if TYPE_CHECKING:
    from types import FrameType

_LEAVES = (ast.Break, ast.Return, ast.Continue, ast.Raise)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_REPEATING = ("map", "filter", "iter", "reduce", "accumulate", "starmap")
"""Functions that call one of the program many times."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class LoopLines(NamedTuple):
    """The lines of a file that matter here."""

    in_loops: frozenset[int]
    """These lines stand in a loop."""
    deciding: frozenset[int]
    """A value that is read in one of these lines may decide whether a loop goes on."""
    outgoing: frozenset[int]
    """A value that is read in one of these lines may be returned by their function, or kept where others find it."""
    asking: frozenset[int]
    """A function that is called in one of these lines may decide, by what it returns or raises, if a loop goes on."""


def is_polling(line: int, frame: FrameType) -> bool:
    """Return whether what a line of a frame finds may decide if a loop goes on, there or in what has called it."""
    is_called = False
    for number, lines in _stack(line, frame):
        if number in lines.deciding or (is_called and number in lines.asking):
            return True
        is_called = True
        if number not in lines.outgoing:
            return False
    return False


def is_repeated(line: int, frame: FrameType) -> bool:
    """Return whether a line of a frame, or one that has called it, is in a loop."""
    return any(number in lines.in_loops for number, lines in _stack(line, frame))


def _stack(line: int, frame: FrameType | None) -> Iterator[tuple[int, LoopLines]]:
    """Yield a line of a frame, which may be to come, and the lines of the program that have called that."""
    while frame is not None:
        if of_program(frame.f_code.co_filename):
            yield line, lines_of(frame.f_code.co_filename)
        frame = frame.f_back
        line = frame.f_lineno if frame is not None else 0


@keep_in_step
@cache
def lines_of(file: str) -> LoopLines:
    """Return the lines of a file that matter here."""
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
    for name, function, again in _recursive(file):
        recursive.add(name)
        in_loops.update(_span(function))
        ends = [*_conditions(function), *_leading_again(function, again)]
        given = [(call, _parameters(function)) for call in again]
        awaited |= {part for each in [*ends, *again] for part in _elements(each)}
        deciding |= _leading_to(function, ends, modules, given)
    for node in nodes_of(
        file
    ):  # a look before a loop, or a call, that waits for the same is the first one of its looks
        if isinstance(node, ast.If) and awaited & _elements(node.test) and _has_loop(node):
            deciding.update(_span(node.test))
        elif isinstance(node, ast.Call) and awaited & _elements(node) and _called(node) in recursive:
            deciding.update(_span(node))
    return LoopLines(*map(frozenset, (in_loops, deciding, outgoing, asking)))


def _span(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _may_leave(statement: ast.stmt) -> bool:
    return any(isinstance(each, _LEAVES) for each in ast.walk(statement))


def _conditions(block: ast.AST) -> Iterator[ast.expr]:
    """Yield what decides whether statements leave a loop or a function."""
    for each in ast.walk(block):
        if isinstance(each, ast.If | ast.Match) and _may_leave(each):
            yield each.test if isinstance(each, ast.If) else each.subject
        elif isinstance(each, ast.Try):
            yield from (inner.test for inner in ast.walk(each) if isinstance(inner, ast.Assert))


def _recursive(file: str) -> list[tuple[str, _Function, list[ast.Call]]]:
    """Return the functions of a file that may call themselves, also through others, each with the calls that do so."""
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
        again = [call for call, called in inside if name in called.union(*(reached[each] for each in called))]
        if again:
            found.append((name, node, again))
    return found


def _functions(file: str) -> Iterator[tuple[str, _Function]]:
    """Yield the functions of a file, each with its name, or with its place where it is given to no variable."""
    for node in nodes_of(file):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.Lambda):
            yield ast.dump(node, include_attributes=True), node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            yield from ((name, node.value) for name in _roots(node.targets))


def _callees(file: str, functions: Collection[str]) -> Callable[[ast.Call], set[str]]:
    """Return what finds the functions of a file that a call may call, or gives to who may do so.

    A function that is named without being called is a value, which may be called by any name that something is given.
    """
    nodes = nodes_of(file)
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    given = {name for node in nodes for name in _given_names(node)}

    def named(node: ast.AST) -> set[str]:
        name = ast.dump(node, include_attributes=True) if isinstance(node, ast.Lambda) else _last_name(node)
        return {name}.intersection(functions)

    values = {name for node in nodes if id(node) not in called for name in named(node)} | ({"__call__"} & {*functions})

    def find(call: ast.Call) -> set[str]:
        function, arguments = call.func, [*call.args, *(keyword.value for keyword in call.keywords)]
        found = {_called(call)}.intersection(functions).union(*map(named, arguments))
        is_plain = isinstance(function, ast.Name | ast.Attribute)
        return found if is_plain and _last_name(function) not in given else found | values

    return find


def _last_name(node: ast.AST) -> str:
    """Return the name of a variable or of an attribute."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _given_names(node: ast.AST) -> Iterator[str]:
    """Yield the variable, the attribute or the parameter to which something is given here."""
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield _last_name(node)
    elif isinstance(node, ast.arg | ast.keyword) and node.arg:
        yield node.arg


def _called(call: ast.Call) -> str:
    """Return the name of a function or a method of the program that is called, perhaps."""
    function = call.func
    if isinstance(function, ast.Attribute):
        is_own = isinstance(function.value, ast.Name) and function.value.id in ("self", "cls")
        return function.attr if is_own or not _is_mpi(function) else ""
    return function.id if isinstance(function, ast.Name) else ""


def _parameters(function: _Function) -> set[str]:
    return {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}


def _leading_again(function: _Function, again: list[ast.Call]) -> Iterator[ast.expr]:
    """Yield what decides whether a function calls itself."""
    for each in ast.walk(function):
        if isinstance(each, ast.If | ast.IfExp | ast.Match | ast.BoolOp) and any(
            one in again for one in ast.walk(each)
        ):
            if isinstance(each, ast.BoolOp):
                yield from each.values
            else:
                yield each.subject if isinstance(each, ast.Match) else each.test


def _elements(node: ast.AST) -> set[str]:
    """Return the elements that an expression names, as text."""
    return {ast.dump(each) for each in ast.walk(node) if isinstance(each, ast.Subscript)}


def _has_loop(node: ast.AST) -> bool:
    return any(isinstance(each, ast.While | ast.For) for each in ast.walk(node))


def _asking(loop: ast.While | ast.For) -> set[int]:
    """Return the lines of a loop that call what makes its values one by one, or what may raise an end of it."""
    lines = set(_span(loop.iter)) if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) else set[int]()
    for each in ast.walk(loop):
        if isinstance(each, ast.Try) and _may_leave(each):
            lines.update(line for statement in each.body for line in _span(statement))
    return lines


def _results(function: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """Yield what a function returns, or keeps where others find it."""
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
    block: ast.AST, wanted: list[Any], modules: set[str], given: Iterable[tuple[ast.expr, set[str]]] = ()
) -> set[int]:
    """Return the lines of a block whose values may get into some of its statements or expressions, and their own.

    What belongs to a module does not change. What else changes variables is `given`, each expression with those.
    """
    lines, names = set[int](), set[str]()
    steps = [*_steps(block), *given]
    while wanted:
        node = wanted.pop()
        lines.update(_span(node))
        names |= _read(node) - modules
        wanted += [source for source, changed in steps if changed & names]
        steps = [step for step in steps if not step[1] & names]
    return lines


def _steps(block: ast.AST) -> Iterator[tuple[ast.stmt | ast.expr, set[str]]]:
    """Yield the statements and expressions of a block that change variables, or what these hold, each with those."""
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
    """Return the variables that some expressions are, or are parts of."""
    return {name for node in nodes for name in _names(node)}


def _read(node: ast.AST) -> set[str]:
    """Return what is read by an expression or a statement: its variables, and the object whose attributes they are."""
    names = _names(node)
    return {*names, *(name.partition(".")[0] for name in names)}


def _names(node: ast.AST) -> set[str]:
    """Return the variables in an expression or a statement, an attribute of ``self`` as one of its own.

    Those whose MPI calls are made are left out, and functions.
    """
    called, left, names = set[int](), set[int](), set[str]()
    for each in ast.walk(node):  # from the outside to the inside
        if isinstance(each, ast.Call):
            called.add(id(each.func))
        elif isinstance(each, ast.Attribute):
            inner = each.value
            if id(each) in left or (id(each) in called and _is_mpi(each)):
                left.add(id(inner))
            elif isinstance(inner, ast.Name) and inner.id == "self" and id(each) not in called:
                left.add(id(inner))
                names.add(f"self.{each.attr}")
        elif isinstance(each, ast.Name) and id(each) not in left | called:
            names.add(each.id)
    return names


def _is_harmless(function: ast.AST) -> bool:
    """Return whether a function is one of Python's own, which changes nothing that it is given."""
    return isinstance(function, ast.Name) and hasattr(builtins, function.id) and function.id not in ("next", "setattr")


def _is_mpi(method: ast.Attribute) -> bool:
    return method.attr in _methods()


@cache
def _methods() -> frozenset[str]:
    """Return the names of MPI calls that no container of Python has."""
    return known_calls().difference(*map(dir, (dict, list, set)))
