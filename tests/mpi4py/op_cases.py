"""Every operation on every predefined datatype, on random values; with real mpi4py when run as a script."""

import json

import numpy as np

OPERATIONS = (
    "MAX", "MIN", "SUM", "PROD", "LAND", "BAND", "LOR", "BOR", "LXOR", "BXOR", "MAXLOC", "MINLOC", "REPLACE", "NO_OP",
    "OP_NULL",
)  # fmt: skip
# MPICH takes these for IEEE quadruples, which is not what numpy and C call long double.
QUADRUPLES = ("REAL16", "COMPLEX32")
VALUES = {"SHORT_INT": "h", "LONG_INT": "l", "FLOAT_INT": "f", "DOUBLE_INT": "d", "LONG_DOUBLE_INT": "g"}


def dtype_of(mpi, name):
    """How numpy sees elements of a datatype in memory."""
    datatype = getattr(mpi, name)
    if datatype.typestr[0] == "V":
        return np.dtype([("value", VALUES.get(name, "i")), ("index", "i")], align=True)
    return np.dtype("i1" if datatype.typestr == "S1" else "u4" if datatype.typestr == "U1" else datatype.typestr)


def values(rng, dtype, n):
    if dtype.names:
        pairs = np.zeros(n, dtype)
        pairs["value"], pairs["index"] = rng.integers(0, 3, n), rng.integers(0, 5, n)
        return pairs
    if dtype.kind in "fc":
        return np.round(rng.normal(size=n) * 100, 2).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, n).astype(dtype)
    return np.frombuffer(rng.bytes(n * dtype.itemsize), dtype).copy()


def outcomes(mpi):
    """For each operation and type: the results of one and of seven elements, or the error."""
    rng = np.random.default_rng(5)
    names = sorted(name for name, value in vars(mpi).items() if isinstance(value, mpi.Datatype) and value)
    found = {}
    for operation in OPERATIONS:
        for name in names:
            if name not in QUADRUPLES:
                dtype = dtype_of(mpi, name)
                operands = [(values(rng, dtype, n), values(rng, dtype, n)) for n in (1, 7)]
                found[f"{operation} {name}"] = outcome(mpi, operation, name, operands)
    return found


def outcome(mpi, operation, name, operands):
    results = []
    for source, target in operands:
        datatype = getattr(mpi, name)
        try:
            getattr(mpi, operation).Reduce_local([source, len(source), datatype], [target, len(target), datatype])
        except mpi.Exception as error:
            return "ERR_OP" if error.Get_error_class() == mpi.ERR_OP else str(error)
        results.append(str(target.tolist()))  # not the bytes: padding may be anything
    return results


if __name__ == "__main__":
    from mpi4py import MPI

    print(json.dumps(outcomes(MPI)))
