"""The class `Datatype` and the predefined datatypes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

from xsim_py.mpi import attributes, construct, external32
from xsim_py.mpi import constants as c
from xsim_py.mpi.datatype import NULL, Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi.per_process import of_process
from xsim_py.mpi.predefined import PREDEFINED
from xsim_py.mpi4py.attribute_calls import Attributed
from xsim_py.mpi4py.code_tables import CodeTable
from xsim_py.mpi4py.handle import CONSTANTS, handle_of, int_list
from xsim_py.mpi4py.inside import impl_of
from xsim_py.mpi4py.memory import flat_view
from xsim_py.mpi4py.plain_arguments import Comm, plain_text

__all__ = [
    "INSTANCES",
    "SHARED",
    "TYPE_DICT",
    "TYPE_DICT_C",
    "TYPE_DICT_F",
    "Datatype",
    "core_of",
    "typealign",
    "typecode",
]


def _index(value: SupportsIndex | float) -> int:
    """Return an integer argument; like mpi4py, truncate a float."""
    return int(value) if isinstance(value, float) else operator.index(value)


class Datatype(Attributed):
    """Datatype object."""

    __slots__ = ()

    _kind = "Datatype"

    _null = NULL  # type: ignore[assignment]
    _error = c.ERR_TYPE

    _impl: Type

    def __new__(cls, datatype: Datatype | None = None) -> Self:
        return cls._copy(datatype)

    if TYPE_CHECKING:

        def _live(self) -> Type: ...

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = self._name()
        if name is not None:
            return name
        if self._impl in _CONSTANTS:
            return (type(self), (_CONSTANTS[self._impl],))
        base, combiner, params = self.decode()
        return (_datatype_create, (base, combiner, params, True))

    def free(self) -> None:
        if self._impl.is_predefined:
            self._set_null()
        else:
            self.Free()

    # ---------------------------------------------------------------------------------- sizes and bounds

    def Get_size(self) -> int:
        return self._live().size

    size = property(Get_size)

    def Get_extent(self) -> tuple[int, int]:
        core = self._live()
        return core.lb, core.extent

    @property
    def extent(self) -> int:
        return self._live().extent

    @property
    def lb(self) -> int:
        return self._live().lb

    @property
    def ub(self) -> int:
        return self._live().ub

    def Get_true_extent(self) -> tuple[int, int]:
        core = self._live()
        return core.true_lb, core.true_extent

    @property
    def true_extent(self) -> int:
        return self._live().true_extent

    @property
    def true_lb(self) -> int:
        return self._live().true_lb

    @property
    def true_ub(self) -> int:
        core = self._live()
        return core.true_lb + core.true_extent

    # ---------------------------------------------------------------------------------------- constructors

    def Dup(self) -> Self:
        new = self._make(construct.duplicate(self._live()))
        attached = _attached(self._impl)
        copies = attributes.copy_attributes(Datatype(self), attached) if attached else None
        if copies:
            new._attributes().update(copies)
        return new

    Create_dup = Dup

    def Create_contiguous(self, count: int) -> Self:
        return self._make(construct.contiguous(self._impl, _index(count)))

    def Create_vector(self, count: int, blocklength: int, stride: int) -> Self:
        return self._make(construct.vector(self._impl, _index(count), _index(blocklength), _index(stride)))

    def Create_hvector(self, count: int, blocklength: int, stride: int) -> Self:
        return self._make(construct.hvector(self._impl, _index(count), _index(blocklength), _index(stride)))

    def Create_indexed(self, blocklengths: Sequence[int], displacements: Sequence[int]) -> Self:
        lengths = _integers(blocklengths)
        return self._make(construct.indexed(self._impl, lengths, _integers(displacements, len(lengths))))

    def Create_hindexed(self, blocklengths: Sequence[int], displacements: Sequence[int]) -> Self:
        lengths = _integers(blocklengths)
        return self._make(construct.hindexed(self._impl, lengths, _integers(displacements, len(lengths))))

    def Create_indexed_block(self, blocklength: int, displacements: Sequence[int]) -> Self:
        return self._make(construct.indexed_block(self._impl, _index(blocklength), _integers(displacements)))

    def Create_hindexed_block(self, blocklength: int, displacements: Sequence[int]) -> Self:
        return self._make(construct.hindexed_block(self._impl, _index(blocklength), _integers(displacements)))

    @classmethod
    def Create_struct(
        cls, blocklengths: Sequence[int], displacements: Sequence[int], datatypes: Sequence[Datatype]
    ) -> Self:
        lengths = _integers(blocklengths)
        places = _integers(displacements, len(lengths))
        if len(datatypes) != len(lengths):
            raise ValueError(f"expecting {len(lengths)} items, got {len(datatypes)}")
        return cls._make(construct.struct(lengths, places, [core_of(datatype) for datatype in datatypes]))

    def Create_subarray(
        self, sizes: Sequence[int], subsizes: Sequence[int], starts: Sequence[int], order: int = c.ORDER_C
    ) -> Self:
        full_sizes = _integers(sizes)
        n = len(full_sizes)
        return self._make(
            construct.subarray(self._impl, full_sizes, _integers(subsizes, n), _integers(starts, n), _index(order))
        )

    def Create_darray(
        self,
        size: int,
        rank: int,
        gsizes: Sequence[int],
        distribs: Sequence[int],
        dargs: Sequence[int],
        psizes: Sequence[int],
        order: int = c.ORDER_C,
    ) -> Self:
        sizes = _integers(gsizes)
        core = construct.darray(
            self._impl,
            size=_index(size),
            rank=_index(rank),
            gsizes=sizes,
            distribs=_integers(distribs, len(sizes)),
            dargs=_integers(dargs, len(sizes)),
            psizes=_integers(psizes, len(sizes)),
            order=_index(order),
        )
        return self._make(core)

    @classmethod
    def Get_value_index(cls, value: Datatype, index: Datatype) -> Self:
        return cls._make(construct.value_index(impl_of(value), impl_of(index)))

    @classmethod
    def Create_f90_integer(cls, r: int) -> Self:
        return cls._make(construct.f90_integer(_index(r)))

    @classmethod
    def Create_f90_real(cls, p: int, r: int) -> Self:
        return cls._make(construct.f90_real(_index(p), _index(r)))

    @classmethod
    def Create_f90_complex(cls, p: int, r: int) -> Self:
        return cls._make(construct.f90_complex(_index(p), _index(r)))

    @classmethod
    def Match_size(cls, typeclass: int, size: int) -> Self:
        return cls._make(construct.match_size(_index(typeclass), _index(size)))

    def Create_resized(self, lb: int, extent: int) -> Self:
        return self._make(construct.resized(self._impl, _index(lb), _index(extent)))

    Resized = Create_resized

    def Commit(self) -> Self:
        self._live().committed = True
        return self

    def Free(self) -> None:
        core = self._live()
        if core.recipe.combiner == c.COMBINER_NAMED:
            fail(c.ERR_TYPE, f"{core.name} is predefined and cannot be freed")
        attached = _attached(core)
        if attached:
            attributes.delete_all(Datatype(self), attached)
        self._impl = NULL

    # -------------------------------------------------------------------------------------------- decoding

    def Get_envelope(self) -> tuple[int, int, int, int, int]:
        recipe = self._live().recipe
        return len(recipe.integers), 0, len(recipe.counts), len(recipe.types), recipe.combiner

    envelope = property(Get_envelope)

    def Get_contents(self) -> tuple[list[int], list[int], list[int], list[Datatype]]:
        recipe = self._live().recipe
        if recipe.combiner == c.COMBINER_NAMED:
            fail(c.ERR_TYPE, "a named datatype has no contents")
        return list(recipe.integers), [], list(recipe.counts), [handle_of(Datatype, core) for core in recipe.types]

    contents = property(Get_contents)

    def decode(self) -> tuple[Datatype, str, dict[str, Any]]:
        recipe = self._live().recipe
        if recipe.combiner == c.COMBINER_NAMED:
            return self, "NAMED", {}
        types = [handle_of(Datatype, core) for core in recipe.types]
        params = {name: list(value) if isinstance(value, list) else value for name, value in recipe.params.items()}
        if "datatypes" in params:
            params["datatypes"] = types
        base = types[0] if len(types) == 1 else INSTANCES["DATATYPE_NULL"]
        return base, _COMBINER_NAMES[recipe.combiner], params

    @property
    def combiner(self) -> int:
        return self._live().recipe.combiner

    @property
    def is_named(self) -> bool:
        return self._live().recipe.combiner == c.COMBINER_NAMED

    @property
    def is_predefined(self) -> bool:
        return self._impl.is_predefined

    # --------------------------------------------------------------------------------- explicit packing

    def _committed(self) -> Type:
        core = self._live()
        if not core.committed:
            fail(c.ERR_TYPE, "the datatype has not been committed")
        return core

    def Pack(self, inbuf: object, outbuf: object, position: int, comm: Comm) -> int:
        core = self._committed()
        source, target = flat_view(inbuf, writable=False), flat_view(outbuf, writable=True)
        return _pack(core.pack(source, 0, len(source) // core.extent), target, _index(position))

    def Unpack(self, inbuf: object, position: int, outbuf: object, comm: Comm) -> int:
        core = self._committed()
        source, target = flat_view(inbuf, writable=False), flat_view(outbuf, writable=True)
        count = len(target) // core.extent
        data = _packed_part(source, _index(position), core.size * count)
        return _index(position) + core.unpack(data, target, 0, count)

    def Pack_size(self, count: int, comm: Comm) -> int:
        return _count(count) * self._committed().size

    def Pack_external(self, datarep: str, inbuf: object, outbuf: object, position: int) -> int:
        core = self._committed()
        source, target = flat_view(inbuf, writable=False), flat_view(outbuf, writable=True)
        native = core.pack(source, 0, len(source) // core.extent)
        return _pack(external32.encode(datarep, core, native), target, _index(position))

    def Unpack_external(self, datarep: str, inbuf: object, position: int, outbuf: object) -> int:
        core = self._committed()
        source, target = flat_view(inbuf, writable=False), flat_view(outbuf, writable=True)
        count = len(target) // core.extent
        data = _packed_part(source, _index(position), external32.size(datarep, core) * count)
        core.unpack(external32.decode(datarep, core, data), target, 0, count)
        return _index(position) + len(data)

    def Pack_external_size(self, datarep: str, count: int) -> int:
        return _count(count) * external32.size(datarep, self._committed())

    # ------------------------------------------------------------------------------ attributes and names

    def _attributes(self) -> attributes.Attributes:
        core = self._live()
        attached = _attached(core)
        return attributes.attributes_of(core) if attached is None else attached

    def Get_name(self) -> str:
        if not self:
            return "MPI_DATATYPE_NULL"
        core = self._impl
        return of_process("datatype names", dict[Type, str]).get(core, core.name) if _is_shared(core) else core.name

    def Set_name(self, name: str) -> None:
        core = self._live()
        text = plain_text(name)[: c.MAX_OBJECT_NAME - 1]
        if _is_shared(core):  # the type is shared, but its name is private to a process
            of_process("datatype names", dict[Type, str])[core] = text
        else:
            core.name = text

    name = property(Get_name, Set_name)

    # ----------------------------------------------------------------------------- handles and Python's type codes

    def tocode(self) -> str:
        code = typecode(self)
        if code is None:
            raise ValueError("cannot map to character code or type string")
        return code

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        if code not in TYPE_DICT:
            raise ValueError(f"cannot map code {code!r} to MPI datatype")
        return TYPE_DICT[code]

    @property
    def typestr(self) -> str:
        if self._impl is NULL:
            return ""
        return _typestr(_basic(self._impl)) or f"V{self._impl.extent}"

    @property
    def typechar(self) -> str:
        return "" if self._impl is NULL else _basic(self._impl).typechar or "V"


def _basic(core: Type) -> Type:
    """Return the type behind a chain of duplicates."""
    while core.recipe.combiner == c.COMBINER_DUP:
        core = core.recipe.types[0]
    return core


def _typestr(core: Type) -> str:
    """Return numpy's kind and the size; characters always have size 1."""
    if not core.typechar:
        return ""
    assert core.dtype is not None
    if core.typechar in "cU":
        return {"c": "S1", "U": "U1"}[core.typechar]
    kind = {"?": "b"}.get(core.typechar, core.dtype.kind)
    return f"{kind}{core.dtype.itemsize}"


