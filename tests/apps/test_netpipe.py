"""NetPIPE in pairs: the published figures of Smoky, and a failure that the other pair does not notice."""

import re

import pytest

from tests.apps.helpers import simulated
from tests.campaign import dealt

APP = "netpipe.py"
ONE_NODE = {"machine.cores_per_node": 1}
SIZES = ("--largest", 65536)


def series(out: str, rank: int = 0) -> list[str]:
    return re.findall(rf"^time: {rank} .*", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("machine", "latency_us", "mbps"),
    [("smoky-shm", 0.8008, 10625.92), ("smoky-tcp", 10.2564, 6311.38), ("smoky-ib", 4.9637, 9688.85)],
)
def test_smoky_has_its_two_published_figures(machine: str, latency_us: float, mbps: float):
    """The slides' table of NetPIPE: the time of a byte, and the bandwidth at 8 MiB."""
    run = simulated(APP, ranks=2, machine=machine, set={} if machine == "smoky-shm" else ONE_NODE)
    first, *_, last = series(run.out)
    assert f"1 B in {latency_us:.6f} us" in first
    assert float(last.split()[-2]) == pytest.approx(mbps, rel=1e-5)


@pytest.mark.parametrize(("machine", "contention"), dealt([["smoky-ib"], ["gige"], ["torus3d"]], ["none", "links"]))
def test_a_failure_leaves_the_other_pair_as_it_is_to_the_picosecond(machine: str, contention: str):
    settings = {**ONE_NODE, "network.contention": contention}
    alone = simulated(APP, *SIZES, ranks=4, machine=machine, set=settings, ft=True)
    dies = simulated(APP, *SIZES, "--die", "3@512", ranks=4, machine=machine, set=settings, ft=True)
    assert series(dies.out) == series(alone.out) != []
    assert "rank 3 failed in the test of 512 B, rank 2 continues alone" in dies.out
    assert series(dies.out, 2) == series(alone.out, 2)[:9]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("failures", [["rank=0@100us"], ["rank=1@1ms", "rank=2@2ms"], ["rank=2@0s", "rank=3@0s"]])
def test_whoever_dies_the_others_go_on(failures: list[str], shards: int):
    run = simulated(APP, "--largest", 4096, "--perturbation", 3, ranks=8, fail=failures, shards=shards)
    dead = {int(failure[5]) for failure in failures}
    for first in range(0, 8, 2):
        pair = {first, first + 1}
        if len(pair & dead) == 1:
            gone, left = (pair & dead).pop(), (pair - dead).pop()
            assert re.search(rf"^rank {gone} failed in the test of \d+ B, rank {left} continues alone$", run.out, re.M)
        elif not pair & dead:
            assert f"ranks {first} and {first + 1}: 33 sizes, to 4096 B" in run.out
    assert run.status == 0
