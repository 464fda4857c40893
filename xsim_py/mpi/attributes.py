"""Attributes that a program attaches to communicators, datatypes and windows (MPI 4.1, chapter 7.7).

Keys belong to one process and one kind of object. Callbacks run newest attribute first, as in MPICH; a copy keeps that
order. An exception in a callback is printed and makes the call fail, as in mpi4py: with the code of an MPI error, else
with ERR_OTHER.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.per_process import of_process
from xsim_py.process.output.tracebacks import report

CopyFunction = Callable[[Any, int, Any], Any]
DeleteFunction = Callable[[Any, int, Any], object]
Attributes = dict[int, tuple["Keyval", Any]]
"""The attributes of one object: by key, the oldest first. A freed key remains valid for existing attributes."""

_FIRST = 1001  # after the predefined keys of the ABI


class Keyval:
    """One attribute key."""

    __slots__ = ("copy_fn", "delete_fn", "is_integer", "kind", "number")

    def __init__(self, number: int, kind: str, copy_fn: Any, delete_fn: Any, is_integer: bool) -> None:
        self.number = number  # the program's handle of the key
        self.kind = kind  # ``"Comm"``, ``"Datatype"`` or ``"Win"``
        # Called with (object, key, value) when the object is duplicated; its result is the copy's value, and
        # NotImplemented means no copy. True copies the value itself, None copies nothing.
        self.copy_fn: CopyFunction | bool | None = copy_fn or None
        # Called with (object, key, value) when the attribute is deleted.
        self.delete_fn: DeleteFunction | None = delete_fn or None
        self.is_integer = is_integer  # whether values are C integers (mpi4py's ``nopython``)


class _Keyvals:
    """The keys of one process."""

    __slots__ = ("keyvals", "next_number")

    def __init__(self) -> None:
        self.keyvals: dict[int, Keyval] = {}
        self.next_number = _FIRST


def attributes_of(owner: Any) -> Attributes:
    """Return the mutable attributes of a communicator or a datatype."""
    if owner.attributes is None:
        owner.attributes = {}
    attributes: Attributes = owner.attributes
    return attributes


def create_keyval(
    kind: str, copy_fn: CopyFunction | bool | None, delete_fn: DeleteFunction | None, *, is_integer: bool = False
) -> int:
    """Create a key (MPI_Comm_create_keyval and the same for datatypes and windows)."""
    table = of_process("keyvals", _Keyvals)
    number = table.next_number
    table.next_number += 1
    table.keyvals[number] = Keyval(number, kind, copy_fn, delete_fn, is_integer)
    return number


def free_keyval(kind: str, keyval: int) -> int:
    """Free a key; return KEYVAL_INVALID, the new value of the program's variable."""
    number = _find(kind, keyval).number
    del of_process("keyvals", _Keyvals).keyvals[number]
    return c.KEYVAL_INVALID


def _find(kind: str, keyval: int) -> Keyval:
    table = of_process("keyvals", _Keyvals)
    number = operator.index(keyval)
    found = table.keyvals.get(number)
    if found is None and _FIRST <= number < table.next_number:
        errors.fail(c.ERR_KEYVAL, f"attribute key {keyval} was freed")
    if found is None or found.kind != kind:
        errors.fail(c.ERR_KEYVAL, f"{keyval} is not an attribute key for a {kind} in this process")
    return found


def get_attribute(attributes: Attributes | None, kind: str, keyval: int) -> Any | None:
    """Return the attribute's value, or None; predefined attributes are handled by the caller."""
    number = _find(kind, keyval).number
    return attributes[number][1] if attributes is not None and number in attributes else None


def set_attribute(owner: object, attributes: Attributes, kind: str, keyval: int, value: Any) -> None:
    """Set an attribute; any previous value is deleted with its callback."""
    found = _find(kind, keyval)
    if found.is_integer:
        value = operator.index(value)
    if found.number in attributes:
        _call_delete(owner, *attributes[found.number])
    attributes[found.number] = (found, value)


def delete_attribute(owner: object, attributes: Attributes | None, kind: str, keyval: int) -> None:
    """Delete an attribute, if it exists; its key may have been freed (7.7.2)."""
    number = operator.index(keyval)
    if not attributes or number not in attributes:
        _find(kind, keyval)
    else:
        _call_delete(owner, *attributes[number])  # if it fails, the attribute stays, as in MPICH and Open MPI
        attributes.pop(number, None)


def copy_attributes(owner: object, attributes: Attributes | None) -> Attributes | None:
    """Return the attributes of a duplicate of `owner`."""
    if not attributes:
        return None
    copied: Attributes = {}
    for number, (keyval, value) in reversed(attributes.items()):
        if isinstance(keyval.copy_fn, bool):
            copied[number] = (keyval, value)
        elif keyval.copy_fn is not None:
            new = _call(keyval.copy_fn, owner, number, value)
            if new is not NotImplemented:
                copied[number] = (keyval, operator.index(new) if keyval.is_integer else new)
    return dict(reversed(copied.items()))


def delete_all(owner: object, attributes: Attributes | None) -> None:
    """Delete every attribute of an object that is about to be freed.

    An error of a callback is printed and does not stop it, as in MPICH: an object cannot be partially freed.
    """
    while attributes:
        _, (keyval, value) = attributes.popitem()
        with suppress(errors.Exception):
            _call_delete(owner, keyval, value)


def _call_delete(owner: object, keyval: Keyval, value: object) -> None:
    if keyval.delete_fn is not None:
        _call(keyval.delete_fn, owner, keyval.number, value)


def _call(function: Callable[..., Any], owner: object, number: int, value: object) -> Any:
    try:
        return function(owner, number, value)
    except errors.ReturnedError:
        raise
    except errors.Exception as error:
        report(error)
        raise
    except Exception as problem:
        report(problem)
        raise errors.error(c.ERR_OTHER, f"an attribute callback raised {problem!r}") from problem
