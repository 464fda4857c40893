"""``mpi4py.util.dtlib``: from numpy's types to MPI's, and back.

mpi4py's own module goes through a handle for every member of every member, which costs ten times what this one takes:
it works on the types that the handles name. It differs in one thing: a type whose inner members are out of alignment is
never called aligned, whatever its place.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from xsim_py.mpi import constants as c
from xsim_py.mpi import construct
from xsim_py.mpi.datatype import NULL, Type
from xsim_py.mpi.predefined import PREDEFINED
from xsim_py.mpi4py.datatype import Datatype, core_of

__all__ = ["from_numpy_dtype", "to_numpy_dtype"]

_np_dtype: Any = np.dtype  # None: types are only described, as where there is no numpy


def _described(spec: Any) -> Any:
    return spec if _np_dtype is None else _np_dtype(spec)


def from_numpy_dtype(dtype: Any) -> Datatype:
    """Make the MPI datatype, not yet committed, that has the elements of a numpy type where they are.

    Raises
    ------
    ValueError
        If the type holds Python objects, or is not of this machine's byte order.
    """
    if _np_dtype is None:
        raise RuntimeError("NumPy is not available")
    return Datatype._make(_core_of(_np_dtype(dtype)))


def _core_of(dtype: np.dtype[Any]) -> Type:
    if dtype.fields is None and dtype.subdtype is None:
        return construct.duplicate(_member(dtype))
    return _member(dtype)


def _member(dtype: np.dtype[Any]) -> Type:
    """The type of a member; of the elementary ones, one that all structs share."""
    if dtype.hasobject:
        raise ValueError("NumPy datatype with object entries")
    if not dtype.isnative:
        raise ValueError("NumPy datatype with non-native byteorder")
    fields = dtype.fields
    if fields:
        members = [fields[name] for name in dtype.names or ()]
        codes = "".join([member[0].char for member in members])
        places = [member[1] for member in members]
        if _VOID in codes:
            made = _struct_of([_member(member[0]) for member in members], places)
        else:
            made = construct.again(_flat_struct(codes, *places))
        return construct.resized(made, 0, dtype.itemsize)
    if dtype.subdtype is None:
        return _elementary(dtype.char)
    base, shape = dtype.subdtype
    old = _core_of(base)
    if len(shape) == 1:
        return construct.contiguous(old, shape[0])
    return construct.subarray(old, shape, shape, [0] * len(shape), c.ORDER_C)


_VOID = "V"  # what structs and arrays are for numpy
_MOST = 1024  # structs of elementary members to remember: programs convert the same ones there and back


@lru_cache(maxsize=_MOST)
def _flat_struct(codes: str, *places: int) -> Type:
    """The struct whose members are elementary."""
    return _struct_of([_elementary(code) for code in codes], list(places))


def _struct_of(types: list[Type], places: list[int]) -> Type:
    return construct.struct([1] * len(types), places, types)


def _elementary(code: str) -> Type:
    found = _elementary_types.get(code)
    if found is None:
        found = _elementary_types[code] = construct.duplicate(Datatype.fromcode(code)._impl)
        _lasting.add(found)
    return found


_elementary_types: dict[str, Type] = {}
_lasting: set[Type] = set(PREDEFINED.values()) - {NULL}  # types that stay, and that all ranks share


def to_numpy_dtype(datatype: Datatype) -> Any:
    """Describe the elements of an MPI datatype as a numpy type; fields are called f0, f1, ...

    Raises
    ------
    ValueError
        If numpy has no such type.
    """
    return _dtype_of(core_of(datatype))


def _dtype_of(core: Type) -> Any:
    if core is NULL:
        raise ValueError("cannot convert null MPI datatype to NumPy")
    recipe = core.recipe
    combiner, params = recipe.combiner, recipe.params
    if core.is_predefined:
        return _predefined(core)
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
        unit = base.extent if combiner in (c.COMBINER_INDEXED, c.COMBINER_INDEXED_BLOCK) else 1
        return _fields([(_dtype_of(base), (n,)) for n in lengths], [at * unit for at in places], _is_aligned(core))
    raise ValueError("cannot convert MPI datatype to NumPy")


_INDEXED = (c.COMBINER_INDEXED, c.COMBINER_HINDEXED, c.COMBINER_INDEXED_BLOCK, c.COMBINER_HINDEXED_BLOCK)


def _predefined(core: Type) -> Any:
    if core.kind == "pair":
        return _pair(core)
    return _described(core.code or None)


@lru_cache
def _pair(core: Type) -> Any:
    assert core.dtype is not None
    return np.dtype([(f"f{i}", core.dtype[i]) for i in range(2)], align=True)


def _struct(core: Type, whole: Type) -> Any:
    """Of a struct, or of one that has been given another extent."""
    types, params = core.recipe.types, core.recipe.params
    if _np_dtype is None or not _lasting.issuperset(types):
        return _struct_fields(core, whole)
    key = (core is whole, whole.extent, *params["blocklengths"], *params["displacements"], *types)
    found = _struct_dtypes.get(key)
    if found is None:
        if len(_struct_dtypes) >= _MOST:
            _struct_dtypes.clear()
        found = _struct_dtypes[key] = _struct_fields(core, whole)
    return found.newbyteorder("=")  # a copy: its owner may give the fields other names


_struct_dtypes: dict[tuple[Any, ...], Any] = {}


def _struct_fields(core: Type, whole: Type) -> Any:
    params = core.recipe.params
    formats = [
        _dtype_of(old) if n == 1 else (_dtype_of(old), n)
        for n, old in zip(params["blocklengths"], params["datatypes"], strict=True)
    ]
    return _fields(formats, params["displacements"], _is_aligned(whole), whole.extent)


def _fields(formats: list[Any], offsets: list[int], aligned: bool, itemsize: int | None = None) -> Any:
    names = [f"f{i}" for i in range(len(formats))]
    found: dict[str, Any] = {"names": names, "formats": formats, "offsets": offsets, "aligned": aligned}
    return _described(found if itemsize is None else {**found, "itemsize": itemsize})


def _subarray(base: Type, params: dict[str, Any]) -> Any:
    """An array of which everything is taken; numpy has no type for a part of one."""
    sizes = params["sizes"]
    if params["subsizes"] != sizes or any(params["starts"]):
        raise ValueError("cannot convert subarray MPI datatype to NumPy")
    return _described((_dtype_of(base), tuple(sizes if params["order"] == c.ORDER_C else sizes[::-1])))


def _is_aligned(core: Type) -> bool:
    """Whether all elements are where a C compiler would put them, if the first one's origin is."""
    if core.is_predefined:
        return True
    recipe = core.recipe
    combiner, params, types = recipe.combiner, recipe.params, recipe.types
    places: list[int] = [0]
    if combiner == c.COMBINER_STRUCT:
        places = params["displacements"]
    elif combiner == c.COMBINER_RESIZED:
        places = [params["extent"]]
    elif combiner == c.COMBINER_HVECTOR and params["count"] > 1:
        places = [params["stride"]]
    elif combiner in (c.COMBINER_HINDEXED, c.COMBINER_HINDEXED_BLOCK):
        places = params["displacements"]
    if len(types) == 1:
        return all(at % types[0].alignment == 0 for at in places) and _is_aligned(types[0])
    return all(at % old.alignment == 0 and _is_aligned(old) for at, old in zip(places, types, strict=True))
