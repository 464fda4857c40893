"""What can be asked of a datatype and what packing makes of it, under whatever MPI it is given.

As a script it reads recipes (see `datatype_recipes`) with what else `answers` needs, one a line as JSON, and answers
each with a line, under real mpi4py.
"""

import json
import os
import sys

import numpy as np

ARRAY_ORDERS = ("ORDER_C", "ORDER_FORTRAN")
WITH_HOLES = 24  # bytes around everything, so that what is written outside shows


def answers(mpi, build, recipe, places, is_external):
    """Everything about the datatype of a recipe, or the class of the error that its construction is."""
    try:
        datatype = build(mpi, recipe)
    except mpi.Exception as error:
        return error_name(mpi, error)
    found = [datatype.Get_size(), contents(mpi, datatype), decoded(mpi, datatype), bounds(datatype)]
    return [*found, *(packed(mpi, datatype.Create_contiguous(i + 1), at, is_external) for i, at in enumerate(places))]


def places_of(datatype):
    """For one element and for two: how far to move it so that it begins in a buffer, and the buffer's size."""
    found = []
    for count in (1, 2):
        shift = (count - 1) * datatype.extent
        low, high = datatype.true_lb + min(0, shift), datatype.true_ub + max(0, shift)
        found.append((WITH_HOLES - low, high - low + 2 * WITH_HOLES))
    return found


def error_name(mpi, error):
    return next(name for name in dir(mpi) if name.startswith("ERR_") and getattr(mpi, name) == error.Get_error_class())


def bounds(datatype):
    return [*datatype.Get_extent(), *datatype.Get_true_extent()]


def contents(mpi, datatype):
    """The envelope and the contents, down to the named types."""
    *counts, combiner = datatype.Get_envelope()
    name = next(name for name in dir(mpi) if name.startswith("COMBINER_") and getattr(mpi, name) == combiner)
    if name == "COMBINER_NAMED":
        return [counts, datatype.name]
    integers, addresses, larges, types = datatype.Get_contents()
    constants = {getattr(mpi, name): name for name in dir(mpi) if name.startswith("DISTRIBUTE_")}
    constants |= {getattr(mpi, name): name for name in ARRAY_ORDERS}
    if name in ("COMBINER_SUBARRAY", "COMBINER_DARRAY"):
        integers = [constants.get(number, number) for number in integers]
    return [name, counts, integers, addresses, larges, [contents(mpi, inner) for inner in types]]


def decoded(mpi, datatype):
    base, name, params = datatype.decode()
    constants = {getattr(mpi, name): name for name in ARRAY_ORDERS}
    plain = {key: value for key, value in params.items() if key not in ("datatypes", "distribs", "dargs")}
    if "order" in plain:
        plain["order"] = constants[plain["order"]]
    return [base.name if base != mpi.DATATYPE_NULL and base.is_named else None, name, plain]


def packed(mpi, datatype, place, is_external):
    """The bytes that every way to pack gives, and where every way to unpack puts them."""
    shift, room = place
    moved = datatype.Create_hindexed([1], [shift]).Create_resized(0, room).Commit()
    memory = ((np.arange(2 * room) * 73 + shift) >> 1).astype(np.uint8)
    plain = bytearray(moved.Pack_size(2, mpi.COMM_SELF) + 5)
    end = moved.Pack(memory, plain, 3, mpi.COMM_SELF)
    back = np.full(2 * room, 0xEE, np.uint8)
    found = [end, plain.hex(), moved.Unpack(plain, 3, back, mpi.COMM_SELF), back.tobytes().hex()]
    if is_external:
        external = bytearray(moved.Pack_external_size("external32", 2) + 5)
        end = moved.Pack_external("external32", memory, external, 3)
        back = np.full(2 * room, 0xEE, np.uint8)
        found += [end, external.hex(), moved.Unpack_external("external32", external, 3, back), back.tobytes().hex()]
    return found


def main():
    from datatype_recipes import build
    from mpi4py import MPI

    for line in sys.stdin:
        print(json.dumps(answers(MPI, build, *json.loads(line))), flush=True)
    os._exit(0)  # thousands of types that nobody frees make MPI_Finalize fail


if __name__ == "__main__":
    main()
