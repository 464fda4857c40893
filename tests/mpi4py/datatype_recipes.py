"""Random nested datatypes, built through the names that mpi4py has; with real mpi4py when run as a script.

As a script it reads lines of JSON, each a recipe, and writes one line for each: bounds, contents, packed bytes.
"""

import json
import os
import random
import sys

import numpy as np

MEMORY = 6000
ORIGIN = 3000  # types may reach to both sides
BASES = ["BYTE", "SHORT", "INT", "DOUBLE", "C_DOUBLE_COMPLEX", "DOUBLE_INT", "SHORT_INT"]


def has_empty_part(datatype):
    """Whether a type of no bytes is in it: bounds of such types are a matter of taste, and MPICH's varies."""
    return datatype.size == 0 or any(has_empty_part(part) for part in _parts(datatype))


def _parts(datatype):
    return [] if datatype.is_named else datatype.Get_contents()[3]


def random_recipe(rng: random.Random, depth: int):
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(BASES)
    kind = rng.choice(list(MAKERS))
    return [kind, *MAKERS[kind](rng, depth - 1)]


def _some(rng, low, high, n):
    return [rng.randint(low, high) for _ in range(n)]


def _array(rng, depth):
    n = rng.randint(1, 3)
    sizes = _some(rng, 1, 4, n)
    subsizes = [rng.randint(1, size) for size in sizes]
    starts = [rng.randint(0, size - part) for size, part in zip(sizes, subsizes, strict=True)]
    return random_recipe(rng, min(depth, 1)), sizes, subsizes, starts, rng.choice("CF")


def _darray(rng, depth):
    n = rng.randint(1, 2)
    psizes = _some(rng, 1, 3, n)
    gsizes = _some(rng, 1, 6, n)
    distribs = [rng.choice("BC") if p > 1 else rng.choice("BCN") for p in psizes]
    dargs = [_darg(rng, *dimension) for dimension in zip(gsizes, psizes, distribs, strict=True)]
    size = int(np.prod(psizes))
    base = random_recipe(rng, min(depth, 1))
    return base, size, rng.randrange(size), gsizes, distribs, dargs, psizes, rng.choice("CF")


