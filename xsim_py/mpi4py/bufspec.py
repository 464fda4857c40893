"""Buffer arguments: conversion between a program's arguments and packed bytes.

mpi4py takes a buffer in many forms: an array, ``[array, count, type]``, ``[array, (counts, displs), "d"]``, ``[BOTTOM,
1, type]`` ... Each becomes a small object here that packs outgoing and unpacks incoming data. What is accepted or
rejected, and with which exception, follows mpi4py's ``msgbuffer.pxi``.

Hot path: a contiguous numpy array of an ordinary type. `packed` makes its bytes in 0.2 us, `receiver` its `FlatBuffer`
in 0.5 us, without checking for other forms. Their slow counterpart is `message`.
"""

from __future__ import annotations

import operator
import struct
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from xsim_py.mpi import constants as c
from xsim_py.mpi.collectives.channel import EqualBlocks, VariedBlocks
from xsim_py.mpi.datatype import NULL, Type
from xsim_py.mpi.errors import Exception as MPIError
from xsim_py.mpi.errors import add_detail, fail
from xsim_py.mpi.memory import Memory
from xsim_py.mpi4py.code_tables import derived
from xsim_py.mpi4py.datatype import TYPE_DICT, Datatype, core_of
from xsim_py.mpi4py.dlpack import at_address, is_foreign
from xsim_py.mpi4py.handle import int_list
from xsim_py.mpi4py.inside import impl_of
from xsim_py.mpi4py.memory import exported, flat_view, flattened, is_bottom, is_in_place

__all__ = [
    "BlockBuffer",
    "FlatBuffer",
    "UserBuffer",
    "check_same",
    "filler",
    "is_in_place",
    "message",
    "packed",
    "plain_size",
    "receiver",
    "store",
    "type_of",
    "unpack_each",
    "usable",
    "vector_message",
    "w_message",
]

_ndarray = np.ndarray
_EXPORTERS = (array, bytes, bytearray, memoryview)
_index = operator.index
_blank = object.__new__

_LOWEST_ADDRESS = 4096
"""No system maps memory for a program below this: reading there would crash the whole simulator, not only the rank."""
_MOST_SIZES = 4096
FILL: dict[int, Callable[[Any, int, bytes], None]] = {}
"""The store function for messages of each size, once there has been one."""
filler = FILL.get
"""Hot path: with ``FILL.get`` in a module that imports `FILL`, Python creates a method object each time."""

# Long doubles are excluded: messages omit their padding.
_FAST = derived({np.dtype(code): impl_of(TYPE_DICT[code]) for code in "?bBhiqlHIQLefdFD"})


class UserBuffer:
    """Elements in the user's memory: one block, or equal consecutive blocks."""

    __slots__ = ("count", "datatype", "memory", "nbytes", "offset")

    def __init__(self, memory: Memory, offset: int, count: int, datatype: Type) -> None:
        self.memory = memory  # as bytes; of a compiled program all, so that offsets are addresses
        self.offset = offset  # of the first element's origin
        self.count = count  # the number of elements in a block
        self.datatype = datatype
        self.nbytes = count * datatype.size  # the packed size of a block

    def of_count(self, count: int) -> UserBuffer:
        """Return a buffer of another number of elements at the same place."""
        return UserBuffer(self.memory, self.offset, count, self.datatype)

    def spread(self, offsets: list[int]) -> BlockBuffer:
        """Return blocks like the first one at these offsets in the memory."""
        return BlockBuffer(self.memory, [self.count] * len(offsets), offsets, [self.datatype] * len(offsets))

    def pack(self) -> bytes:
        """Return the bytes of the (first) block."""
        return self.datatype.pack(self.memory, self.offset, self.count)

    def unpack(self, data: bytes) -> int:
        """Store received data in the (first) block.

        Return its size in bytes, or raise `ERR_TRUNCATE`.
        """
        return self.datatype.unpack(data, self.memory, self.offset, self.count)

    def pack_part(self, i: int) -> bytes:
        """Return the bytes of block `i`."""
        return self.datatype.pack(self.memory, self._at(i), self.count)

    def unpack_part(self, i: int, data: bytes) -> int:
        """Store received data in block `i`."""
        return self.datatype.unpack(data, self.memory, self._at(i), self.count)

    def pack_blocks(self, blocks: int) -> EqualBlocks:
        """Return the bytes of all blocks, packed at once."""
        return EqualBlocks(self.datatype.pack(self.memory, self.offset, blocks * self.count), self.nbytes, blocks)

    def pack_parts(self, blocks: int) -> list[bytes]:
        """Return the bytes of each block."""
        return self.pack_blocks(blocks).listed()

    def unpack_parts(self, parts: Sequence[bytes]) -> None:
        """Store the data from each rank, as in a Gather or an Alltoall, in its block of the buffer."""
        if type(parts) is EqualBlocks and parts.block_bytes == self.nbytes:
            self.datatype.unpack(parts.data, self.memory, self.offset, parts.blocks * self.count)
            return
        unpack_each(self, parts, "rank")

    def part_bytes(self, i: int) -> int:
        """Return the packed size of block `i`."""
        return self.nbytes

    def type_at(self, i: int) -> Type:
        """Return the datatype of the elements of block `i`."""
        return self.datatype

    def block(self, i: int) -> UserBuffer:
        """Return a buffer of block `i` alone."""
        return UserBuffer(self.memory, self._at(i), self.count, self.datatype)

    def _at(self, i: int) -> int:
        return self.offset + i * self.count * self.datatype.extent


