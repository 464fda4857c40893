"""A collective that some members leave out is reported as what they have left out: the call, or a start of it."""

import io
from typing import Any

import pytest

from xsim_py import simulate

PROGRAM = """\
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
is_last = comm.rank == comm.size - 1
data = np.zeros(2)
def run(request, times):
    for each in range(times):
        request.Start()
        request.Wait()
    request.Free()
{}
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("if not is_last: comm.Bcast(data)", "Bcast is not called by all"),
        ("run(comm.Bcast_init(data), 0 if is_last else 2)", "Bcast_init is not started by all"),
        ("run(comm.Bcast_init(data), 2 if is_last else 3)", "Bcast_init is not started by all"),
        ("if not is_last: run(comm.Bcast_init(data), 2)", "Bcast_init is not called by all"),
        ("if not is_last: comm.Ibcast(data).Wait(); comm.Ibcast(data).Wait()", "Ibcast is not called by all"),
    ],
)
def test_what_was_left_out_is_said(line: str, said: str) -> None:
    streams: Any = {"stdout": io.StringIO(), "stderr": io.StringIO()}
    result: Any = simulate(PROGRAM.format(line), kind="code", ranks=3, check=True, **streams)
    verb = said.split()[3].removesuffix("ed")
    (finding,) = result.findings
    assert (finding.category, finding.line, finding.text) == ("CallOrdering", 11, said)
    assert list(finding.details) == [f"rank 2 did not {verb} it"]
