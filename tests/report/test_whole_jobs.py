"""The time of whole jobs, measured in traces: it is the virtual time of the job, whatever fails, under any detector."""

import io
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from xsim_py import simulate
from xsim_py.report.phases import measure_job

PROGRAM = """
import time
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD.Dup()
step = 0
while step < {steps}:
    good = True
    try:
        time.sleep({work})
        comm.{call}
    except MPI.Exception:
        comm.Revoke()
        good = False
    step += 1
    comm.Ack_failed()
    try:
        good = comm.Agree(good)
    except MPI.Exception:
        good = False
    if not good:
        comm = comm.Shrink()
"""
CALLS = ("Barrier()", "allreduce(1)", "Allreduce(np.ones(4), np.empty(4))", "bcast(3, root=comm.size - 1)")
DETECTORS: tuple[dict[str, Any], ...] = (
    *({"mpi.detector.timeout": timeout} for timeout in ("30us", "1ms", "2s")),
    *({"mpi.detector.type": "heartbeat", "mpi.detector.timeout": timeout} for timeout in ("400ms", "2s")),
)
SCHEMES: tuple[dict[str, Any], ...] = ({}, {"mpi.ulfm.revoke": "local"}, {"mpi.collectives": "ftco"})


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a program that survives failures, which ranks fail when, and a failure detector."""
    ranks = draw(st.integers(3, 9))
    dead = draw(st.lists(st.integers(0, ranks - 1), unique=True, max_size=2))
    return {
        "program": PROGRAM.format(
            steps=draw(st.integers(1, 4)),
            work=draw(st.sampled_from((0, 5e-6, 3e-4))),
            call=draw(st.sampled_from(CALLS)),
        ),
        "ranks": ranks,
        "fail": [f"rank={rank}@{draw(st.integers(1, 600))}us" for rank in dead],
        "set": draw(st.sampled_from(DETECTORS)) | draw(st.sampled_from(SCHEMES)),
    }


@given(jobs())
@settings(max_examples=max(5, 60 * settings().max_examples // 100))
def test_the_phases_of_a_job_add_up_to_its_virtual_time(told: dict[str, Any]):
    result = simulate(**told, kind="code", ft=True, trace=True, stdout=io.StringIO(), stderr=io.StringIO())
    assume(result.ended == "finished")
    assert result.trace is not None
    phases = measure_job(result.trace, ranks=told["ranks"], end_ps=result.virtual_time_ps)
    assert phases.start_ps == 0
    assert phases.total_ps == sum(phases.times_ps().values()) == result.virtual_time_ps
    assert max(until_ps for *_, until_ps in result.lives()) == result.virtual_time_ps
