"""``mpi4py.util.dtlib``: conversion between numpy's types and MPI's.

mpi4py's own module uses handles for every nested member, which takes ten times as long: this one works on the types
behind the handles, and caches structs of elementary members.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from xsim_py.mpi import constants as c
from xsim_py.mpi import construct
from xsim_py.mpi.datatype import NULL, Type
from xsim_py.mpi4py.datatype import SHARED, Datatype, core_of
from xsim_py.mpi4py.handle import handle_of
from xsim_py.mpi4py.inside import impl_of

__all__ = ["from_numpy_dtype", "to_numpy_dtype"]

_np_dtype: Any = np.dtype  # None: describe types only, as without numpy


def _described(spec: object) -> Any:
    return spec if _np_dtype is None else _np_dtype(spec)


def from_numpy_dtype(dtype: object) -> Datatype:
    """Return the uncommitted MPI datatype with the elements and layout of a numpy type.

    Raises a `ValueError` if the type holds Python objects, or has a foreign byte order.
    """
    if _np_dtype is None:
        raise RuntimeError("NumPy is not available")
    return handle_of(Datatype, _core_of(_np_dtype(dtype)))


def _core_of(dtype: np.dtype[Any]) -> Type:
    made = _member(dtype)
    return construct.rebuilt(made) if made in SHARED else made


def _member(dtype: np.dtype[Any]) -> Type:
    """Return the type of a member; elementary types are shared by all structs."""
    if dtype.hasobject:
        raise ValueError("NumPy datatype with object entries")
    if not dtype.isnative:
        raise ValueError("NumPy datatype with non-native byteorder")
    fields = dtype.fields
    if fields:
        members = [fields[name] for name in dtype.names or ()]
        places = tuple([member[1] for member in members])
        kinds = tuple([_kind(member[0]) for member in members])
        if None in kinds:
            made = _struct_of([_member(member[0]) for member in members], places)
        else:
            made = construct.rebuilt(_flat_struct(kinds, places))
        return construct.resized(made, 0, dtype.itemsize)
    if dtype.subdtype is None:
        return _elementary(dtype.char)
    return _array(_core_of(dtype.subdtype[0]), dtype.subdtype[1])


def _array(old: Type, shape: tuple[int, ...]) -> Type:
    if len(shape) == 1:
        return construct.contiguous(old, shape[0])
    return construct.subarray(old, shape, shape, [0] * len(shape), c.ORDER_C)


Kind: TypeAlias = str | tuple[str, tuple[int, ...]]

_VOID = "V"  # the type character of structs and arrays in numpy
_MOST = 1024  # the size of each cache: programs convert the same types repeatedly


def _kind(dtype: np.dtype[Any]) -> Kind | None:
    """Return the name of an elementary member, or of an array of such; None for all others."""
    code = dtype.char
    if code != _VOID:
        return code
    if dtype.subdtype is None or dtype.subdtype[0].char == _VOID:
        return None
    return dtype.subdtype[0].char, dtype.subdtype[1]


@lru_cache(maxsize=_MOST)
def _flat_struct(kinds: tuple[Kind, ...], places: tuple[int, ...]) -> Type:
    """Return the struct of members that are elementary, or arrays of such."""
    return _struct_of([_elementary(kind) if isinstance(kind, str) else _flat_array(*kind) for kind in kinds], places)


@lru_cache(maxsize=_MOST)
def _flat_array(code: str, shape: tuple[int, ...]) -> Type:
    made = _array(construct.rebuilt(_elementary(code)), shape)
    if len(SHARED) < 2 * _MOST:
        SHARED.add(made)
    return made


def _struct_of(types: list[Type], places: tuple[int, ...]) -> Type:
    return construct.struct([1] * len(types), list(places), types)


def _elementary(code: str) -> Type:
    found = _elementary_types.get(code)
    if found is None:
        found = _elementary_types[code] = construct.duplicate(impl_of(Datatype.fromcode(code)))
        SHARED.add(found)
    return found


_elementary_types: dict[str, Type] = {}


def to_numpy_dtype(datatype: Datatype) -> Any:
    """Return the numpy type for the elements of an MPI datatype; fields are named f0, f1, ...

    Raises a `ValueError` if numpy has no such type.
    """
    return _dtype_of(core_of(datatype))


def _dtype_of(core: Type) -> Any:
    if core in SHARED and _np_dtype is not None:
        return _shared_dtype(core)
    return _made_dtype(core)


@lru_cache(maxsize=2 * _MOST)
def _shared_dtype(core: Type) -> Any:
    return _made_dtype(core)


def _made_dtype(core: Type) -> Any:
    if core is NULL:
        raise ValueError("cannot convert null MPI datatype to NumPy")
    recipe = core.recipe
    combiner, params = recipe.combiner, recipe.params
    if core.is_predefined:
        return _pair(core) if core.kind == "pair" else _described(core.code or None)
    if combiner == c.COMBINER_STRUCT:
        return _struct(core, core)
    base = recipe.types[0]
    if combiner == c.COMBINER_DUP:
        return _dtype_of(base)
    if combiner == c.COMBINER_RESIZED and base.recipe.combiner == c.COMBINER_STRUCT:
        return _struct(base, core)
    if combiner == c.COMBINER_CONTIGUOUS:
        return _described((_dtype_of(base), (params["count"],)))
    if combiner == c.COMBINER_SUBARRAY:
        return _subarray(base, params)
    if combiner in (c.COMBINER_VECTOR, c.COMBINER_HVECTOR):
        stride = params["stride"] * (base.extent if combiner == c.COMBINER_VECTOR else 1)
        lengths, places = [params["blocklength"]] * params["count"], [stride * i for i in range(params["count"])]
        return _fields([(_dtype_of(base), (n,)) for n in lengths], places, _is_aligned(core), core.extent)
    if combiner in _INDEXED:
        places = params["displacements"]
        lengths = params["blocklengths"] if "blocklengths" in params else [params["blocklength"]] * len(places)
        aligned, unit = _is_aligned(base), base.extent
        if combiner in _INDEXED_BYTES:
            aligned, unit = aligned and all(_is_aligned(base, at) for at in places), 1
        return _fields([(_dtype_of(base), (n,)) for n in lengths], [at * unit for at in places], aligned)
    raise ValueError("cannot convert MPI datatype to NumPy")


_INDEXED_BYTES = (c.COMBINER_HINDEXED, c.COMBINER_HINDEXED_BLOCK)
_INDEXED = (c.COMBINER_INDEXED, c.COMBINER_INDEXED_BLOCK, *_INDEXED_BYTES)


def _pair(core: Type) -> Any:
    assert core.dtype is not None
    return np.dtype([(f"f{i}", core.dtype[i]) for i in range(2)], align=True)


def _struct(core: Type, resized: Type) -> Any:
    """Return the numpy dtype of a struct, ``core``, with the extent of ``whole``."""
    types, params = core.recipe.types, core.recipe.params
    if _np_dtype is None or not SHARED.issuperset(types):
        return _struct_fields(core, resized)
    key = (core is resized, resized.extent, *params["blocklengths"], *params["displacements"], *types)
    found = _struct_dtypes.get(key)
    if found is None:
        if len(_struct_dtypes) >= _MOST:
            _struct_dtypes.clear()
        found = _struct_dtypes[key] = _struct_fields(core, resized)
    return found.newbyteorder("=")  # a copy: its owner may rename the fields


_struct_dtypes: dict[tuple[Any, ...], Any] = {}


def _struct_fields(core: Type, resized: Type) -> Any:
    params = core.recipe.params
    formats = [
        _dtype_of(old) if n == 1 else (_dtype_of(old), n)
        for n, old in zip(params["blocklengths"], params["datatypes"], strict=True)
    ]
    return _fields(formats, params["displacements"], _is_aligned(core) and _is_aligned(resized), resized.extent)


def _fields(formats: list[Any], offsets: list[int], aligned: bool, itemsize: int | None = None) -> Any:
    names = [f"f{i}" for i in range(len(formats))]
    found: dict[str, Any] = {"names": names, "formats": formats, "offsets": offsets, "aligned": aligned}
    return _described(found if itemsize is None else {**found, "itemsize": itemsize})


def _subarray(base: Type, params: dict[str, Any]) -> Any:
    """Return the type of a whole array; numpy has no type for a part of one."""
    sizes = params["sizes"]
    if params["subsizes"] != sizes or any(params["starts"]):
        raise ValueError("cannot convert subarray MPI datatype to NumPy")
    return _described((_dtype_of(base), tuple(sizes if params["order"] == c.ORDER_C else sizes[::-1])))


def _is_aligned(core: Type, at: int = 0) -> bool:
    """Return True if elements are aligned as by a C compiler.

    The type is `at` bytes after an aligned address.

    As in mpi4py, this checks displacements in bytes; for an indexed type, that of the first block.
    """
    if core.is_predefined or core in SHARED:
        return at % core.alignment == 0
    recipe = core.recipe
    combiner, params = recipe.combiner, recipe.params
    if combiner == c.COMBINER_STRUCT or combiner in _INDEXED_BYTES:
        places: list[int] = params["displacements"]
        return all(_is_aligned(old, at + place) for old, place in zip(recipe.types, places, strict=False))
    if combiner == c.COMBINER_RESIZED:
        at += params["extent"]
    elif combiner == c.COMBINER_HVECTOR and params["count"] > 1:
        at += params["stride"]
    return _is_aligned(recipe.types[0], at)
