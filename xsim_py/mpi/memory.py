"""The memory of buffers and windows: a `memoryview` of this process, or memory of a program in another process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import numpy as np


class OutsideMemory(ABC):
    """Memory in another process, with as much of a `memoryview` as packing and unpacking use.

    Slices copy: contiguous elements are read and stored as for a `memoryview`. Others are read in a copy of their
    span, and stored by `change` (`typemap.Layout`).
    """

    __slots__ = ("address", "size")

    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.size = size

    def __len__(self) -> int:
        return self.size

    @abstractmethod
    def __getitem__(self, part: slice) -> bytearray: ...

    @abstractmethod
    def __setitem__(self, part: slice, data: bytes) -> None: ...

    @abstractmethod
    def change(self, first: int, old: bytes, new: bytearray) -> None:
        """Store the bytes from `first` on that differ from the old ones: the others may belong to the program."""


Memory: TypeAlias = "memoryview | OutsideMemory"


def address_of(memory: Memory) -> int:
    """Return the address of memory in its process; 0 if a view is empty."""
    if not isinstance(memory, memoryview):
        return memory.address
    return int(np.frombuffer(memory, np.uint8).ctypes.data) if len(memory) else 0
