"""Expressions over `MPI` whose outcomes must be the same with a real mpi4py and with ours.

Run as a script, it takes the real one and writes the outcomes as JSON; the test evaluates them with ours.
"""

from __future__ import annotations

import json
import pickle
from typing import Any

SETUP = """
a = MPI.Info.Create({"x": "1", "y": "2"})
null = MPI.INFO_NULL
env = MPI.INFO_ENV
class MyInfo(MPI.Info): pass
g = MPI.Group.Union(MPI.GROUP_EMPTY, base)
empty, nothing = MPI.GROUP_EMPTY, MPI.GROUP_NULL
class MyGroup(MPI.Group): pass
s = MPI.Status()
vector = MPI.INT.Create_vector(2, 1, 2).Commit()
struct = MPI.Datatype.Create_struct([1, 1], [0, 8], [MPI.INT, MPI.DOUBLE]).Commit()
hole = MPI.BYTE.Create_contiguous(0).Commit()
e = MPI.ERRORS_RETURN
"""

INFO = """
a.items()
MPI.Info.Create([("a", "b")]).items()
MPI.Info.Create(a).items()
MPI.Info.Create().items()
MPI.Info.Create({"a": 1})
MPI.Info.Create([("a",)])
len(a), list(a), a.keys(), a.values()
a["x"]
a["q"]
a.get("q"), a.get("q", "d"), a.get("x"), a.Get("q"), a.Get("x")
a.Get_nkeys(), a.Get_nthkey(0)
a.Get_nthkey(2)
a.Get_nthkey(-1)
"x" in a, "q" in a
1 in a
a.Delete("q")
a.__delitem__("q")
a.Set("k", "v"), a.Set("k", "w"), a["k"], a.Set("k", ""), a["k"]
a.Set("", "v")
a.Get("")
"" in a
a.Set("k" * 255, "v"), a.Get("k" * 255), a.Delete("k" * 255)
a.Set("k" * 256, "v")
a.Set("v", "v" * 1023), len(a.Get("v")), a.Delete("v")
a.Set("v", "v" * 1025)
a.Set(" s ", " t "), a.keys()[-1], a.Get("s"), a.Get(" s ")
a.Dup() == a, a.copy() == a, a.Dup().items() == a.items()
a.pop("x")
a.pop("x")
a.pop("x", "d")
a.pop("x", "d", "e")
a.popitem()
a.update({"z": "3"}), a.update([("w", "4")]), a.update(m="5"), a.update(a), a.update({"z": "3"}, z="6"), a.items()
a.update(5)
a.update(None)
a.Set("x", 5)
a.Set(5, "x")
a.Get(None)
a.Set("x", "y\\0z")
a.Set("\\xe9", "\\xfc"), a.Get("\\xe9"), a.Set("k", b"bytes"), a["k"]
pickle_copy(a).items() == a.items()
a.clear(), len(a)
a.popitem()
a == 5, a != None, a == MPI.Info(a), type(a.copy()).__name__
hash(a)
type(MyInfo.Create({"a": "b"})).__name__, type(MyInfo(a).Dup()).__name__, type(MyInfo.Create_env()).__name__
null == MPI.Info(), bool(null), len(null), list(null), null.keys(), null.values(), null.items()
null["x"]
null.get("x"), null.get("x", "d"), "x" in null
null.__setitem__("a", "b")
null.__delitem__("a")
bool(null.copy()), null.clear(), null.pop("x", "d"), null.free()
null.pop("x")
null.popitem()
null.update({"a": "b"})
null.update()
null.Get("x")
null.Free()
MPI.Info.Create(null).items()
bool(env), env.items(), env.free(), bool(env)
env.Set("a", "b")
env.Free()
bool(env), env.Dup().items()
MPI.Info.Create_env().items(), MPI.Info.Create_env([]).items(), sorted(MPI.Info.Create_env(["a", "b"]).items())
MPI.Info.fromhandle(a.handle) == a, MPI.Info.fromint(a.toint()) == a, MPI.Info.f2py(a.py2f()) == a
a.Free(), bool(a), a == null, a.free()
MPI.Info(5)
"""

