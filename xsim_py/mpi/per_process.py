"""Tables that belong to one process: error codes, attribute keys, handle numbers.

A real process keeps such tables in global variables. Here many processes share one interpreter, so every table is
looked up by name. The running simulation determines where the current virtual rank keeps its tables; outside of a run,
in a unit test, there is one process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
Lookup = Callable[[str, Callable[[], Any]], Any]

_tables: dict[str, Any] = {}


def _of_interpreter(name: str, make: Callable[[], Any]) -> object:
    if name not in _tables:
        _tables[name] = make()
    return _tables[name]


_lookup: Lookup = _of_interpreter


def bind(lookup: Lookup | None) -> None:
    """Use `lookup` to find the tables of the current virtual rank.

    None restores those of the interpreter.
    """
    global _lookup
    _lookup = _of_interpreter if lookup is None else lookup


def of_process(name: str, make: Callable[[], T]) -> T:
    """Return the current process's object with that name, made by ``make()`` on first use."""
    found: T = _lookup(name, make)
    return found
