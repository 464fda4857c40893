"""Attributes: what callbacks see, and in which order they run."""

from __future__ import annotations

import pytest

from xsim_py.mpi import attributes as a
from xsim_py.mpi import constants as c
from xsim_py.mpi.errors import Exception as MpiError

OWNER = object()


class Log:
    """Callbacks that write down their calls."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, object]] = []

    def copy(self, owner: object, keyval: int, value: object) -> object:
        assert owner is OWNER
        self.lines.append(("copy", value))
        return value

    def delete(self, owner: object, keyval: int, value: object) -> None:
        assert owner is OWNER
        self.lines.append(("delete", value))


def test_an_attribute_is_set_read_and_deleted():
    key = a.create_keyval("Comm", None, None)
    table: a.Attributes = {}
    assert a.get_attribute(None, "Comm", key) is a.get_attribute(table, "Comm", key) is None
    a.set_attribute(OWNER, table, "Comm", key, "value")
    assert a.get_attribute(table, "Comm", key) == "value"
    a.delete_attribute(OWNER, table, "Comm", key)
    a.delete_attribute(OWNER, table, "Comm", key)
    assert a.get_attribute(table, "Comm", key) is None


def test_callbacks_run_newest_first_and_a_copy_keeps_the_order():
    log = Log()
    keys = [a.create_keyval("Comm", log.copy, log.delete) for _ in range(3)]
    table: a.Attributes = {}
    for place in (1, 0, 2):
        a.set_attribute(OWNER, table, "Comm", keys[place], place)
    a.set_attribute(OWNER, table, "Comm", keys[1], 1)
    assert log.lines == [("delete", 1)]
    log.lines.clear()
    copied = a.copy_attributes(OWNER, table)
    a.delete_all(OWNER, copied)
    a.delete_attribute(OWNER, table, "Comm", keys[0])
    a.delete_all(OWNER, table)
    # what MPICH does with the same calls
    assert log.lines == [
        *(("copy", place) for place in (2, 0, 1)),
        *(("delete", place) for place in (2, 0, 1)),
        ("delete", 0),
        *(("delete", place) for place in (2, 1)),
    ]


@pytest.mark.parametrize(
    ("copy_fn", "expected"),
    [
        (None, {}),
        (False, {}),
        (True, {"v"}),
        (lambda owner, key, value: value * 2, {"vv"}),
        (lambda owner, key, value: None, {None}),
        (lambda owner, key, value: NotImplemented, {}),
    ],
)
def test_what_a_copy_gets(copy_fn, expected):
    key = a.create_keyval("Comm", copy_fn, None)
    table: a.Attributes = {}
    a.set_attribute(OWNER, table, "Comm", key, "v")
    assert {value for _, value in a.copy_attributes(OWNER, table).values()} == set(expected)
    assert a.copy_attributes(OWNER, None) is None


def test_a_freed_key_lives_on_in_what_has_it():
    log = Log()
    key = a.create_keyval("Comm", log.copy, log.delete)
    table: a.Attributes = {}
    a.set_attribute(OWNER, table, "Comm", key, 7)
    assert a.free_keyval("Comm", key) == c.KEYVAL_INVALID
    with pytest.raises(MpiError):
        a.get_attribute(table, "Comm", key)
    copied = a.copy_attributes(OWNER, table) or {}
    assert log.lines == [("copy", 7)]
    a.delete_attribute(OWNER, table, "Comm", key)
    a.delete_all(OWNER, copied)
    assert log.lines == [("copy", 7), ("delete", 7), ("delete", 7)]
    with pytest.raises(MpiError, match="was freed"):
        a.delete_attribute(OWNER, table, "Comm", key)


@pytest.mark.parametrize("keyval", [c.KEYVAL_INVALID, c.TAG_UB, 99999])
def test_what_is_no_key_is_an_error(keyval):
    for call in (
        lambda: a.get_attribute({}, "Comm", keyval),
        lambda: a.set_attribute(OWNER, {}, "Comm", keyval, 1),
        lambda: a.delete_attribute(OWNER, {}, "Comm", keyval),
        lambda: a.free_keyval("Comm", keyval),
    ):
        with pytest.raises(MpiError) as caught:
            call()
        assert caught.value.error_class == c.ERR_KEYVAL


def test_a_key_is_for_one_kind_of_object():
    key = a.create_keyval("Datatype", None, None)
    with pytest.raises(MpiError):
        a.get_attribute({}, "Comm", key)


def test_an_integer_key_holds_integers():
    key = a.create_keyval("Comm", True, None, is_integer=True)
    table: a.Attributes = {}
    a.set_attribute(OWNER, table, "Comm", key, 5)
    with pytest.raises(TypeError):
        a.set_attribute(OWNER, table, "Comm", key, "five")
    assert a.get_attribute(table, "Comm", key) == 5


def test_a_callback_that_fails_makes_the_call_fail():
    def wrong(owner: object, key: int, value: object) -> None:
        raise ZeroDivisionError("wrong")

    def mpi_error(owner: object, key: int, value: object) -> None:
        raise MpiError(c.ERR_ARG)

    for callback, error in ((wrong, c.ERR_OTHER), (mpi_error, c.ERR_ARG)):
        key = a.create_keyval("Comm", callback, None)
        table: a.Attributes = {}
        a.set_attribute(OWNER, table, "Comm", key, 1)
        with pytest.raises(MpiError) as caught:
            a.copy_attributes(OWNER, table)
        assert caught.value.error_class == error
