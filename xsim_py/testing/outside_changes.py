"""Changes by fixtures outside the ranks of a test, repeated in each rank.

Each rank executes the modules and classes of the program again, so changes by fixtures since their import are repeated
there. Objects created by fixtures are copied (`copies`).
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


class LocatedFunction:
    """A function by its location, so that each rank finds its own; or the function itself."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.code: CodeType | None = getattr(function, "__code__", None)

    def get(self) -> Any:
        """Return the function of the running rank."""
        names = str(getattr(self._function, "__qualname__", "<locals>"))
        if self.code is None or "<locals>" in names:
            return self._function
        try:
            found = reduce(getattr, names.split("."), import_module(self._function.__module__))
        except (ImportError, AttributeError):
            return self._function
        found = unwrapped(found)
        code, mine = getattr(found, "__code__", None), self.code
        same = code is not None and (code.co_filename, code.co_firstlineno) == (mine.co_filename, mine.co_firstlineno)
        return found if same else self._function


def unwrapped(obj: object) -> Any:
    """Return the function wrapped by ``@pytest.fixture``."""
    get = getattr(obj, "_get_wrapped_function", None)
    if get is not None:
        return get()
    return getattr(getattr(obj, "__pytest_wrapped__", None), "obj", obj)


def uses_mpi(function: object) -> bool:
    """Return True if the code of a function uses a name that refers to mpi4py."""
    function = getattr(unwrapped(function), "__func__", unwrapped(function))
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    return code is not None and (any(map(is_of_mpi, cells_of(function))) or _code_uses_mpi(code, names))


def cells_of(function: object) -> list[Any]:
    """Return the values in the closure of a function; empty if one has no value yet."""
    try:
        return [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    except ValueError:
        return []


def _code_uses_mpi(code: CodeType, names: Mapping[str, Any]) -> bool:
    refers = any(name in names and is_of_mpi(names[name]) for name in code.co_names)
    texts = (each for each in (*code.co_names, *code.co_consts) if isinstance(each, str))
    inner = (_code_uses_mpi(each, names) for each in code.co_consts if isinstance(each, CodeType))
    return refers or any(text == _MPI or text.startswith(f"{_MPI}.") for text in texts) or any(inner)


class Snapshot:
    """The names in the program's modules and some classes, after the collection of tests."""

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
        """Return the changed values by module, class and name, without those of MPI."""
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


def _inner(module: ModuleType, inner: str) -> object:
    found: Any = module
    for name in inner.split(".") if inner else ():
        found = getattr(found, name, None)
    return found


def _contents(owner: object) -> dict[str, tuple[Any, Any]]:
    """Return the named values of a module or class, each with a copy if it is a container."""
    return {name: (value, value.copy() if type(value) in _CONTAINERS else None) for name, value in vars(owner).items()}


def _has_changed(value: object, before: object, copy: object) -> bool:
    if value is not before or copy is None:
        return value is not before
    try:
        return bool(value != copy)
    except Exception:  # like arrays
        return True


def apply_changes(changes: Mapping[tuple[str, str, str], Any]) -> None:
    """Apply the changes of `Snapshot.changes` to the running rank's modules and classes."""
    for (name, inner, each), value in changes.items():
        owner = _inner(import_module(name), inner)
        if owner is not None:
            setattr(owner, each, value)


def rebound(function: Callable[..., Any], cells: list[Any]) -> FunctionType:
    """Return a closure with new contents in its cells."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(map(CellType, cells))
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made
