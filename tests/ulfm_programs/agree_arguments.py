# number of ranks: 1
"""What Agree and Iagree take for a flag: a C int, or memory that holds exactly one."""

from array import array

import numpy as np
from ft import MPI, comm, finish, report


def said(function, value):
    """The result of a call, or the exception that refuses its argument."""
    try:
        return function(value)
    except (TypeError, ValueError, BufferError, OverflowError) as error:
        return f"{type(error).__name__}: {error}"


def in_place(flag):
    """Iagree, and what is in the buffer then."""
    comm.Iagree(flag).Wait()
    return np.asarray(flag).ravel().tolist()


numbers = {"int": 7, "bool": True, "float": 7.0, "str": "7", "none": None, "negative": -1, "large": 2**31, "list": [7]}
numbers |= {"int64": np.int64(7), "scalar": np.array(7), "one": np.array([7]), "two": np.array([7, 8])}
for name, value in numbers.items():
    report(f"Agree.{name}", said(comm.Agree, value))

ints = np.array([7, 8, 9, 10], "i4")
frozen = ints[:1].copy()
frozen.flags.writeable = False
memory = {f"numpy.{form}": np.array([7], form) for form in ("i4", "i8", "u4", "f4", "i2", ">i4", "?", "b")}
memory |= {f"array.{form}": array(form, [7]) for form in "ilI"}
memory |= {"nothing": ints[:0].copy(), "two": ints[:2].copy(), "matrix": np.array([[7]], "i4")}
memory |= {"scalar": np.array(7, "i4"), "struct": np.zeros(1, [("a", "i4")]), "bytes": b"abcd"}
memory |= {"frozen": frozen, "strided": ints[::2], "first": ints[::4]}
memory |= {"bytearray": bytearray(4), "cast": memoryview(bytearray(4)).cast("i"), "buffer": MPI.buffer(bytearray(4))}
memory |= {"int": 7, "list": [7], "pair": (ints[:1], MPI.INT), "bottom": MPI.BOTTOM, "in_place": MPI.IN_PLACE}
for name, value in memory.items():
    report(f"Iagree.{name}", said(in_place, value))
finish()
