"""Packing and unpacking against a slow reference that knows one basic element at a time."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mpi4py.data_module import simulated
from tests.mpi4py.datatype_recipes import MEMORY, ORIGIN, build, fits, memory, random_recipe
from xsim_py.mpi import constants as c
from xsim_py.mpi import typemap as layouts
from xsim_py.mpi.construct import contiguous, hindexed, resized, struct, vector
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.errors import Exception as MPIException
from xsim_py.mpi.predefined import PREDEFINED

MPI = simulated()
SEEDS = st.integers(0, 2**32)
Basics = list[tuple[int, int]]


def typemap(core: Type) -> Basics:
    """(displacement, bytes) of every basic element, straight from the constructors' definitions in the standard."""
    if core.recipe.combiner == c.COMBINER_NAMED:
        if core.kind == "pair":
            value, index = (core.dtype[name].itemsize for name in ("value", "index"))
            return [(0, value), (max(value, index), index)]
        return [(0, core.size)]
    params = core.recipe.params
    if core.recipe.combiner == c.COMBINER_STRUCT:
        entries = zip(params["blocklengths"], params["displacements"], core.recipe.types, strict=True)
        return [basic for n, at, old in entries for basic in _block(old, n, at)]
    old = core.recipe.types[0]
    return [basic for n, at in _blocks(core.recipe.combiner, params, old) for basic in _block(old, n, at)]


def _block(old: Type, n: int, at: int) -> Basics:
    return [(at + i * old.extent + place, size) for i in range(n) for place, size in typemap(old)]


def _blocks(combiner: int, params: dict, old: Type) -> Basics:
    """(elements, byte displacement) of each block."""
    unit = old.extent
    if combiner in (c.COMBINER_DUP, c.COMBINER_RESIZED):
        return [(1, 0)]
    if combiner == c.COMBINER_CONTIGUOUS:
        return [(params["count"], 0)]
    if combiner in (c.COMBINER_VECTOR, c.COMBINER_HVECTOR):
        step = params["stride"] * (unit if combiner == c.COMBINER_VECTOR else 1)
        return [(params["blocklength"], i * step) for i in range(params["count"])]
    if combiner in (c.COMBINER_SUBARRAY, c.COMBINER_DARRAY):
        return [(1, int(i) * unit) for i in _chosen(combiner, params)]
    places = [at * (unit if combiner in (c.COMBINER_INDEXED, c.COMBINER_INDEXED_BLOCK) else 1)
              for at in params["displacements"]]  # fmt: skip
    lengths = params.get("blocklengths") or [params["blocklength"]] * len(places)
    return list(zip(lengths, places, strict=True))


def _chosen(combiner: int, params: dict) -> np.ndarray:
    """The indices, in memory order, that an array type takes out of the whole array."""
    if combiner == c.COMBINER_SUBARRAY:
        sizes = params["sizes"]
        box = [range(at, at + n) for at, n in zip(params["starts"], params["subsizes"], strict=True)]
    else:
        sizes = params["gsizes"]
        box = _owned(params)
    order = "C" if params["order"] == c.ORDER_C else "F"
    numbers = np.arange(int(np.prod(sizes))).reshape(sizes, order=order)
    return numbers[np.ix_(*[np.array(list(each), int) for each in box])].ravel(order=order)


