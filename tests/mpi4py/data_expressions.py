"""Expressions over datatypes, operations and memory whose outcomes must be the same with a real mpi4py and with ours.

Run as a script, it takes the real one and writes the outcomes as JSON; the test evaluates them with ours.
"""

import json
import pickle
from typing import Any

import numpy as np

SETUP = """
D, T, null = MPI.Datatype, MPI.INT, MPI.DATATYPE_NULL
log = []
def copier(datatype, key, value): log.append(("copy", type(datatype) is D, value)); return value + 1
def deleter(datatype, key, value): log.append(("delete", value))
def refuses(datatype, key, value): return NotImplemented
def fails(datatype, key, value): raise MPI.Exception(MPI.ERR_ARG)
counted, plain, refused = D.Create_keyval(copier, deleter), D.Create_keyval(True), D.Create_keyval(refuses)
silent, failing, integer = D.Create_keyval(), D.Create_keyval(fails, fails), D.Create_keyval(True, nopython=True)
t, u = MPI.INT.Dup(), MPI.DOUBLE.Create_vector(2, 1, 3)
w, v = MPI.INT.Dup(), MPI.DOUBLE.Create_vector(2, 1, 3).Commit()
pair = D.Create_struct([1, 2], [0, 8], [MPI.CHAR, MPI.DOUBLE]).Commit()
class MyType(MPI.Datatype): pass
class MyOp(MPI.Op): pass
def append(a, b, datatype): a if datatype is None else None; return None if datatype else a + b
def swap(a, b, datatype):
    x, y = np.frombuffer(a, "i"), np.frombuffer(b, "i"); y[:] = x * 10 + y
op, commuting = MPI.Op.Create(append), MPI.Op.Create(swap, commute=True)
b, frozen = MPI.buffer.allocate(8, clear=True), MPI.buffer(b"abcdef")
def contents(datatype):
    integers, addresses, counts, types = datatype.Get_contents()
    return addresses, counts, [type(each).__name__ for each in types]
"""

