"""The simulated `MPI` against the stub file of the installed mpi4py: every name, every signature, every default."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import MutableMapping
from types import ModuleType
from typing import Any

import pytest

from tests.mpi4py.api_table import PAGE, PARTLY, Class, Interface, contract, face, is_property, render

INTERFACE = contract()


@pytest.fixture(scope="module")
def mpi() -> ModuleType:
    return face()


def test_every_name_is_there(mpi):
    assert INTERFACE.names - set(dir(mpi)) == set()


def test_there_is_no_other_public_name(mpi):
    assert {name for name in dir(mpi) if not name.startswith("_")} - INTERFACE.names == set()


def test_a_class_has_every_name_and_no_other_public_one(mpi):
    for name, said in INTERFACE.classes.items():
        cls = getattr(mpi, name)
        known = set().union(*(INTERFACE.classes[base.__name__].names for base in lineage(cls)), dir(python_base(cls)))
        public = {attribute for attribute in dir(cls) if not attribute.startswith("_")}
        assert (said.names - set(dir(cls)), public - known) == (set(), set()), name


def test_a_class_has_its_base_and_its_module(mpi):
    for name, said in INTERFACE.classes.items():
        cls = getattr(mpi, name)
        assert said.base in (None, "RuntimeError") or issubclass(cls, getattr(mpi, said.base)), name
        assert (cls.__module__, cls.__qualname__) == ("mpi4py.MPI", name)


def lineage(cls: type) -> list[type]:
    return [base for base in cls.__mro__ if base.__module__ == "mpi4py.MPI" and base.__name__ in INTERFACE.classes]


def python_base(cls: type) -> type:
    return next(base for base in cls.__mro__ if vars(builtins).get(base.__name__) is base)


# -------------------------------------------------------------------------------------------------- signatures


def callables(interface: Interface) -> list[tuple[str, str | None, ast.FunctionDef]]:
    """Everything with a signature of its own: (name, class or None, the stub's definition)."""
    found: list[tuple[str, str | None, ast.FunctionDef]] = [(n, None, f) for n, f in interface.functions.items()]
    found += [(f"{name}.{m}", name, f) for name, cls in interface.classes.items() for m, f in ours(cls)]
    return found


def ours(cls: Class) -> list[tuple[str, ast.FunctionDef]]:
    return [
        (name, node)
        for name, node in cls.methods.items()
        if not is_property(node) and name not in cls.overloaded and (name == "__new__" or not name.startswith("__"))
    ]


def test_a_call_takes_the_same_arguments(mpi):
    calls = callables(INTERFACE)
    assert len(calls) > 600
    for name, owner, node in calls:
        function = getattr(mpi if owner is None else getattr(mpi, owner), node.name)
        inherited = function is object.__new__  # which takes nothing, whatever its signature says
        found = [] if inherited else list(inspect.signature(function).parameters.values())
        expected = parameters(node, mpi)
        if not inspect.ismethod(function) and owner is not None and not is_static(node):
            found = found[1:]  # self
        assert [(p.name, p.kind) for p in found] == [(p.name, p.kind) for p in expected], name
        for one, other in zip(found, expected, strict=True):
            assert one.default is other.default or one.default == other.default, (name, one)


def parameters(node: ast.FunctionDef, mpi: ModuleType) -> list[inspect.Parameter]:
    """The parameters as the stub gives them, without self or cls."""
    arguments = node.args
    names = [*arguments.posonlyargs, *arguments.args]
    bound = [None] * (len(names) - len(arguments.defaults)) + list(arguments.defaults)
    found = []
    for place, (name, default) in enumerate(zip(names, bound, strict=True)):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        if place < len(arguments.posonlyargs):
            kind = inspect.Parameter.POSITIONAL_ONLY
        found.append(inspect.Parameter(name.arg, kind, default=value(default, mpi)))
    if arguments.vararg:
        found.append(inspect.Parameter(arguments.vararg.arg, inspect.Parameter.VAR_POSITIONAL))
    if arguments.kwarg:
        found.append(inspect.Parameter(arguments.kwarg.arg, inspect.Parameter.VAR_KEYWORD))
    return found[1:] if found and found[0].name in {"self", "cls"} else found


def value(default: ast.expr | None, mpi: ModuleType) -> Any:
    return inspect.Parameter.empty if default is None else eval(ast.unparse(default), vars(mpi))


def is_static(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)


def test_class_methods_are_class_methods(mpi):
    for name, cls in INTERFACE.classes.items():
        for method, node in ours(cls):
            if any(isinstance(d, ast.Name) and d.id == "classmethod" for d in node.decorator_list):
                assert inspect.ismethod(getattr(getattr(mpi, name), method)), (name, method)


# ---------------------------------------------------------------------------------------------------- the page


def test_a_constant_is_what_the_stub_says(mpi):
    assert len(INTERFACE.types) > 300
    for name, annotation in INTERFACE.types.items():
        kind = annotation.partition("[")[0]
        found, said = type(getattr(mpi, name)), vars(builtins).get(kind) or getattr(mpi, kind)
        assert found is said or (said is dict and issubclass(found, MutableMapping)), name


def test_what_is_there_with_a_limit_is_in_mpi4py():
    known = {f"{owner}.{name}" for owner, cls in INTERFACE.classes.items() for name in cls.names}
    assert set(PARTLY) <= known | set(INTERFACE.functions)


def test_the_page_of_the_documentation_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == render(INTERFACE), "run python -m tests.mpi4py.api_table --write"
