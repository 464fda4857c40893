"""Reports over the layer name the program's communicator, its ranks, roots and numbers of calls, repaired or not."""

import re

import pytest

from tests.campaign import CAMPAIGN
from tests.mpi4py.resilience.layered import DIE, layered

pytestmark = pytest.mark.usefixtures("in_this_process")

BEFORE = """
me = comm.rank
win = MPI.Win.Create(np.zeros(8), 8, comm=comm); win.Fence()
file = MPI.File.Open(comm, "file", MPI.MODE_CREATE | MPI.MODE_RDWR)
half = comm.Split(0, -comm.rank); twin = comm.Dup()
comm.allreduce(1)
if comm.rank == 1 and not {whole}: os.kill(os.getpid(), 9)
comm.gather(comm.rank, root=4); half.bcast(1, root=0); twin.barrier(); comm.scan(1); comm.barrier(); comm.reduce(1)
win.Fence()
file.Write_at_all(comm.rank, b"x")
"""

WRONG = {
    "roots": ("comm.bcast(1, root=2 if me < 4 else 3)", lambda me: f"Comm.bcast(root={2 if me < 4 else 3})"),
    "operations": (
        "comm.allreduce(1) if me == 3 else comm.gather(1, root=4)",
        lambda me: "Comm.allreduce()" if me == 3 else "Comm.gather(root=4)",
    ),
    "buffers": (
        "comm.Reduce(np.zeros(1 + (me == 4)), np.zeros(1) if me == 5 else None, root=5)",
        lambda me: f"Comm.Reduce(root=5, {16 if me == 4 else 8} bytes, SUM)",
    ),
    "blocks": (
        "comm.Scatter(np.zeros(8), np.zeros(1), root=0 if me == 5 else 4)",
        lambda me: f"Comm.Scatter(root={0 if me == 5 else 4}, 8 bytes)",
    ),
    "gathered blocks": (
        "comm.Gather(np.zeros(1), np.zeros(8), root=6 if me == 5 else 4)",
        lambda me: f"Comm.Gather(root={6 if me == 5 else 4}, 8 bytes)",
    ),
    "a duplicate": (
        "twin.bcast(1, root=4) if me == 5 else twin.barrier()",
        lambda me: "Comm.bcast(root=4)" if me == 5 else "Comm.Barrier()",
    ),
    "an allreduce": (
        "comm.bcast(1, root=5) if me == 4 else comm.Allreduce(np.zeros(2), np.zeros(2))",
        lambda me: "Comm.bcast(root=5)" if me == 4 else "Comm.Allreduce(16 bytes, SUM)",
    ),
    "one who receives": (
        "comm.recv(source=2) if me == 3 else comm.reduce(1, root=3)",
        lambda me: "" if me == 3 else "Comm.reduce(root=3)",
    ),
    "a window": ("comm.recv(source=2) if me == 3 else win.Fence()", lambda me: "" if me == 3 else "Win.Fence()"),
    "a file": (
        "file.Set_size(9) if me == 3 else file.Write_at_all(0, b'')",
        lambda me: "File.Set_size()" if me == 3 else "File.Write_at_all()",
    ),
    "a split": (
        "comm.bcast(1, root=5) if me == 5 else comm.Split(0)",
        lambda me: "Comm.bcast(root=5)" if me == 5 else "Comm.Split()",
    ),
}
"""Calls with something wrong, and the collective that each rank is in."""

_PAIR = re.compile(r"ranks? ([\d, -]+?)(?: at [^:\n]*:| is in| in) (\w+\.\w+\(.*?\))(?=[ ;,\n]|$)", re.MULTILINE)


def named(report: str) -> set[tuple[int, str]]:
    """Return which ranks a report says to be in which collectives."""
    found: set[tuple[int, str]] = set()
    for who, note in _PAIR.findall(report):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", who):
            found |= {(rank, note) for rank in range(int(first), int(last or first) + 1)}
    return found


@pytest.mark.parametrize("call", WRONG)
def test_a_report_names_the_ranks_roots_and_numbers_of_the_program(call: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, noted = WRONG[call]
    of = {"a duplicate": "a communicator of 8 ranks", "a window": "a window of 8 ranks", "a file": "file 'file' of 8"}
    number = {"2" if call == "a duplicate" else "9"}
    runs = [({"resilience": None}, True), ({}, True), ({}, False), ({"options": {"group": 3}}, False)]
    for told, whole in runs if CAMPAIGN else runs[list(WRONG).index(call) % 2 :: 2]:
        result = layered(BEFORE.format(whole=whole) + code, ranks=8, **told)[1]
        pairs = named(result.report)
        assert result.ended == "stalled"
        assert pairs, result.report
        assert pairs <= {(rank, noted(rank)) for rank in range(8) if whole or rank != 1}, result.report
        assert f" on {of.get(call, 'MPI_COMM_WORLD')}" in result.report
        assert set(re.findall(r"collective number (\d+)", result.report)) <= number
        assert not re.search(r"of 7 ranks|a part of|the masters of", result.report)


@pytest.mark.parametrize("call", ["roots", "an allreduce", "a window"])
def test_shards_change_no_report(call: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = BEFORE.format(whole=False) + WRONG[call][0]
    runs = [layered(code, ranks=8, shards=shards, machine="shmem")[1] for shards in (1, 2, 3, 7)]
    assert len({(result.report, result.digest) for result in runs}) == 1


def test_messages_of_collectives_that_nobody_received_are_those_of_the_program():
    code = "comm.bcast(1, root=0) if comm.rank == 0 else comm.gather(1, root=0)"
    plain, result = (layered(code, ranks=2, **told)[1] for told in ({"resilience": None}, {}))
    assert result.report == plain.report
    assert plain.report.startswith("collective mismatch on MPI_COMM_WORLD, collective number 1: rank 0 in Comm.bcast")


def test_a_root_that_is_no_rank_is_refused_with_the_ranks_of_the_program():
    code = DIE + "comm.Barrier()\ntry: comm.bcast(1, root=4)\nexcept MPI.Exception as error: print(error)"
    assert layered(code)[0] == "MPI_ERR_ROOT: invalid root (root 4 is not in 0..3)\n" * 3


def test_a_call_that_is_refused_is_explained_once():
    out, result = layered("comm.allgather(1)", ranks=1 + 1)
    assert out.count("says which calls it covers") == 1
    assert result.report.endswith("NotImplementedError: Comm.allgather: the resilience layer legio does not cover it")
