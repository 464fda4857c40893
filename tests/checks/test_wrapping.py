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

COLLECTIVES = """
import numpy as np
from mpi4py import MPI
comm, a, b = MPI.COMM_WORLD, np.zeros(4), np.zeros(8)
for request in (
    comm.Barrier_init(MPI.INFO_NULL),
    comm.Bcast_init(a, 0, MPI.INFO_NULL),
    comm.Bcast_init(a, info=MPI.INFO_NULL),
    comm.Gather_init(a, recvbuf=b, info=MPI.INFO_NULL),
    comm.Allreduce_init(a, b[:4], MPI.SUM, MPI.INFO_NULL),
    comm.Reduce_scatter_init(a, b[:2], None, MPI.SUM, MPI.INFO_NULL),
):
    request.Start()
    request.Wait()
    request.Free()
for call in (
    lambda: comm.Bcast(),
    lambda: comm.Bcast(a, 0, MPI.INFO_NULL),
    lambda: comm.Bcast(a, source=0),
    lambda: comm.Gather(a),
    lambda: comm.Allreduce(a, b, recvbuf=b),
    lambda: comm.bcast(),
    lambda: comm.Ireduce(a, b, MPI.SUM, 0, 1),
    lambda: comm.Scan_init(a, b, MPI.SUM, MPI.INFO_NULL, 1),
):
    try:
        if comm.rank == 0:
            call()
    except TypeError as error:
        print(error)
try:
    comm.Gatherv(a, b, root="x")
except TypeError as error:
    print(error)
comm.Barrier()
comm.bcast(np.zeros(4 - comm.rank))
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


def test_collectives_take_and_refuse_the_arguments_that_they_do_without_checks():
    printed = {}
    for check in (False, True):
        out = io.StringIO()
        result = simulate(COLLECTIVES, kind="code", ranks=2, check=check, stdout=out)
        assert result.exit_status == 0, result.report
        printed[check] = out.getvalue()
    assert printed[True] == printed[False]
    assert printed[True].count("\n") == 10
    assert {finding.category for finding in result.findings} == set()  # the errors are caught
