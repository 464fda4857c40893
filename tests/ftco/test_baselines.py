"""The algorithms that FTCO is compared with: closed forms, and everything that can fail on few nodes."""

from __future__ import annotations

import re
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from xsim_py.errors import ConfigError
from xsim_py.ftco.baselines import StepEngine, run_baseline
from xsim_py.ftco.baselines.gossip import corrected_gossip, gossip_steps
from xsim_py.ftco.baselines.trees import survivor_tree
from xsim_py.ftco.ensemble import run_ensemble
from xsim_py.ftco.model import NEVER, Configuration, Outcome, Plan, plan, run_seed
from xsim_py.ftco.steps import StepModel
from xsim_py.mpi.ftco.node import TreeResult

pytestmark = pytest.mark.usefixtures("in_this_process")

L = 10
TREES = ("rerouting", "lookup_avoiding", "rebalancing")


def dying(nodes: int, deaths: dict[int, int], seed: int = 0) -> Plan:
    steps = np.full(nodes, NEVER, np.int64)
    for node, step in deaths.items():
        steps[node] = step
    return Plan(seed, steps, np.zeros(nodes, np.int64))


def bits(nodes) -> int:
    return sum(1 << node for node in nodes)


def run(algorithm: str, nodes: int, deaths: dict[int, int] | None = None, **more) -> Outcome:
    made = Configuration(nodes=nodes, algorithm=algorithm, **{"radix": 2, **more})
    return run_baseline(made, dying(nodes, deaths or {}))


def doubled(nodes: int, deaths: dict[int, int]) -> tuple[Outcome, set[TreeResult]]:
    """What recursive doubling takes, and the results of those who live."""
    made = Configuration(nodes=nodes, radix=2, algorithm="recursive_doubling")
    model = StepModel(made, dying(nodes, deaths))
    outcome = model.run()
    assert not outcome.hung
    return outcome, {model.nodes[node].result for node in range(nodes) if model.alive[node]}


@pytest.mark.parametrize("rounds", range(1, 8))
def test_recursive_doubling_takes_a_round_for_each_doubling(rounds: int):
    found, _ = doubled(2**rounds, {})
    assert found.latency_steps == rounds * (L + 2)
    assert (found.messages, found.data) == (rounds * 2**rounds, rounds * 2**rounds)


@pytest.mark.parametrize("nodes", range(2, 9))
def test_recursive_doubling_gets_over_all_dead_nodes_there_can_be(nodes: int):
    for count in range(nodes):
        for dead in combinations(range(nodes), count):
            _, results = doubled(nodes, dict.fromkeys(dead, 0))
            assert results == {TreeResult(bits(set(range(nodes)) - set(dead)), frozenset(dead))}, dead


@pytest.mark.parametrize("nodes", [2, 3, 4, 5] if CAMPAIGN else [2, 3, 4])
def test_recursive_doubling_has_one_result_when_one_node_dies_at_any_time_and_another_at_another(nodes: int):
    steps = range(0, 3 * (L + 2), 5)
    for one, other in combinations(range(nodes), 2):
        for first in range((L + 2) * 3):
            assert len(doubled(nodes, {one: first})[1]) == 1, (one, first)
            for second in steps if nodes > 2 and first % 3 == 0 else ():
                assert len(doubled(nodes, {one: first, other: second})[1]) == 1, (one, first, other, second)


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("nodes", range(1, 9))
def test_mended_trees_have_the_result_of_all_who_live(name: str, nodes: int):
    made = Configuration(nodes=nodes, radix=2, roots="single", algorithm=name)
    for count in range(nodes):
        for dead in combinations(range(nodes), count):
            engine = StepEngine(made, dying(nodes, dict.fromkeys(dead, 0)), partial(survivor_tree, name))
            assert not engine.run().hung
            living = [node for node in range(nodes) if node not in dead]
            assert engine.results == dict.fromkeys(living, bits(living)), dead


@pytest.mark.parametrize(("k", "levels"), [(2, 5), (3, 3), (4, 2)])
def test_without_failures_a_tree_takes_what_the_closed_form_says(k: int, levels: int):
    for name in ("lookup_avoiding", "rebalancing"):
        assert run(name, k**levels, radix=k).latency_steps == 2 * levels * (L + k)
    assert run("rerouting", k**levels, radix=k).latency_steps > 2 * levels * (L + k)