DATATYPE = """
[(name, v.Get_name(), v.size, v.extent, v.lb, v.true_lb, v.true_extent, v.typestr, v.typechar, v.is_predefined,
    v.is_named) for name, v in constants(MPI) if v and v.size != 2]
[name for name, v in constants(MPI) if not v]
[v.tocode() for name, v in constants(MPI) if v and v.typechar != "V"]
[[name for name, other in constants(MPI) if other is v] for name, v in constants(MPI)]
T == T, T == MPI.LONG, T != MPI.LONG, T == 1, T != 1, bool(T), bool(null), D() == null, D(T) == T, D(T) is T
T < T
D(5)
hash(T)
T.foo
setattr(T, "foo", 1)
MyType(T) == T, type(MyType(T).Dup()).__name__, type(MyType().Create_struct([1], [0], [T])).__name__
null.Get_size()
null.Get_extent()
null.extent, null.lb
null.typestr, null.typechar, null.is_predefined, null.Get_name()
null.tocode()
null.is_named
null.Commit()
null.Free()
null.Dup()
null.Create_contiguous(1)
null.free(), bool(null)
T.free(), bool(T)
T.Free()
T.Commit() is T
D(T).Free()
T.Create_contiguous(-1)
T.Create_contiguous(2.5).size
T.Create_vector(-1, 1, 1)
T.Create_vector(1, -1, 1)
T.Create_indexed([-1], [0])
T.Create_indexed([1, 2], [0])
T.Create_hindexed([1, 2], [0, 1, 2])
T.Create_indexed_block(-1, [0])
T.Create_subarray([2], [1, 1], [0])
T.Create_subarray([2], [1], [0], order=99)
T.Create_darray(4, 4, [4], [MPI.DISTRIBUTE_BLOCK], [MPI.DISTRIBUTE_DFLT_DARG], [4])
D.Create_struct([1], [0], [1])
D.Create_struct([1], [0], [null])
D.Create_struct([1], [0], [T, T])
D.Create_struct([], [], []).Get_extent(), T.Create_contiguous(0).Get_extent(), T.Create_vector(0, 2, 3).Get_extent()
T.Create_resized(-4, 16).Get_extent(), T.Resized(0, -4).extent, T.Create_resized(4, 8).ub, T.Create_resized(4,
    8).true_ub
T.Create_vector(2, 3, 4).Get_envelope()[:4], contents(T.Create_vector(2, 3, 4)), T.Create_vector(2, 3,
    4).decode()[1:]
T.Create_hvector(2, 3, 40).Get_envelope()[:4], contents(T.Create_hvector(2, 3, 40)), T.Create_hvector(2, 3,
    4).decode()[1:]
contents(T.Create_indexed([2, 3], [4, 50])), T.Create_indexed([2, 3], [4, 50]).decode()[1:]
contents(T.Create_hindexed([2, 3], [4, 50])), T.Create_hindexed_block(2, [4, 50]).decode()[1:]
contents(T.Create_indexed_block(2, [4, 50])), T.Create_indexed_block(2, [4, 50]).decode()[1:]
T.Create_subarray([2, 3], [1, 2], [0, 1]).Get_envelope()[:4], contents(T.Create_subarray([2, 3], [1, 2], [0, 1]))
T.Create_subarray([2, 3], [1, 2], [0, 1]).decode()[2]["starts"], T.Create_contiguous(3).decode()[0] == T
contents(pair), pair.decode()[0] == null, pair.decode()[1], pair.decode()[2]["datatypes"] == [MPI.CHAR, MPI.DOUBLE]
D.Create_struct([1], [0], [T]).decode()[0] == T, T.Create_resized(0, 8).decode()[1:], T.Dup().decode()[1:]
T.decode()[0] is T, T.decode()[1:], T.envelope[:4], T.combiner == MPI.COMBINER_NAMED
T.Get_contents()
T.contents
T.Dup().is_predefined, T.Dup().typestr, T.Dup().Dup().tocode(), T.Dup().Get_name(), T.Dup() == T, u.typestr,
    u.typechar
u.tocode()
D.fromcode("d") is MPI.DOUBLE, D.fromcode("i8") is MPI.INT64_T, D.fromcode("Zd").name
D.fromcode("xx")
D.Match_size(MPI.TYPECLASS_REAL, 4).name, D.Match_size(MPI.TYPECLASS_INTEGER, 8).name,
    D.Match_size(MPI.TYPECLASS_COMPLEX, 16).name
D.Match_size(MPI.TYPECLASS_REAL, 3)
D.Match_size(9999, 4)
[D.Create_f90_integer(r).typestr for r in (0, 2, 3, 9, 18)], [D.Create_f90_real(p, r).typestr for p, r in ((6,
    37), (6, 38), (15, 307), (16, 10))]
D.Create_f90_complex(6, 37).typestr, D.Create_f90_real(MPI.UNDEFINED, 300).size, D.Create_f90_real(6,
    MPI.UNDEFINED).size
D.Create_f90_integer(100)
D.Create_f90_real(100, 0)
D.Create_f90_real(6, 30).decode()[1:], D.Create_f90_real(6, 30) == D.Create_f90_real(6, 30), D.Create_f90_real(6,
    30).Get_name()
D.Create_f90_real(6, 30).is_predefined, D.Create_f90_real(6, 30).is_named, D.Create_f90_real(6, 30).Get_contents()
D.Create_f90_real(6, 30).Commit().tocode(), D.Create_f90_integer(4).free()
D.Get_value_index(MPI.DOUBLE, T) == MPI.DOUBLE_INT, D.Get_value_index(T, T) == MPI.INT_INT,
    bool(D.Get_value_index(T, MPI.LONG))
D.Get_value_index(null, T)
D.fromhandle(T.handle) == T, D.fromint(u.toint()) == u, D.f2py(T.py2f()) == T, D.fromhandle(u.handle) == u
t.Set_name("mine"), t.Get_name(), t.name, setattr(t, "name", "yours"), t.name, u.name, MPI.INT.Set_name("i"),
    MPI.INT.name, MPI.INT.Set_name("MPI_INT")
null.Set_name("x")
t.Get_attr(counted), t.Set_attr(counted, 5), t.Get_attr(counted), t.Dup().Get_attr(counted), log, log.clear()
t.Set_attr(counted, 9), log, t.Delete_attr(counted), log, t.Get_attr(counted), t.Delete_attr(counted), log.clear()
t.Set_attr(plain, [1]), t.Dup().Get_attr(plain) is t.Get_attr(plain), t.Set_attr(refused, 1),
    t.Dup().Get_attr(refused)
t.Set_attr(silent, 1), t.Dup().Get_attr(silent), t.Set_attr(integer, 7), t.Get_attr(integer),
    t.Dup().Get_attr(integer)
t.Set_attr(integer, "x")
u.Set_attr(failing, 1), u.Get_attr(failing)
u.Dup()
u.Get_attr(failing)
t.Get_attr(99999999)
T.Set_attr(MPI.KEYVAL_INVALID, 1)
null.Get_attr(counted)
D.Free_keyval(plain) == MPI.KEYVAL_INVALID
w.Set_attr(counted, 3), w.Free(), log, bool(w)
pickle_copy(T) is T, pickle_copy(null) is null, pickle_copy(D(T)) == T, pickle_copy(MPI.FLOAT32_T) is MPI.FLOAT
pickle_copy(u).decode()[1:], pickle_copy(u.Create_resized(0, 99)).extent, pickle_copy(pair).decode()[1],
    pickle_copy(pair) == pair
pickle_copy(D.Create_f90_real(6, 30)) == D.Create_f90_real(6, 30), T.__reduce__()
T.Pack_size(3, MPI.COMM_SELF), v.Pack_size(2, MPI.COMM_SELF)
T.Pack_size(-1, MPI.COMM_SELF)
u.Pack_size(1, MPI.COMM_SELF)
u.Pack(np.zeros(9), bytearray(99), 0, MPI.COMM_SELF)
packed_with(MPI, T, np.arange(4, dtype="i")), packed_with(MPI, v, np.arange(8.0)), packed_with(MPI, pair,
    np.arange(6.0))
[T.Pack_external_size("external32", 3), MPI.LONG.Pack_external_size("external32", 3),
    MPI.C_DOUBLE_COMPLEX.Pack_external_size("external32", 3)]
[D.fromcode(c).Pack_external_size("external32", 2) for c in "?bhilqBHILQfdcFDGg"]
external(MPI, T, np.arange(-3, 4, dtype="i")), external(MPI, MPI.LONG, np.array([1, -2])), external(MPI,
    MPI.DOUBLE, np.array([1.5, -2]))
external(MPI, MPI.SHORT, np.array([1, -2], "h")), external(MPI, MPI.C_FLOAT_COMPLEX, np.array([1, -2j], "F")),
    external(MPI, v, np.arange(4.0))
MPI.LONG.Unpack_external("external32", b"\\0\\0\\0\\7", 0, np.zeros(1, "l"))
D.__module__, D.__qualname__, repr(T)[:28], MPI.ORDER_F == MPI.ORDER_FORTRAN
"""

