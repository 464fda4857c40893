"""How fast derived datatypes are packed and unpacked, beside numpy copying the same elements in the same run.

``python -m tests.bench.packing`` prints a table. The bytes are checked first. The ratio to numpy is judged: a large
strided vector is one strided copy in C, and irregular types are gathers in C; element by element in Python each of them
would take a hundred times as long.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from xsim_py.mpi import construct
from xsim_py.mpi.constants import ORDER_C
from xsim_py.mpi.datatype import Type
from xsim_py.mpi.predefined import PREDEFINED

ELEMENTS = 1_000_000
REPEATS, MOST_REPEATS = 7, 30
REGULAR_AT_MOST = 3.0
IRREGULAR_AT_MOST = 5.0
DOUBLE, INT, BYTE = PREDEFINED["DOUBLE"], PREDEFINED["INT"], PREDEFINED["BYTE"]

Elements = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


def regular() -> Iterator[tuple[str, Type, int, Elements]]:
    """A name, a datatype, how many of it, and the same elements as numpy writes them, out of bytes."""
    n = ELEMENTS
    yield "every second double", construct.vector(DOUBLE, n, 1, 2), 1, lambda a: a.view("f8")[: 2 * n : 2]
    yield "a million of a resized double", construct.resized(DOUBLE, 0, 16), n, lambda a: a.view("f8")[: 2 * n : 2]
    yield "every third byte", construct.vector(BYTE, n, 1, 3), 1, lambda a: a[: 3 * n : 3]
    rows = construct.vector(DOUBLE, n // 16, 16, 32)
    yield "16 doubles of 32", rows, 1, lambda a: a.view("f8")[: 2 * n].reshape(-1, 32)[:, :16]
    box = construct.subarray(DOUBLE, [100, 200, 100], [100, 100, 50], [0, 50, 25], ORDER_C)
    yield "a box of an array", box, 1, lambda a: a.view("f8")[: 2 * n].reshape(100, 200, 100)[:, 50:150, 25:75]
    nested = construct.vector(construct.vector(DOUBLE, 10, 1, 2), n // 20, 1, 2)
    yield "a vector of vectors", nested, 1, lambda a: _strided(a, (n // 20, 10), (38 * 8, 16))


def irregular() -> Iterator[tuple[str, Type, int, Elements]]:
    """The same where places follow no rule."""
    rng, n = np.random.default_rng(1), ELEMENTS
    chosen = np.sort(rng.choice(2 * n, n, replace=False))
    yield "a random half of the doubles", construct.indexed_block(DOUBLE, 1, chosen.tolist()), 1, _taken(chosen)
    lengths = rng.integers(1, 5, n // 4)
    places = np.cumsum(lengths + 2) - lengths
    every = np.concatenate([np.arange(at, at + n) for at, n in zip(places, lengths, strict=True)])
    yield "blocks of 1 to 4 doubles", construct.indexed(DOUBLE, lengths.tolist(), places.tolist()), 1, _taken(every)
    few = construct.resized(construct.indexed(DOUBLE, [1, 2, 1, 3], [0, 2, 6, 9]), 0, 128)
    columns = [0, 2, 3, 6, 9, 10, 11]
    yield "the same few of each 16", few, n // 16, lambda a: a.view("f8").reshape(-1, 16)[: n // 16, columns]
    pair = construct.resized(construct.struct([1, 1], [0, 8], [INT, DOUBLE]), 0, 16)
    fields = np.dtype({"names": ["i", "d"], "formats": ["i4", "f8"], "offsets": [0, 8], "itemsize": 16})
    yield "half a million structs", pair, n // 2, lambda a: a.view(fields)[: n // 2].astype([("i", "i4"), ("d", "f8")])
    spread = construct.vector(pair, n // 2, 1, 2)
    yield "a vector of structs", spread, 1, lambda a: a.view(fields)[:n:2].astype([("i", "i4"), ("d", "f8")])


def _taken(index: np.ndarray[Any, Any]) -> Elements:
    return lambda a: a.view("f8")[index]


def _strided(memory: np.ndarray[Any, Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.ndarray(shape, "f8", memory, 0, strides)


def compared(one: Callable[[], object], other: Callable[[], object], at_most: float) -> tuple[float, float]:
    """The least CPU seconds of two functions that are called by turns, the more often if the other takes too long."""
    best = [float("inf")] * 2
    for turn in range(MOST_REPEATS):
        if turn >= REPEATS and best[1] <= at_most * best[0]:
            break
        for which, call in enumerate((one, other)):
            start_s = time.process_time()
            call()
            best[which] = min(best[which], time.process_time() - start_s)
    return best[0], best[1]


def copied(elements: Elements, memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What numpy makes of it, copied once."""
    found = elements(memory)
    return found if found.base is None else found.copy()


def main() -> int:
    """Run all cases; the exit status says whether all is as it must be."""
    memory = np.random.default_rng(0).integers(0, 256, 32 * ELEMENTS, np.uint8)
    view, failures = memoryview(memory), []
    print(f"{'datatype':30} {'MB':>5} {'numpy ms':>9} {'pack x':>7} {'unpack x':>9}")
    cases = [(*case, REGULAR_AT_MOST) for case in regular()] + [(*case, IRREGULAR_AT_MOST) for case in irregular()]
    for name, datatype, count, elements, at_most in cases:
        data = elements(memory).tobytes()
        back = np.zeros_like(memory)
        datatype.unpack(data, memoryview(back), 0, count)
        if datatype.pack(view, 0, count) != data or elements(back).tobytes() != data:
            failures.append(f"{name}: other bytes than numpy's")
            continue
        again = memoryview(back)
        numpy = partial(copied, elements, memory)
        plain_s, pack_s = compared(numpy, partial(datatype.pack, view, 0, count), at_most)
        other_s, unpack_s = compared(numpy, partial(datatype.unpack, data, again, 0, count), at_most)
        ratios = pack_s / plain_s, unpack_s / other_s
        print(f"{name:30} {len(data) / 1e6:5.1f} {plain_s * 1e3:9.2f} {ratios[0]:7.2f} {ratios[1]:9.2f}", flush=True)
        if max(ratios) > at_most:
            failures.append(f"{name}: more than {at_most} times as long as numpy")
    print(*failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
