"""Loops that end only when a request completes; there Test waits as Wait does.

The source shows such a loop: it has no other exit, and nothing called in it can complete anything, because only
builtins and functions of some standard modules are called. In doubt a loop is not one.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .sources import cleared_on_change, instructions_of, key_of, nodes_of

if TYPE_CHECKING:
    from types import CodeType

    from xsim_py.mpi4py.door import BoundCall

TESTS = frozenset(("Test", "test", "Testall", "testall"))
_HARMLESS = frozenset(("math", "numpy", "time"))
"""Modules whose functions make no MPI call."""
_FUNCTIONS = frozenset(("print", "len", "range", "abs", "int", "float", "str", "round"))
"""Builtins that make no MPI call."""
_LEAVES = (ast.Break, ast.Return, ast.Raise, ast.Assert, ast.Yield, ast.YieldFrom, ast.Await, ast.Try, ast.With)
_LOOPS = (ast.For, ast.While)


@cleared_on_change
@lru_cache(maxsize=1024)
def is_awaiting(code: CodeType, file: str, offset: int) -> bool:
    """Return True if the test at an instruction of a function is in a loop that waits for it."""
    instructions = instructions_of(code, file)
    # Within a call, `f_lasti` is in the cache after the instruction.
    key = key_of(instructions[bisect_right([each.offset for each in instructions], offset) - 1])
    return key is not None and key[1:] in _awaiting_in(file)


@cleared_on_change
@lru_cache(maxsize=128)
def _awaiting_in(file: str) -> frozenset[tuple[int, int]]:
    """Return the end positions of all tests in a file that are in such loops."""
    nodes = nodes_of(file)
    harmless = set(_imported(nodes))
    found = set[tuple[int, int]]()
    for node in nodes:
        if isinstance(node, ast.While) and not node.orelse:
            tests = list(_tests_of(node))
            if tests and _is_idle(node, tests, harmless):
                found.update((test.end_lineno or 0, test.end_col_offset or 0) for test in tests)
    # The same test before the loop has the same effect: if it finds the request complete, the loop has nothing to wait
    # for.
    for block in (getattr(node, "body", None) for node in nodes):
        for before, loop in pairwise(block) if isinstance(block, list) else ():
            if isinstance(loop, ast.While) and isinstance(before, ast.Assign):
                inside = [each for each in loop.body if ast.dump(each) == ast.dump(before)]
                test = _test(before.value)
                if inside and test is not None and _end(_test(inside[0].value)) in found:  # type: ignore[attr-defined]
                    found.add(_end(test))
    return frozenset(found)


def _end(test: ast.Call | None) -> tuple[int, int]:
    return (0, 0) if test is None else (test.end_lineno or 0, test.end_col_offset or 0)


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names of harmless modules, and of functions of these, that a file imports."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (each.asname or each.name for each in node.names if each.name in _HARMLESS)
        elif isinstance(node, ast.ImportFrom) and node.module in _HARMLESS:
            yield from (each.asname or each.name for each in node.names)


def _test(node: ast.AST | None) -> ast.Call | None:
    """Return an expression if it is a call that tests requests; else None."""
    is_one = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TESTS
    return node if is_one else None  # type: ignore[return-value]


def _is_all(node: ast.AST) -> bool:
    """Return True if an expression is `all()` over a single comprehension."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "all"):
        return False
    each = node.args[0] if len(node.args) == 1 else None
    return isinstance(each, ast.GeneratorExp | ast.ListComp) and len(each.generators) == 1


def _of_truth(node: ast.AST) -> ast.Call | None:
    """Return the test of requests whose truth value is that of an expression.

    The result is None if there is none.

    Such expressions are ``request.Test()``, ``request.test()[0]``, and ``all(each.Test() for each in requests)``.
    """
    if _is_all(node):
        each = node.args[0]  # type: ignore[attr-defined]
        return None if each.generators[0].ifs else _of_truth(each.elt)
    is_first = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == 0
    test = _test(node.value if is_first else node)  # type: ignore[attr-defined]
    # The lower-case tests return a message as well.
    return test if test is not None and test.func.attr.islower() == is_first else None  # type: ignore[attr-defined]


def _tests_of(loop: ast.While) -> Iterator[ast.Call]:
    """Yield the tests that end a loop.

    Recognised are ``while not request.Test()``, ``while True: if request.Test(): break``, and an assignment in ``while
    not done``.
    """
    condition = loop.test
    if isinstance(condition, ast.Constant) and condition.value:
        exits = [each for each in loop.body if isinstance(each, ast.If) and not each.orelse]
        for branch in exits:
            test = _of_truth(branch.test)
            if test is not None and len(branch.body) == 1 and isinstance(branch.body[0], ast.Break):
                yield test
    elif isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        test = _of_truth(condition.operand)
        if test is not None:
            yield test
        elif isinstance(condition.operand, ast.Name):
            yield from _assigned_test(condition.operand.id, loop)


def _assigned_test(name: str, loop: ast.While) -> Iterator[ast.Call]:
    """Yield the only test assigned to the variable that ends a loop.

    Recognised are ``done = request.Test()`` and ``done, message = request.test()`` in a loop ``while not done``.
    """
    uses = [each for each in ast.walk(loop) if isinstance(each, ast.Name) and each.id == name]
    for each in loop.body:
        # the condition, and this assignment
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and len(uses) == 2:
            target, value = each.targets[0], each.value
            is_pair = isinstance(target, ast.Tuple) and len(target.elts) == 2
            first = target.elts[0] if is_pair else target  # type: ignore[attr-defined]
            test = _test(value) if is_pair else _of_truth(value)
            if first in uses and test is not None and test.func.attr.islower() == is_pair:  # type: ignore[attr-defined]
                yield test


def _is_idle(loop: ast.While, tests: list[ast.Call], harmless: set[str]) -> bool:
    """Return True if a loop does nothing else that may complete a request and has no other exit."""
    inside = list(ast.walk(loop))
    exit_count = sum(isinstance(each, _LEAVES) for each in inside)
    if len(tests) > 1 or exit_count > isinstance(loop.test, ast.Constant):
        return False
    if any(isinstance(each, _LOOPS) for each in inside[1:]):
        return False
    for each in inside:
        if isinstance(each, ast.Call) and each is not tests[0] and not _is_all(each):
            function = each.func
            owner = function.value if isinstance(function, ast.Attribute) else function
            name = owner.id if isinstance(owner, ast.Name) else ""
            if name not in harmless and (owner is not function or name not in _FUNCTIONS):
                return False
    return True


def wait_instead(call: BoundCall, test: Callable[..., Any]) -> object:
    """Wait for requests instead of testing inside such a loop: the run then deadlocks instead of polling forever."""
    assert call.arguments is not None
    if not is_awaiting(call.code, call.code.co_filename, call.at):
        return test(*call.arguments)
    name = call.name
    wait = name.lower().replace("test", "wait")
    owner, *rest = call.arguments
    found = getattr(owner, wait if name.islower() else wait.capitalize())(*rest)
    return (True, found) if name.islower() else True
