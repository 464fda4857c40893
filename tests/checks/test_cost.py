"""A checked run keeps little of what it has seen, and its further runs come to an end."""

import io
from pathlib import Path

from xsim_py import simulate
from xsim_py.checks import rerun
from xsim_py.checks.monitor import Monitor

ENDLESS = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
if comm.rank:
    comm.send(comm.rank, dest=0)
else:
    first = comm.recv(source=MPI.ANY_SOURCE)
    while first == 2:
        comm.iprobe()
    comm.recv()
"""
RING = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
for i in range(2000):
    comm.sendrecv(i, (comm.rank + 1) % comm.size, 0, None, (comm.rank - 1) % comm.size, 0)
    if i % 100 == 0:
        comm.barrier()
"""


def test_an_endless_other_match_is_cut(tmp_path: Path):
    path = tmp_path / "endless.py"
    path.write_text(ENDLESS)
    result = simulate(path, ranks=3, check=True)
    assert result.ended == "finished"
    assert result.findings == ()


def test_what_all_ranks_have_got_through_is_forgotten(tmp_path: Path, monkeypatch):
    monitors = []

    class Seen(Monitor):
        def __init__(self, **told: bool) -> None:
            super().__init__(**told)
            monitors.append(self)

    monkeypatch.setattr(rerun, "Monitor", Seen)
    path = tmp_path / "ring.py"
    path.write_text(RING)
    result = simulate(path, ranks=4, check=True, stdout=io.StringIO())
    assert result.findings == ()
    (monitor,) = monitors
    kept = [len(state.steps.pending) for state in monitor.ranks.values()]
    assert len(kept) == 4
    assert max(kept) <= 20
