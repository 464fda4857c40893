"""Every public name of the module MPI says in one sentence what it does."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.mpi4py.api_table import contract, face
from xsim_py.mpi4py.door import OWNERS, methods_of

INTERFACE = contract()
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@pytest.mark.parametrize("name", INTERFACE.classes)
def test_a_class_and_its_calls_and_properties_are_described(name):
    cls = getattr(face(), name)
    assert inspect.getdoc(cls)
    for attribute in INTERFACE.classes[name].names:
        value = inspect.getattr_static(cls, attribute)
        if isinstance(value, property):
            kind, _, rest = inspect.getdoc(value).partition("\n\n")
            assert re.fullmatch(rf"{attribute}: \w.*", kind), attribute
            assert is_sentence(rest), attribute
        elif inspect.ismemberdescriptor(value):
            assert is_sentence(inspect.getdoc(value)), attribute
        elif not attribute.startswith("_") and callable(getattr(cls, attribute)):
            assert_call(attribute, getattr(cls, attribute).__doc__)


@pytest.mark.parametrize("name", INTERFACE.functions)
def test_a_function_is_described(name):
    assert_call(name, getattr(face(), name).__doc__)


def assert_call(name, text):
    """As in mpi4py, a line with the call stands before what it does."""
    first, _, rest = text.partition("\n\n")
    assert re.fullmatch(r"\w+\(.*\)", first), name
    assert is_sentence(rest), name


def is_sentence(text):
    return bool(text) and re.fullmatch(r"[A-Z][^\n]*[^.\n]\.", text) is not None


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: owner.__name__)
def test_the_first_line_names_the_arguments(owner: type):
    for name in methods_of(owner):
        method = getattr(vars(owner)[name], "__func__", vars(owner)[name])
        declared = inspect.signature(method).parameters.values()
        named = [each.name for each in declared if each.name not in ("self", "cls") and each.kind in POSITIONAL]
        assert not method.__doc__ or method.__doc__.splitlines()[0].endswith(f"({', '.join(named)})")
