"""Arguments come to a method of a checked run as without checks, and those that do not fit are refused alike."""

import io
from pathlib import Path

from xsim_py import simulate

CALLS = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
x, y = np.arange(2.0), np.zeros(2)
for how in (
    lambda: comm.Send(),
    lambda: comm.Send(x),
    lambda: comm.Send(x, 1, 2, 3),
    lambda: comm.Send(x, 1, buf=x),
    lambda: comm.Send(x, to=1),
    lambda: comm.Send(dest=1),
    lambda: MPI.Comm.Send(),
    lambda: MPI.Comm.Send(comm, dest=1 - comm.rank, buf=x),
    lambda: comm.Recv(source=MPI.ANY_SOURCE, buf=y),
    lambda: comm.Sendrecv(x, recvbuf=y, dest=1 - comm.rank, source=1 - comm.rank),
    lambda: comm.irecv(tag=3, source=MPI.PROC_NULL).wait(),
    lambda: print(y),
):
    try:
        how()
    except TypeError as error:
        print(comm.rank, error)
"""


def test_arguments_fit_or_do_not_fit_as_without_checks(tmp_path: Path):
    path = tmp_path / "calls.py"
    path.write_text(CALLS)
    printed = {}
    for check in (False, True):
        out = io.StringIO()
        result = simulate(path, ranks=2, check=check, stdout=out, stderr=out)
        assert result.ended == "finished"
        printed[check] = out.getvalue()
    assert printed[True] == printed[False]
    assert printed[True].count("Send()") == 14
    assert {finding.category for finding in result.findings} == {"BufferingHazard"}  # the errors are caught