class FlatBuffer(UserBuffer):
    """A whole array as one run of bytes: the hot path. Only `receiver` creates it.

    The memory view is created late: keeping it while a rank waits would keep two more objects alive.
    """

    __slots__ = ("array",)

    array: NDArray[Any]

    @property
    def memory(self) -> memoryview:  # type: ignore[override]
        """The memory of the array as bytes."""
        return self.array.data.cast("B")

    @property
    def count(self) -> int:  # type: ignore[override]
        """The number of elements."""
        return self.nbytes // self.datatype.size

    def pack(self) -> bytes:
        """Return the bytes of the message."""
        return self.array.tobytes()

    def unpack(self, data: bytes) -> int:
        """Store received data; return its size in bytes, or raise `ERR_TRUNCATE` if it is too long."""
        n = len(data)
        if n == self.nbytes:
            store(self.array, data)
        elif n < self.nbytes:
            self.memory[:n] = data
        else:
            self.memory[:] = data[: self.nbytes]  # deliver the part that fits, as a real MPI does
            fail(c.ERR_TRUNCATE, f"{n} bytes arrived, the receive buffer takes {self.nbytes}")
        return n


class BlockBuffer:
    """One block for each rank, with separate counts, offsets and, in the w-forms, types."""

    __slots__ = ("counts", "datatypes", "memory", "offsets")

    def __init__(self, memory: Memory, counts: list[int], offsets: list[int], datatypes: list[Type]) -> None:
        self.memory = memory
        self.counts = counts  # the number of elements in each block
        self.offsets = offsets  # of each block in `memory`, in bytes
        self.datatypes = datatypes

    def pack_part(self, i: int) -> bytes:
        """Return the bytes of block `i`."""
        return self.datatypes[i].pack(self.memory, self.offsets[i], self.counts[i])

    def unpack_part(self, i: int, data: bytes) -> int:
        """Store received data in block `i`; return its size in bytes, or raise `ERR_TRUNCATE`."""
        return self.datatypes[i].unpack(data, self.memory, self.offsets[i], self.counts[i])

    def pack_parts(self, blocks: int) -> list[bytes]:
        """Return the bytes of each block."""
        return [self.pack_part(i) for i in range(blocks)]

    def pack_blocks(self, blocks: int) -> VariedBlocks:
        """Return all blocks as one run of bytes, packed at once if contiguous in memory."""
        sizes = self.sizes()
        if self.is_run(sizes):
            return VariedBlocks(self.datatypes[0].pack(self.memory, self.offsets[0], sum(self.counts)), sizes)
        return VariedBlocks(b"".join(self.pack_parts(blocks)), sizes)

    def unpack_parts(self, parts: Sequence[bytes]) -> None:
        """Store the data from each rank, as in a Gather or an Alltoall, in its block of the buffer."""
        if type(parts) is VariedBlocks and parts.sizes == (sizes := self.sizes()) and self.is_run(sizes):
            self.datatypes[0].unpack(parts.data, self.memory, self.offsets[0], sum(self.counts))
            return
        unpack_each(self, parts, "rank")

    def part_bytes(self, i: int) -> int:
        """Return the packed size of block `i`."""
        return self.counts[i] * self.datatypes[i].size

    def type_at(self, i: int) -> Type:
        """Return the datatype of the elements of block `i`."""
        return self.datatypes[i]

    def sizes(self) -> list[int]:
        """Return the packed sizes of all blocks."""
        first = self.datatypes[0]
        if self.datatypes.count(first) == len(self.counts):  # hot path: true except in w-forms
            size = first.size
            return self.counts if size == 1 else [count * size for count in self.counts]
        return [count * datatype.size for count, datatype in zip(self.counts, self.datatypes, strict=True)]

    def is_run(self, sizes: list[int]) -> bool:
        """Return True if blocks of these sizes have one type and are consecutive within the memory."""
        first = self.datatypes[0]
        if self.datatypes.count(first) != len(sizes) or not first.is_contiguous:
            return False
        ends = [*accumulate(sizes, initial=self.offsets[0])]
        return ends[0] >= 0 and ends.pop() <= len(self.memory) and ends == self.offsets


