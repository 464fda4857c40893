"""Random nested datatypes against MPICH: bounds, contents, packed bytes and where they go when unpacked."""

import json
import random

import numpy as np

from tests.mpi4py import datatype_recipes as recipes
from tests.mpi4py.data_module import python, real_answers, simulated

HOW_MANY = 700


def answer(mpi, recipe):
    datatype = recipes.build(mpi, recipe)
    core = datatype._impl
    found = [recipes.facts(datatype, recipe)]
    for count in (1, 3):
        if not recipes.fits(datatype, count):
            break
        packed = core.pack(memoryview(recipes.memory(1)), recipes.ORIGIN, count)
        back = np.zeros(recipes.MEMORY, np.uint8)
        assert core.unpack(packed, memoryview(back), recipes.ORIGIN, count) == len(packed)
        found.append([packed.hex(), back.tobytes().hex()])
    return json.loads(json.dumps(found))


def test_random_datatypes_are_what_mpich_makes_of_them():
    mpi = simulated()
    rng = random.Random(2024)
    drawn = [recipes.random_recipe(rng, rng.randint(1, 4)) for _ in range(HOW_MANY)]
    chosen = [recipe for recipe in drawn if not recipes.has_empty_part(recipes.build(mpi, recipe))]
    assert len(chosen) > HOW_MANY * 0.9
    real = real_answers(*python(recipes.__file__), text="\n".join(map(json.dumps, chosen)))
    assert len(real) == len(chosen)
    different = [recipe for recipe, other in zip(chosen, real, strict=True) if answer(mpi, recipe) != other]
    assert not different
