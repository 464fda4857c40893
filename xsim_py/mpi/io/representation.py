"""Data representations (MPI 4.1, 14.5): the encoding and extents of elements in a file.

``native`` and ``internal`` are the bytes in memory. In ``external32`` numbers are big-endian and have the standard's
sizes, so a datatype has another extent there: it is rebuilt from basic types of those sizes. Displacements in bytes are
as given by the program; it queries MPI_File_get_type_extent for them.
"""

from __future__ import annotations

from collections.abc import Callable

from xsim_py.mpi import constants as c
from xsim_py.mpi import construct, external32
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi.per_process import of_process
from xsim_py.mpi.typemap import block

EXTERNAL = "external32"
_KNOWN = ("native", "internal", EXTERNAL)


def check(name: str) -> None:
    """Raise an error if a representation is not supported.

    As in MPICH, this includes registered ones: no conversion is available.
    """
    if name not in _KNOWN:
        fail(c.ERR_UNSUPPORTED_DATAREP, f"{name!r}: there are {', '.join(map(repr, _KNOWN))}")


def register(name: str, read: object, write: object, extent: object) -> None:
    """Register the name of a representation; as in MPICH, conversion is unsupported."""
    names: set[str] = of_process("data representations", set)
    if not name or len(name) > c.MAX_DATAREP_STRING:
        fail(c.ERR_ARG, f"a data representation's name has from 1 to {c.MAX_DATAREP_STRING} characters")
    if name in _KNOWN or name in names:
        fail(c.ERR_DUP_DATAREP, f"{name!r}")
    if read is not None or write is not None:
        fail(c.ERR_UNSUPPORTED_DATAREP, f"{name!r} has conversion functions")
    names.add(name)


# ------------------------------------------------------------------------------------------------------- types


def in_file(name: str, datatype: Type) -> Type:
    """Return the form of a datatype in a file."""
    return _external(datatype) if name == EXTERNAL else datatype


def _external(datatype: Type) -> Type:
    if datatype.is_predefined:
        size = external32.size(EXTERNAL, datatype)
        return Type(layout=lambda: block(size), size=size, lb=0, extent=size, alignment=1, elements=datatype.elements)
    recipe = datatype.recipe
    inner = [_external(old) for old in recipe.types]
    params = {name: value for name, value in recipe.params.items() if name != "datatypes"}
    if recipe.combiner == c.COMBINER_STRUCT:
        return construct.struct(params["blocklengths"], params["displacements"], inner)
    return _MAKERS[recipe.combiner](inner[0], **params)


_MAKERS: dict[int, Callable[..., Type]] = {
    c.COMBINER_DUP: construct.duplicate,
    c.COMBINER_CONTIGUOUS: construct.contiguous,
    c.COMBINER_VECTOR: construct.vector,
    c.COMBINER_HVECTOR: construct.hvector,
    c.COMBINER_INDEXED: construct.indexed,
    c.COMBINER_HINDEXED: construct.hindexed,
    c.COMBINER_INDEXED_BLOCK: construct.indexed_block,
    c.COMBINER_HINDEXED_BLOCK: construct.hindexed_block,
    c.COMBINER_SUBARRAY: construct.subarray,
    c.COMBINER_DARRAY: construct.darray,
    c.COMBINER_RESIZED: construct.resized,
}


# -------------------------------------------------------------------------------------------------------- data


def to_file(name: str, datatype: Type, data: bytes) -> bytes:
    """Return packed elements as they are stored in a file."""
    return external32.encode(name, datatype, data) if name == EXTERNAL else data


def from_file(name: str, datatype: Type, data: bytes) -> bytes:
    """Return packed elements from stored bytes.

    A truncated element has only its complete basic elements.
    """
    if name != EXTERNAL or not data:
        return data
    outer = external32.size(name, datatype)
    whole, rest = divmod(len(data), outer)
    if not rest:
        return external32.decode(name, datatype, data)
    decoded = external32.decode(name, datatype, data + bytes(outer - rest))
    return decoded[: whole * datatype.size + _native_bytes(datatype, rest)]


def _native_bytes(datatype: Type, size: int) -> int:
    """Return the bytes in memory of the basic elements in the first `size` bytes of one stored element."""
    total = 0
    for dtype, count in datatype.runs():
        each = external32.basic_size(dtype)
        held = min(count, size // each)
        total += held * dtype.itemsize
        size -= held * each
        if held < count:
            break
    return total