GROUP = """
g.size, g.Get_size(), empty.size, g.rank == g.Get_rank() == 0, empty.rank == MPI.UNDEFINED
nothing.size
nothing.rank
g == g, g == MPI.Group(g), g == g.Dup(), empty.Dup() == empty, g.Incl([]) == empty, g == None, g != 5
bool(nothing), bool(empty), bool(g), nothing == MPI.Group(), nothing == MPI.INFO_NULL
hash(g)
g.Incl([0]).size, g.Incl(range(1)).size, g.Incl(()).size, g.Incl([True - 1]).size
g.Incl([1])
g.Incl([-1])
g.Incl([0, 0])
g.Incl(0)
g.Incl(["a"])
g.Incl([0.0])
g.Incl(None)
g.Incl({0})
g.Excl([]).size, g.Excl([0]) == empty
g.Excl([1])
g.Range_incl([(0, 0, 1)]).size, g.Range_incl([(0, 0, -5)]).size, g.Range_incl([(0, 2, 5)]).size
g.Range_incl([(0, 0, 0)])
g.Range_incl([(0, 1, 1)])
g.Range_incl([(0, 1, -1)])
g.Range_incl([(-1, 0, 1)])
g.Range_incl([(0, 1)])
g.Range_incl([0, 0, 1])
g.Range_excl([(0, 0, 1)]) == empty, g.Range_excl([]).size
g.Range_excl([(0, 9, 1)])
g.Translate_ranks(), g.Translate_ranks([0]), g.Translate_ranks([0], g), g.Translate_ranks([], g)
g.Translate_ranks([0], empty) == [MPI.UNDEFINED], g.Translate_ranks([MPI.PROC_NULL], g) == [MPI.PROC_NULL]
g.Translate_ranks([5], g)
g.Translate_ranks([0], nothing)
nothing.Translate_ranks()
empty.Translate_ranks([0], g)
MPI.Group.Translate_ranks(g, [0], g)
g.Compare(g) == MPI.IDENT, g.Compare(g.Dup()) == MPI.IDENT, g.Compare(empty) == MPI.UNEQUAL
g.Compare(nothing)
MPI.Group.Union(g, empty).size, MPI.Group.Intersection(g, empty) == empty, MPI.Group.Intersect(g, g).size
MPI.Group.Difference(g, g) == empty, MPI.Group.Difference(g, empty).size, g.Union(empty, empty) == empty
MPI.Group.Union(nothing, g)
nothing.Dup()
nothing.Incl([])
nothing.Free()
nothing.free(), empty.free(), empty.Free(), bool(empty), bool(nothing)
type(MyGroup(g)).__name__, type(MyGroup(g).Incl([0])).__name__, type(MyGroup.Union(g, g)).__name__, MyGroup(g) == g
MPI.Group.fromhandle(g.handle) == g, MPI.Group.f2py(g.py2f()) == g, MPI.Group.fromint(g.toint()) == g
pickle_copy(nothing) == nothing, pickle_copy(empty) is empty
pickle_copy(g)
g.Free(), bool(g), g == nothing, g.free()
g.Free()
g.size
MPI.Group(5)
"""

STATUS = """
s.source == MPI.ANY_SOURCE, s.tag == MPI.ANY_TAG, s.error == MPI.SUCCESS, s.count, s.cancelled, s.Get_count()
s == MPI.Status(), s == 5, s != MPI.Status(), MPI.Status(s) == s, MPI.Status(s) is s, MPI.Status(None) == s
MPI.Status(5)
hash(s)
s.Set_source(3), s.Set_tag(7), s.Set_error(6), s.source, s.tag, s.error, s.Get_source(), s.Get_tag(), s.Get_error()
s.Set_elements(MPI.BYTE, 13), s.count, s.Get_count(), s.Get_elements(MPI.BYTE)
s.Get_count(MPI.INT) == s.Get_elements(MPI.INT) == MPI.UNDEFINED
s.Set_elements(MPI.INT, 3), s.count, s.Get_count(MPI.INT), s.Get_elements(MPI.INT), s.Get_elements(vector)
s.Get_count(MPI.DOUBLE) == s.Get_count(vector) == MPI.UNDEFINED
s.Set_elements(vector, 4), s.count, s.Get_count(vector), s.Get_elements(vector), s.Get_count(datatype=MPI.INT)
s.Set_elements(struct, 3), s.count, s.Get_elements(struct), s.Get_count(struct) == MPI.UNDEFINED
s.Set_elements(struct, 2), s.count, s.Get_elements(struct), s.Get_count(struct)
s.Set_elements(struct, 5), s.count, s.Get_elements(struct)
s.Set_elements(MPI.DATATYPE_NULL, 2)
s.Get_count(MPI.DATATYPE_NULL)
s.Get_elements(MPI.DATATYPE_NULL)
s.Get_count(None)
s.Set_elements(MPI.INT, -1)
s.Get_count(hole) == s.Get_elements(hole) == MPI.UNDEFINED, s.Set_elements(MPI.INT, 0), s.Get_count(hole)
s.Set_cancelled(True), s.Is_cancelled(), s.cancelled, s.Set_cancelled(False), s.cancelled
s.Set_source("a")
s.__getstate__(), pickle_copy(s) == s
s.__setstate__({"source": 1, "tag": 2, "error": 0}), s.source, s.tag, s.error
s.__setstate__({})
[setattr(s, name, 9) for name in ("source", "tag", "error", "count")], setattr(s, "cancelled", True)
s.__getstate__()
MPI.Status.f2py(s.py2f()) == s, len(s.tomemory()) == len(s.py2f()), s.tomemory().tolist() == s.py2f()
s.nothing_of_this_name
"""

