"""Jitter, order, bit flips and hangs go together in any combination, in runs with and without a trace."""

import io
from itertools import product
from typing import Any

import pytest

from tests.campaign import CAMPAIGN
from xsim_py import simulate

PROGRAM = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
small, large, other = np.arange(100.0), np.ones(3000), np.zeros(3000)
for step in range(3):
    try:
        comm.Sendrecv(large, (comm.rank + 1) % comm.size, recvbuf=other, source=(comm.rank - 1) % comm.size)
        if comm.rank == 0:
            print([comm.recv(source=1) for _ in range(4)])
        elif comm.rank == 1:
            for size in (9000, 1, 5000, 2):
                comm.send(bytes(size + step), 0)
        comm.Allreduce(small.copy(), small)
    except MPI.Exception as error:
        print(comm.rank, step, error.Get_error_string())
        comm.Revoke()
        comm = comm.Shrink()
print(comm.rank, small.sum(), other.sum(), MPI.Wtime())
"""
FAST_IF_LARGE = [
    {"from": "0B", "latency": "5us", "bandwidth": "1GB/s"},
    {"from": "2KiB", "latency": "1us", "bandwidth": "10GB/s"},
]
NOISE = {"latency": 0.2, "bandwidth": 0.1}
FLIPS = ["flip:message,rank=2,at=5us", "flip:message,rank=1,at=30us"]
HANGS = ["hang:rank=3,at=20us,for=15us", "hang:rank=1,at=60us,for=2ms"]
COMBINATIONS = [*product((False, True), repeat=6)]


def run(noise: bool, overtaking: bool, links: bool, flips: bool, hangs: bool, trace: bool, shards: int) -> Any:
    network: dict[str, Any] = {"eager_threshold": "16KiB"}
    network |= {"segments": FAST_IF_LARGE} if overtaking else {"latency": "1us", "bandwidth": "1GB/s"}
    network |= {"noise": NOISE} if noise else {}
    network |= {"contention": "links"} if links else {}
    result = simulate(
        PROGRAM, kind="code", ranks=5, machine={"topology": {"type": "torus", "dims": [3, 2]}, "network": network},
        set={"mpi.detector.timeout": "50us"}, fail=FLIPS * flips + HANGS * hangs, ft=True, trace=trace, shards=shards,
        stdout=(out := io.StringIO()), stderr=io.StringIO(),
    )  # fmt: skip
    assert result.ended in ("finished", "stalled"), result.report  # survivors of a hang may be at different steps
    counts = [len(result.tables[name].columns["rank"]) if name in result.tables else 0 for name in ("flips", "hangs")]
    assert counts == [2 * flips, 2 * hangs]
    return result.ended, result.digest, out.getvalue()


@pytest.mark.sampled
@pytest.mark.parametrize("kinds", COMBINATIONS if CAMPAIGN else COMBINATIONS[::7], ids=str)
def test_a_combination_has_one_digest(kinds: tuple[bool, ...]):
    noise, overtaking, links, flips, hangs, trace = kinds
    one = run(*kinds, shards=1)
    assert run(noise, overtaking, links, flips, hangs, not trace, shards=3) == one
    assert run(not noise, overtaking, links, flips, hangs, trace, shards=1) != one
