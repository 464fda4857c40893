"""Noise on the network is the same for any number of shards, and keeps the rules of MPI and of lookahead."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tests.cases import ROOT
from xsim_py import simulate

NOISE = {"network.noise.latency": 2.0, "network.noise.bandwidth": 1.0, "network.noise.nodes": 0.5}


def run(program: Any, **options: Any) -> Any:
    return simulate(program, stdout=io.StringIO(), **options)


@pytest.mark.parametrize(
    "more", [{}, {"machine.cores_per_node": 3}, {"network.contention": "links"}, {"network.contention": "flows"}]
)
def test_the_digest_is_the_same_for_any_number_of_shards_and_another_for_another_seed(more: dict[str, Any]) -> None:
    told = {"ranks": 9, "args": ["--samples", "900"], "set": {**NOISE, **more}}
    runs = [run(ROOT / "apps" / "pi.py", shards=shards, seed=4, **told) for shards in (1, 2, 3, 7)]
    assert len({each.digest for each in runs}) == 1
    assert run(ROOT / "apps" / "pi.py", seed=5, **told).digest != runs[0].digest


def numbers(count: int, size: int) -> list[int]:
    """Send numbered messages from rank 0 to rank 1, which returns them as they came."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank == 0:
        contents = [[number, bytes(size * (number % 2))] for number in range(count)]
        for request in [comm.isend(each, dest=1, tag=each[0] % 3) for each in contents]:
            request.wait()
        return []
    return [comm.recv(source=MPI.ANY_SOURCE)[0] for _ in range(count)]


@pytest.mark.parametrize("size", [0, 1 << 20])
def test_messages_of_one_rank_do_not_overtake(size: int) -> None:
    result = run(numbers, ranks=2, args=[40, size], set={"network.noise.latency": 50.0, "network.noise.sigma": 2.0})
    assert result.values[1] == list(range(40))


def test_no_message_is_faster_than_without_noise() -> None:
    told = {"ranks": 2, "args": [20, 1000], "trace": True}
    quiet, loud = run(numbers, **told).trace, run(numbers, set=NOISE, **told).trace
    took = [[each.arrival_ps - each.sent_ps for each in trace.messages] for trace in (quiet, loud)]
    assert len(took[0]) == len(took[1])
    assert all(before < after for before, after in zip(*took, strict=True))
