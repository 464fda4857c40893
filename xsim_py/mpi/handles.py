"""Handles as integers: the results of `handle`, `toint` and `py2f`, and the arguments of `fromint`.

Predefined objects have the numbers of the MPI 5.0 ABI. Any other object gets one when a program first requests it,
counted separately by each process, so the numbers do not depend on addresses.
"""

from __future__ import annotations

from xsim_py.mpi.per_process import of_process

_FIRST = 0x1000  # the ABI reserves lower numbers for predefined handles

_predefined: dict[int, object] = {}
_predefined_numbers: dict[int, int] = {}


class _Numbers:
    """The numbers that one process has assigned.

    Keeps the objects, as a program may hold only the number.
    """

    __slots__ = ("numbers", "objects")

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.objects: list[object] = []


def predefine(number: int, value: object) -> None:
    """Give a predefined object, such as MPI_INT, the number of its handle in the MPI ABI."""
    _predefined[number] = value
    _predefined_numbers[id(value)] = number


def predefined_number(value: object) -> int | None:
    """Return the number of a predefined object, or None."""
    return _predefined_numbers.get(id(value))


def number_of(value: object) -> int:
    """Return the handle of an object, always the same."""
    number = _predefined_numbers.get(id(value))
    if number is not None:
        return number
    table = of_process("handles", _Numbers)
    number = table.numbers.get(id(value))
    if number is None:
        number = table.numbers[id(value)] = _FIRST + len(table.objects)
        table.objects.append(value)
    return number


def object_of(number: int) -> object | None:
    """Return the object that has this handle in the current process, None if there is none."""
    if number < _FIRST:
        return _predefined.get(number)
    objects = of_process("handles", _Numbers).objects
    return objects[number - _FIRST] if number - _FIRST < len(objects) else None
