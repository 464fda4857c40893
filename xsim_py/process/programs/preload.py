"""Preloading in the coordinator of modules that all ranks would import, before it forks their processes.

Importing numpy takes longer than forking a process, and more memory than everything else in a rank. So the first
imports of a program and of its modules are looked up in their sources, without running any of them. Only modules that
ranks would share are imported: Python's own modules, and installed packages that do not involve MPI.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder

from xsim_py.code_origin import is_installed
from xsim_py.process.python import sys_modules

_MOST_FILES = 200


def preload(source: bytes | str, package: str, path: Sequence[str], is_shared: Callable[[str], bool]) -> None:
    """Import the shared modules that a program imports first; failing imports are left to the ranks.

    `package` is the one that the program is in, if any, and `path` is where it looks for modules. `is_shared` takes an
    installed module's name; it returns whether all ranks of a process share it.
    """
    sources = [(source, package)]
    seen = set(sys.modules)
    files = 0
    while sources and files < _MOST_FILES:
        files += 1
        for name in _imported(*sources.pop()):
            if name in seen:
                continue
            seen.add(name)
            own = _own(name, path)
            if own is not None:
                with suppress(OSError):
                    package = name if own.submodule_search_locations else name.rpartition(".")[0]
                    sources.append((own.loader.get_data(own.origin), package))  # type: ignore[union-attr]
            elif is_shared(name):
                with (
                    suppress(Exception),
                    sys_modules.importing(None, for_all=True),
                ):  # it may be a name in a module, or one of several alternatives
                    import_module(name)


def _own(name: str, path: Sequence[str]) -> ModuleSpec | None:
    """Find a module of the program itself, without running any of its packages."""
    spec = None
    places: Sequence[str] = path
    so_far = ""
    for part in name.split("."):
        so_far = f"{so_far}.{part}" if so_far else part
        if so_far in sys.builtin_module_names:
            return None
        spec = PathFinder.find_spec(so_far, places)
        if spec is None or (spec.origin is not None and is_installed(spec.origin)):
            return None
        places = spec.submodule_search_locations or ()
    return spec if spec is not None and hasattr(spec.loader, "get_data") else None


def _imported(source: bytes | str, package: str) -> Iterator[str]:
    """Yield the full names of the modules that a source imports before it does anything else.

    Later imports may depend on what it has done, as numpy's threads depend on the environment.
    """
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for statement in ast.parse(source).body:
            if isinstance(statement, ast.Import | ast.ImportFrom | ast.Try):
                yield from _named(statement, package)
            elif not _is_idle(statement):
                return


def _named(statement: ast.stmt, package: str) -> Iterator[str]:
    """Yield the modules that a statement imports."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            yield from _with_parents(alias.name)
    elif isinstance(statement, ast.ImportFrom):
        base = _absolute(statement, package)
        yield from _with_parents(base)
        yield from (f"{base}.{alias.name}" for alias in statement.names if base and alias.name != "*")
    elif isinstance(statement, ast.Try):
        for inner in statement.body:
            yield from _named(inner, package)


def _is_idle(statement: ast.stmt) -> bool:
    """Return True if a statement has no side effect: a string, a constant, or code for type checkers."""
    if isinstance(statement, ast.If):
        return isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"
    busy = ast.Call | ast.Subscript | ast.Attribute | ast.Await
    simple = isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign)
    return simple and not any(isinstance(node, busy) for node in ast.walk(statement))


def _with_parents(name: str) -> Iterator[str]:
    """Yield ``a``, ``a.b`` and ``a.b.c`` of ``a.b.c``."""
    parts = name.split(".") if name else []
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _absolute(statement: ast.ImportFrom, package: str) -> str:
    """Return the full name of the module after ``from``; empty if it is invalid."""
    above = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
    return ".".join([*above, *([statement.module] if statement.module else [])])
