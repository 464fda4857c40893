"""The deadlock report names a collective call that one rank has omitted, or that was refused there."""

import io
import re
from typing import Any

import pytest

from xsim_py import simulate

HEAD = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank = comm.rank
data, total, all_data = np.ones(3), np.zeros(3), np.zeros(9)
"""
SKIPPED = {
    "Bcast": "comm.Bcast(data, 0)",
    "bcast": "comm.bcast(1, 0)",
    "Reduce": "comm.Reduce(data, total, MPI.SUM, 0)",
    "reduce": "comm.reduce(1)",
    "Ibcast": "comm.Ibcast(data, 0).Wait()",
    "Ireduce": "comm.Ireduce(data, total, MPI.SUM, 0).Wait()",
    "gather": "comm.gather(1)",
    "Gather": "comm.Gather(data, all_data)",
    "scatter": "comm.scatter([1, 2, 3] if rank == 0 else None)",
    "scan": "comm.scan(1)",
    "exscan": "comm.exscan(1)",
}
REFUSED = {
    "alias": ("comm.Reduce(data, data if rank == 0 else None, MPI.SUM, 0)", "Comm.Reduce", "MPI_ERR_BUFFER"),
    "root": ("comm.Bcast(data, 9 if rank == 2 else 0)", "Comm.Bcast", "MPI_ERR_ROOT"),
    "object's root": ("comm.bcast(1, 9 if rank == 2 else 0)", "Comm.bcast", "MPI_ERR_ROOT"),
    "started": ("comm.Ibcast(data, 9 if rank == 2 else 0).Wait()", "Comm.Ibcast", "MPI_ERR_ROOT"),
    "read-only": ("comm.Bcast(b'abc' if rank == 2 else bytearray(3), 0)", "Comm.Bcast", "BufferError"),
    "no buffer": ("comm.Bcast(3 if rank == 2 else data, 0)", "Comm.Bcast", "TypeError"),
    "pickle": ("comm.gather((lambda: 1) if rank == 2 else 1)", "Comm.gather", "Error"),
    "count": ("comm.scatter([1] if rank == 0 else None)", "Comm.scatter", "ValueError"),
    "no operation": ("comm.Reduce(data, total, None if rank == 2 else MPI.SUM, 0)", "Comm.Reduce", "Error"),
    "too short": ("comm.Allgather(data, np.zeros(5) if rank == 2 else all_data)", "Comm.Allgather", "Error"),
}
WAYS: list[dict[str, Any]] = [{}, {"shards": 3}, {"collectives": "arrays"}, {"collectives": "messages", "shards": 2}]


def report(text: str, **options: Any) -> str:
    """Return the report of a program of three ranks that stalls."""
    said = io.StringIO()
    result = simulate(HEAD + text, kind="code", ranks=3, stdout=said, stderr=said, **options)
    assert result.ended == "stalled", said.getvalue()
    return result.report


@pytest.mark.parametrize("name", SKIPPED)
@pytest.mark.parametrize("victim", [0, 2])
def test_what_one_rank_has_omitted_is_named(name: str, victim: int) -> None:
    text = f"if rank != {victim}: {SKIPPED[name]}\ncomm.Barrier()\ncomm.Barrier()\n"
    said = report(text)
    call = "Comm.Dup(for Comm.reduce)" if name == "reduce" else f"{name}("
    call = f"Comm.Dup(for Intracomm.{name})" if name in ("scan", "exscan") else call
    line = next(line for line in said.splitlines() if line.startswith("collective mismatch on MPI_COMM_WORLD, "))
    assert "collective number 1: " in line
    assert call in line
    assert re.search(rf"rank {victim} in Comm.Barrier\(\), at <string>:8", line)
    assert re.search(r"in \S*\(.*\), at <string>:7", line)


@pytest.mark.parametrize("why", REFUSED)
def test_a_call_that_was_refused_is_named(why: str) -> None:
    call, name, error = REFUSED[why]
    text = f"try: {call}\nexcept Exception: pass\ncomm.Barrier()\ncomm.Barrier()\n"
    said = report(text)
    (line,) = (line for line in said.splitlines() if "was refused" in line)
    assert re.match(rf"rank \d: {name} at <string>:7 was refused: .*{error}", line)


@pytest.mark.sampled
@pytest.mark.parametrize("options", [*WAYS[1:], {"isolation": "process"}])
@pytest.mark.parametrize("ranks", [3, 30])
def test_the_report_is_the_same_however_it_is_simulated(options: dict[str, Any], ranks: int) -> None:
    text = HEAD + "if rank < comm.size - 1: comm.Bcast(data, 0)\nfor _ in range(3): comm.Barrier()\n"
    said = io.StringIO()
    one, other = (simulate(text, kind="code", ranks=ranks, stdout=said, stderr=said, **way) for way in ({}, options))
    assert one.report == other.report
    assert one.digest == other.digest
    others, last = f"ranks 0-{ranks - 2}", f"rank {ranks - 1}"
    assert f"number 1: {others} in Comm.Bcast(root=0, 24 bytes), at <string>:7; {last} in Comm.Barrier()" in one.report
    assert f"collective calls on MPI_COMM_WORLD: 2 by {others}; 1 by {last}" in one.report


def test_a_call_long_ago_is_named_on_a_communicator_of_a_part() -> None:
    text = """
half = comm.Split(rank != 0)
for step in range(50):
    if rank == 1 or step != 20: half.bcast(step)
    if rank == 1 and step == 49: half.Barrier()
half.Barrier()
"""
    said = report(text)
    assert (
        "collective mismatch on a communicator of 2 ranks, collective number 50: rank 1 in Comm.bcast(root=0)" in said
    )