OP = """
[op.Is_commutative() for name, op in operations(MPI) if op], [op.is_predefined for name, op in operations(MPI)]
[op(6, 3) for name, op in operations(MPI) if op and "LOC" not in name], MPI.SUM("a", "b"), MPI.PROD([1], 2),
    MPI.LAND([], 1)
MPI.MAXLOC((1, 5), (1, 2)), MPI.MAXLOC((3, 5), (1, 2)), MPI.MAXLOC((0, 5), (1, 2)), MPI.MINLOC((1, 5), (1, 2)),
    MPI.MINLOC([1, 2], [1, 5])
MPI.MAX(float("nan"), 1.0), MPI.MIN(float("nan"), 1.0), MPI.MAX(1.0, float("nan"))
MPI.SUM(1, "a")
MPI.OP_NULL(1, 2)
MPI.OP_NULL.Is_commutative()
MPI.OP_NULL.Free()
MPI.SUM.Free()
MPI.SUM.free(), bool(MPI.SUM), bool(MPI.OP_NULL), MPI.Op() == MPI.OP_NULL, MPI.Op(MPI.SUM) == MPI.SUM,
    MPI.SUM == MPI.MAX, MPI.SUM == 1
hash(MPI.SUM)
MPI.Op.Create(3)
MPI.Op(3)
op("a", "b"), op.Is_commutative(), commuting.is_commutative, op.is_predefined, op == commuting,
    type(MyOp.Create(append)).__name__
pickle_copy(MPI.SUM) is MPI.SUM, pickle_copy(MPI.Op(MPI.SUM)) == MPI.SUM, MPI.SUM.__reduce__(),
    op.__reduce__()[1] == (append, False)
MPI.Op.fromhandle(MPI.SUM.handle) == MPI.SUM, MPI.Op.fromint(op.toint()) == op,
    MPI.Op.f2py(MPI.MAX.py2f()) == MPI.MAX
reduced(MPI.SUM, [1, 2], [3, 4]), reduced(commuting, [1, 2], [3, 4]), reduced(MPI.BXOR, [1, 2], [3, 4])
MPI.SUM.Reduce_local(np.zeros(2), np.zeros(3))
MPI.SUM.Reduce_local(np.zeros(2), np.zeros(2, "i"))
MPI.SUM.Reduce_local(np.zeros(2), b"0123456789abcdef")
MPI.BAND.Reduce_local(np.zeros(2), np.zeros(2))
MPI.SUM.Reduce_local([np.zeros(2), MPI.DOUBLE.Dup()], [np.zeros(2), MPI.DOUBLE.Dup()])
MPI.OP_NULL.Reduce_local(np.zeros(2), np.zeros(2))
MPI.REPLACE.Reduce_local(np.zeros(2), np.zeros(2))
op.Free(), bool(op), commuting.free(), bool(commuting)
op.Free()
"""

