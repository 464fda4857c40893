"""The layer costs an Agree after each collective call, and with a failure what the calls of ULFM cost by hand."""

import io
from typing import Any

import pytest

from tests.campaign import CAMPAIGN
from tests.mpi4py.resilience.layered import layered
from xsim_py import simulate
from xsim_py.mpi4py import collective_calls, p2p
from xsim_py.mpi4py.comm import Comm
from xsim_py.mpi4py.file import File
from xsim_py.mpi4py.win import Win
from xsim_py.report import Result

pytestmark = pytest.mark.usefixtures("in_this_process")


COVERED = """
def agreed():
    if by_hand: comm.Agree(1)
if by_hand: MPI._commctx_intra(comm)  # what the first reduction of objects makes, which the layer agrees on, too
agreed()
comm.scan(1)
agreed()
windows = []
n, x, y = comm.size, np.arange(10.0) + comm.rank, np.zeros(10)
for call in (
    lambda: comm.Allreduce(x, y), lambda: comm.Barrier(), lambda: comm.bcast("hi", 1), lambda: comm.Bcast(y, 1),
    lambda: comm.gather(n), lambda: comm.Gather(x, np.zeros(10 * n)), lambda: comm.scatter(range(n), 1),
    lambda: comm.Scatter(np.zeros(10 * n), y), lambda: comm.reduce(1), lambda: comm.Reduce(x, y, root=1),
    lambda: comm.allreduce(1), lambda: comm.Scan(x, y), lambda: comm.scan(1), lambda: comm.Dup(),
    lambda: comm.Split(comm.rank % 2), lambda: comm.Create(comm.group), lambda: comm.Split_type(MPI.COMM_TYPE_SHARED),
    lambda: windows.append(MPI.Win.Create(x, 8, comm=comm)), lambda: windows[0].Fence(),
):
    call()
    agreed()
    comm.sendrecv(x, (comm.rank + 1) % n, source=(comm.rank - 1) % n)
    print(comm.rank, MPI.Wtime())
"""


@pytest.mark.parametrize("agree", ["two_phase", "early_returning"])
@pytest.mark.parametrize(("machine", "ranks"), [("gige", 2), ("torus3d", 9), ("shmem", 5)])
def test_without_failures_it_costs_an_agree_after_each_collective_call(machine: str, ranks: int, agree: str):
    told = {"ranks": ranks, "machine": machine, "set": {"mpi.ulfm.agree": agree}}
    out, over = layered(f"by_hand = False{COVERED}", **told)
    said, plain = layered(f"by_hand = True{COVERED}", **told, resilience=None, ft=True)
    assert over.ended == plain.ended == "finished"
    assert over.virtual_time_ps == plain.virtual_time_ps
    assert (over.messages, out) == (plain.messages, said)


FLAT = """
def barrier(comm):
    while True:
        try:
            comm.Barrier()
            well = 1
        except MPI.Exception:
            well = 0
        try:
            well = comm.Agree(well)
        except MPI.Exception:
            well = 0
        if well:
            return comm
        comm = comm.Shrink()
for _ in range(4):
    comm = barrier(comm)
    print(MPI.Wtime())
"""
LEVELS = """
size = 3
local, masters = comm.Split(comm.rank // size), comm.Split(0 if comm.rank % size == 0 else MPI.UNDEFINED)
time.sleep(1 - MPI.Wtime())
for _ in range(4):
    while True:
        well = 1
        try:
            local.Barrier()
            if masters: masters.Barrier()
            local.Barrier()
        except MPI.Exception:
            well = 0
            local.Revoke()
            if masters: masters.Revoke()
        try:
            well = comm.Agree(well)
        except MPI.Exception:
            well = 0
        if well:
            break
        comm.Ack_failed()
        local = local.Shrink()
        if masters: masters = masters.Shrink()
    print(MPI.Wtime())
"""
BARRIERS = "for _ in range(4):\n    comm.Barrier()\n    print(MPI.Wtime())\n"


@pytest.mark.sampled
@pytest.mark.parametrize("victims", [(4,), (5, 7), (1, 2)])
@pytest.mark.parametrize("after_us", [0, 30])
@pytest.mark.parametrize("ulfm", ["two_phase", "agreement"])
def test_a_repair_costs_what_the_same_calls_of_ulfm_cost(victims: tuple[int, ...], after_us: int, ulfm: str):
    told = {"ranks": 9, "set": {"mpi.ulfm.shrink": ulfm}}
    start = "time.sleep(1 - MPI.Wtime())\n"
    told["fail"] = [f"rank={rank}@{1_000_100 + after_us + place}us" for place, rank in enumerate(victims)]
    out, over = layered(start + BARRIERS, **told)
    said, plain = layered(start + FLAT, **told, resilience=None)
    assert (out, over.virtual_time_ps, over.messages) == (said, plain.virtual_time_ps, plain.messages)
    assert over.ended == "finished"
    assert len(over.failures) == len(victims)
    out, over = layered(start + BARRIERS, **told, options={"group": 3})
    said, plain = layered(LEVELS, **told, resilience=None)
    assert out == said
    assert over.virtual_time_ps == plain.virtual_time_ps


def repair_ps(result: Result) -> int:
    """Return how long the slowest rank shrank communicators."""
    begun = {mark.rank: mark.time_ps for mark in result.trace.marks if mark.kind == "begin"}
    return max(mark.time_ps - begun[mark.rank] for mark in result.trace.marks if mark.kind == "end")


def test_the_hierarchical_variant_shrinks_two_small_communicators():
    """S(k) + S(n/k) in place of S(n); and as a shrink takes 4 log2(n) latencies here, that is the same."""
    shrinks = {}
    for ranks in (8, 64):
        code = "comm.Barrier()\nbegin = MPI.Wtime()\ncomm.Shrink()\nprint(MPI.Wtime() - begin)"
        shrinks[ranks] = max(map(float, layered(code, ranks=ranks, resilience=None, ft=True)[0].split()))
    told: dict[str, Any] = {"ranks": 64, "fail": "rank=11 before its 2nd Barrier", "trace": True}
    flat = repair_ps(layered(BARRIERS, **told)[1]) / 1e12
    levels = repair_ps(layered(BARRIERS, **told, options={"group": 8})[1]) / 1e12
    assert flat == pytest.approx(shrinks[64], rel=0.05)
    assert levels == pytest.approx(2 * shrinks[8], rel=0.05)
    assert 2 * shrinks[8] == pytest.approx(shrinks[64], rel=0.05)


def test_a_run_without_the_layer_has_nothing_of_it():
    kept = [(owner, dict(vars(owner))) for owner in (Comm.__mro__[1], Win, File, p2p.PointToPoint)]
    names, modules = dict(collective_calls._NAMES), dict(vars(p2p))
    layered("comm.Barrier()")
    assert all(dict(vars(owner)) == before for owner, before in kept)
    assert names == collective_calls._NAMES
    assert vars(p2p) == modules


def test_thousands_of_ranks():
    """4,096 in a campaign, otherwise 256."""
    ranks = 4096 if CAMPAIGN else 256
    out = io.StringIO()
    code = "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\nfor _ in range(2): total = comm.allreduce(1)\n"
    code += "if comm.rank == 0: print(total)"
    for options in ({}, {"mpi.resilience.group": 64}):
        result = simulate(
            code, kind="code", ranks=ranks, resilience="legio", set=options, stdout=out,
            fail=["rank=64 before its 2nd allreduce", f"rank={ranks - 1}@1us"],
        )  # fmt: skip
        assert result.ended == "finished"
    assert out.getvalue() == f"{ranks - 2}\n" * 2
