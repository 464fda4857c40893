"""Random nested datatypes, through the names that programs use: what can be asked of them, and every way to pack them.

`test_datatype` compares what messages carry; this also knows counts of zero, positions within a buffer, external32, the
recipe of a type, and that nothing is written where no element is.
"""

import json
import random
import subprocess
import sys
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.mpi4py import datatype_recipes as recipes
from tests.mpi4py import packing
from tests.mpi4py.data_module import simulated
from xsim_py import simulate

BOUNDS = 3  # where they are in the answers
# MPICH crashes over these in external32, or gives a size of 4.
NOT_EXTERNAL = ("struct", "darray", "_INT")


class RealTypes:
    """A process with the real mpi4py that answers one recipe after the other."""

    def __enter__(self) -> "RealTypes":
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, packing.__file__], stdin=pipe, stdout=pipe, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def answers(self, request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


def ours(request: Any) -> Any:
    def main() -> Any:
        from mpi4py import MPI

        return packing.answers(MPI, recipes.build, *request)

    result = simulate(main, ranks=1)
    assert result.exit_status == 0, result.report
    return json.loads(json.dumps(result.values[0]))


def comparable(recipe: Any, has_empty_part: bool, answers: tuple[list[Any], list[Any]]) -> None:
    """Take out what is a matter of taste."""
    if "darray" in json.dumps(recipe):  # MPICH counts the hole in front of such an element as data
        for each in answers:
            each[BOUNDS] = each[BOUNDS][:2]
    if has_empty_part and answers[0][BOUNDS] != answers[1][BOUNDS]:  # so are the strides of whatever is around it
        for each in answers:
            del each[BOUNDS:]


def test_packing_and_everything_asked_of_a_type_is_what_it_is_in_mpich() -> None:
    mpi = simulated()

    @given(st.integers(0, 2**32), st.integers(1, 4), st.booleans())
    @example(0, 1, True)
    @example(462054494, 2, False)  # a struct of a short and a type of one short
    def same(seed: int, depth: int, is_emptied: bool) -> None:
        rng = random.Random(seed)
        recipe = recipes.random_recipe(rng, depth)
        if is_emptied:
            recipe = recipes.emptied(rng, recipe)
        datatype = recipes.build(mpi, recipe)
        has_empty_part = recipes.has_empty_part(datatype)
        is_external = not has_empty_part and not any(word in json.dumps(recipe) for word in NOT_EXTERNAL)
        request = recipe, packing.places_of(datatype), is_external
        answers = real.answers(request), ours(request)
        comparable(recipe, has_empty_part, answers)
        assert answers[0] == answers[1]

    with RealTypes() as real:
        same()
