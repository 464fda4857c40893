"""The step model: exact without faults, and what it lets happen."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.ftco.model import NEVER, RULES, Configuration, Plan, parse_rules, plan, run_seed
from xsim_py.ftco.steps import Action, StepModel, run_steps
from xsim_py.mpi.ftco.node import ACK, DATA, KEEPALIVE
from xsim_py.mpi.ftco.trees import fault_free_latency


def planned(configuration: Configuration, dead: dict[int, int], record: list[Action] | None = None) -> StepModel:
    """A run in which these nodes die in these steps."""
    steps = np.full(configuration.nodes, NEVER, np.int64)
    for node, step in dead.items():
        steps[node] = step
    return StepModel(configuration, Plan(run_seed(3, 0), steps, np.zeros(configuration.nodes, np.int64)), record=record)


@pytest.mark.parametrize(
    ("nodes", "figures"),
    [(1024, (99, 3060, 21, 9)), (2048, (114, 6119, 23, 11)), (4096, (125, 12296, 32, 8))],
)
def test_published_figures_without_faults(nodes: int, figures: tuple[int, ...]) -> None:
    outcome = run_steps(Configuration(nodes=nodes), 1)
    assert figures == (
        outcome.latency_steps,
        outcome.messages,
        outcome.output_spread,
        outcome.longest_queue,
    )
    assert outcome.keepalives == 0
    assert outcome.data + outcome.acks == outcome.messages


@pytest.mark.sampled
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("operation", ["allreduce", "reduce", "bcast"])
def test_latency_without_faults_is_the_calculated_one(rules: str, operation: str) -> None:
    for nodes, tree, radix, roots, latency in product(
        (1, 2, 7, 40, 90), ("knomial", "kary"), (2, 3, 7), ("single", "multi"), (1, 10)
    ):
        if roots == "multi" and radix > nodes > 1:
            continue
        configuration = Configuration(
            nodes=nodes, tree=tree, radix=radix, roots=roots, L=latency, operation=operation, rules=RULES[rules]
        )
        expected = fault_free_latency(configuration.shape(), latency=latency, overhead=1, operation=operation)
        outcome = run_steps(configuration, 5)
        assert (outcome.latency_steps, outcome.hung) == (expected, False), configuration


@pytest.mark.parametrize(("radix", "height"), [(2, 4), (3, 3), (4, 2), (11, 1), (13, 1)])
def test_output_spread_of_full_trees(radix: int, height: int) -> None:
    outcome = run_steps(Configuration(nodes=radix ** (height + 1), radix=radix), 1)
    assert outcome.output_spread == 11 * height


def test_a_step_lasts_an_overhead() -> None:
    fast = run_steps(Configuration(nodes=64, L=10, o=1), 1)
    assert run_steps(Configuration(nodes=64, L=50, o=5), 1) == fast


@st.composite
def runs(draw: st.DrawFn) -> tuple[Configuration, int]:
    rules = draw(st.sampled_from(["reference", "paper", "reference,control_latency=full,order=printed,streams=own"]))
    nodes = draw(st.integers(2, 60))
    faults = draw(st.integers(0, min(6, nodes - 1)))
    inactive = draw(st.integers(0, faults))
    configuration = Configuration(
        nodes=nodes,
        tree=draw(st.sampled_from(["knomial", "kary"])),
        radix=draw(st.integers(2, max(2, min(9, nodes)))),
        roots=draw(st.sampled_from(["single", "multi"])),
        inactive=inactive,
        failures=faults - inactive,
        window=(0, 30),
        imbalance=draw(st.sampled_from(["none", "uniform:50", "normal:100"])),
        rules=parse_rules(rules),
    )
    return configuration, draw(st.integers(0, 2**64 - 1))


@given(runs())
def test_what_every_run_must_keep_to(case: tuple[Configuration, int]) -> None:
    configuration, seed = case
    record: list[Action] = []
    drawn = plan(configuration, seed)
    outcome = StepModel(configuration, drawn, record=record).run()
    assert run_steps(configuration, seed) == outcome
    sent = [action for action in record if action.what == "send"]
    assert [sum(action.kind == kind for action in sent) for kind in (DATA, KEEPALIVE, ACK)] == [
        outcome.data,
        outcome.keepalives,
        outcome.acks,
    ]
    # Nobody does two things in one step, but answer before it has begun; and nobody acts when dead.
    for before, after in pairwise(record):
        if (before.step, before.node) == (after.step, after.node):
            assert after.step < drawn.start_step[after.node]
            assert (before.what, after.what, after.kind) == ("take", "send", ACK)
    assert all(action.step < drawn.dead_step[action.node] for action in record)
    # What is taken was sent, long enough ago, and once.
    under_way: dict[tuple[int, int, int], list[int]] = {}
    full = configuration.latency + 1
    for step, node, what, kind, peer in record:
        if what == "send":
            under_way.setdefault((node, peer, kind), []).append(step)
        else:
            departure = under_way[peer, node, kind].pop(0)
            quick = kind != DATA and configuration.rules.control_latency == "distance"
            assert step - departure >= (1 if quick else full)


def test_a_result_that_dies_with_its_bearer_hangs_the_reference_only() -> None:
    """The paper's "disruption": a father takes the result and dies; who is above it has finished."""
    reference = Configuration(nodes=27, radix=3, roots="single")
    record: list[Action] = []
    planned(reference, {}, record).run()
    father = 1  # its father is node 0; give it one that finishes
    child = next(node for node in reference.shape().children(father) if reference.shape().children(node))
    taken = max(
        action.step for action in record if action.node == child and action.kind == DATA and action.what == "take"
    )
    dead = {child: taken + 1}
    hung = planned(reference, dead).run()
    assert hung.hung
    assert hung.dead == 1
    outcome = planned(replace(reference, rules=RULES["paper"]), dead).run()
    assert not outcome.hung
