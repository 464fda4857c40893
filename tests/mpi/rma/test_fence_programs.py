"""Random legal programs of fence epochs leave what a sequential model leaves, on any machine and number of shards.

What is legal: in one epoch an element that is put is touched by nothing else; elements that are accumulated are only
accumulated, all with the same operation; what is got is not changed.
"""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mpi.rma.machines import MACHINES
from xsim_py import simulate

CELLS = 12
OPERATIONS = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "BXOR": np.bitwise_xor, "REPLACE": None}


class Op(NamedTuple):
    """One operation of ``rank`` on ``count`` elements of ``target``, every ``stride``-th from ``first`` on."""

    kind: str
    rank: int
    target: int
    first: int
    count: int
    stride: int
    value: int

    @property
    def cells(self) -> list[int]:
        return list(range(self.first, self.first + self.count * self.stride, self.stride))

    @property
    def values(self) -> np.ndarray:
        return np.arange(self.count, dtype="i8") * 7 + self.value


def operations(ranks: int) -> Any:
    rank = st.integers(0, ranks - 1)
    kinds = st.sampled_from(["put", "get", "get_accumulate", *OPERATIONS])
    op = st.builds(Op, kinds, rank, rank, st.integers(0, 5), st.integers(0, 3), st.integers(1, 3), st.integers(-9, 9))
    return op.filter(lambda op: op.first + op.count * op.stride <= CELLS)


@st.composite
def programs(draw: Any) -> tuple[int, list[list[Op]]]:
    ranks = draw(st.integers(1, 4))
    epochs = draw(st.lists(st.lists(operations(ranks), max_size=14), min_size=1, max_size=4))
    return ranks, [legal(epoch) for epoch in epochs]


def legal(epoch: list[Op]) -> list[Op]:
    """The operations that may stand in one epoch with those before them."""
    use: dict[tuple[int, int], str] = {}
    taken = []
    for number, op in enumerate(epoch):
        # Everybody puts what nobody else touches; so does who replaces or who wants to know what was there.
        alone = op.kind in ("put", "REPLACE", "get_accumulate")
        role = f"{op.kind} {number}" if alone else op.kind
        places = [(op.target, cell) for cell in op.cells]
        if all(use.get(place, role) == role for place in places):
            use.update(dict.fromkeys(places, role))
            taken.append(op)
    return taken


def model(ranks: int, epochs: list[list[Op]]) -> list[tuple[list[int], list[list[int]]]]:
    """The memory of each rank at the end, and what it got, in order."""
    memory = np.arange(ranks * CELLS, dtype="i8").reshape(ranks, CELLS)
    got: list[list[list[int]]] = [[] for _ in range(ranks)]
    for epoch in epochs:
        for op in epoch:
            row, cells = memory[op.target], op.cells
            if op.kind in ("get", "get_accumulate"):
                got[op.rank].append(row[cells].tolist())
            if op.kind in ("put", "REPLACE"):
                row[cells] = op.values
            elif op.kind == "get_accumulate":
                row[cells] += op.values
            elif op.kind != "get":
                row[cells] = OPERATIONS[op.kind](row[cells], op.values)
    return [(memory[rank].tolist(), got[rank]) for rank in range(ranks)]


def walk(epochs: list[list[Op]]) -> tuple[list[int], list[list[int]]]:
    """What one rank does."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    memory = np.arange(CELLS, dtype="i8") + comm.rank * CELLS
    win = MPI.Win.Create(memory, 8, comm=comm)
    types = {stride: MPI.INT64_T.Create_vector(1, 1, 1).Create_resized(0, 8 * stride) for stride in (1, 2, 3)}
    for stride in types:
        types[stride].Commit()
    got = []
    win.Fence()
    for epoch in epochs:
        for op in epoch:
            if op.rank != comm.rank:
                continue
            where, values, result = [op.first, op.count, types[op.stride]], op.values, np.zeros(op.count, "i8")
            if op.kind == "put":
                win.Put([values, MPI.INT64_T], op.target, where)
            elif op.kind == "get":
                win.Get([result, MPI.INT64_T], op.target, where)
            elif op.kind == "get_accumulate":
                win.Get_accumulate([values, MPI.INT64_T], [result, MPI.INT64_T], op.target, where)
            else:
                win.Accumulate([values, MPI.INT64_T], op.target, where, getattr(MPI, op.kind))
            if "get" in op.kind:
                got.append(result)
        win.Fence()
    win.Free()
    return memory.tolist(), [result.tolist() for result in got]


@settings(max_examples=max(20, settings().max_examples // 5))
@given(programs(), st.sampled_from(sorted(MACHINES)), st.integers(2, 3))
def test_random_programs_leave_what_the_model_leaves(program: Any, machine: str, shards: int) -> None:
    ranks, epochs = program
    told: dict[str, Any] = {"ranks": ranks, "machine": MACHINES[machine], "args": [epochs]}
    one = simulate(walk, **told)
    assert (one.ended, one.exit_status) == ("finished", 0), one.report
    assert list(one.values) == model(ranks, epochs)
    several = simulate(walk, **told, shards=min(shards, ranks))
    assert (list(several.values), several.digest) == (list(one.values), one.digest)
