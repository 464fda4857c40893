"""Objects in collectives that are computed for all ranks at once: which are, and who runs the code of the program."""

import io
import operator
from typing import Any

import numpy as np
import pytest

from tests.versions import as_checked
from xsim_py import simulate
from xsim_py.mpi.batched.instances import CollectiveInstances


class Witness:
    """Says of itself who has pickled it and who has unpickled it, and when."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def __add__(self, other: Any) -> Any:
        self.said += ["added", *here(), *other.said]
        return self

    def __getstate__(self) -> Any:
        return [*self.said, "pickled", *here()]

    def __setstate__(self, state: Any) -> None:
        self.said = [*state, "unpickled", *here()]


def here() -> tuple[int, int]:
    from mpi4py import MPI

    return MPI.COMM_WORLD.rank, round(MPI.Wtime() * 10**12)


def call(name: str, which: str) -> Any:
    """What one rank gets, and when."""
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    time.sleep(rank % 5 * 1e-7)
    mine = {"witness": Witness, "list": lambda: [rank], "nested": lambda: ((rank, "x" * rank), None)}.get(which)
    obj = mine() if mine is not None else {"number": rank * 1000, "numpy": np.float32(rank)}[which]
    got = {
        "allgather": lambda: comm.allgather(obj),
        "alltoall": lambda: comm.alltoall([obj] * size),
        "allreduce": lambda: comm.allreduce(obj),
        "scan": lambda: comm.scan(obj),
        "exscan": lambda: comm.exscan(obj),
        "allreduce by Python": lambda: comm.allreduce(obj, operator.add),
        "allreduce with a function": lambda: comm.allreduce(obj, lambda x, y: x + y),
    }[name]()
    said = [each.said if isinstance(each, Witness) else each for each in (got if isinstance(got, list) else [got])]
    if isinstance(got, list) and isinstance(got[0], list):
        got[0].append("mine")
    return repr(said), here()


def outcome(monkeypatch: pytest.MonkeyPatch, name: str, which: str, way: str, shards: int = 1) -> tuple[Any, int]:
    """What comes of it, and how many calls were computed."""
    computed = []
    compute = CollectiveInstances._compute
    monkeypatch.setattr(
        CollectiveInstances, "_compute", lambda self, call: [computed.append(done := compute(self, call)), done][1]
    )
    said = io.StringIO()
    result = simulate(call, ranks=8, args=[name, which], collectives=way, shards=shards, stdout=said, stderr=said)
    monkeypatch.undo()
    return (result.values, result.summary["digest"], said.getvalue()), sum(computed)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", ["allgather", "alltoall", "allreduce", "scan", "exscan", "allreduce by Python", "allreduce with a function"]
)
@pytest.mark.parametrize("which", ["witness", "list", "nested", "number", "numpy"])
def test_what_is_computed(monkeypatch: pytest.MonkeyPatch, name: str, which: str) -> None:
    duplicates = 0 if name in ("allgather", "alltoall") else 1  # what the first reduction makes, with an Allreduce
    way, computed = outcome(monkeypatch, name, which, "arrays")
    other, none = outcome(monkeypatch, name, which, "messages")
    assert way == other
    assert none == 0
    assert computed - duplicates == (
        name in ("allgather", "alltoall") or (name != "allreduce with a function" and which != "witness")
    )


def test_arrays_are_as_if_a_rank_had_combined_them_itself() -> None:
    def program() -> Any:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        given = [np.arange(3), np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2), np.zeros((0, 3)), np.array(1.5)]
        calls = comm.allreduce, comm.scan, comm.exscan
        got = [call(each) for call in calls for each in given]
        return [(each.strides, each.flags["OWNDATA"]) if type(each) is np.ndarray else repr(each) for each in got]

    ways = [simulate(program, ranks=8, collectives=way) for way in ("arrays", "messages")]
    if as_checked("numpy"):  # which array is a view of another is up to its version
        assert ways[0].values == ways[1].values
    assert ways[0].values[3][4] == ((8,), True)  # it can be resized


def test_objects_of_ranks_that_pickle_in_their_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def program() -> Any:
        import json

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 3:
            MPI.pickle.__init__(lambda obj: json.dumps(obj).encode(), lambda data: ["by 3", bytes(data)])
        else:
            MPI.pickle.__init__(lambda obj: json.dumps(obj).encode(), lambda data: json.loads(bytes(data)))
        return comm.allgather(comm.rank), comm.alltoall([comm.rank] * comm.size)

    ways = [simulate(program, ranks=9, collectives=way) for way in ("arrays", "messages")]
    assert ways[0].values == ways[1].values
    assert ways[0].values[3][0][8] == ["by 3", b"8"]
    assert ways[0].summary["digest"] == ways[1].summary["digest"]