def typecode(datatype: Datatype) -> str | None:
    """Return the result of `Datatype.tocode`, or None."""
    return _basic(impl_of(datatype)).code or None


def typealign(datatype: Datatype) -> int | None:
    """Return the alignment in bytes of a predefined type or a duplicate of one, else None."""
    core = _basic(impl_of(datatype))
    return core.alignment if core.is_predefined and core is not NULL else None


def _is_shared(core: Type) -> bool:
    return core.is_predefined or core in SHARED


def _attached(core: Type) -> attributes.Attributes | None:
    """Return a type's attributes; processes share predefined types, but not their attributes."""
    if _is_shared(core):
        return of_process("datatype attributes", dict[Type, attributes.Attributes]).setdefault(core, {})
    return core.attributes


def core_of(datatype: object) -> Type:
    """Return the core type of an argument that must be a Datatype."""
    if not isinstance(datatype, Datatype):
        raise TypeError(f"Cannot convert {type(datatype).__name__} to mpi4py.MPI.Datatype")
    core: Type = impl_of(datatype)
    return core


def _integers(values: Sequence[int], length: int | None = None) -> list[int]:
    found = int_list(values)
    if length is not None and len(found) != length:
        raise ValueError(f"expecting {length} items, got {len(found)}")
    return found


def _count(count: int) -> int:
    number = _index(count)
    if number < 0:
        fail(c.ERR_COUNT, f"negative count {number}")
    return number


