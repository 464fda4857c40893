"""Trees and time limits on a network, and whom a rank turns to first."""

from collections import Counter
from typing import Any

import pytest

from xsim_py.config import FtcoSpec, load_machine
from xsim_py.machine import Machine
from xsim_py.mpi.ftco.node import ANY
from xsim_py.mpi.ftco.shapes import Service, Shapes, ftco_shapes
from xsim_py.mpi.ftco.trees import best_radix
from xsim_py.network import make_network

US = 10**6


def shapes(network: dict[str, Any], **settings: Any) -> Shapes:
    spec = load_machine({"network": network, "mpi": {"ftco": settings}})
    machine = Machine(spec, ranks=64)
    return ftco_shapes(spec, make_network(spec, places=machine))


LOGP = {"latency": "10us", "send_overhead": "1us", "recv_overhead": "2us"}


def test_costs_are_those_of_the_network_with_the_time_on_the_wire_as_overhead() -> None:
    assert shapes(LOGP).costs(1000) == (10 * US, 2 * US)
    assert shapes(LOGP | {"bandwidth": "1GB/s"}).costs(1000) == (10 * US, 2 * US)
    assert shapes(LOGP | {"bandwidth": "1GB/s"}).costs(5000) == (10 * US, 5 * US)
    assert shapes(LOGP | {"gap": "5us"}).costs(8) == (10 * US, 5 * US)
    assert shapes({"latency": "16us"}).costs(8) == (16 * US, 1 * US)


def test_the_radix_is_the_best_for_the_operation_or_what_was_asked_for() -> None:
    chosen = shapes(LOGP)
    assert chosen.tree(64, "allreduce").radix == best_radix(64, "knomial", "multi", 10 * US, 2 * US, "allreduce")
    assert chosen.tree(64, "bcast").radix == best_radix(64, "knomial", "single", 10 * US, 2 * US, "bcast")
    assert [chosen.tree(64, name).roots for name in ("allreduce", "reduce", "bcast")] == ["multi", "single", "single"]
    asked = shapes(LOGP, radix=5, tree="kary")
    assert [(each.kind, each.radix) for each in (asked.tree(64, "reduce"), asked.tree(3, "reduce"))] == [
        ("kary", 5),
        ("kary", 3),
    ]


def test_trees_for_long_messages_are_narrow() -> None:
    slow = shapes(LOGP | {"bandwidth": "1GB/s"})
    radices = [slow.tree(64, "allreduce", size).radix for size in (0, 8, 10_000, 1_000_000)]
    assert radices == sorted(radices, reverse=True)
    assert radices[0] > 5 > radices[-1]
    assert shapes(LOGP | {"bandwidth": "1GB/s"}, radix=7).tree(64, "allreduce", 1_000_000).radix == 7


def test_time_limits_are_those_of_the_paper_or_fixed() -> None:
    chosen = shapes(LOGP, radix=2, tree="kary", roots="single")
    assert chosen.limits(chosen.tree(7, "allreduce"), 0).timeout(1, 1) == 20 * US + 4 * 3 * 2 * US
    chosen = shapes(LOGP, timeout="2s")
    assert chosen.limits(chosen.tree(7, "allreduce"), 0).timeout(1, 3) == 2 * 10**12


def test_longer_messages_have_longer_limits() -> None:
    slow = shapes(LOGP | {"bandwidth": "1MB/s"}, radix=2)
    shape = slow.tree(16, "allreduce")
    at_most = [slow.limits(shape, size).timeout(1, 1) for size in (0, 1000, 100_000)]
    assert at_most == sorted(set(at_most))
    assert at_most[2] > 2 * (100_000 + 10) * US


@pytest.mark.parametrize(("kind", "slack"), [("rsd", 0.1), ("disd", 0.01)])
def test_half_of_the_time_goes_to_neighbours_and_half_of_the_rest_to_the_next(kind: str, slack: float) -> None:
    service = Service(kind, seed=3, degree=8, slot_ps=10)
    counts = Counter(service(5, now_ps) for now_ps in range(0, 320 * 400, 10))
    for distance in (1, 2, 3):
        share = counts[distance] / counts.total()
        assert share == pytest.approx(0.5**distance, rel=slack), distance
    assert min(counts) == 1


def test_without_service_distance_all_are_equal() -> None:
    assert Service("none", seed=3, degree=8, slot_ps=10)(5, 77) == ANY
    assert FtcoSpec().service == "rsd"
