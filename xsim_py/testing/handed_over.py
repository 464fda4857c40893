"""The ranks of a test find what its fixtures have changed outside, as processes would that had been forked from there.

Each rank executes the modules and classes of the program again, so what fixtures have changed in them since they were
imported is changed there, too. What fixtures have made is copied (`copies`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import reduce
from importlib import import_module
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from xsim_py.code_origin import is_installed

from .copies import is_of_mpi

_NOTHING: Any = object()
_MPI = "mpi4py"
_CONTAINERS = (list, dict, set)


class Found:
    """A function of the program, by where it stands, so that each rank finds its own; or itself where it has none."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self.code: CodeType | None = getattr(function, "__code__", None)

    def get(self) -> Any:
        """Return the function of the rank that is running."""
        names = str(getattr(self._function, "__qualname__", "<locals>"))
        if self.code is None or "<locals>" in names:
            return self._function
        try:
            there = reduce(getattr, names.split("."), import_module(self._function.__module__))
        except (ImportError, AttributeError):
            return self._function
        there = unwrapped(there)
        code = getattr(there, "__code__", None)
        same = code is not None and (code.co_filename, code.co_firstlineno) == _place(self.code)
        return there if same else self._function


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_filename, code.co_firstlineno


def unwrapped(thing: Any) -> Any:
    """Return the function in what ``@pytest.fixture`` makes of it."""
    get = getattr(thing, "_get_wrapped_function", None)
    if get is not None:
        return get()
    return getattr(getattr(thing, "__pytest_wrapped__", None), "obj", thing)


def speaks_of_mpi(function: Any) -> bool:
    """Return whether the text of a function has a name in it that stands for something of mpi4py's."""
    function = getattr(unwrapped(function), "__func__", unwrapped(function))
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    return code is not None and (any(map(is_of_mpi, cells_of(function))) or _speaks(code, names))


def cells_of(function: Any) -> list[Any]:
    """Return what stands in the closure of a function; empty if a name in it has no value yet."""
    try:
        return [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    except ValueError:
        return []


def _speaks(code: CodeType, names: Mapping[str, Any]) -> bool:
    said = any(name in names and is_of_mpi(names[name]) for name in code.co_names)
    texts = (each for each in (*code.co_names, *code.co_consts) if isinstance(each, str))
    inner = (_speaks(each, names) for each in code.co_consts if isinstance(each, CodeType))
    return said or any(text == _MPI or text.startswith(f"{_MPI}.") for text in texts) or any(inner)


class Snapshot:
    """The names of the program's modules, and of some of its classes, when its tests had just been collected."""

    def __init__(self, classes: set[type]) -> None:
        self._known: dict[tuple[str, str], dict[str, tuple[Any, Any]]] = {}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if isinstance(module, ModuleType) and isinstance(file, str) and not is_installed(file):
                self._known[name, ""] = _contents(module)
        for cls in classes:
            for each in cls.__mro__:
                if (each.__module__, "") in self._known:
                    self._known[each.__module__, each.__qualname__] = _contents(each)

    def changes(self, is_private: Callable[[str], bool]) -> dict[tuple[str, str, str], Any]:
        """Return what is otherwise now, by module, class and name; nothing of MPI, which ranks have their own of."""
        found: dict[tuple[str, str, str], Any] = {}
        for (name, inner), known in self._known.items():
            module = sys.modules.get(name)
            if module is None or not is_private(name.partition(".")[0]):
                continue
            owner: Any = _inner(module, inner)
            for each, value in vars(owner).items() if owner is not None else ():
                changed = not each.startswith(("__", "@")) and _has_changed(value, *known.get(each, (_NOTHING, None)))
                if changed and not isinstance(value, ModuleType) and not is_of_mpi(value):
                    found[name, inner, each] = value
        return found


def _inner(module: ModuleType, inner: str) -> Any:
    found: Any = module
    for name in inner.split(".") if inner else ():
        found = getattr(found, name, None)
    return found


def _contents(owner: Any) -> dict[str, tuple[Any, Any]]:
    """Return what has a name in a module or class, each with a copy if it is a container."""
    return {name: (value, value.copy() if type(value) in _CONTAINERS else None) for name, value in vars(owner).items()}


def _has_changed(value: Any, before: Any, held: Any) -> bool:
    if value is not before or held is None:
        return value is not before
    try:
        return bool(value != held)
    except Exception:  # as of arrays
        return True


def apply(changes: Mapping[tuple[str, str, str], Any]) -> None:
    """Change the running rank's own modules and classes as `Snapshot.changes` has found it."""
    for (name, inner, each), value in changes.items():
        owner = _inner(import_module(name), inner)
        if owner is not None:
            setattr(owner, each, value)


def rebound(function: Any, cells: list[Any]) -> Any:
    """Return a closure with other things in its cells."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(map(CellType, cells))
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made
