"""Where a rank waits for ever for a lock of a window, just those are named that keep it from that."""

from pathlib import Path

import pytest

from xsim_py import simulate
from xsim_py.findings import EPOCH_LIFECYCLE

PROGRAM = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
window, another = (MPI.Win.Allocate(8, 8, comm=comm) for _ in range(2))
if comm.rank == 0:
    MINE
    comm.recv(source=1)
elif comm.rank == 1:
    comm.recv(source=2)
    WANTED
else:
    window.Lock(2)
    comm.send(0, 1)
    comm.recv(source=0)
"""
CULPRIT = (12, (2,))


@pytest.mark.parametrize("wanted", ["window.Lock(2)", "window.Lock(2, MPI.LOCK_SHARED)"])
@pytest.mark.parametrize("mine", ["window.Lock(1, MPI.LOCK_SHARED)", "another.Lock(2)", "another.Lock_all()"])
def test_who_has_another_lock_is_not_blamed(tmp_path: Path, mine: str, wanted: str) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("MINE", mine).replace("WANTED", wanted))
    result = simulate(path, ranks=3, check=True)
    assert [(each.line, each.ranks) for each in result.findings if each.category == EPOCH_LIFECYCLE] == [CULPRIT]
    assert result.ended == "stalled"


def test_all_that_share_a_lock_are_named(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    shared = PROGRAM.replace("window.Lock(2)", "window.Lock(2, MPI.LOCK_SHARED)")
    path.write_text(shared.replace("MINE", "window.Lock_all()").replace("WANTED", "window.Lock(2)"))
    found = [each for each in simulate(path, ranks=3, check=True).findings if each.category == EPOCH_LIFECYCLE]
    assert [(each.line, each.ranks) for each in found] == [(6, (0,)), CULPRIT]
