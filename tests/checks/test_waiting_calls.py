"""A send that has to be buffered is reported with the calls in which the other ranks would wait."""

import io
from typing import Any

from xsim_py import simulate

PROGRAM = """\
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
other = 1 - comm.rank
send = comm.Isend(np.ones(2), other)
send.Wait()
comm.Recv(np.zeros(2), other)
"""


def test_the_call_that_completes_the_send_is_named() -> None:
    streams: Any = {"stdout": io.StringIO(), "stderr": io.StringIO()}
    result: Any = simulate(PROGRAM, kind="code", ranks=2, check=True, **streams)
    (finding,) = result.findings
    assert (finding.category, finding.line) == ("BufferingHazard", 5)
    assert [detail.partition(":")[2] for detail in sorted(finding.details)] == [
        "6: rank 0 would wait in Request.Wait",
        "6: rank 1 would wait in Request.Wait",
    ]
