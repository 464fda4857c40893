"""What the messages of a call cost, in numbers of 64 bits, and where these do not do."""

from typing import Any

import numpy as np

from xsim_py import simulate
from xsim_py.mpi.batched.costs import table
from xsim_py.network import Cost


def test_costs_are_those_of_each_kind_unless_all_of_them_could_overflow():
    kinds = [(1, 20, 20, 300, 5, True), (1, 40, 40, 300, 5, True)]
    costs = made(kinds, [0, 1, 0])
    assert costs is not None
    assert costs[0].transit_ps.tolist() == [320, 340, 320]
    assert costs[0].busy_ps.tolist() == [20, 40, 20]
    assert made([(0, 0, 0, 2**60, 0, True)], [0]) is not None
    assert made([(0, 0, 0, 2**60, 0, True)], [0, 0]) is None
    assert made([(0, 2**70, 2**70, 1, 0, True)], [0]) is None


def made(kinds: Any, rows: list[int]) -> Any:
    return table([Cost(*kind) for kind in kinds], [np.array(rows)], [True], list, len(rows))


def test_costs_that_64_bits_cannot_add_up_are_those_of_messages():
    """Half a year for a message: after a few rounds on arrays, the clocks would wrap around."""
    machine = {"network": {"latency": "24h", "bandwidth": "1bps"}}
    code = """if True:
        import numpy
        from mpi4py import MPI
        ones = numpy.ones(1 << 18)
        for _ in range(2):
            MPI.COMM_WORLD.Allreduce(ones.copy(), ones)
            MPI.COMM_WORLD.Barrier()
    """
    results = [simulate(code, kind="code", ranks=5, machine=machine, collectives=way) for way in ("messages", "arrays")]
    assert {result.ended for result in results} == {"finished"}
    assert results[0].virtual_time_s > 2**63 / 10**12
    assert len({(result.virtual_time_s, result.digest, result.events) for result in results}) == 1