def unpack_each(target: UserBuffer | BlockBuffer, parts: Sequence[bytes | None], peer_kind: str) -> None:
    """Store received data block by block.

    An error names the block by `peer_kind` (rank or neighbour) and number.
    """
    for i, data in enumerate(parts):
        if data is not None:
            try:
                target.unpack_part(i, data)
            except MPIError as error:
                add_detail(error, f"the block of {peer_kind} {i}")
                raise


# ------------------------------------------------------------------------------------------- the two hot paths


def packed(buf: object) -> bytes:
    """Return the bytes of a send buffer in any form that point-to-point calls take."""
    if type(buf) is _ndarray and buf.dtype in _FAST and buf.flags.c_contiguous:
        return buf.tobytes()
    return message(buf, writable=False).pack()


def plain_size(buf: object) -> int:
    """Return the size in bytes of a receive buffer of the simplest kind; else 0.

    `store` can fill these buffers.
    """
    if type(buf) is _ndarray and buf.flags.carray and buf.dtype in _FAST:
        return buf.nbytes
    return 0


def store(array: NDArray[Any], data: bytes) -> None:
    """Fill an array with data of its own size: three times as fast as assigning to a view."""
    size_bytes = len(data)
    fill = FILL.get(size_bytes)
    if fill is None:
        if len(FILL) >= _MOST_SIZES:
            array.data.cast("B")[:] = data
            return
        fill = FILL[size_bytes] = cast(Any, struct.Struct(f"{size_bytes}s").pack_into)
    fill(array, 0, data)


def receiver(buf: object) -> UserBuffer:
    """Return the object that stores a message in a receive buffer of any point-to-point form."""
    if type(buf) is _ndarray and buf.flags.carray and (size_bytes := buf.nbytes):
        datatype = _FAST.get(buf.dtype)
        if datatype is not None:
            target = _blank(FlatBuffer)  # twice as fast as an `__init__`
            target.array = buf
            target.datatype = datatype
            target.nbytes = size_bytes
            target.offset = 0
            return target
    return message(buf, writable=True)


# -------------------------------------------------------------------------------------------- the general forms


def message(spec: object, *, writable: bool, blocks: int = 0) -> UserBuffer:
    """Parse a buffer (`BufSpec`, `BufSpecB`) for point-to-point or equal blocks.

    `writable` says whether data will be received into it. `blocks` is the number of ranks for which the buffer has a
    block; the count found is that of one block. Raises a `TypeError`, `ValueError`, `BufferError` or `KeyError` as
    mpi4py does, and an `MPI.Exception` with `ERR_TYPE` if the datatype is null or has not been committed.
    """
    if isinstance(spec, UserBuffer):  # of a compiled program
        return spec
    buf, counts, displacement, datatype = _items(spec, (list, tuple))
    memory, core = _memory(buf, datatype, writable)
    length = 0 if memory is None else len(memory)
    offset = 0
    if displacement is not None:
        offset = _displacement(_index(displacement), core, length)
    if counts is not None:
        count = _index(counts)
        if count < 0:
            raise ValueError(f"message: negative count {count}")
        if count > 0 and buf is None:
            raise ValueError(f"message: buffer is None but count is {count}")
    else:
        count = _infer(length - offset, core, blocks)
    usable(core)
    if memory is None:
        return _absolute(core, count, max(blocks, 1))
    return UserBuffer(memory, offset, count, core)


