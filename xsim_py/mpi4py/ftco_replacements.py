"""Replacements for contributions of failed ranks in FTCO collectives.

They come from the program or from `xsim_py.ftco` settings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.ftco.driver import Ftco, absent
from xsim_py.mpi.padding import without_padding
from xsim_py.mpi.transport.unchanged_blocks import keep

from .bufspec import BlockBuffer, UserBuffer
from .pickling import dump

__all__ = ["BufferFill", "ObjectFill", "lost_block"]


class BufferFill:
    """Replacements in upper-case calls."""

    __slots__ = ("call", "comm", "target")

    def __init__(self, comm: Communicator, target: UserBuffer | BlockBuffer | None, call: str) -> None:
        self.comm = comm  # with failed members
        self.target = target  # the result buffer
        self.call = call  # the name of the call in the program

    def block(self, rank: int, size_bytes: int | None) -> bytes | None:
        """Return a block (`operations.Fill`).

        If the program supplies none, ``mpi.ftco.missing`` decides.
        """
        target = self.target
        assert target is not None
        replacement = _replaced(self.comm, rank)
        if replacement is not None:
            return self._packed(replacement[0], rank, target.part_bytes(rank))
        if _refuses(self.comm):
            raise absent(self.comm, self.comm.missing)
        missing = self.comm.fabric.part(Ftco).shapes.spec.missing
        return lost_block(self.comm, self.call, target, rank, missing, "mpi.ftco.missing")

    def operand(self, rank: int, size_bytes: int) -> bytes | None:
        """Return an operand; see `xsim_py.mpi.ftco.operations.Fill`."""
        replacement = _replaced(self.comm, rank)
        if replacement is not None:
            if size_bytes < 0:
                assert isinstance(self.target, UserBuffer)
                size_bytes = self.target.nbytes
            return self._packed(replacement[0], rank, size_bytes)
        if _refuses(self.comm):
            raise absent(self.comm, self.comm.missing)
        return None

    def _packed(self, value: object, rank: int, size_bytes: int) -> bytes:
        datatype = None if self.target is None else self.target.type_at(rank)
        if isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value)
        elif datatype is not None and datatype.dtype is not None:
            array = np.asarray(value, datatype.dtype)
            count = size_bytes // datatype.dtype.itemsize
            data = (np.full(count, array) if array.ndim == 0 else array).tobytes()
        else:
            data = np.ascontiguousarray(value).tobytes()
        if len(data) != size_bytes:
            errors.fail(c.ERR_BUFFER, f"what replaces rank {rank} has {len(data)} bytes; {size_bytes} are needed")
        mask = None if datatype is None else datatype.layout.mask
        return data if mask is None else without_padding(data, mask)


def lost_block(
    comm: Communicator, call: str, target: UserBuffer | BlockBuffer, i: int, missing: str, option: str
) -> bytes:
    """Return the content for a lost block `i` of a buffer, by `missing`, the value of an option."""
    if missing == "none":
        keep(comm, call, i, option)
        return target.pack_part(i)
    if missing == "zero":
        return bytes(target.part_bytes(i))
    datatype = target.type_at(i)
    data, mask = datatype.unknown(target.part_bytes(i)), datatype.layout.mask
    return data if mask is None else without_padding(data, mask)


class ObjectFill:
    """Replacements in lower-case calls, as pickles."""

    __slots__ = ("comm",)

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm

    def block(self, rank: int, size_bytes: int | None) -> bytes:
        """Return a block (`operations.Fill`); by default the pickle of None."""
        return self.operand(rank, 0) or dump(None)

    def operand(self, rank: int, size_bytes: int) -> bytes | None:
        """Return an operand; see `xsim_py.mpi.ftco.operations.Fill`."""
        replacement = _replaced(self.comm, rank)
        if replacement is not None:
            return dump(replacement[0])
        if _refuses(self.comm):
            raise absent(self.comm, self.comm.missing)
        return None


def _replaced(comm: Communicator, rank: int) -> tuple[Any] | None:
    """Return the program's replacement for a rank, in a tuple; None if there is none."""
    if comm.replacement is None:
        return None
    value = comm.replacement[0]
    return (value(rank),) if callable(value) else (value,)


def _refuses(comm: Communicator) -> bool:
    return bool(comm.fabric.part(Ftco).shapes.spec.missing == "error")