MEMORY = """
len(b), b.nbytes, b.readonly, b.format, b.itemsize, b.address > 0, bytes(b), b.tobytes(), b[0], b[-1],
    MPI.memory is MPI.buffer
b.__setitem__(0, 65), b.__setitem__(slice(2, 4), b"xy"), b.__setitem__(slice(5, 7), 66), b.tobytes(),
    b[1:4].tobytes(), type(b[1:4]).__name__
b[1:4].__setitem__(0, 90), b.tobytes(), b.cast("i").tolist(), b.cast("h", [2, 2]).tolist(), np.frombuffer(b,
    "B").tolist()
b[8]
b[-9]
b["x"]
b[::2]
b.__setitem__(8, 1)
b.__setitem__(slice(0, 4), b"abc")
b.__setitem__(slice(0, 4, 2), b"abc")
b.__setitem__("x", 1)
frozen.readonly, frozen[0], frozen.tobytes(), frozen.obj, frozen[2:].readonly
frozen.__setitem__(0, 1)
b.toreadonly().readonly, b.toreadonly().tobytes() == b.tobytes(), b.readonly
b.toreadonly().__setitem__(0, 1)
MPI.buffer().nbytes, MPI.buffer.frombuffer(bytearray(3)).readonly, MPI.buffer.frombuffer(bytearray(3),
    readonly=True).readonly
MPI.buffer.frombuffer(b"abc")
MPI.buffer.frombuffer(5)
MPI.buffer(5)
MPI.buffer.frombuffer(b"abc", True).tobytes(), MPI.buffer.frombuffer(np.arange(2.0)).nbytes
MPI.buffer.fromaddress(b.address, 4).tobytes() == b.tobytes()[:4], MPI.buffer.fromaddress(0, 0).nbytes
MPI.buffer.fromaddress(0, 4)
MPI.buffer.fromaddress(1, -4)
b.__setitem__(slice(0, 6), frozen), b.tobytes()
b.__setitem__(slice(0, 4), np.arange(4, dtype="b")), b.tobytes()
b.__setitem__(slice(4, 8), np.int32(7))
b.__setitem__(slice(0, 6), frozen[:]), b.__setitem__(slice(6, 8), 255), b.tobytes()
MPI.buffer.allocate(-1)
MPI.buffer.allocate("x")
memoryview(b).nbytes, memoryview(b).format, memoryview(b).readonly, memoryview(frozen).readonly
b.sum
b.shape
MPI.buffer.reshape
[name for name in dir(MPI.buffer) if name[0] != "_"], [name for name in dir(b) if name[0] != "_"]
b == b, b == MPI.buffer(b), b != 1, hash(b) == hash(b)
b.release(), b.nbytes, len(b), b.tobytes()
MPI.BOTTOM, MPI.IN_PLACE, MPI.BUFFER_AUTOMATIC, bool(MPI.BOTTOM), bool(MPI.IN_PLACE), int(MPI.BOTTOM),
    MPI.BOTTOM == 0, hash(MPI.BOTTOM)
MPI.IN_PLACE == MPI.IN_PLACE, MPI.IN_PLACE == MPI.BOTTOM, MPI.IN_PLACE != 3, MPI.BOTTOM != MPI.BOTTOM,
    MPI.BottomType() == MPI.BOTTOM
MPI.BOTTOM == "x", MPI.IN_PLACE != "x", MPI.BOTTOM.__index__(), pickle_copy(MPI.BOTTOM) is MPI.BOTTOM
MPI.IN_PLACE.__index__()
[(view.nbytes, view.obj, view.format, view.readonly) for view in map(memoryview, (MPI.BOTTOM, MPI.IN_PLACE))]
bytes(MPI.BOTTOM), np.asarray(MPI.IN_PLACE).size
"""