def _pack(data: bytes, target: memoryview, position: int) -> int:
    end = position + len(data)
    if position < 0 or end > len(target):
        fail(c.ERR_ARG, f"packing needs bytes {position} to {end} of a buffer of {len(target)}")
    target[position:end] = data
    return end


def _packed_part(source: memoryview, position: int, nbytes: int) -> bytes:
    if position < 0 or position + nbytes > len(source):
        fail(c.ERR_ARG, f"unpacking needs bytes {position} to {position + nbytes} of a buffer of {len(source)}")
    return bytes(source[position : position + nbytes])


# ------------------------------------------------------------------------------------- the predefined instances


def _instances() -> dict[str, Datatype]:
    """Return one object for each type.

    Aliases share it, as in mpi4py. Each null type has a separate object.
    """
    found: dict[str, Datatype] = {}
    by_type: dict[Type, Datatype] = {}
    for name, core in PREDEFINED.items():
        if core is NULL:
            found[name] = handle_of(Datatype, core)
        else:
            found[name] = by_type.setdefault(core, handle_of(Datatype, core))
    CONSTANTS.update((name, found[name]) for name in _names().values())
    return found


def _names() -> dict[Type, str]:
    """Return the first name of each predefined type."""
    return {core: name for name, core in reversed(PREDEFINED.items())}


