"""The figures of the paper's evaluation, under the rules of its authors' simulator.

Without faults they are exact. With faults they are means of as many runs as stand beside them, by that simulator and by
an independent program that equals it run by run; ours have to lie within three standard errors of both.
"""

import math
from dataclasses import replace

import pytest

from tests.campaign import CAMPAIGN
from xsim_py.ftco.ensemble import run_ensemble
from xsim_py.ftco.model import Configuration, parse_rules
from xsim_py.ftco.summary import Statistic

pytestmark = pytest.mark.usefixtures("in_this_process")
FEWER = 1 if CAMPAIGN else 4

RADIX = {1024: 11, 2048: 12, 4096: 9, 8192: 10, 16384: 12, 32768: 9, 65536: 9}

# Latency, messages, output spread and longest queue of the best k-nomial tree with several roots.
FAULT_FREE = {
    1024: (99, 3060, 21, 9),
    2048: (114, 6119, 23, 11),
    4096: (125, 12296, 32, 8),
    8192: (136, 24575, 32, 9),
    16384: (148, 49127, 32, 11),
    32768: (161, 98312, 43, 8),
    65536: (171, 196616, 43, 9),
}
FURTHER = {4: 14, 8: 18, 16: 30, 32: 46, 64: 53, 128: 64, 256: 80, 512: 89, 131072: 183}


def multi(nodes: int, **more) -> Configuration:
    return Configuration(**{"nodes": nodes, "radix": RADIX[nodes], **more})


def is_near(found: Statistic, runs: int, expected: float, expected_runs: int, digit: float) -> bool:
    """Whether two means differ by at most three standard errors of the difference, and what was rounded off."""
    error = found.stderr * math.sqrt(1 + runs / expected_runs)
    return abs(found.mean - expected) <= 3 * error + digit / 2


@pytest.mark.parametrize("nodes", FAULT_FREE if CAMPAIGN else [1024, 65536])
def test_without_faults_everything_is_exact(nodes: int):
    (found,) = run_ensemble([multi(nodes)], runs=1, jobs=1)
    figures = tuple(found[name].mean for name in ("latency_steps", "messages", "output_spread", "max_queue"))
    assert figures == FAULT_FREE[nodes]


def test_further_sizes_with_the_best_radix():
    expected = {nodes: steps for nodes, steps in FURTHER.items() if CAMPAIGN or nodes <= 512}
    found = run_ensemble([Configuration(nodes=nodes, radix="auto") for nodes in expected], runs=1, jobs=1)
    assert {each.configuration.nodes: each["latency_steps"].mean for each in found} == expected


# Penalty per node drawn, in steps and in messages per node, and the number of runs.
PENALTY = {
    (1024, 1): (27.69, 2.28, 10000),
    (1024, 10): (6.55, 0.420, 10000),
    (1024, 100): (3.83, 0.211, 10000),
    (4096, 1): (16.60, 0.234, 3000),
    (4096, 10): (3.61, 0.173, 3000),
}


@pytest.mark.sampled
@pytest.mark.parametrize(("nodes", "inactive"), PENALTY)
def test_the_penalty_of_inactive_nodes(nodes: int, inactive: int):
    runs = (400 if nodes == 1024 and inactive < 100 else 150) // FEWER
    (found,) = run_ensemble([multi(nodes, inactive=inactive)], runs=runs, seed=1)
    steps, messages, expected_runs = PENALTY[nodes, inactive]
    assert is_near(found["penalty_steps_per_fault"], runs, steps, expected_runs, 0.01)
    assert is_near(found["penalty_work_per_fault"], runs, messages, expected_runs, 0.01 if messages > 1 else 0.001)


FAILURES = {
    (1024, 1): (110.3, 10000),
    (1024, 10): (177.4, 10000),
    (1024, 100): (538.6, 10000),
    (8192, 10): (193.7, 1000),
}


@pytest.mark.parametrize(("nodes", "failures"), FAILURES)
def test_the_latency_with_failures_at_run_time(nodes: int, failures: int):
    runs = ({100: 100, 10: 200, 1: 400}[failures] if nodes == 1024 else 50) // FEWER
    (found,) = run_ensemble([multi(nodes, failures=failures)], runs=runs, seed=2)
    expected, expected_runs = FAILURES[nodes, failures]
    assert is_near(found["latency_steps"], runs, expected, expected_runs, 0.1)


def test_combinations_of_inactive_and_failing_nodes():
    made = [multi(1024, inactive=inactive, failures=failures) for inactive, failures in ((1, 1), (10, 10))]
    runs = 200 if CAMPAIGN else 100
    for found, expected in zip(run_ensemble(made, runs=runs, seed=3), (138, 225), strict=True):
        assert is_near(found["latency_steps"], runs, expected, 500, 1)


def test_the_rules_tell_themselves_apart():
    """At 65,536 nodes 15.4, 10.0 and 15.0 messages a node, queues of 70, 51 and 15; here there are fewer nodes."""
    made = Configuration(nodes=8192, radix=10, imbalance="uniform:256")
    names = ("reference", "reference,keepalive=not_arrived", "reference,order=printed")
    code, not_arrived, printed = run_ensemble(
        [replace(made, rules=parse_rules(name)) for name in names], runs=3, seed=4
    )
    assert code["work"].mean > 1.3 * not_arrived["work"].mean
    assert code["work"].mean == pytest.approx(printed["work"].mean, rel=0.1)
    assert code["max_queue"].mean > 2.5 * printed["max_queue"].mean
    assert not_arrived["max_queue"].mean > 2 * printed["max_queue"].mean
