"""Random programs of locks: what excludes each other never mixes, and nothing that is added is lost.

Read, add and write back is right only under an exclusive lock; accumulates are atomic under any. So whatever the order,
the sums at the end are known. Sleeps and networks make the orders many.
"""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mpi.rma.machines import MACHINES
from xsim_py import simulate

CELLS = 3


class Step(NamedTuple):
    """One epoch of a rank: it adds ``value`` to a cell of each of the targets, in a certain way."""

    way: str
    targets: tuple[int, ...]
    cell: int
    value: int
    sleep_us: int


WAYS = ["write back", "shared", "exclusive", "all", "all, flushed", "by request", "compare and swap"]


@st.composite
def programs(draw: Any) -> list[list[Step]]:
    ranks = draw(st.integers(1, 4))
    target = st.integers(0, ranks - 1)
    targets = st.lists(target, min_size=1, max_size=3).map(tuple)
    step = st.builds(
        Step,
        st.sampled_from(WAYS),
        targets,
        st.integers(0, CELLS - 1),
        st.integers(1, 9),
        st.sampled_from([0, 0, 1, 7]),
    )
    return [draw(st.lists(step, max_size=8)) for _ in range(ranks)]


def walk(program: list[list[Step]]) -> list[int]:
    """What one rank does; its memory at the end."""
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    win = MPI.Win.Allocate(8 * CELLS, 8, comm=comm)
    memory = np.frombuffer(win.tomemory(), "i8")

    def write_back(target: int, step: Step) -> None:
        found = np.zeros(1, "i8")
        win.Get([found, MPI.INT64_T], target, step.cell)
        win.Flush(target)
        time.sleep(step.sleep_us * 1e-6)
        win.Put([found + step.value, MPI.INT64_T], target, step.cell)

    def swap(target: int, step: Step) -> None:
        expected, found = np.zeros(1, "i8"), np.full(1, -1, "i8")
        while True:
            win.Compare_and_swap(expected + step.value, expected, found, target, step.cell)
            win.Flush(target)
            if found[0] == expected[0]:
                return
            expected[:] = found

    def add(target: int, step: Step) -> None:
        data = [np.array([step.value]), MPI.INT64_T]
        if step.way == "by request":
            win.Raccumulate(data, target, step.cell).Wait()
        else:
            win.Accumulate(data, target, step.cell)

    for step in program[comm.rank]:
        if step.way.startswith("all"):
            win.Lock_all()
            for target in step.targets:
                add(target, step)
                if "flushed" in step.way:
                    win.Flush(target)
            time.sleep(step.sleep_us * 1e-6)
            win.Unlock_all()
            continue
        alone = step.way in ("write back", "exclusive")
        for target in step.targets:
            win.Lock(target, MPI.LOCK_EXCLUSIVE if alone else MPI.LOCK_SHARED)
            {"write back": write_back, "compare and swap": swap}.get(step.way, add)(target, step)
            win.Unlock(target)
        time.sleep(step.sleep_us * 1e-6)
    comm.Barrier()
    win.Lock(comm.rank)
    found = memory.tolist()
    win.Unlock(comm.rank)
    win.Free()
    return found


@settings(max_examples=max(20, settings().max_examples // 5))
@given(programs(), st.sampled_from(sorted(MACHINES)), st.integers(2, 3))
def test_nothing_is_lost_and_nothing_is_mixed(program: list[list[Step]], machine: str, shards: int) -> None:
    added: Counter[tuple[int, int]] = Counter()
    for steps in program:
        for step in steps:
            for target in step.targets:
                added[target, step.cell] += step.value
    told: dict[str, Any] = {"ranks": len(program), "machine": MACHINES[machine], "args": [program]}
    one = simulate(walk, **told)
    assert (one.ended, one.exit_status) == ("finished", 0), one.report
    assert list(one.values) == [[added[rank, cell] for cell in range(CELLS)] for rank in range(len(program))]
    several = simulate(walk, **told, shards=min(shards, len(program)))
    assert (list(several.values), several.digest) == (list(one.values), one.digest)
