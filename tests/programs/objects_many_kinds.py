# ranks: 1 2 3
"""Python objects of many kinds survive the journey."""

import collections
import datetime
import decimal
import enum
import fractions

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


Point = collections.namedtuple("Point", "x y")

samples = [
    None,
    True,
    -(2**100),
    1.5e-300,
    float("inf"),
    3 + 4j,
    "Grüße, 世界",
    b"\x00\xff",
    bytearray(b"abc"),
    (),
    [1, [2, [3]]],
    {"a": {"b": {1, 2}}},
    frozenset({1}),
    range(3, 9, 2),
    slice(1, None, 2),
    Colour.BLUE,
    Point(1, 2),
    datetime.timedelta(days=1, seconds=2),
    decimal.Decimal("0.10"),
    fractions.Fraction(2, 3),
    np.arange(6).reshape(2, 3),
    np.array([[1 + 2j]], dtype="c8"),
    len,
    int,
]
for number, sample in enumerate(samples):
    back = comm.sendrecv(sample, dest=right, sendtag=number, source=left, recvtag=number)
    print(f"rank {rank}: {number:02d} {type(back).__name__} {back!r}".replace("\n", " "))

# Received objects are copies, and sharing within one message is kept.
shared = [1, 2]
pair = comm.sendrecv((shared, shared), dest=rank, source=rank)
print(f"rank {rank}: copy {pair[0] is not shared}, still one {pair[0] is pair[1]}")
big = comm.sendrecv(np.arange(200_000.0) + rank, dest=right, source=left)
print(f"rank {rank}: big {big.dtype} {big.shape} {big.sum()}")