def test_rebalancing_costs_nothing_and_rerouting_the_more_the_more_are_dead():
    """Hursey and Graham: rebalancing within 1 %, rerouting up to four times slower."""
    slower = {}
    for name in TREES:
        made = [Configuration(nodes=512, radix=2, roots="single", algorithm=name, inactive=n) for n in (0, 64, 256)]
        slower[name] = [each["latency_steps"].mean / 216 for each in run_ensemble(made, runs=4, jobs=1)]
    assert slower["rebalancing"][0] == 1
    assert all(0.85 < factor <= 1 for factor in slower["rebalancing"])
    looking = [one / other for one, other in zip(slower["rerouting"], slower["lookup_avoiding"], strict=True)]
    assert looking == sorted(looking)
    assert 1.2 < looking[0] < looking[-1] < 4


@pytest.mark.parametrize("nodes", range(1, 9))
def test_gossip_reaches_all_who_live_whoever_is_dead(nodes: int):
    made = Configuration(nodes=nodes, radix=2, algorithm="gossip", operation="bcast")
    for count in range(nodes):
        for dead in combinations(range(1, nodes), count):
            for seed in range(3):
                engine = StepEngine(made, dying(nodes, dict.fromkeys(dead, 0), seed), corrected_gossip)
                assert not engine.run().hung
                assert sorted(engine.results) == [node for node in range(nodes) if node not in dead]


@settings(max_examples=6, deadline=None)
@given(st.integers(9, 80), st.integers(0, 2**32), st.floats(0, 0.5))
def test_gossip_reaches_all_who_live_on_more_nodes(nodes: int, seed: int, share: float):
    made = Configuration(nodes=nodes, radix=2, algorithm="gossip", operation="bcast", inactive=int(nodes * share))
    engine = StepEngine(made, drawn := plan(made, run_seed(seed, 0)), corrected_gossip)
    assert not engine.run().hung
    assert sorted(engine.results) == np.flatnonzero(drawn.dead_step == NEVER).tolist()


def test_gossip_lasts_as_long_as_the_fastest_broadcast():
    """L = 0: a message is there in the next step but one, Fibonacci's numbers."""
    assert [gossip_steps(nodes, 0) for nodes in (1, 2, 3, 5, 8, 13)] == [0, 2, 3, 4, 5, 6]


def test_groups_have_a_leader_each_and_the_next_one_takes_over():
    without = run("hierarchical", 64, group=4, radix=4)
    tree = run_ensemble([Configuration(nodes=16, radix=4)], runs=1, jobs=1)[0]["latency_steps"].mean
    # Three values are read, and the step until the last of them can be; at the end one more access.
    assert without.latency_steps == tree + 3 + 1 + 2
    assert run("hierarchical", 64, {5: 0}, group=4, radix=4).latency_steps <= without.latency_steps + 4
    # Two dead leaders are noticed one after the other, in 4 steps each, and then there is one value to read, not three.
    two = run("hierarchical", 8, group=4).latency_steps
    assert run("hierarchical", 8, {0: 0, 1: 0}, group=4).latency_steps == two + 2 * 4 - 2
    for dead in combinations(range(1, 8), 5):
        found = run("hierarchical", 8, dict.fromkeys(dead, 0), group=2)
        assert (found.hung, found.dead) == (False, 5)
    assert (
        run("hierarchical", 6, group=1).latency_steps
        == run_ensemble([Configuration(nodes=6, radix=2)], runs=1, jobs=1)[0]["latency_steps"].mean
    )


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"algorithm": "magic"}, "algorithm: unknown algorithm 'magic'"),
        ({"algorithm": "gossip"}, "gossip needs --operation bcast, got allreduce"),
        ({"algorithm": "rebalancing", "failures": 1}, "algorithm: rebalancing cannot be combined with --failures:"),
        ({"algorithm": "hierarchical", "group": 0}, "group: 0 is out of range (at least 1)"),
    ],
)
def test_what_an_algorithm_cannot_do_is_refused(wrong: dict[str, object], says: str):
    with pytest.raises(ConfigError, match=re.escape(says)):
        Configuration(nodes=8, radix=2, **wrong)
