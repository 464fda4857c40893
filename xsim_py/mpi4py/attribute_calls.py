"""Attributes attached to communicators, datatypes and windows (MPI 4.1, chapter 7.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from xsim_py.mpi import attributes

from .handle import Handle

__all__ = ["Attributed"]


class Attributed(Handle):
    """A handle to whose object a program may attach attributes."""

    __slots__ = ()

    _kind: ClassVar[str]

    def _attributes(self) -> attributes.Attributes:
        """Return the modifiable attributes of the object."""
        raise NotImplementedError

    def Get_attr(self, keyval: int) -> object:
        return attributes.get_attribute(self._attributes(), self._kind, keyval)

    def Set_attr(self, keyval: int, attrval: object) -> None:
        attributes.set_attribute(self, self._attributes(), self._kind, keyval, attrval)

    def Delete_attr(self, keyval: int) -> None:
        attributes.delete_attribute(self, self._attributes(), self._kind, keyval)

    @classmethod
    def Create_keyval(
        cls,
        copy_fn: Callable[[Any, int, Any], Any] | None = None,
        delete_fn: Callable[[Any, int, Any], None] | None = None,
        nopython: bool = False,
    ) -> int:
        return attributes.create_keyval(cls._kind, copy_fn, delete_fn, is_integer=nopython)

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        return attributes.free_keyval(cls._kind, keyval)
