"""Constructors of derived datatypes (MPI 4.1, section 5.1).

Each returns an uncommitted `Type`. Counts and displacements are integers; their values are checked here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from xsim_py.mpi import constants as c
from xsim_py.mpi.datatype import NULL, Recipe, Type
from xsim_py.mpi.errors import fail
from xsim_py.mpi.predefined import FORTRAN_ONLY, PREDEFINED
from xsim_py.mpi.typemap import Layout, join, place, repeat, scattered


def _not_null(*types: Type) -> None:
    if NULL in types:
        fail(c.ERR_TYPE, "the datatype is null")


def _count(*counts: int) -> None:
    for count in counts:
        if count < 0:
            fail(c.ERR_COUNT, f"negative count {count}")


def _regular(old: Type, count: int, block: int, stride: int, recipe: Recipe) -> Type:
    """Return `count` blocks of `block` elements, `stride` bytes apart."""
    lb = ub = 0
    if count and block and old.size:
        inner = (block - 1) * old.extent
        outer = (count - 1) * stride
        lb = old.lb + min(0, inner) + min(0, outer)
        ub = old.ub + max(0, inner) + max(0, outer)
    return Type(
        layout=lambda: repeat(repeat(old.layout, block, old.extent), count, stride),
        size=count * block * old.size,
        lb=lb,
        extent=ub - lb,
        alignment=old.alignment,
        elements=count * block * old.elements,
        recipe=recipe,
    )


def contiguous(old: Type, count: int) -> Type:
    """Return consecutive elements."""
    _not_null(old)
    _count(count)
    recipe = Recipe(c.COMBINER_CONTIGUOUS, {"count": count}, counts=[count], types=[old])
    return _regular(old, count, 1, old.extent, recipe)


def vector(old: Type, count: int, blocklength: int, stride: int) -> Type:
    """Return blocks at a regular distance, counted in elements."""
    return _vector(old, count, blocklength, stride, old.extent, c.COMBINER_VECTOR)


def hvector(old: Type, count: int, blocklength: int, stride: int) -> Type:
    """Return blocks at a regular distance in bytes."""
    return _vector(old, count, blocklength, stride, 1, c.COMBINER_HVECTOR)


def _vector(old: Type, count: int, blocklength: int, stride: int, unit: int, combiner: int) -> Type:
    _not_null(old)
    _count(count, blocklength)
    params = {"count": count, "blocklength": blocklength, "stride": stride}
    recipe = Recipe(combiner, params, counts=[count, blocklength, stride], types=[old])
    return _regular(old, count, blocklength, stride * unit, recipe)


def indexed(old: Type, blocklengths: Sequence[int], displacements: Sequence[int]) -> Type:
    """Return blocks of any length at any displacement, counted in elements."""
    return _indexed(old, blocklengths, displacements, old.extent, c.COMBINER_INDEXED)


def hindexed(old: Type, blocklengths: Sequence[int], displacements: Sequence[int]) -> Type:
    """Return blocks of any length at any displacement in bytes."""
    return _indexed(old, blocklengths, displacements, 1, c.COMBINER_HINDEXED)


def _indexed(old: Type, lengths: Sequence[int], displacements: Sequence[int], unit: int, combiner: int) -> Type:
    _not_null(old)
    _count(*lengths)
    params = {"blocklengths": list(lengths), "displacements": list(displacements)}
    recipe = Recipe(combiner, params, counts=[len(lengths), *lengths, *displacements], types=[old])
    return _blocks(old, lengths, [at * unit for at in displacements], recipe)


def indexed_block(old: Type, blocklength: int, displacements: Sequence[int]) -> Type:
    """Return blocks of one length at any displacement, counted in elements."""
    return _indexed_block(old, blocklength, displacements, old.extent, c.COMBINER_INDEXED_BLOCK)


def hindexed_block(old: Type, blocklength: int, displacements: Sequence[int]) -> Type:
    """Return blocks of one length at any displacement in bytes."""
    return _indexed_block(old, blocklength, displacements, 1, c.COMBINER_HINDEXED_BLOCK)


def _indexed_block(old: Type, length: int, displacements: Sequence[int], unit: int, combiner: int) -> Type:
    _not_null(old)
    _count(length)
    params = {"blocklength": length, "displacements": list(displacements)}
    recipe = Recipe(combiner, params, counts=[len(displacements), length, *displacements], types=[old])
    return _blocks(old, [length] * len(displacements), [at * unit for at in displacements], recipe)


def _blocks(old: Type, lengths: Sequence[int], places: Sequence[int], recipe: Recipe) -> Type:
    """Return blocks of elements at displacements in bytes."""
    size, extent = old.size, old.extent
    used = [(length, at) for length, at in zip(lengths, places, strict=True) if length] if size else []
    lb = ub = 0
    if used:
        lb = old.lb + min(at + min(0, (length - 1) * extent) for length, at in used)
        ub = old.ub + max(at + max(0, (length - 1) * extent) for length, at in used)
    count = sum(lengths)
    return Type(
        layout=lambda: _block_layout(old, used),
        size=count * size,
        lb=lb,
        extent=ub - lb,
        alignment=old.alignment,
        elements=count * old.elements,
        recipe=recipe,
    )


def _block_layout(old: Type, blocks: Sequence[tuple[int, int]]) -> Layout:
    lengths, places = np.array(blocks, np.int64).reshape(-1, 2).T
    if len(lengths) and (lengths == lengths[0]).all():
        return place(repeat(old.layout, int(lengths[0]), old.extent), places)
    if old.layout.is_block and old.size == old.extent:  # each is one run of bytes, however long
        return scattered(places + old.layout.low, lengths * old.size)
    first = np.cumsum(lengths) - lengths
    within = np.arange(int(lengths.sum())) - np.repeat(first, lengths)
    return place(old.layout, np.repeat(places, lengths) + within * old.extent)


def struct(blocklengths: Sequence[int], displacements: Sequence[int], types: Sequence[Type]) -> Type:
    """Return blocks of any type at any displacement in bytes."""
    _not_null(*types)
    _count(*blocklengths)
    members = [member for member in zip(blocklengths, displacements, types, strict=True) if member[0] * member[2].size]
    size = elements = lb = ub = 0
    alignment = 1
    first = True
    for n, at, old in members:
        size += n * old.size
        elements += n * old.elements
        alignment = max(alignment, old.alignment)
        low, high = at + old.lb, at + old.ub
        if n > 1:
            low, high = low + min(0, (n - 1) * old.extent), high + max(0, (n - 1) * old.extent)
        lb, ub = (low, high) if first else (min(lb, low), max(ub, high))
        first = False
    unit = alignment if alignment > 1 and _is_rounded(types, members) else 1
    params = {"blocklengths": blocklengths, "displacements": displacements, "datatypes": types}
    counts = [len(types), *blocklengths, *displacements]
    return Type(
        layout=lambda: join(
            [place(repeat(old.layout, n, old.extent), np.array([at], np.int64)) for n, at, old in members]
        ),
        size=size,
        lb=lb,
        extent=-(-(ub - lb) // unit) * unit,
        alignment=alignment,
        elements=elements,
        recipe=Recipe(c.COMBINER_STRUCT, params, counts=counts, types=types),
    )


def _is_rounded(types: Sequence[Type], members: Sequence[tuple[int, int, Type]]) -> bool:
    """Return True if a struct's extent is rounded up.

    MPICH treats a struct of equal elements as an indexed type.
    """
    if len(members) == 1 and members[0][2].is_predefined:
        return False
    return len({_representation(old) for old in types}) > 1


def _representation(core: Type) -> object:
    """Return what MPICH compares of two types: integers of one size are equal, as is a type of one of them."""
    while len(core.recipe.types) == 1:
        (inner,) = core.recipe.types
        if (core.elements, core.lb, core.extent) != (inner.elements, inner.lb, inner.extent):
            break
        core = inner
    if core.dtype is None or core.kind == "pair":
        return core
    return "i" if core.dtype.kind in "iuU" else core.dtype.kind, core.size


def duplicate(old: Type) -> Type:
    """Return a duplicate of the type; it is committed if the old one is."""
    _not_null(old)
    new = _like(old, Recipe(c.COMBINER_DUP, {}, types=[old]))
    new.committed = old.committed
    return new


def rebuilt(old: Type) -> Type:
    """Return a type that is built in the same way, with independent state."""
    new = _like(old, old.recipe)
    new.committed = old.committed
    return new


def resized(old: Type, lb: int, extent: int) -> Type:
    """Return a type of the same elements with other bounds."""
    _not_null(old)
    recipe = Recipe(c.COMBINER_RESIZED, {"lb": lb, "extent": extent}, counts=[lb, extent], types=[old])
    return old.like(recipe, lb, extent)


def _like(old: Type, recipe: Recipe) -> Type:
    return old.like(recipe, old.lb, old.extent)


def subarray(old: Type, sizes: Sequence[int], subsizes: Sequence[int], starts: Sequence[int], order: int) -> Type:
    """Return the type of a box out of an n-dimensional array."""
    _not_null(old)
    _order(order)
    for size, subsize, start in zip(sizes, subsizes, starts, strict=True):
        if size < 1 or subsize < 0 or start < 0:
            fail(c.ERR_ARG, f"subarray: size {size}, subsize {subsize}, start {start}")
    params = {"sizes": list(sizes), "subsizes": list(subsizes), "starts": list(starts), "order": order}
    recipe = Recipe(
        c.COMBINER_SUBARRAY,
        params,
        integers=[len(sizes), order],
        counts=[*sizes, *subsizes, *starts],
        types=[old],
    )
    boxes = [range(start, start + subsize) for start, subsize in zip(starts, subsizes, strict=True)]
    return _array(old, sizes, boxes, order, recipe)


def _order(order: int) -> None:
    if order not in (c.ORDER_C, c.ORDER_FORTRAN):
        fail(c.ERR_ARG, f"invalid storage order {order}")


def _array(old: Type, sizes: Sequence[int], chosen: Sequence[Any], order: int, recipe: Recipe) -> Type:
    """Return an array with some indices selected in each dimension.

    Its extent is that of the whole array.
    """
    dimensions = list(zip(sizes, chosen, strict=True))
    if order == c.ORDER_C:
        dimensions.reverse()
    extent = old.extent * math.prod(sizes)
    count = math.prod(map(len, chosen))
    return Type(
        layout=lambda: _array_layout(old, dimensions),
        size=count * old.size,
        lb=0,
        extent=extent,
        alignment=old.alignment,
        elements=count * old.elements,
        recipe=recipe,
    )


def _array_layout(old: Type, dimensions: Sequence[tuple[int, Sequence[int]]]) -> Layout:
    """Return the layout for dimensions given by length and selected indices, the fastest first."""
    layout, stride = old.layout, old.extent
    for size, indices in dimensions:
        layout = place(layout, np.array(indices, np.int64) * stride)
        stride *= size
    return layout


def darray(
    old: Type,
    *,
    size: int,
    rank: int,
    gsizes: Sequence[int],
    distribs: Sequence[int],
    dargs: Sequence[int],
    psizes: Sequence[int],
    order: int,
) -> Type:
    """Return one process's part of an array distributed over a process grid."""
    _not_null(old)
    _order(order)
    if not 0 <= rank < size:
        fail(c.ERR_RANK, f"darray: rank {rank} of {size}")
    if math.prod(psizes) != size:
        fail(c.ERR_ARG, f"darray: {size} processes on a grid of {list(psizes)}")
    coordinates = _coordinates(rank, psizes)  # process grids are in C order whatever the array's is
    chosen = [
        _distributed(n, distribution, argument, parts, at)
        for n, distribution, argument, parts, at in zip(gsizes, distribs, dargs, psizes, coordinates, strict=True)
    ]
    params = {
        "size": size,
        "rank": rank,
        "gsizes": list(gsizes),
        "distribs": list(distribs),
        "dargs": list(dargs),
        "psizes": list(psizes),
        "order": order,
    }
    integers = [size, rank, len(gsizes), *distribs, *dargs, *psizes, order]
    recipe = Recipe(c.COMBINER_DARRAY, params, integers=integers, counts=gsizes, types=[old])
    return _array(old, gsizes, chosen, order, recipe)