def _darg(rng, n, parts, distribution):
    if distribution == "N":
        return None
    return rng.choice([None, rng.randint(-(-n // parts), n) if distribution == "B" else rng.randint(1, 2)])


def _indexed(rng, depth):
    n = rng.randint(1, 4)
    return random_recipe(rng, depth), _some(rng, 0, 3, n), _some(rng, -5, 9, n)


def _indexed_block(rng, depth):
    return random_recipe(rng, depth), rng.randint(1, 3), _some(rng, -5, 9, rng.randint(1, 4))


def _struct(rng, depth):
    n = rng.randint(1, 3)
    return _some(rng, 1, 2, n), _some(rng, -40, 40, n), [random_recipe(rng, depth) for _ in range(n)]


def emptied(rng, recipe):
    """The recipe with a count of 0 in one place, if it has a count there."""
    if isinstance(recipe, str):
        return recipe
    kind, *arguments = recipe
    if kind == "struct":
        lengths, places, types = arguments
        chosen = rng.randrange(len(types))
        if rng.random() < 0.5:
            types = [emptied(rng, inner) if i == chosen else inner for i, inner in enumerate(types)]
        else:
            lengths = [0 if i == chosen else length for i, length in enumerate(lengths)]
        return [kind, lengths, places, types]
    if rng.random() < 0.5 or kind in ("dup", "resized", "darray"):
        return [kind, emptied(rng, arguments[0]), *arguments[1:]]
    if kind in ("indexed", "hindexed"):
        return [kind, arguments[0], [0] * len(arguments[1]), arguments[2]]
    if kind == "subarray":
        return [kind, *arguments[:2], [0, *arguments[2][1:]], *arguments[3:]]
    return [kind, arguments[0], 0, *arguments[2:]]


def _vector(low, high):
    return lambda rng, depth: (random_recipe(rng, depth), rng.randint(1, 3), rng.randint(1, 3), rng.randint(low, high))


MAKERS = {
    "contiguous": lambda rng, depth: (random_recipe(rng, depth), rng.randint(1, 4)),
    "vector": _vector(-3, 5),
    "hvector": _vector(-9, 60),
    "indexed": _indexed,
    "hindexed": _indexed,
    "indexed_block": _indexed_block,
    "hindexed_block": _indexed_block,
    "struct": _struct,
    "resized": lambda rng, depth: (random_recipe(rng, depth), rng.randint(-16, 16), rng.randint(1, 48)),
    "subarray": _array,
    "darray": _darray,
    "dup": lambda rng, depth: (random_recipe(rng, depth),),
}


def build(mpi, recipe):
    """The datatype of a recipe, out of a namespace with mpi4py's names."""
    if isinstance(recipe, str):
        return getattr(mpi, recipe)
    kind, *arguments = recipe
    if kind == "struct":
        lengths, places, types = arguments
        return mpi.Datatype.Create_struct(lengths, places, [build(mpi, inner) for inner in types])
    base = build(mpi, arguments[0])
    order = {"C": mpi.ORDER_C, "F": mpi.ORDER_FORTRAN}
    if kind == "subarray":
        return base.Create_subarray(*arguments[1:4], order=order[arguments[4]])
    if kind == "darray":
        _, size, rank, gsizes, distribs, dargs, psizes, storage = arguments
        how = {"B": mpi.DISTRIBUTE_BLOCK, "C": mpi.DISTRIBUTE_CYCLIC, "N": mpi.DISTRIBUTE_NONE}
        dargs = [mpi.DISTRIBUTE_DFLT_DARG if argument is None else argument for argument in dargs]
        distribs = [how[name] for name in distribs]
        return base.Create_darray(size, rank, gsizes, distribs, dargs, psizes, order[storage])
    return getattr(base, f"Create_{kind}")(*arguments[1:])


def memory(seed):
    return np.frombuffer(random.Random(seed).randbytes(MEMORY), np.uint8).copy()


def facts(datatype, recipe):
    """What can be asked of a datatype without looking at constants, whose values differ.

    MPICH counts the hole in front of an element of a distributed array as data.
    """
    return [
        datatype.size,
        *datatype.Get_extent(),
        *(datatype.Get_true_extent() if "darray" not in json.dumps(recipe) else ()),
        *datatype.Get_envelope()[:4],
        datatype.Get_contents()[2] if not datatype.is_named else None,
        datatype.decode()[1],
        datatype.typestr,
    ]


def fits(datatype, count):
    low, high = datatype.true_lb, datatype.true_ub
    shift = (count - 1) * datatype.extent
    return ORIGIN + low + min(0, shift) >= 0 and ORIGIN + high + max(0, shift) <= MEMORY


def main():
    from mpi4py import MPI

    for line in sys.stdin:
        recipe = json.loads(line)
        datatype = build(MPI, recipe)
        found = [facts(datatype, recipe)]
        datatype = datatype.Dup().Commit()
        for count in (1, 3):
            if not fits(datatype, count):
                break
            place, out = memory(1), bytearray(count * datatype.size)
            MPI.COMM_SELF.Sendrecv([place[ORIGIN:], count, datatype], 0, 0, [out, MPI.BYTE], 0, 0)
            back = np.zeros(MEMORY, np.uint8)
            MPI.COMM_SELF.Sendrecv([out, MPI.BYTE], 0, 0, [back[ORIGIN:], count, datatype], 0, 0)
            found.append([out.hex(), back.tobytes().hex()])
        print(json.dumps(found), flush=True)
    os._exit(0)  # thousands of types that nobody frees make MPI_Finalize fail


if __name__ == "__main__":
    main()
