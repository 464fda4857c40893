"""Windows of all kinds: shared memory, many ranks, ranks that fail, and programs that wait for ever."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cases import ROOT
from tests.mpi.rma.machines import MACHINES
from tests.process.launch import launch
from tests.real_mpi import MPIEXEC, mpiexec
from xsim_py import simulate


def stencil(steps: int) -> list[float]:
    """One part of a rod each, that all ranks of the node can touch."""
    from mpi4py import MPI

    node = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    win = MPI.Win.Allocate_shared(8 * 2, 8, comm=node)
    first, unit = win.Shared_query(MPI.PROC_NULL)
    assert (len(first), unit) == (16, 8)
    parts = [np.frombuffer(win.Shared_query(rank)[0], "f8") for rank in range(node.size)]
    parts[node.rank][:] = node.rank
    win.Fence()
    for _ in range(steps):
        left = parts[node.rank - 1][1] if node.rank else 0.0
        win.Fence()
        parts[node.rank][:] = (left + parts[node.rank][0]) / 2, parts[node.rank][0] + 1
        win.Fence()
    values = parts[0].tolist() + parts[-1].tolist()
    win.Fence(MPI.MODE_NOSUCCEED)
    win.Free()
    return [node.size, *values]


def rod(ranks: int, steps: int) -> list[float]:
    parts = [[float(rank), float(rank)] for rank in range(ranks)]
    for _ in range(steps):
        lefts = [0.0, *(part[1] for part in parts[:-1])]
        parts = [[(left + part[0]) / 2, part[0] + 1] for left, part in zip(lefts, parts, strict=True)]
    return [float(ranks), *parts[0], *parts[-1]]


@pytest.mark.parametrize("cores", [1, 2, 3, 4])
def test_the_ranks_of_a_node_share_memory(cores: int):
    told: dict[str, Any] = {"machine": "gige", "set": {"machine.cores_per_node": str(cores)}, "args": [5]}
    one = simulate(stencil, ranks=6, **told)
    expected = [rod(len(range(6)[at : at + cores]), 5) for at in range(0, 6, cores)]
    assert list(one.values) == [expected[rank // cores] for rank in range(6)]
    for shards in (2, 5):  # which cut nodes, too
        other = simulate(stencil, ranks=6, **told, shards=shards)
        assert (other.digest, list(other.values)) == (one.digest, list(one.values))


def histogram(keys: int) -> list[int]:
    """Everybody counts in everybody's memory, in an order that depends on the network only."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    win = MPI.Win.Allocate(8 * 4, 8, comm=comm)
    memory = np.frombuffer(win.tomemory(), "i8")
    random = np.random.default_rng(comm.rank)
    tickets = []
    win.Lock_all()
    for key in random.integers(0, 4 * comm.size, keys).tolist():
        ticket = np.zeros(1, "i8")
        win.Fetch_and_op([np.ones(1, "i8"), MPI.INT64_T], [ticket, MPI.INT64_T], key % comm.size, key // comm.size)
        win.Flush_local(key % comm.size)
        tickets.append(int(ticket[0]))
    win.Unlock_all()
    comm.Barrier()
    win.Free()
    return [int(memory.sum()) if len(memory) else 0, *tickets]


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_the_order_of_atomic_operations_is_the_same_for_any_number_of_shards(machine: str):
    runs = [simulate(histogram, ranks=4, machine=MACHINES[machine], args=[25], shards=n) for n in (1, 2, 3, 4)]
    assert {run.digest for run in runs} == {runs[0].digest}
    assert all(list(run.values) == list(runs[0].values) for run in runs)
    assert {len(values) for values in runs[0].values} == {26}


def test_an_exclusive_lock_keeps_out_those_that_lock_all(tmp_path: Path):
    program = """
        import time
        import numpy as np
        win = MPI.Win.Allocate(8, 8, comm=comm)
        memory = np.frombuffer(win.tomemory(), "i8")
        comm.Barrier()
        if rank == 0:
            win.Lock(2)
            time.sleep(1)
            win.Put(np.array([5], "i8"), 2)
            win.Unlock(2)
        elif rank == 1:
            time.sleep(0.5)
            win.Lock_all()
            found = np.zeros(1, "i8")
            win.Get(found, 2)
            win.Put(np.array([6], "i8"), 2)
            print("in between", MPI.Wtime() < 1)
            win.Unlock_all()
            print(found.tolist(), MPI.Wtime() > 1)
        comm.Barrier()
        if rank == 2:
            print(memory.tolist())
        win.Free()
    """
    assert launch(tmp_path, program, ranks=3).lines == ["in between True", "[5] True", "[6]"]


def stalled(tmp_path: Path, text: str, ranks: int = 2) -> str:
    done = launch(tmp_path, f"win = MPI.Win.Allocate(8, comm=comm)\ncomm.Barrier()\n{text}", ranks=ranks)
    assert (done.result.ended, done.result.exit_status) == ("stalled", 3)
    return str(done.result.report)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("win.Start(win.group.Excl([rank]))", "Win.Start on a window of 2 ranks: Win.Post of rank 1"),
        ("win.Post(win.group.Excl([rank]))\nwin.Wait()", "Win.Wait on a window of 2 ranks: Win.Complete of rank 1"),
        ("if rank == 0: win.Fence()", "Win.Fence() on a window of 2 ranks"),
        ("win.Lock(rank)\nwin.Lock(1 - rank)", "Win.Lock on a window of 2 ranks: the lock of rank 1"),
    ],
)
def test_who_waits_for_ever_says_for_what(tmp_path: Path, text: str, reason: str):
    assert reason in stalled(tmp_path, text)


