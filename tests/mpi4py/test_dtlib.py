"""`mpi4py.util.dtlib`: what mpi4py itself makes of types that its own tests do not try."""

import numpy as np
import pytest

from tests.mpi4py.ranks import values_of
from xsim_py.mpi4py import MPI
from xsim_py.mpi4py.util.dtlib import from_numpy_dtype, to_numpy_dtype


def test_an_elementary_type_is_a_duplicate_of_the_named_one():
    for made in (from_numpy_dtype("d"), from_numpy_dtype(("d", 3)).decode()[0]):
        assert made.decode() == (MPI.DOUBLE, "DUP", {})


def test_types_of_one_size_keep_apart():
    names = [from_numpy_dtype(code).decode()[0].name for code in ("l", "q", "l")]
    assert names == ["MPI_LONG", "MPI_LONG_LONG_INT", "MPI_LONG"]
    fields = [from_numpy_dtype(f"{code},2{code}").decode()[0].decode()[2]["datatypes"] for code in ("l", "q")]
    assert [[made.typechar for made in (types[0], types[1].decode()[0])] for types in fields] == [["l"] * 2, ["q"] * 2]


# What mpi4py 4.1.2 says over MPICH 5.0.2.
ALIGNED = {
    "an int out of place in a struct that is as much out of place": (True, lambda: _struct(3, _struct(1, MPI.INT))),
    "one that is out of place by itself": (False, lambda: _struct(1, MPI.INT)),
    "a struct with an extent that puts the second out of place": (
        False,
        lambda: MPI.Datatype.Create_struct([1], [0], [MPI.INT]).Create_resized(0, 6),
    ),
    "blocks of which only the first is looked at": (
        True,
        lambda: _struct(0, MPI.SHORT.Create_hindexed([1, 1], [0, 41])),
    ),
    "the same blocks by themselves": (False, lambda: MPI.SHORT.Create_hindexed([1, 1], [0, 41])),
}


def _struct(place, datatype):
    return MPI.Datatype.Create_struct([1, 1], [0, place], [MPI.BYTE, datatype])


@pytest.mark.parametrize("what", ALIGNED)
def test_a_type_is_aligned_where_mpi4py_says_so(what):
    wanted, make = ALIGNED[what]
    assert to_numpy_dtype(make()).isalignedstruct is wanted


def test_what_ranks_name_inside_of_a_struct_is_their_own():
    def program():
        from mpi4py import MPI
        from mpi4py.util.dtlib import from_numpy_dtype

        inner = from_numpy_dtype("i, (2,3)d").decode()[0].decode()[2]["datatypes"]
        if MPI.COMM_WORLD.rank == 0:
            for made in inner:
                made.name = "mine"
        MPI.COMM_WORLD.Barrier()
        return [made.name for made in inner]

    assert values_of(program, ranks=2) == [["mine"] * 2, [""] * 2]


def test_a_type_may_be_given_other_names_of_fields():
    made = from_numpy_dtype("i,3d")
    to_numpy_dtype(made).names = ("a", "b")
    assert to_numpy_dtype(made) == np.dtype("i,3d")
