"""Types of the arguments of MPI calls, as in mpi4py's module of this name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol, SupportsIndex, TypeAlias, Union

from xsim_py.mpi4py.datatype import Datatype
from xsim_py.mpi4py.memory import BottomType, InPlaceType

__all__ = [
    "Aint",
    "Bottom",
    "BufSpec",
    "BufSpecB",
    "BufSpecV",
    "BufSpecW",
    "Buffer",
    "Count",
    "Displ",
    "InPlace",
    "Offset",
    "SupportsBuffer",
    "SupportsCAI",
    "SupportsDLPack",
    "TargetSpec",
    "TypeSpec",
]


class SupportsBuffer(Protocol):
    """Python buffer protocol."""

    if sys.version_info >= (3, 12):

        def __buffer__(self, flags: int, /) -> memoryview: ...


class SupportsDLPack(Protocol):
    """DLPack data interchange protocol."""

    def __dlpack__(self, /, *, stream: Any | None = None) -> object: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


class SupportsCAI(Protocol):
    """CUDA array interface."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


Buffer: TypeAlias = Union[SupportsBuffer, SupportsDLPack, SupportsCAI]  # noqa: UP007
Bottom: TypeAlias = BottomType | None
InPlace: TypeAlias = InPlaceType | None
Aint: TypeAlias = SupportsIndex
Count: TypeAlias = SupportsIndex
Displ: TypeAlias = SupportsIndex
Offset: TypeAlias = SupportsIndex
TypeSpec: TypeAlias = Datatype | str

_Simple: TypeAlias = (
    Buffer | tuple[Buffer, Count] | tuple[Buffer, TypeSpec] | tuple[Buffer, Count, TypeSpec] | list[Any]
)
_Places: TypeAlias = tuple[Sequence[Count], Sequence[Displ]]

BufSpec: TypeAlias = _Simple | tuple[Bottom, Count, Datatype]
BufSpecB: TypeAlias = _Simple
BufSpecV: TypeAlias = (
    Buffer
    | tuple[Buffer, Sequence[Count]]
    | tuple[Buffer, _Places]
    | tuple[Buffer, TypeSpec]
    | tuple[Buffer, Sequence[Count], TypeSpec]
    | tuple[Buffer, _Places, TypeSpec]
    | tuple[Buffer, Sequence[Count], Sequence[Displ], TypeSpec]
    | tuple[Bottom, _Places, Datatype]
    | tuple[Bottom, Sequence[Count], Sequence[Displ], Datatype]
    | list[Any]
)
BufSpecW: TypeAlias = (
    tuple[Buffer, Sequence[Datatype]]
    | tuple[Buffer, _Places, Sequence[Datatype]]
    | tuple[Buffer, Sequence[Count], Sequence[Displ], Sequence[Datatype]]
    | tuple[Bottom, _Places, Sequence[Datatype]]
    | tuple[Bottom, Sequence[Count], Sequence[Displ], Sequence[Datatype]]
    | list[Any]
)
TargetSpec: TypeAlias = (
    Displ | tuple[()] | tuple[Displ] | tuple[Displ, Count] | tuple[Displ, Count, TypeSpec] | list[Any]
)
