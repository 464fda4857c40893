"""The two sums of a run's digest, for many messages at once: CPython's hash of a tuple, and CRC-32."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from xsim_py.mpi.checksum import crc32

_P1, _P2, _P5 = (np.uint64(n) for n in (11400714785074694791, 14029467366897019727, 2870177450012600261))
_MASK = (1 << 64) - 1
_LEFT, _RIGHT = np.uint64(31), np.uint64(33)
_SHORT_BYTES = 160
_MANY = 64
_BATCH = 1 << 14  # rows: as many as fit into a CPU's cache
_HASHED = 1 << 13  # numbers: with more of them each step of a hash would allocate memory from the system


def tuple_hashes(columns: list[Any], count: int) -> NDArray[np.uint64]:
    """Return ``hash((a, b, ...))`` of each row, modulo 2**64.

    Items are from 0 to 2**61 - 2, so that they are their own hashes. Each of the `columns` is an array or a number: the
    first, second ... item of the `count` tuples.

    The algorithm is CPython's `tuplehash` (Objects/tupleobject.c), which is xxHash with a different finish; `tests`
    compares the two.
    """
    total = np.full(count, _P5, np.uint64)
    for column in columns:
        if isinstance(column, np.ndarray):
            total += column.astype(np.uint64) * _P2
        else:
            total += np.uint64(column * int(_P2) & _MASK)
        total = (total << _LEFT | total >> _RIGHT) * _P1
    total += np.uint64(len(columns)) ^ (_P5 ^ np.uint64(3527539))
    # -1 means an error to C callers of hash, so CPython returns this instead.
    total[total == np.uint64(_MASK)] = np.uint64(1546275796)
    return total


def hash_sum(columns: list[Any], count: int) -> int:
    """Return the sum of these hashes, modulo 2**64."""
    total = 0
    for start in range(0, count, _HASHED):
        part = slice(start, min(start + _HASHED, count))
        some = [column[part] if isinstance(column, np.ndarray) else column for column in columns]
        total += int(tuple_hashes(some, part.stop - start).sum(dtype=np.uint64))
    return total & _MASK


@lru_cache(maxsize=1)
def _tables() -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the CRC tables for one byte, for two bytes, and for two bytes followed by two more."""
    one = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        one = np.where(one & 1, one >> np.uint32(1) ^ np.uint32(0xEDB88320), one >> np.uint32(1))
    two = np.arange(1 << 16, dtype=np.uint32)
    for _ in range(2):
        two = one[two & np.uint32(0xFF)] ^ two >> np.uint32(8)
    return one, two, two[two & np.uint32(0xFFFF)] ^ two >> np.uint32(16)


def checks(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return `zlib.crc32` of each row of a matrix of bytes."""
    count, length = rows.shape
    # A table look-up per byte of all rows pays for many short ones only; zlib, or isal, is far faster on a long one.
    if length > _SHORT_BYTES or count < _MANY:
        if not length:
            return np.zeros(count, np.uint32)
        return np.array([crc32(row) for row in np.ascontiguousarray(rows)], np.uint32)
    batches = [_checks(rows[start : start + _BATCH]) for start in range(0, count, _BATCH)]
    return batches[0] if len(batches) == 1 else np.concatenate(batches)


def _checks(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the checksums of rows, four bytes at a time, in a quarter of the time of zlib calls."""
    one, two, four = _tables()
    register = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    even = rows.shape[1] & -4
    for word in np.ascontiguousarray(np.ascontiguousarray(rows[:, :even]).view("<u4").T):
        both = word ^ register
        register = four.take(both & np.uint32(0xFFFF))
        register ^= two.take(both >> np.uint32(16))
    for byte in rows[:, even:].T:
        register = one[(register ^ byte) & np.uint32(0xFF)] ^ register >> np.uint32(8)
    return ~register


def rows(memory: NDArray[np.uint8], places: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
    """Return the bytes at some offsets, as rows of `length` bytes."""
    windows = as_strided(memory, (max(len(memory) - length + 1, 0), length), (1, 1), writeable=False)
    return windows[places]


def ragged_checks(
    memory: NDArray[np.uint8], places: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Return `zlib.crc32` of pieces of different lengths, grouped by length."""
    found = np.zeros(len(places), np.uint32)
    short = lengths.astype(np.uint16) if len(lengths) and int(lengths.max()) < 1 << 16 else lengths
    order = np.argsort(short, kind="stable")  # a tenth of the work for numbers of two bytes
    values, starts = np.unique(lengths[order], return_index=True)
    for length, which in zip(values.tolist(), np.split(order, starts[1:]), strict=True):
        if length:
            found[which] = checks(rows(memory, places[which], length))
    return found


def _apply(checks: NDArray[np.uint32], tables: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the sums of the table entries for the four bytes of each checksum."""
    found: NDArray[np.uint32] = tables[0].take(checks & np.uint32(0xFF))
    for place in range(1, 4):
        found ^= tables[place].take(checks >> np.uint32(8 * place) & np.uint32(0xFF))
    return found


def with_zeros(checks: NDArray[np.uint32], lengths: int | NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return checksums extended by zeros, one number for all or one for each."""
    if not isinstance(lengths, np.ndarray):
        return _apply(checks, _zeros(lengths))
    for place in range(int(lengths.max()).bit_length()):
        checks = np.where(lengths >> place & 1, _apply(checks, _zeros(1 << place)), checks)
    return checks


@lru_cache(maxsize=64)
def _zeros(length: int) -> NDArray[np.uint32]:
    """Return the effect of a number of zero bytes on each byte of a checksum, shape (4, 256)."""
    tables = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    if length > 1:
        half = _zeros(length // 2)
        tables = _apply(_apply(tables, half), half)
    if length % 2:
        tables = _tables()[0][tables & np.uint32(0xFF)] ^ tables >> np.uint32(8)
    return tables
