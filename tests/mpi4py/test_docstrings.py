"""Every public name of the module MPI says in one sentence what it does."""

from __future__ import annotations

import inspect
import re

from tests.mpi4py.api_table import contract, face
from xsim_py.mpi4py.door import OWNERS, methods_of

INTERFACE = contract()
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def test_a_class_and_its_calls_and_properties_are_described():
    for name, said in INTERFACE.classes.items():
        cls = getattr(face(), name)
        assert inspect.getdoc(cls)
        for attribute in said.names:
            assert_described(cls, attribute)


def assert_described(cls, attribute):
    value = inspect.getattr_static(cls, attribute)
    if isinstance(value, property):
        kind, _, rest = inspect.getdoc(value).partition("\n\n")
        assert re.fullmatch(rf"{attribute}: \w.*", kind), (cls, attribute)
        assert is_sentence(rest), (cls, attribute)
    elif inspect.ismemberdescriptor(value):
        assert is_sentence(inspect.getdoc(value)), (cls, attribute)
    elif not attribute.startswith("_") and callable(getattr(cls, attribute)):
        assert_call(attribute, getattr(cls, attribute).__doc__)


def test_a_function_is_described():
    for name in INTERFACE.functions:
        assert_call(name, getattr(face(), name).__doc__)


def assert_call(name, text):
    """As in mpi4py, a line with the call stands before what it does."""
    first, _, rest = text.partition("\n\n")
    assert re.fullmatch(r"\w+\(.*\)", first), name
    assert is_sentence(rest), name


def is_sentence(text):
    return bool(text) and re.fullmatch(r"[A-Z][^\n]*[^.\n]\.", text) is not None


def test_the_first_line_names_the_arguments():
    for owner, name in [(each, name) for each in OWNERS for name in methods_of(each)]:
        method = getattr(vars(owner)[name], "__func__", vars(owner)[name])
        declared = inspect.signature(method).parameters.values()
        named = [each.name for each in declared if each.name not in ("self", "cls") and each.kind in POSITIONAL]
        first = (method.__doc__ or "").partition("\n")[0]
        assert not first or first.endswith(f"({', '.join(named)})"), (owner, name)
