"""The formal model under the rules ``paper``: it ends for all who live, each of whom is in the one result once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.ftco.model import NEVER, RULES, Configuration, Plan
from xsim_py.ftco.steps import StepModel


@st.composite
def cases(draw: st.DrawFn) -> tuple[Configuration, Plan]:
    nodes = draw(st.integers(1, 12) | st.integers(1, 64))
    radix = draw(st.integers(2, 12))
    configuration = Configuration(
        nodes=nodes,
        tree=draw(st.sampled_from(["knomial", "kary"])),
        radix=radix,
        roots=draw(st.sampled_from(["single", "multi"] if radix <= nodes else ["single"])),
        L=draw(st.sampled_from([1, 2, 10, 30])),
        operation=draw(st.sampled_from(["allreduce", "reduce", "bcast"])),
        timeout=draw(st.none() | st.sampled_from([1, 50, 500])),
        rules=RULES["paper"],
    )
    doomed = sorted(draw(st.sets(st.integers(0, nodes - 1), max_size=nodes - 1)))
    dead_step = np.full(nodes, NEVER, np.int64)
    if doomed:
        # Inactive, or during the way up, the way down, or somewhere in between where others repair.
        moments = st.just(0) | st.integers(0, 60) | st.integers(0, 1000)
        dead_step[doomed] = draw(st.lists(moments, min_size=len(doomed), max_size=len(doomed)))
    late = st.lists(st.just(0) | st.integers(0, 300), min_size=nodes, max_size=nodes)
    start_step = np.array(draw(st.just([0] * nodes) | late), np.int64)
    return configuration, Plan(draw(st.integers(0, 2**64 - 1)), dead_step, start_step)


@given(cases())
def test_whoever_dies_and_whenever_all_who_live_end_with_every_one_of_them_in_one_result(case):
    configuration, plan = case
    model = StepModel(configuration, plan)
    outcome = model.run()
    assert not outcome.hung
    living = [node for node, lives in zip(model.nodes, model.alive, strict=True) if lives]
    if configuration.operation == "reduce":
        living = living[:1] if model.alive[0] else []
    results = {node.result for node in living if node.result is not None or node.me}
    assert len(results) <= 1
    for result in results:
        if configuration.operation == "bcast":
            assert result.payload == 1 or (result.payload is None and not model.alive[0])
            continue
        # Node n contributes 2**n: one that was used twice would carry into the next bit.
        missing = sum(1 << node for node in result.missing)
        assert result.payload == (1 << configuration.nodes) - 1 - missing
        assert not any(model.alive[node] for node in result.missing)


def test_a_coordinator_that_is_asked_by_many_finds_time_to_ask():
    """With questions at a fixed interval node 1 did nothing but answer 2, 3, 5, 6 and 7, and never asked 4."""
    configuration = Configuration(nodes=8, radix=7, roots="single", L=1, rules=RULES["paper"])
    dead_step = np.full(8, NEVER, np.int64)
    dead_step[[0, 4]] = 0
    assert not StepModel(configuration, Plan(0, dead_step, np.zeros(8, np.int64))).run().hung