def vector_message(spec: object, *, writable: bool, blocks: int) -> BlockBuffer:
    """Parse a buffer for collectives with a count and a displacement for each rank (`BufSpecV`)."""
    if isinstance(spec, BlockBuffer):
        return spec
    buf, count_spec, displ_spec, datatype = _items(spec, tuple)
    memory, core = _memory(buf, datatype, writable)
    if count_spec is None:
        total = _infer(0 if memory is None else len(memory), core, 0)
        counts = [total // blocks + (total % blocks > i) for i in range(blocks)]
    elif _is_integral(count_spec):
        counts = [_index(count_spec)] * blocks
    else:
        counts = _checked(count_spec, blocks)
    if displ_spec is None:
        displacements = [0, *accumulate(counts[:-1])]
    elif _is_integral(displ_spec):
        displacements = [_index(displ_spec) * i for i in range(blocks)]
    else:
        displacements = _checked(displ_spec, blocks)
    usable(core)
    _no_negatives(counts)
    extent = core.extent
    offsets = displacements if extent == 1 else [displacement * extent for displacement in displacements]
    return _vector(memory, counts, offsets, [core] * blocks)


def w_message(spec: Any, *, writable: bool, blocks: int) -> BlockBuffer:
    """Parse a buffer for collectives with a type for each rank (`BufSpecW`).

    Displacements are in bytes.
    """
    if isinstance(spec, BlockBuffer):
        return spec
    nargs = len(spec)
    count_spec: Any = None
    displ_spec: Any = None
    if nargs == 2:
        buf, types = spec
    elif nargs == 3:
        buf, (count_spec, displ_spec), types = spec
    elif nargs == 4:
        buf, count_spec, displ_spec, types = spec
    else:
        raise ValueError("message: expecting 2 to 4 items")
    if is_bottom(buf):
        for what, argument in (("counts", count_spec), ("displs", displ_spec)):
            if argument is None:
                raise ValueError(f"message: BOTTOM requires {what}")
    memory = None if is_bottom(buf) else flat_view(buf, writable=writable)
    if count_spec is None and displ_spec is None:
        count_spec, displ_spec = [1] * blocks, [0] * blocks
    counts = _checked(count_spec, blocks)
    offsets = _checked(displ_spec, blocks)
    if len(types) != blocks:
        raise ValueError(f"expecting {blocks} items, got {len(types)}")
    cores = [core_of(datatype) for datatype in types]
    for core, count in zip(cores, counts, strict=True):
        if count and (core is NULL or not core.committed):
            usable(core)
    _no_negatives(counts)
    return _vector(memory, counts, offsets, cores)


def check_same(send: UserBuffer, receive: UserBuffer) -> None:
    """Check that the two sides of a reduction have equal types and counts.

    The ValueError is mpi4py's.
    """
    if send.datatype is not receive.datatype:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if send.count != receive.count:
        raise ValueError(f"mismatch in send count {send.count} and receive count {receive.count}")


Items: TypeAlias = tuple[Any, Any, Any, Any]


def _items(spec: object, pair_types: Any) -> Items:
    """Split a specification into buffer, count(s), displacement(s) and type."""
    if not isinstance(spec, (list, tuple)):
        if type(spec) is not _ndarray and (spec is None or not _exports(spec)):
            raise TypeError("message: expecting buffer or list/tuple")
        return spec, None, None, None
    if not 2 <= len(spec) <= 4:
        raise ValueError("message: expecting 2 to 4 items")
    if len(spec) == 4:
        return spec[0], spec[1], spec[2], spec[3]
    buf, count = spec[0], spec[1]
    if len(spec) == 2 and isinstance(count, (Datatype, str)):
        return buf, None, None, count
    displacement = None
    if isinstance(count, pair_types):
        count, displacement = count
    return buf, count, displacement, spec[2] if len(spec) == 3 else None


def _exports(obj: object) -> bool:
    """Return True if an object implements a buffer interface, even if it may refuse requests."""
    if isinstance(obj, _EXPORTERS) or is_bottom(obj) or is_in_place(obj) or is_foreign(obj):
        return True
    try:
        exported(obj)
    except TypeError:
        return False
    except (BufferError, ValueError):
        return True
    return True


def _memory(buf: object, datatype: object, writable: bool) -> tuple[memoryview | None, Type]:
    """Return the buffer's bytes (None for absolute addresses) and the type of its elements."""
    if is_bottom(buf):
        return None, type_of(datatype)
    if datatype is not None:
        return flat_view(buf, writable=writable), type_of(datatype)
    view = exported(buf)
    memory = flattened(buf, view, writable=writable)
    core = _FAST.get(buf.dtype) if type(buf) is _ndarray else None
    return memory, _type_of_format(view.format) if core is None else core


def type_of(datatype: Any) -> Type:
    """Return the type of a `Datatype` or a type code."""
    if not isinstance(datatype, Datatype):
        try:
            datatype = TYPE_DICT[datatype]
        except KeyError:
            raise KeyError(f"cannot map {datatype!r} to MPI datatype") from None
    core: Type = datatype._impl  # hot path: not by `impl_of`
    return core


def _type_of_format(form: str) -> Type:
    order = form[0]
    if order in "<>" and (order == "<") is not (np.little_endian):
        raise BufferError(f"format string {form!r} with non-native byte order")
    return type_of(form[1:] if order in "@<>" else form)


def _displacement(displacement: int, core: Type, length: int) -> int:
    """Convert a displacement to bytes."""
    if displacement < 0:
        raise ValueError(f"message: negative displacement {displacement}")
    if displacement == 0:
        return 0
    extent = _extent(core, "handle displacement")
    if displacement * extent > length:
        raise ValueError(
            f"message: displacement {displacement} out of bounds, number of datatype entries {length // extent}"
        )
    return displacement * extent


def _infer(length: int, core: Type, blocks: int) -> int:
    """Return the number of elements in a buffer of `length` bytes, or in each of its blocks."""
    if length <= 0:
        return 0
    extent = _extent(core, "infer count")
    count, rest = divmod(length, extent)
    if rest:
        raise ValueError(
            f"message: cannot infer count, buffer length {length} is not a multiple of "
            f"datatype extent {extent} (lb:{core.lb}, ub:{core.ub})"
        )
    if blocks < 2:
        return count
    if count % blocks:
        raise ValueError(
            f"message: cannot infer count, number of entries {count} is not a multiple of "
            f"required number of blocks {blocks}"
        )
    return count // blocks


def _extent(core: Type, wanted: str) -> int:
    if core is NULL:
        raise ValueError(f"message: cannot {wanted}, datatype is null")
    if core.extent <= 0:
        raise ValueError(f"message: cannot {wanted}, datatype extent {core.extent} (lb:{core.lb}, ub:{core.ub})")
    return core.extent


def usable(core: Type) -> None:
    """Reject a null or uncommitted datatype."""
    if core is NULL:
        fail(c.ERR_TYPE, "the datatype is null")
    if not core.committed:
        fail(c.ERR_TYPE, "the datatype has not been committed")


def _absolute(core: Type, count: int, blocks: int) -> UserBuffer:
    """Return a message at absolute addresses, with the memory that its elements span."""
    low, high = core.span(count * blocks)
    return UserBuffer(_at_absolute(low, high), -low, count, core)


def _at_absolute(low: int, high: int) -> memoryview:
    """Return the memory between two absolute addresses; reject the null pointer."""
    if low < high and low < _LOWEST_ADDRESS:
        fail(c.ERR_BUFFER, f"null buffer pointer: absolute addresses {low} to {high}")
    return at_address(low, high - low)


def _vector(memory: memoryview | None, counts: list[int], offsets: list[int], types: list[Type]) -> BlockBuffer:
    if memory is None:
        spans = [core.span(count) for core, count in zip(types, counts, strict=True)]
        low = min([at + span[0] for at, span in zip(offsets, spans, strict=True)], default=0)
        high = max([at + span[1] for at, span in zip(offsets, spans, strict=True)], default=0)
        memory = _at_absolute(low, high)
        offsets = [at - low for at in offsets]
    return BlockBuffer(memory, counts, offsets, types)


def _is_integral(value: Any) -> bool:
    if not hasattr(value, "__index__"):
        return False
    try:  # an array of one element has both, and is a sequence unless it has no dimension
        len(value)
    except TypeError:
        return True
    return False


def _checked(values: Sequence[int], length: int) -> list[int]:
    found = int_list(values)
    if len(found) != length:
        raise ValueError(f"expecting {length} items, got {len(found)}")
    return found


def _no_negatives(counts: list[int]) -> None:
    if counts and min(counts) < 0:
        fail(c.ERR_COUNT, f"negative count {min(counts)}")