def _coordinates(rank: int, sizes: Sequence[int]) -> list[int]:
    """Return the coordinates of a rank in a grid in C order."""
    found = []
    for size in reversed(sizes):
        rank, at = divmod(rank, size)
        found.append(at)
    return found[::-1]


def _distributed(n: int, distribution: int, argument: int, parts: int, at: int) -> list[int]:
    """Return the indices of one dimension that belong to coordinate `at`."""
    default = argument == c.DISTRIBUTE_DFLT_DARG
    if n < 1 or parts < 1 or (argument < 1 and not default):
        fail(c.ERR_ARG, f"darray: size {n}, argument {argument}, {parts} processes")
    if distribution == c.DISTRIBUTE_NONE:
        if parts != 1:
            fail(c.ERR_ARG, f"darray: a dimension that is not distributed has {parts} processes")
        return list(range(n))
    if distribution == c.DISTRIBUTE_BLOCK:
        block = -(-n // parts) if default else argument
        if block * parts < n:
            fail(c.ERR_ARG, f"darray: {parts} blocks of {block} are fewer than {n}")
        return list(range(at * block, min(n, (at + 1) * block)))
    if distribution != c.DISTRIBUTE_CYCLIC:
        fail(c.ERR_ARG, f"darray: invalid distribution {distribution}")
    block = 1 if default else argument
    return [start + i for start, i in product(range(at * block, n, parts * block), range(block)) if start + i < n]


_PAIR_NAMES = ("SHORT_INT", "INT_INT", "LONG_INT", "FLOAT_INT", "DOUBLE_INT", "LONG_DOUBLE_INT")
_PAIR_VALUES = ("SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "LONG_DOUBLE")
_PAIRS = {PREDEFINED[value]: PREDEFINED[pair] for value, pair in zip(_PAIR_VALUES, _PAIR_NAMES, strict=True)}


def value_index(value: Type, index: Type) -> Type:
    """Return the predefined pair of a value and an index; null if there is none."""
    _not_null(value, index)
    return _PAIRS.get(value, NULL) if index is PREDEFINED["INT"] else NULL


# Decimal digits and exponents of the C types that a Fortran compiler uses.
_F90_INTEGERS = ((2, "INTEGER1"), (4, "INTEGER2"), (9, "INTEGER4"), (18, "INTEGER8"))
_F90_FLOATS = (
    (6, 37, "REAL", "COMPLEX"),
    (15, 307, "DOUBLE_PRECISION", "DOUBLE_COMPLEX"),
    (33, 4931, "REAL16", "COMPLEX32"),
)
_f90_types: dict[tuple[int, ...], Type] = {}


def f90_integer(digits: int) -> Type:
    """Return the Fortran integer with that number of decimal digits.

    Equal arguments give the same type.
    """
    name = next((name for most, name in _F90_INTEGERS if digits <= most), None)
    recipe = Recipe(c.COMBINER_F90_INTEGER, {"r": digits}, integers=[digits])
    return _f90(name, recipe)


def f90_real(precision: int, exponent: int) -> Type:
    """Return the Fortran real with at least this precision and range (or `UNDEFINED`)."""
    recipe = Recipe(c.COMBINER_F90_REAL, {"p": precision, "r": exponent}, integers=[precision, exponent])
    return _f90(_f90_float(precision, exponent, 2), recipe)


def f90_complex(precision: int, exponent: int) -> Type:
    """Return the Fortran complex number with at least this precision and range; see `f90_real`."""
    recipe = Recipe(c.COMBINER_F90_COMPLEX, {"p": precision, "r": exponent}, integers=[precision, exponent])
    return _f90(_f90_float(precision, exponent, 3), recipe)


def _f90_float(precision: int, exponent: int, column: int) -> str | None:
    for row in _F90_FLOATS:
        if precision <= row[0] and exponent <= row[1]:
            return str(row[column])
    return None


def _f90(name: str | None, recipe: Recipe) -> Type:
    if name is None:
        fail(c.ERR_OTHER, f"no Fortran type has {recipe.params}")
    key = (recipe.combiner, *recipe.integers)
    if key not in _f90_types:
        old = PREDEFINED[name]
        new = _like(old, recipe)
        new.dtype, new.kind, new.committed = old.dtype, old.kind, True
        new.typechar, new.code = old.typechar, f"{np.dtype(old.dtype).kind}{old.size}"
        _f90_types[key] = new
    return _f90_types[key]


_MATCHES = {
    c.TYPECLASS_LOGICAL: ("LOGICAL",),
    c.TYPECLASS_INTEGER: ("INTEGER1", "INTEGER2", "INTEGER4", "INTEGER8"),
    c.TYPECLASS_REAL: ("REAL4", "REAL8", "REAL16"),
    c.TYPECLASS_COMPLEX: ("COMPLEX8", "COMPLEX16", "COMPLEX32"),
}


def match_size(typeclass: int, size: int) -> Type:
    """Return the Fortran type of a class with a size in bytes."""
    candidates = [PREDEFINED[name] for name in _MATCHES.get(typeclass, ())]
    candidates += [each for each in FORTRAN_ONLY.values() if candidates and each.kind == candidates[0].kind]
    found = next((each for each in candidates if each.size == size), None)
    if found is None:
        fail(c.ERR_ARG, f"no Fortran type of class {typeclass} has {size} bytes")
    return found
