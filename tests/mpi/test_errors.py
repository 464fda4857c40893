"""MPI errors: the exception, and what a program can add."""

from __future__ import annotations

import copy
import pickle
import re
import weakref

import pytest

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors, per_process
from xsim_py.mpi.errors import Exception as MpiError


@pytest.fixture(autouse=True)
def new_process():
    """Give every test a process of its own."""
    tables = {}

    def own(name, make):
        if name not in tables:
            tables[name] = make()
        return tables[name]

    per_process.bind(own)
    yield
    per_process.bind(None)


CLASSES = {n: v for n, v in vars(c).items() if n.startswith("ERR_") and n != "ERR_LASTCODE"}


def test_every_class_has_its_own_number_below_lastcode_and_its_text():
    assert len(set(CLASSES.values())) == len(CLASSES)
    for name, number in CLASSES.items():
        assert 0 < number < c.ERR_LASTCODE
        assert errors.error_class(number) == number
        assert re.fullmatch(rf"MPI_{name}: [a-z].{{5,70}}", errors.error_string(number), re.IGNORECASE)


def test_an_exception_is_a_number_among_numbers():
    error = MpiError(c.ERR_RANK)
    assert int(error) == error == c.ERR_RANK
    assert error == MpiError(c.ERR_RANK)
    assert error != MpiError(c.ERR_TAG)
    assert error != c.ERR_TAG
    assert error != "text"
    assert c.ERR_TAG < error < MpiError(c.ERR_REQUEST)
    assert c.ERR_RANK <= error <= MpiError(c.ERR_RANK)
    assert error > c.SUCCESS
    assert error >= 1
    assert hash(error) == hash(c.ERR_RANK)
    assert error
    assert not MpiError()
    with pytest.raises(TypeError):
        _ = error < "text"


def test_an_exception_says_what_it_is():
    error = MpiError(c.ERR_RANK)
    assert repr(error) == f"MPI.Exception({c.ERR_RANK})"
    assert str(error) == error.error_string == error.Get_error_string() == "MPI_ERR_RANK: invalid rank"
    assert error.error_code == error.Get_error_code() == error.error_class == error.Get_error_class() == c.ERR_RANK
    assert error.args == (c.ERR_RANK,)
    assert MpiError(-5).args == (c.ERR_UNKNOWN,)


def test_an_exception_is_made_of_an_integer():
    for wrong in ("6", None, 1.5):
        with pytest.raises(TypeError):
            MpiError(wrong)


class Lazy(MpiError):
    """Does not call the `__init__` of its base."""

    def __init__(self, code, where):
        self.where = where

    def __new__(cls, code, where):
        return super().__new__(cls, code)


class Mixed(MpiError, TimeoutError):
    """Has another base."""


def test_a_program_may_derive_exceptions_of_its_own_kind():
    """As in mpi4py, where the code is the first argument."""
    lazy = Lazy(c.ERR_RANK, where="here")
    assert (lazy, lazy.where, lazy.Get_error_class(), lazy.args) == (c.ERR_RANK, "here", c.ERR_RANK, (c.ERR_RANK,))
    mixed = Mixed(c.ERR_RANK)
    mixed.note = "said"
    for again in (copy.copy(mixed), copy.deepcopy(mixed), pickle.loads(pickle.dumps(mixed))):
        assert (type(again), again, vars(again)) == (Mixed, c.ERR_RANK, {"note": "said"})
    assert weakref.ref(mixed)() is mixed


def test_a_detail_goes_into_the_text_and_through_a_pickle(monkeypatch):
    monkeypatch.setattr(MpiError, "__module__", "xsim_py.mpi.errors")
    with pytest.raises(MpiError) as caught:
        errors.fail(c.ERR_RANK, "rank 9 of 4")
    assert str(caught.value) == "MPI_ERR_RANK: invalid rank (rank 9 of 4)"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_added_classes_and_codes():
    klass = errors.add_error_class()
    code = errors.add_error_code(klass)
    assert c.ERR_LASTCODE < klass < code == errors.table().last_used
    assert (errors.error_class(klass), errors.error_class(code)) == (klass, klass)
    assert errors.error_string(code) == ""
    errors.add_error_string(code, "spilt milk")
    assert str(MpiError(code)) == "spilt milk"
    assert MpiError(code).Get_error_class() == klass
    assert errors.error_class(errors.add_error_code(c.ERR_RANK)) == c.ERR_RANK
    errors.add_error_string(code, "x" * 600)
    assert len(errors.error_string(code)) == c.MAX_ERROR_STRING - 1


def test_what_was_added_is_removed_from_the_outside_in():
    klass = errors.add_error_class()
    code = errors.add_error_code(klass)
    errors.add_error_string(code, "text")
    for refused in (lambda: errors.remove_error_code(code), lambda: errors.remove_error_class(klass)):
        with pytest.raises(MpiError) as caught:
            refused()
        assert caught.value == c.ERR_OTHER
    errors.remove_error_string(code)
    errors.remove_error_code(code)
    errors.remove_error_class(klass)
    assert errors.error_class(klass) == errors.error_class(code) == c.ERR_UNKNOWN


def test_predefined_errors_cannot_be_changed():
    for change in (
        lambda: errors.add_error_string(c.ERR_RANK, "mine"),
        lambda: errors.remove_error_string(c.ERR_RANK),
        lambda: errors.remove_error_class(c.ERR_RANK),
        lambda: errors.remove_error_code(c.ERR_RANK),
        lambda: errors.add_error_code(99999),
    ):
        with pytest.raises(MpiError):
            change()


def test_a_class_is_not_a_code():
    klass = errors.add_error_class()
    code = errors.add_error_code(klass)
    with pytest.raises(MpiError, match="not a class"):
        errors.remove_error_class(code)
    with pytest.raises(MpiError, match="not a code"):
        errors.remove_error_code(klass)
    with pytest.raises(MpiError, match="unknown error class"):
        errors.add_error_code(code)


def test_an_unknown_code_says_so():
    assert errors.error_class(12345) == c.ERR_UNKNOWN
    assert errors.error_string(12345) == "MPI_ERR_UNKNOWN: unknown error code 12345"


def test_each_process_adds_its_own():
    klass = errors.add_error_class()
    per_process.bind(lambda name, make: make())
    assert errors.error_class(klass) == c.ERR_UNKNOWN