INSTANCES: dict[str, Datatype] = _instances()
"""All `Datatype` constants of the module MPI, by name."""

SHARED: set[Type] = set(PREDEFINED.values()) - {NULL}
"""Permanent types shared by all processes: predefined ones, and those from which others are frequently built."""

_CONSTANTS: dict[Type, Datatype] = {core: INSTANCES[name] for core, name in _names().items()}
_COMBINER_NAMES = {value: name[9:] for name, value in vars(c).items() if name.startswith("COMBINER_")}


def _codes(table: str, items: str) -> CodeTable[Datatype]:
    """Return a table of ``CODE=NAME`` items.

    The last of equal codes counts, and nulls are skipped.
    """
    pairs = (item.split("=") for item in items.split())
    return CodeTable(table, {code: INSTANCES[name] for code, name in pairs if INSTANCES[name]})


# The meanings of type strings and buffer formats; of several matching types, mpi4py takes the sized C type.
TYPE_DICT = _codes(
    "_typedict",
    "?=C_BOOL b=SIGNED_CHAR h=SHORT i=INT l=LONG q=LONG_LONG B=UNSIGNED_CHAR H=UNSIGNED_SHORT I=UNSIGNED "
    "L=UNSIGNED_LONG Q=UNSIGNED_LONG_LONG e=FLOAT16_T f=FLOAT d=DOUBLE g=LONG_DOUBLE "
    "Zf=C_FLOAT_COMPLEX Zd=C_DOUBLE_COMPLEX Zg=C_LONG_DOUBLE_COMPLEX "
    "F=C_FLOAT_COMPLEX D=C_DOUBLE_COMPLEX G=C_LONG_DOUBLE_COMPLEX "
    "i1=INT8_T i2=INT16_T i4=INT32_T i8=INT64_T u1=UINT8_T u2=UINT16_T u4=UINT32_T u8=UINT64_T b1=C_BOOL "
    "f2=FLOAT16_T f4=FLOAT f8=DOUBLE f16=LONG_DOUBLE "
    "c8=C_FLOAT_COMPLEX c16=C_DOUBLE_COMPLEX c32=C_LONG_DOUBLE_COMPLEX "
    "n=COUNT N=UNSIGNED_LONG p=AINT P=UNSIGNED_LONG c=CHAR a=CHAR S=CHAR S1=CHAR s=CHAR 1s=CHAR "
    "U=WCHAR U1=WCHAR u=UINT16_T 1u=UINT16_T w=WCHAR 1w=WCHAR M=INT64_T M8=INT64_T m=INT64_T m8=INT64_T",
)
TYPE_DICT_C = _codes(
    "_typedict_c",
    "?=C_BOOL b=SIGNED_CHAR h=SHORT i=INT l=LONG q=LONG_LONG B=UNSIGNED_CHAR H=UNSIGNED_SHORT I=UNSIGNED "
    "L=UNSIGNED_LONG Q=UNSIGNED_LONG_LONG f=FLOAT d=DOUBLE g=LONG_DOUBLE "
    "F=C_FLOAT_COMPLEX D=C_DOUBLE_COMPLEX G=C_LONG_DOUBLE_COMPLEX b1=C_BOOL "
    "i1=INT8_T i2=INT16_T i4=INT32_T i8=INT64_T u1=UINT8_T u2=UINT16_T u4=UINT32_T u8=UINT64_T f2=FLOAT16_T "
    "f4=FLOAT c8=C_FLOAT_COMPLEX f8=DOUBLE c16=C_DOUBLE_COMPLEX f16=LONG_DOUBLE c32=C_LONG_DOUBLE_COMPLEX",
)
TYPE_DICT_F = _codes(
    "_typedict_f",
    "l=LOGICAL i=INTEGER r=REAL s=REAL d=DOUBLE_PRECISION c=COMPLEX z=DOUBLE_COMPLEX "
    "i1=INTEGER1 i2=INTEGER2 i4=INTEGER4 i8=INTEGER8 r4=REAL4 r8=REAL8 r16=REAL16 "
    "c8=COMPLEX8 c16=COMPLEX16 c32=COMPLEX32",
)


def _datatype_create(datatype: Datatype, combiner: str, params: dict[str, Any], free: bool = False) -> Datatype:
    """Build and commit a datatype from the result of `Datatype.decode`."""
    new: Datatype = getattr(datatype, f"Create_{combiner.lower()}")(**params)
    return new.Commit()


def _datatype_decode(datatype: Datatype, mark: bool = False) -> tuple[Datatype, str, dict[str, Any]]:
    """Return the result of `Datatype.decode`."""
    return datatype.decode()


_datatype_create.__module__ = _datatype_decode.__module__ = "mpi4py.MPI"  # `pickle` looks for them there
