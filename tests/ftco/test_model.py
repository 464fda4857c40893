"""The formal model's configuration and draws."""

from __future__ import annotations

import re

import numpy as np
import pytest

from xsim_py.errors import ConfigError
from xsim_py.ftco.model import (
    NEVER,
    RULES,
    SERVICE,
    Configuration,
    below,
    interval_distance,
    mix,
    parse_rules,
    plan,
    run_seed,
    service_distance,
    service_index,
)


def dead(configuration: Configuration, run: int) -> list[tuple[int, int]]:
    steps = plan(configuration, run_seed(7, run)).dead_step
    return [(int(node), int(steps[node])) for node in np.flatnonzero(steps != NEVER)]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        Configuration(nodes=5, radix=1, inactive=3, failures=2, L=10, o=3, timeout=0, imbalance="even:3")
    assert str(error.value).splitlines() == [
        "radix: 1 is out of range (at least 2)",
        "L: expected a positive multiple of o = 3, got 10",
        "timeout: 0 steps is out of range: it must be positive",
        "imbalance: expected none, uniform:S or normal:S, got 'even:3'",
        "failures: 5 faults of 5 nodes; at least one node must survive",
    ]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"nodes": 0}, "nodes: 0 is out of range (at least 1)"),
        ({"radix": 9}, "a tree with 9 roots does not fit 8 nodes"),
        ({"radix": "best"}, "radix: expected a number or auto, got 'best'"),
        ({"tree": "binary"}, "tree: expected knomial or kary, got 'binary'"),
        ({"roots": "two"}, "roots: expected single or multi, got 'two'"),
        ({"L": 0}, "L: expected a positive multiple of o = 1, got 0"),
        ({"o": 0}, "o: 0 is out of range: it must be positive"),
        ({"window": (4, 4)}, "window: empty window: no step from 4 to before 4"),
        ({"inactive": -1}, "inactive: -1 is out of range (at least 0)"),
        ({"failures": -1}, "failures: -1 is out of range (at least 0)"),
        ({"imbalance": "uniform"}, "imbalance: expected none, uniform:S or normal:S, got 'uniform'"),
        ({"imbalance": "uniform:-4"}, "imbalance: expected a whole number of steps, got '-4'"),
        ({"operation": "gather"}, "operation: expected allreduce or reduce or bcast, got 'gather'"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        Configuration(**{"nodes": 8, "radix": 2, **wrong})


def test_rules_by_name_and_changed() -> None:
    assert parse_rules("paper") == RULES["paper"]
    changed = parse_rules("reference, keepalive=not_arrived,order=printed")
    assert (changed.keepalive, changed.order, changed.service) == ("not_arrived", "printed", "rsd")
    with pytest.raises(ConfigError) as error:
        parse_rules("mine,keepalive=some,colour=red")
    assert len(str(error.value).splitlines()) == 3


def test_rules_that_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="keepalive=all needs traversal=reference"):
        parse_rules("paper,keepalive=all")
    with pytest.raises(ConfigError, match="eta=reset needs traversal=reference"):
        parse_rules("paper,eta=reset")


def test_the_window_of_the_reference() -> None:
    ends = {nodes: Configuration(nodes=nodes).failure_window for nodes in (1024, 8192, 16384, 65536)}
    assert ends == {1024: (0, 40), 8192: (0, 40), 16384: (0, 50), 65536: (0, 50)}


def test_drawn_with_replacement_and_distinct() -> None:
    often = [dead(Configuration(nodes=1024, inactive=100), run) for run in range(50)]
    # Of 100 draws from 1023, 1023 * (1 - (1 - 1/1023)**100) = 95.3 differ on average, with a deviation of 2.
    assert 94 < sum(map(len, often)) / len(often) < 96.6
    assert all(node > 0 and step == 0 for run in often for node, step in run)
    distinct = Configuration(nodes=64, inactive=31, failures=32, window=(5, 9), rules=RULES["paper"])
    for run in range(20):
        steps = [step for _, step in dead(distinct, run)]
        assert len(steps) == 63
        assert steps.count(0) == 31
        assert set(steps) <= {0, 5, 6, 7, 8}
    assert any(dead(distinct, run)[0][0] == 0 for run in range(3)), "under these rules node 0 may die"


def test_every_node_is_hit_alike() -> None:
    hits = np.zeros(16)
    for run in range(3000):
        for node, _ in dead(Configuration(nodes=16, failures=1), run):
            hits[node] += 1
    assert hits[0] == 0
    assert hits[1:].min() > 200 - 5 * 14
    assert hits[1:].max() < 200 + 5 * 14


def test_starts() -> None:
    uniform = plan(Configuration(nodes=65536, imbalance="uniform:256"), 5).start_step
    assert (uniform.min(), uniform.max()) == (0, 255)
    assert abs(uniform.mean() - 127.5) < 5 * 74 / 256
    normal = plan(Configuration(nodes=65536, imbalance="normal:4096"), 5).start_step
    deviation = 409
    assert abs(normal.std() - deviation) < 6
    assert abs(normal.mean() - 6.12 * deviation) < 10
    assert 1.0 < normal.max() / 4096 < 1.09
    assert 1.4 < normal.min() / deviation < 2.4


def test_the_same_from_arrays_and_numbers() -> None:
    numbers = [mix(2**64 - 3, 2, index) for index in range(100)]
    assert mix(2**64 - 3, 2, np.arange(100, dtype=np.uint64)).tolist() == numbers
    assert below(np.array(numbers, np.uint64), 1000).tolist() == [below(bits, 1000) for bits in numbers]
    assert mix(1, 2, 3) == 0xBC4AE3918A0287A  # written down once: results must not change from version to version


def test_service_distances_halve() -> None:
    draws = [service_distance(mix(3, SERVICE, service_index(step, node))) for step in range(100) for node in range(100)]
    for distance in (1, 2, 3, 4):
        expected = 10000 / 2**distance
        assert abs(draws.count(distance) - expected) < 5 * expected**0.5
    assert service_distance(0) == 64


def test_deterministic_intervals() -> None:
    period = [interval_distance(step, 2) for step in range(8)]
    assert period == [1, 1, 1, 1, 2, 2, 3, 4]
    assert [interval_distance(step, 2) for step in range(8, 16)] == period
