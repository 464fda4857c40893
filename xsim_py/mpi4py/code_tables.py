"""Tables of type codes in `mpi4py.MPI`, which a program may change for its own process only.

All processes share one table until one of them changes it, so a process that only reads has no copy.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from typing import Any, TypeVar

from xsim_py.mpi.per_process import of_process

__all__ = ["CodeTable", "derived", "reset_changes"]

K = TypeVar("K")
V = TypeVar("V")

_changed = False  # whether any process of this run has changed a table: until then the shared one is used
_derived: list[tuple[dict[Any, Any], dict[Any, Any]]] = []


class CodeTable(UserDict[str, V]):
    """A dictionary whose changes are private to each process."""

    def __init__(self, name: str, default: dict[str, V]) -> None:
        self._name = name
        self._default = default

    @property
    def data(self) -> dict[str, V]:  # type: ignore[override]
        """The contents for the current process."""
        return of_process(self._name, self._default.copy) if _changed else self._default

    def __setitem__(self, code: str, value: V) -> None:
        _note_change()
        super().__setitem__(code, value)

    def __delitem__(self, code: str) -> None:
        _note_change()
        super().__delitem__(code)

    def __ior__(self, other: Any) -> CodeTable[V]:  # type: ignore[override]
        self.update(other)
        return self

    def __or__(self, other: Any) -> Any:
        return self.data | dict(other) if isinstance(other, Mapping) else NotImplemented

    def __ror__(self, other: object) -> Any:
        return other | self.data if isinstance(other, dict) else NotImplemented

    def copy(self) -> Any:
        return self.data.copy()

    __copy__ = copy


def derived(table: dict[K, V]) -> dict[K, V]:
    """Register a table derived from code tables, and return it.

    It is emptied when a process changes a code table.
    """
    _derived.append((table, table.copy()))
    return table


def reset_changes() -> None:
    """Reset to unchanged tables at the beginning of a run."""
    global _changed
    if _changed:
        _changed = False
        for table, default in _derived:
            table.update(default)


def _note_change() -> None:
    global _changed
    if not _changed:
        _changed = True
        for table, _ in _derived:
            table.clear()
