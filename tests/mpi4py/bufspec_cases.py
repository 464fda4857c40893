"""Buffer arguments as expressions, and what each gives; with real mpi4py when run as a script on 3 ranks."""

import array
import ctypes
import json
import sys

import numpy as np

RANKS = 3


class Dlpack:
    """Exports its memory through DLPack only."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **keywords):
        return self.values.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


POINT_TO_POINT = """
a
f
np.zeros((3, 4))
np.asfortranarray(np.arange(12.0).reshape(3, 4))
a.reshape(3, 4)
a[::2]
a.reshape(3, 4)[:, 1]
a.reshape(3, 4).T
np.array(5.0)
np.float64(3.0)
np.empty(0)
np.empty((0, 3))
np.zeros(3, "?")
np.zeros(3, "e")
np.zeros(3, "F")
np.zeros(3, "D")
np.zeros(3, "q")
np.zeros(3, "B")
np.zeros(3, ">f8")
np.zeros(3, "<f8")
np.zeros(3, "S1")
np.zeros(3, "S5")
np.zeros(3, "U1")
np.zeros(3, "U2")
np.zeros(3, "M8[s]")
np.zeros(3, object)
np.zeros(3, [("x", "d"), ("y", "i")])
[np.zeros(3, [("x", "d"), ("y", "i")]), MPI.BYTE]
[np.zeros(3, "M8[s]"), MPI.INT64_T]
b"abc"
bytearray(b"abc")
memoryview(b"abcdef")[::2]
memoryview(bytearray(b"abcdef"))
memoryview(a)
readonly
[readonly, MPI.DOUBLE]
array.array("i", [1, 2, 3])
array.array("d", [1, 2, 3])
array.array("u", "abc")
(ctypes.c_int * 3)(1, 2, 3)
(ctypes.c_double * 3)(1, 2, 3)
Dlpack(a)
[Dlpack(a), 3, MPI.DOUBLE]
MPI.buffer(bytearray(b"abcd"))
MPI.buffer(b"abcd")
None
MPI.BOTTOM
MPI.IN_PLACE
3
"abc"
"MPI.DOUBLE"
{}
object()
[]
[a]
(a,)
[a, 1, 2, 3, 4]
[a, MPI.DOUBLE]
(a, MPI.DOUBLE)
[a, "d"]
[a, "f8"]
[a, "i4"]
[a, "MPI.DOUBLE"]
[a, "nonsense"]
[a, 3]
[a, 0]
[a, -1]
[a, 1.5]
[a, "x", "d"]
[a, None]
[a, np.int32(3)]
[a, None, MPI.DOUBLE]
[a, 3, MPI.DOUBLE]
[a, 3, "d"]
[a, 3, None]
[a, 6, MPI.FLOAT]
[a, 3, 3.5]
[a, 3, 3]
[a, [3, 2]]
[a, (3, 2)]
[a, (3, 2), MPI.DOUBLE]
[a, (3, -2), MPI.DOUBLE]
[a, (3, 13), MPI.DOUBLE]
[a, (0, 12), MPI.DOUBLE]
[a, (None, 2), MPI.DOUBLE]
[a, (3, None), MPI.DOUBLE]
[a, (1, 2, 3), MPI.DOUBLE]
[a, (), MPI.DOUBLE]
[a, 3, 2, MPI.DOUBLE]
[a, 3, 2, "d"]
[a, None, 2, "d"]
[a, 3, None, "d"]
[a, "d", 3]
[None, 0, MPI.DOUBLE]
[None, 1, MPI.DOUBLE]
[None, MPI.DOUBLE]
[None, 0]
[None, 0, None]
[MPI.BOTTOM, 0, MPI.DOUBLE]
[MPI.BOTTOM, MPI.DOUBLE]
[MPI.BOTTOM, 1, MPI.DOUBLE]
[MPI.IN_PLACE, 0, MPI.DOUBLE]
[a, MPI.DATATYPE_NULL]
[a, 3, MPI.DATATYPE_NULL]
[a, (3, 1), MPI.DATATYPE_NULL]
[b"abc", MPI.DATATYPE_NULL]
[a, 1, uncommitted]
[a, 1, vector]
[a, vector]
[a, 2, vector]
[a, (1, 1), resized]
[a, resized]
[a, negative]
[f[:3], MPI.DOUBLE_INT]
[f[:5], MPI.DOUBLE]
[np.zeros(3, ">f8"), MPI.DOUBLE]
[a[::2], MPI.DOUBLE]
[b"abcd", MPI.INT]
["abcd", MPI.INT]
[bytearray(8), 1, MPI.DOUBLE]
""".strip().splitlines()

BLOCKS = """
a
np.arange(11.0)
[a, 4, MPI.DOUBLE]
[a, 4]
[a, MPI.DOUBLE]
[a, "d"]
[a, (3, 1), MPI.DOUBLE]
[a, (None, 3), MPI.DOUBLE]
[f, MPI.DOUBLE]
[a, 1, resized]
np.empty(0)
None
[None, 0, MPI.DOUBLE]
""".strip().splitlines()

VECTORS = """
a
np.arange(11.0)
np.arange(10.0)
[a, 3]
[a, np.int64(3)]
[a, None]
[a, [1, 2, 3]]
[a, (1, 2, 3)]
[a, ([1, 2, 3], [0, 3, 6])]
[a, ([1, 2, 3], None)]
[a, (2, 4)]
[a, ((1, 2, 3), 3)]
[a, (None, [0, 3, 6])]
[a, MPI.DOUBLE]
[a, "d"]
[a, [1, 2, 3], MPI.DOUBLE]
[a, np.array([1, 2, 3]), MPI.DOUBLE]
[a, ([1, 2, 3], [0, 3, 6]), MPI.DOUBLE]
[a, [[1, 2, 3], [0, 3, 6]], MPI.DOUBLE]
[a, [1, 2, 3], [0, 3, 6], MPI.DOUBLE]
[a, [1, 2, 3], [9, 3, 0], "d"]
[a, [1, 2, 3], None, "d"]
[a, None, [0, 3, 6], "d"]
[a, None, None, "d"]
[a, [1, 2]]
[a, [1, 2, 3], [0, 3]]
[a, [1, 2, 3], [0, 3], "d"]
[a, [1, 2.5, 3]]
[a, [1, 1, 1], [0, 1, 2], resized]
[f[:5], MPI.DOUBLE]
[a, [1, 2, 3], MPI.DATATYPE_NULL]
[a, MPI.DATATYPE_NULL]
[a, [1, 0, 0], uncommitted]
[]
[a]
5
""".strip().splitlines()

GENERAL = """
[a, [MPI.DOUBLE] * 3]
[a, ([1, 2, 3], [0, 24, 48]), [MPI.DOUBLE] * 3]
[a, [1, 2, 3], [0, 24, 48], [MPI.DOUBLE, MPI.FLOAT, MPI.INT]]
(a, [1, 1, 1], [0, 24, 48], [vector, MPI.FLOAT, resized])
[a, [1, 2], [0, 24, 48], [MPI.DOUBLE] * 3]
[a, [1, 2, 3], [0, 24], [MPI.DOUBLE] * 3]
[a, [1, 2, 3], [0, 24, 48], [MPI.DOUBLE] * 2]
[a, [1, 2, 3], [0, 24, 48], ["d"] * 3]
[a, [1, 2, 3], None, [MPI.DOUBLE] * 3]
[a, None, [0, 0, 0], [MPI.DOUBLE] * 3]
[a, 1, 2, 3, 4]
[a]
a
[MPI.BOTTOM, [MPI.DOUBLE] * 3]
[MPI.BOTTOM, [0, 0, 0], None, [MPI.DOUBLE] * 3]
""".strip().splitlines()


def names(mpi):
    """What the expressions may use; fresh for each, for some are received into."""
    a = np.arange(12.0)
    readonly = np.arange(3.0)
    readonly.flags.writeable = False
    return {
        "MPI": mpi,
        "np": np,
        "array": array,
        "ctypes": ctypes,
        "Dlpack": Dlpack,
        "a": a,
        "f": np.arange(12, dtype="f"),
        "readonly": readonly,
        "uncommitted": mpi.DOUBLE.Create_contiguous(2),
        "vector": mpi.DOUBLE.Create_vector(2, 2, 3).Commit(),
        "resized": mpi.DOUBLE.Create_contiguous(2).Create_resized(0, 24).Commit(),
        "negative": mpi.DOUBLE.Create_resized(0, -8).Commit(),
    }


def outcome(mpi, expression, call):
    """What a call with the value of an expression gives: its result or its exception."""
    try:
        argument = eval(expression, names(mpi))
        return call(argument)
    except mpi.Exception as error:
        classes = ("ERR_TYPE", "ERR_COUNT", "ERR_BUFFER", "ERR_ARG", "ERR_TRUNCATE")
        return ["MPI", next((name for name in classes if getattr(mpi, name) == error.Get_error_class()), "other")]
    except Exception as error:
        return [type(error).__name__, str(error)]


def twice(expression):
    """The same buffer to send from, in a copy of its memory, and to receive into."""
    return f"(lambda a, f: {expression})(a.copy() + 1, f.copy() + 1), {expression}"


def memory_of(argument):
    """The bytes of the buffer of an argument that has been received into."""
    buffer = argument[0] if isinstance(argument, (list, tuple)) else argument
    if buffer is None or "Bottom" in type(buffer).__name__:
        return ""
    buffer = buffer.values if isinstance(buffer, Dlpack) else buffer
    return memoryview(buffer).tobytes("A").hex()


def main():
    from mpi4py import MPI

    world, me = MPI.COMM_WORLD, MPI.COMM_SELF

    def send(argument):
        out = np.zeros(400, "B")
        status = MPI.Status()
        me.Sendrecv(argument, 0, 0, out, 0, 0, status)
        return out[: status.Get_count(MPI.BYTE)].tobytes().hex()

    def receive(argument):
        me.Sendrecv(b"0123456789abcdef", 0, 0, argument, 0, 0)
        return memory_of(argument)

    def blocks(arguments):
        world.Alltoall(*arguments)
        return memory_of(arguments[1])

    def vectors(argument):
        out = np.zeros(300, "B")
        world.Alltoallv(argument, [out, 100, MPI.BYTE])
        return out.tobytes().hex()

    def general(argument):
        out = np.zeros(300, "B")
        world.Alltoallw(argument, [out, [100] * RANKS, [0, 100, 200], [MPI.BYTE] * RANKS])
        return out.tobytes().hex()

    results = {
        "send": [outcome(MPI, expression, send) for expression in POINT_TO_POINT],
        "receive": [outcome(MPI, expression, receive) for expression in POINT_TO_POINT],
        "blocks": [outcome(MPI, twice(expression), blocks) for expression in BLOCKS],
        "vectors": [outcome(MPI, expression, vectors) for expression in VECTORS],
        "general": [outcome(MPI, expression, general) for expression in GENERAL],
    }
    if world.rank == 0:
        json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
