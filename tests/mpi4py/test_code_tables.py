"""A process that changes a table of codes changes its own."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tests.mpi4py.ranks import values_of


def without_doubles():
    """The program: two of three ranks take an entry out, and the last one does not; each finds its own table."""
    from mpi4py import MPI

    comm, data = MPI.COMM_WORLD, np.arange(2.0)
    taken = MPI._typedict.pop("d") if comm.rank < 2 else None
    comm.Barrier()
    found = ["d" in MPI._typedict, len(MPI._typedict), len(MPI._typedict_c), taken in (None, MPI.DOUBLE)]
    for spec in (data, [data, "d"], [data, MPI.DOUBLE]):
        try:
            MPI.COMM_SELF.Bcast(spec)
            found.append("sent")
        except KeyError as problem:
            found.append(problem.args[0])
    if taken:
        MPI._typedict["d"] = taken
    MPI.COMM_SELF.Bcast(data)
    return found


def one_rank_of_two():
    """The program: what one of two ranks does to its tables, in each way in which a dictionary can be changed."""
    from mpi4py import MPI

    if MPI.COMM_WORLD.rank == 0:
        MPI._typedict_f.clear()
        MPI._typedict_c |= {"mine": MPI.INT}
        MPI._typedict.update(mine=MPI.INT)
        MPI._typedict.setdefault("d", MPI.FLOAT)
        del MPI._typedict["f"]
    MPI.COMM_WORLD.Barrier()
    tables = MPI._typedict, MPI._typedict_c, MPI._typedict_f
    same = all(dict(table) == table.copy() == copy.copy(table) == table | {} == {} | table for table in tables)
    try:
        named = MPI.Datatype.fromcode("mine") == MPI.INT
    except ValueError:
        named = False
    return [len(table) for table in tables], same, named, MPI._typedict["d"] is MPI.DOUBLE, "'i1': " in repr(tables[2])


def test_what_one_rank_takes_out_the_others_have():
    unknown = "cannot map 'd' to MPI datatype"
    assert values_of(without_doubles, ranks=3) == [
        [False, 56, 33, True, unknown, unknown, "sent"],
        [False, 56, 33, True, unknown, unknown, "sent"],
        [True, 57, 33, True, "sent", "sent", "sent"],
    ]


@pytest.mark.parametrize("isolation", ["greenlets", "process"])
def test_one_rank_changes_its_tables_in_all_ways(isolation):
    assert values_of(one_rank_of_two, ranks=2, isolation=isolation) == [
        ([57, 34, 0], True, True, True, False),
        ([57, 33, 17], True, False, True, True),
    ]


def test_the_next_run_begins_with_the_usual_tables():
    from xsim_py.mpi4py import bufspec

    values_of(one_rank_of_two, ranks=2)
    assert not bufspec._FAST
    assert values_of(len_of_tables, ranks=1) == [[57, 33, 17]]
    assert bufspec._FAST


def len_of_tables():
    """The program: how long the tables are."""
    from mpi4py import MPI

    return [len(table) for table in (MPI._typedict, MPI._typedict_c, MPI._typedict_f)]