def test_a_cycle_of_starts_is_shown(tmp_path: Path):
    report = stalled(tmp_path, "win.Start(win.group.Excl([rank]))")
    assert "cycle: rank 0 waits for rank 1 waits for rank 0" in report


NO_LOCK = "win.Lock(1, assertion=MPI.MODE_NOCHECK)"
FAILING = """
    import time
    import numpy as np
    win = MPI.Win.Allocate(8, 8, comm=comm)
    comm.Barrier()
    def attempt(call, *args):
        try:
            call(*args)
            return "done"
        except MPI.Exception as error:
            return error.Get_error_class() == MPI.ERR_PROC_FAILED
    if rank == 1:
        time.sleep(1)
    elif rank == 0:
        time.sleep(0.2)
        {what}
        print(found, attempt(win.Lock, 2), attempt(win.Put, np.ones(1), 2), attempt(win.Unlock, 2))
"""


@pytest.mark.parametrize("detector", ["timeout", "heartbeat"])
@pytest.mark.parametrize(
    "what",
    [
        ["found = attempt(win.Lock, 1)"],
        [NO_LOCK, "win.Put(np.ones(1), 1)", "found = attempt(win.Flush, 1)", "attempt(win.Unlock, 1)"],
        [NO_LOCK, "found = attempt(win.Rget(np.ones(1), 1).Wait)", "attempt(win.Unlock, 1)"],
    ],
    ids=["Lock", "Flush", "Rget"],
)
def test_who_waits_for_a_rank_that_fails_is_told(tmp_path: Path, what: list[str], detector: str):
    told: dict[str, Any] = {"fail": ["rank=1@100ms"], "ft": True, "set": {"mpi.detector.type": detector}}
    done = launch(tmp_path, FAILING.format(what=f"\n{8 * ' '}".join(what)), ranks=3, **told)
    assert done.err == ""
    assert done.lines == ["True done done done"]


if MPIEXEC.exists():

    def test_real_processes_that_cut_a_node_can_not_share_its_memory(monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(ROOT)
        code = "from mpi4py import MPI; MPI.Win.Allocate_shared(8); print('own'); "
        options = ["run", "-n", "2", "--machine", "gige", "--set", "machine.cores_per_node=2"]
        done = mpiexec(2, "-m", "xsim_py", *options, "-c", f"{code}MPI.Win.Allocate_shared(8, comm=MPI.COMM_WORLD)")
        assert (done.returncode, done.stdout) == (1, "own\nown\n")
        assert "NotImplementedError: MPI_Win_allocate_shared: the ranks of this node are simulated by" in done.stderr
