"""Analysis of a module's imports: those run by its own import, and those in functions that are called later.

``import`` runs the code at the top of a module, in its classes, ``if`` and ``try``, and in functions of the module that
it calls there. A function that is called later may keep its imports in a global of the module (``global MPI``), as in
packages that import mpi4py only when needed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MADE_BY = ("__new__", "__init__")


class Imports(NamedTuple):
    """The packages that a module's code imports, by their top-level names."""

    running: set[str]
    """Imported by the import of the module itself."""
    kept: set[str]
    """Imported by functions that are called later and set globals of the module."""
    later: set[str]
    """Imported by all other functions."""


def read(text: bytes) -> Imports:
    """Return the imports in a module's source, by time; none if it is not Python."""
    try:
        return _Reader(ast.parse(text)).imports
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Imports(set(), set(), set())


class _Reader:
    """Follows the statements of a module in the order in which its import runs them."""

    def __init__(self, module: ast.Module) -> None:
        self.imports = Imports(set(), set(), set())
        self._functions: dict[str, list[ast.AST]] = {}
        self._called: list[str] = []
        for statement in module.body:
            self._run(statement)
        while self._called:
            for function in self._functions.pop(self._called.pop(), ()):
                self._run_all(getattr(function, "body", ()))
        for function in (each for functions in self._functions.values() for each in functions):
            inside = list(ast.walk(function))
            keeps = any(isinstance(node, ast.Global) for node in inside)
            (self.imports.kept if keeps else self.imports.later).update(
                name for node in inside for name in _named(node)
            )

    def _run(self, node: ast.AST) -> None:
        self.imports.running.update(_named(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            self._called.append(node.func.id)
        if isinstance(node, _FUNCTIONS):
            self._define(node.name, node)
            self._run_all((*node.decorator_list, node.args))
        elif isinstance(node, ast.If) and _is_false_on_import(node.test):
            self._run_all(node.orelse)
        elif not isinstance(node, ast.Lambda):
            if isinstance(node, ast.ClassDef):
                self._define_class(node)
            self._run_all(ast.iter_child_nodes(node))

    def _run_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self._run(node)

    def _define(self, name: str, function: ast.AST) -> None:
        self._functions.setdefault(name, []).append(function)

    def _define_class(self, node: ast.ClassDef) -> None:
        for method in node.body:
            if isinstance(method, _FUNCTIONS) and method.name in _MADE_BY:
                self._define(node.name, method)


def _is_false_on_import(test: ast.expr) -> bool:
    """Return True if a condition is false during an import: for type checkers, or for a program."""
    if isinstance(test, ast.Compare):
        return isinstance(test.left, ast.Name) and test.left.id == "__name__"
    return "TYPE_CHECKING" in (getattr(test, "id", None), getattr(test, "attr", None))


def _named(node: ast.AST) -> Iterator[str]:
    """Yield the packages imported by a statement, or by a call such as ``import_module("mpi4py.MPI")``."""
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0:
        yield (node.module or "").partition(".")[0]
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if "import" in called and isinstance(node.args[0].value, str):
            yield node.args[0].value.partition(".")[0]