ERRHANDLER = """
MPI.Errhandler() == MPI.ERRHANDLER_NULL, bool(MPI.Errhandler()), bool(e), MPI.Errhandler(e) == e, MPI.Errhandler(e) is e
pickle_copy(e) is e, e.__reduce__()
e.Free(), bool(e), e.free(), bool(e), MPI.ERRHANDLER_NULL.free()
MPI.ERRHANDLER_NULL.Free()
MPI.Errhandler.fromhandle(e.handle) == e, MPI.Errhandler.f2py(e.py2f()) == e, MPI.Errhandler.fromint(e.toint()) == e
len({h.handle for h in (MPI.ERRHANDLER_NULL, e, MPI.ERRORS_ABORT, MPI.ERRORS_ARE_FATAL)})
hash(e)
"""

EXCEPTION = """
int(MPI.Exception(6)), bool(MPI.Exception(0)), MPI.Exception(6) == 6, MPI.Exception(6) == MPI.Exception(6)
MPI.Exception(6) != MPI.Exception(7), MPI.Exception(6) == "x", MPI.Exception(6) != "x", hash(MPI.Exception(6))
MPI.Exception(6) < 7, MPI.Exception(6) < MPI.Exception(7), MPI.Exception(6) > 5, MPI.Exception(6) >= 6
MPI.Exception(6) < 6.5, MPI.Exception(6) <= MPI.Exception(6), repr(MPI.Exception(6)), MPI.Exception(6).args
MPI.Exception(6) < "x"
MPI.Exception("x")
MPI.Exception(ierr=3)
MPI.Exception(1, 2)
int(pickle_copy(MPI.Exception(6))), MPI.Exception(-5) == MPI.ERR_UNKNOWN, MPI.Exception() == MPI.SUCCESS
MPI.Exception.__module__, MPI.Exception.__qualname__, MPI.Exception.__mro__[1].__name__
"""

EXPRESSIONS = [line for text in (INFO, GROUP, STATUS, ERRHANDLER, EXCEPTION) for line in text.strip().splitlines()]


def pickle_copy(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def outcomes(mpi: Any, base: Any) -> list[str]:
    """What each expression gives: its value's repr, the class of its MPI error, or the type of another exception."""
    names = {"MPI": mpi, "base": base, "pickle_copy": pickle_copy}
    exec(SETUP, names)
    return [outcome(expression, names) for expression in EXPRESSIONS]


def outcome(expression: str, names: dict[str, Any]) -> str:
    mpi = names["MPI"]
    try:
        value = eval(expression, names)
    except mpi.Exception as problem:
        return next(name for name in dir(mpi) if name[:4] == "ERR_" and getattr(mpi, name) == problem.Get_error_class())
    except Exception as problem:
        return type(problem).__name__
    return type(value).__name__ if isinstance(value, mpi.Info | mpi.Group | mpi.Status) else repr(value)


if __name__ == "__main__":
    from mpi4py import MPI

    print(json.dumps(outcomes(MPI, MPI.COMM_SELF.Get_group())))