PICKLE = """
MPI.pickle.loads(MPI.pickle.dumps([1, "a"])), MPI.pickle.PROTOCOL, MPI.pickle.THRESHOLD,
    type(MPI.pickle) is MPI.Pickle
MPI.Pickle().dumps(5) == MPI.pickle.dumps(5), MPI.Pickle(json.dumps, json.loads).loads("[1]"),
    MPI.Pickle(json.dumps).dumps([1])
MPI.Pickle(json.dumps, json.loads).PROTOCOL, MPI.Pickle(pickle.dumps).PROTOCOL, MPI.Pickle(pickle.dumps,
    protocol=2).PROTOCOL
MPI.Pickle(threshold=3).THRESHOLD, MPI.Pickle(protocol=1).dumps(5) == pickle.dumps(5, 1)
[(setattr(p, "PROTOCOL", 1), p.PROTOCOL, setattr(p, "PROTOCOL", None), p.PROTOCOL, setattr(p, "THRESHOLD", 9),
    p.THRESHOLD) for p in [MPI.Pickle()]]
[(setattr(p, "THRESHOLD", None), p.THRESHOLD) for p in [MPI.Pickle(threshold=2)]]
[(len(buffers), buffers[0].nbytes, p.loads_oob(data,
    buffers).tolist()) for p in [MPI.Pickle(threshold=8)] for data, buffers in [p.dumps_oob(np.arange(3.0))]]
[len(p.dumps_oob(np.arange(3.0))[1]) for p in [MPI.Pickle(threshold=99)]]
MPI.Pickle(1, 2, 3, 4, 5)
"""

# One a line; an indented line goes on with the one before.
TEXTS = [text.strip().replace("\n    ", " ") for text in (DATATYPE, OP, MEMORY, PICKLE)]
EXPRESSIONS = [line for text in TEXTS for line in text.splitlines()]


def constants(mpi):
    return [(name, value) for name, value in sorted(vars(mpi).items()) if isinstance(value, mpi.Datatype)]


def operations(mpi):
    return [(name, value) for name, value in sorted(vars(mpi).items()) if isinstance(value, mpi.Op)]


def packed_with(mpi, datatype, values):
    """Pack behind two bytes, and unpack again."""
    out, back = bytearray(2 + values.nbytes), np.zeros_like(values)
    end = datatype.Pack(values, out, 2, mpi.COMM_SELF)
    return end, bytes(out[:end]), datatype.Unpack(out, 2, back, mpi.COMM_SELF), back.tolist()


def external(mpi, datatype, values):
    out, back = bytearray(2 + values.nbytes), np.zeros_like(values)
    end = datatype.Pack_external("external32", values, out, 2)
    return end, bytes(out[:end]), datatype.Unpack_external("external32", out, 2, back), back.tolist()


def reduced(op, left, right):
    source, target = np.array(left, "i"), np.array(right, "i")
    op.Reduce_local(source, target)
    return target.tolist()


def pickle_copy(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def outcomes(mpi: Any) -> list[str]:
    """What each expression gives: its value's repr, the class of its MPI error, or the type of another exception."""
    names = dict(globals(), MPI=mpi)
    exec(SETUP, names)
    return [outcome(expression, names) for expression in EXPRESSIONS]


def outcome(expression: str, names: dict[str, Any]) -> str:
    mpi = names["MPI"]
    try:
        return repr(eval(expression, names))
    except mpi.Exception as problem:
        return next(name for name in dir(mpi) if name[:4] == "ERR_" and getattr(mpi, name) == problem.Get_error_class())
    except Exception as problem:
        return type(problem).__name__


if __name__ == "__main__":
    import os

    from mpi4py import MPI

    print(json.dumps(outcomes(MPI)), flush=True)
    os._exit(0)  # types that nobody frees make MPI_Finalize fail
