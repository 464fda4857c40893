"""A node's memory as a limit: the arrays of each rank are counted, and allocations beyond it are refused.

Only the data of numpy arrays count, and only those created by the program, not by the simulator: numpy lets its
allocator be replaced (NEP 49). `tracemalloc` cannot replace it, because it counts after the fact and makes every object
of Python five to ten times as slow. Here an array takes some 15 us more. The functions of numpy's own allocator are
exchanged, not the allocator of a context, because each greenlet has a separate context.

An array may be freed while an exception is set, and no Python function can be called then without losing that
exception. So ``free`` consists of a few machine instructions, which append the block to a chain; the next array
creation counts and frees the blocks in it. On processors without such instructions here, Python is called for each
block and may lose exceptions.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import PACKAGE
from xsim_py.errors import XsimError
from xsim_py.process.ranks import current

from .sys_modules import is_for_all

if TYPE_CHECKING:
    from types import FrameType

    from xsim_py.process.ranks.patches import Patches
    from xsim_py.process.ranks.rank import Rank

_DEFAULT_HANDLER = 306  # PyDataMem_DefaultHandler in numpy's table of its C interface, since 1.22
_MEMORY = "memory"
_UNPICKLING = f"{PACKAGE}mpi4py/pickling.py"
_frame = sys._getframe

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "malloc": (_POINTER, _POINTER, _SIZE),
    "calloc": (_POINTER, _POINTER, _SIZE, _SIZE),
    "realloc": (_POINTER, _POINTER, _POINTER, _SIZE),
    "free": (None, _POINTER, _POINTER, _SIZE),
}
"""The return type and the argument types of an allocator's functions."""

# Unless the block is null: block[0] = *chain; block[1] = size; *chain = block.
_CHAINING = {"x86_64": "4885f6 740d 488b07 488906 48895608 488937 c3"}
"""The instructions of ``free(chain, block, size)``; each block of an allocator has room for two words."""


class _Allocator(ctypes.Structure):
    """The functions of numpy's ``PyDataMemAllocator``."""

    _fields_ = (("ctx", _POINTER), *((name, _POINTER) for name in _SIGNATURES))