def _owned(params: dict) -> list[list[int]]:
    """Index i of a dimension belongs to the process that has dealt it, card by card."""
    at = np.unravel_index(params["rank"], params["psizes"])
    box = []
    for n, how, width, parts, mine in zip(
        params["gsizes"], params["distribs"], params["dargs"], params["psizes"], at, strict=True
    ):
        default = {c.DISTRIBUTE_BLOCK: -(-n // parts), c.DISTRIBUTE_CYCLIC: 1, c.DISTRIBUTE_NONE: n}[how]
        width = default if width == c.DISTRIBUTE_DFLT_DARG else width
        box.append([i for i in range(n) if (i // width) % parts == mine])
    return box


@pytest.fixture(params=["one by one", "through an index"], autouse=True)
def copying(request, monkeypatch):
    """Both ways to copy irregular blocks, whatever their number."""
    monkeypatch.setattr(layouts, "_FEW", 10**6 if request.param == "one by one" else 0)


@given(SEEDS, st.integers(1, 3))
def test_packing_takes_the_elements_of_the_type_map_in_order(seed, count):
    datatype = build(MPI, random_recipe(random.Random(seed), 3))
    if not fits(datatype, count):
        return
    core, data = datatype._impl, memory(seed).tobytes()
    wanted = b"".join(data[ORIGIN + i * core.extent + at :][:size] for i in range(count) for at, size in typemap(core))
    assert core.size * count == len(wanted)
    assert core.pack(memoryview(data), ORIGIN, count) == wanted


@given(SEEDS, st.integers(1, 3), st.floats(0, 1))
def test_unpacking_puts_them_back_and_touches_nothing_else(seed, count, part):
    datatype = build(MPI, random_recipe(random.Random(seed), 3))
    if not fits(datatype, count):
        return
    core = datatype._impl
    packed = random.Random(seed).randbytes(int(core.size * count * part))
    target, wanted = memory(seed), memory(seed)
    position = 0
    for i in range(count):
        for at, size in typemap(core):
            piece = packed[position : position + size]
            start = ORIGIN + i * core.extent + at
            wanted[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
            position += size
    places = [ORIGIN + i * core.extent + at + k for i in range(count) for at, n in typemap(core) for k in range(n)]
    if len(set(places)) < len(places):
        return  # overlapping elements may not be received into
    assert core.unpack(packed, memoryview(target), ORIGIN, count) == len(packed)
    assert target.tobytes() == wanted.tobytes()


@given(SEEDS)
def test_basic_elements_are_counted_as_they_end(seed):
    core = build(MPI, random_recipe(random.Random(seed), 3))._impl
    sizes = [size for _, size in typemap(core)] * 2
    assert core.elements * 2 == len(sizes)
    ends = {0: 0} | {sum(sizes[: i + 1]): i + 1 for i in range(min(len(sizes), 40))}
    for nbytes in range(min(ends and max(ends), 200) + 1):
        expected = ends.get(nbytes, c.UNDEFINED) if core.size else 0
        assert core.basic_elements(nbytes) == expected


def test_a_column_of_a_large_matrix_is_one_strided_copy_without_an_index():
    column = vector(PREDEFINED["DOUBLE"], 1000, 1, 1000)
    assert len(column.layout.offsets) == 1
    matrix = np.arange(1e6).reshape(1000, 1000)
    data = column.pack(memoryview(matrix).cast("B"), 8 * 3, 1)
    assert np.frombuffer(data).tolist() == matrix[:, 3].tolist()


def test_neighbouring_blocks_are_one_block():
    packed = hindexed(PREDEFINED["INT"], [1, 2, 1], [8, 12, 20])
    assert packed.layout.is_block
    assert contiguous(PREDEFINED["DOUBLE"], 10**9).is_contiguous
    tight = struct([1, 1], [0, 8], [PREDEFINED["DOUBLE"], PREDEFINED["LONG"]])
    assert tight.is_contiguous
    assert not resized(tight, 0, 24).is_contiguous


def test_long_blocks_of_contiguous_elements_need_no_memory_per_element():
    made = hindexed(PREDEFINED["INT"], [1, 1 << 40], [0, 8])
    assert (made.true_extent, len(made.layout.offsets)) == ((1 << 42) + 8, 2)


def test_elements_outside_of_the_buffer_are_refused():
    column = vector(PREDEFINED["DOUBLE"], 3, 1, 4)
    for offset, size in ((0, 71), (-8, 200)):
        with pytest.raises(MPIException) as caught:
            column.pack(memoryview(bytes(size)), offset, 1)
        assert caught.value.Get_error_class() == c.ERR_BUFFER
    assert len(column.pack(memoryview(bytes(72)), 0, 1)) == 24


@pytest.mark.parametrize("empty", [contiguous(PREDEFINED["DOUBLE"], 0), vector(PREDEFINED["DOUBLE"], 0, 2, 5)])
@pytest.mark.parametrize("at", [-8, 60])
def test_what_has_no_bytes_may_be_anywhere(empty: Type, at: int):
    memory = memoryview(bytearray(8))
    assert empty.pack(memory, at, 3) == b""
    assert empty.unpack(b"", memory, at, 3) == 0
    assert PREDEFINED["DOUBLE"].pack(memory, at, 0) == b""


def test_memory_is_large_enough_for_most_of_these_types():
    rng = random.Random(0)
    drawn = [build(MPI, random_recipe(rng, 3)) for _ in range(200)]
    assert sum(fits(datatype, 3) for datatype in drawn) > 150
    assert MEMORY == 2 * ORIGIN
