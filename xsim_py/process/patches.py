"""The doors between a virtual rank and the operating system: each is swapped for a virtual one while a run lasts."""

from __future__ import annotations

from types import TracebackType
from typing import Any

__all__ = ["Patches"]


class Patches:
    """Attributes that are replaced now and put back at the end, last first."""

    def __init__(self) -> None:
        self._saved: list[tuple[Any, str, Any]] = []
        self._items: list[tuple[dict[str, Any], str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace ``owner.name``."""
        self._saved.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def set_own(self, owner: type, name: str, value: Any) -> None:
        """Replace an attribute that a class defines itself; a class method comes back as one."""
        self._saved.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def set_item(self, owner: dict[str, Any], key: str, value: Any) -> None:
        """Replace ``owner[key]``, or add it."""
        self._items.append((owner, key, owner.get(key)))
        owner[key] = value

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        while self._saved:
            owner, name, value = self._saved.pop()
            setattr(owner, name, value)
        while self._items:
            table, key, value = self._items.pop()
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