class _Handler(ctypes.Structure):
    """numpy's structure ``PyDataMem_Handler``."""

    _fields_ = (("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator))


class _Memory:
    """The current, maximum and permitted bytes of a rank's arrays."""

    __slots__ = ("limit", "peak", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = self.peak = 0


class _CountingAllocator:
    """An allocator that counts the memory of ranks and refuses allocations beyond the limit.

    numpy calls its methods with a context and sizes in bytes; they return an address, or None on failure.
    """

    def __init__(self, real: _Allocator, memory_bytes: int, node_of: Sequence[int]) -> None:
        import numpy as np

        # This keeps the GIL: numpy's functions release it themselves.
        self._real = {
            name: ctypes.PYFUNCTYPE(*signature)(getattr(real, name)) for name, signature in _SIGNATURES.items()
        }
        self._numpy = os.path.dirname(np.__file__) + os.sep
        self._memory_bytes = memory_bytes
        self._node_of = node_of
        self._there = Counter(node_of)
        self._taken: dict[int, tuple[_Memory, int]] = {}
        self.chain = _POINTER()

    def malloc(self, context: object, size: int) -> int | None:
        """Allocate memory."""
        return self._count_block(size, partial(self._real["malloc"], context, size))

    def calloc(self, context: object, count: int, size: int) -> int | None:
        """Allocate zeroed memory."""
        return self._count_block(count * size, partial(self._real["calloc"], context, count, size))

    def realloc(self, context: object, pointer: int | None, size: int) -> int | None:
        """Resize a block; on failure it is unchanged."""
        had = self._discount_block(pointer)
        found = self._count_block(size, partial(self._real["realloc"], context, pointer, size))
        if not found and had is not None and pointer:
            self._taken[pointer] = had
            had[0].used += had[1]
        return found

    def free(self, context: object, pointer: int | None, size: int) -> None:
        """Free memory."""
        self._discount_block(pointer)
        self._real["free"](context, pointer, size)

    def free_chain(self) -> None:
        """Free the blocks in the chain."""
        while block := self.chain.value:
            self.chain.value, size = (_POINTER * 2).from_address(block)
            self.free(None, block, size or 0)

    def _count_block(self, size: int, allocate: Callable[[], int | None]) -> int | None:
        self.free_chain()
        memory = self._memory_of_caller()
        if memory is None:
            return allocate()
        if memory.used + size > memory.limit:
            return None  # which numpy turns into a MemoryError
        pointer = allocate()
        if pointer:
            self._taken[pointer] = memory, size
            memory.used += size
            memory.peak = max(memory.peak, memory.used)
        return pointer

    def _discount_block(self, pointer: int | None) -> tuple[_Memory, int] | None:
        entry = self._taken.pop(pointer, None) if pointer else None
        if entry is not None:
            entry[0].used -= entry[1]
        return entry

    def _memory_of_caller(self) -> _Memory | None:
        """Return the counter of the rank that creates an array; None if the simulator creates it."""
        fiber = current.here()
        if fiber is None:
            return None
        frame: FrameType | None = _frame()
        while frame is not None and frame.f_code.co_filename.startswith((__file__, self._numpy)):
            frame = frame.f_back
        file = "" if frame is None else frame.f_code.co_filename
        if (file.startswith(PACKAGE) and file != _UNPICKLING) or is_for_all():
            return None
        part = self._memory_bytes // max(1, self._there[self._node_of[fiber.rank.number]])
        memory: _Memory = fiber.rank.private(_MEMORY, partial(_Memory, part))
        return memory


def install(patches: Patches, memory_bytes: int, node_of: Sequence[int]) -> None:
    """Count and limit the memory of ranks' arrays, for the duration of a run.

    The ranks of a node have equal parts of its memory, as under a launcher that binds them, so a rank's limit does not
    depend on the allocations of others. A spawned rank has a part of the same size.

    `memory_bytes` is the memory of a node, and `node_of` has the node of each rank. Raises an `XsimError` if this numpy
    has a different allocator.
    """
    real = _handler().allocator
    counting = _CountingAllocator(real, memory_bytes, node_of)
    ours = {name: ctypes.CFUNCTYPE(*_SIGNATURES[name])(getattr(counting, name)) for name in _SIGNATURES}
    values = {name: ctypes.cast(function, _POINTER).value for name, function in ours.items()}
    instructions = _chaining()
    if instructions is not None:
        free = ctypes.addressof(ctypes.c_char.from_buffer(instructions))
        values |= {"ctx": ctypes.addressof(counting.chain), "free": free}
    patches.at_end(partial(_free_last, counting, ours, instructions))  # runs after the other functions are restored
    for name, value in values.items():
        patches.at_end(partial(setattr, real, name, getattr(real, name)))
        setattr(real, name, value)


def _free_last(counting: _CountingAllocator, functions: dict[str, Any], _: mmap.mmap | None) -> None:
    """Free the remaining blocks of the chain, and the functions; the instructions are kept until now."""
    counting.free_chain()
    functions.clear()


def _chaining() -> mmap.mmap | None:
    """Return memory with the instructions of `_CHAINING`; None on other processors, or if the system refuses."""
    code = _CHAINING.get(os.uname().machine)
    if code is None or ctypes.sizeof(_POINTER) != 8:
        return None
    try:
        memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    memory.write(bytes.fromhex(code))
    return memory


def peak_bytes(rank: Rank) -> int:
    """Return the maximum memory that the arrays of a rank have taken."""
    memory = (rank.extra or {}).get(_MEMORY)
    return 0 if memory is None else memory.peak


def _handler() -> _Handler:
    """Return numpy's own allocator."""
    import numpy as np

    core: Any = getattr(np, "_core", None) or np.core
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = ctypes.cast(pointer(core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    capsule = ctypes.cast(table[_DEFAULT_HANDLER], ctypes.POINTER(ctypes.py_object))[0]
    handler: _Handler = ctypes.cast(pointer(capsule, b"mem_handler"), ctypes.POINTER(_Handler))[0]
    if handler.name != b"default_allocator":
        raise XsimError("machine.memory_per_node: unsupported: unknown allocator of this numpy")
    return handler
