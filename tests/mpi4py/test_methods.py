"""Methods that are made from rows of a table."""

from __future__ import annotations

import inspect
import os

import pytest

from xsim_py.mpi4py import methods
from xsim_py.mpi4py.methods import Method, add_methods, attribute


class Sums:
    pass


def names() -> dict[str, object]:
    return {"__name__": __name__, "__file__": __file__, "SUM": "sum", "total": lambda *items: items}


def test_a_made_method_does_its_statement_with_its_arguments_in_any_way():
    add_methods(Sums, names(), [Method("add", "buf root", "Any", "return total(buf, root)")])
    assert Sums().add(1) == Sums().add(buf=1, root=0) == (1, 0)


def test_it_has_the_signature_that_its_parameters_have_everywhere():
    add_methods(Sums, names(), [Method("fold", "sendbuf op root", "None", "pass")])
    assert str(inspect.signature(Sums.fold)) == "(self, sendbuf: 'Any', op: 'Op' = 'sum', root: 'int' = 0) -> 'None'"


def test_it_is_of_the_module_and_the_class_and_shows_no_line_of_another_file():
    add_methods(Sums, names(), [Method("fail", "buf", "None", "return buf / 0")])
    assert (Sums.fail.__module__, Sums.fail.__qualname__) == (__name__, "Sums.fail")
    with pytest.raises(ZeroDivisionError) as raised:
        Sums().fail(1)
    where = raised.traceback[-1].frame.code.raw.co_filename
    assert os.path.dirname(where) == os.path.dirname(__file__)
    assert not os.path.exists(where)


class Named:
    def get_name(self) -> str:
        return "old"

    def set_name(self, name: str) -> None:
        self.given = name

    name = attribute(get_name, set_name)


class Renamed(Named):
    def get_name(self) -> str:
        return "new"


def test_an_attribute_reads_and_writes_by_the_methods_of_the_subclass():
    named = Renamed()
    named.name = "other"
    assert (Named().name, named.name, named.given) == ("old", "new", "other")
    assert methods.attribute(Named.get_name).fget.__annotations__["return"] == "str"


def test_without_a_method_to_write_it_can_not_be_written():
    Named.label = attribute(Named.get_name)
    with pytest.raises(AttributeError):
        Named().label = "other"
