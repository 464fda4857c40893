"""One run, message by message."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xsim_py.errors import ConfigError
from xsim_py.ftco.model import RULES, Configuration, run_seed
from xsim_py.ftco.steps import run_steps
from xsim_py.ftco.trace import trace_run

SMALL = Configuration(nodes=7, tree="kary", radix=2, roots="single", operation="reduce", rules=RULES["paper"])


@settings(max_examples=30, deadline=None)
@given(
    nodes=st.integers(4, 20),
    failures=st.integers(0, 2),
    operation=st.sampled_from(["allreduce", "reduce", "bcast"]),
    rules=st.sampled_from(list(RULES.values())),
    seed=st.integers(0, 1000),
    algorithm=st.sampled_from(["tree", "recursive_doubling"]),
)
def test_a_trace_is_the_run_with_all_its_messages(nodes, failures, operation, rules, seed, algorithm):
    operation = operation if algorithm == "tree" else "allreduce"
    told = {"operation": operation, "rules": rules, "algorithm": algorithm}
    made = Configuration(nodes=nodes, radix=2, failures=failures, **told)
    outcome, flow = trace_run(made, seed=seed, run=3)
    assert outcome == run_steps(made, run_seed(seed, 3))
    sent = [arrow for arrow in flow.arrows if arrow.sent <= outcome.last_step]
    assert len(sent) == outcome.messages
    assert sum(arrow.kind == "DATA" for arrow in sent) == outcome.data
    for arrow in flow.arrows:
        assert arrow.sent < arrow.arrived
        assert arrow.taken is None or arrow.taken >= arrow.arrived
    assert all(step <= flow.end for step in (*flow.deaths.values(), *flow.finishes.values()))


def test_children_of_a_dead_parent_turn_to_its_parent():
    outcome, flow = trace_run(SMALL, deaths={1: 0})
    data = [(arrow.source, arrow.dest) for arrow in flow.arrows if arrow.kind == "DATA"]
    assert data == [(3, 1), (4, 2), (5, 1), (6, 2), (2, 0), (3, 0), (5, 0)]
    limit = SMALL.timing().timeout(1, 1)
    assert [notice for notice in flow.learned if notice[1] in (3, 5)] == [(limit, 3, 1), (limit, 5, 1)]
    assert [arrow.taken for arrow in flow.arrows if arrow.dest == 1] == [None] * 3
    assert (outcome.dead, outcome.hung) == (1, False)


def test_a_child_that_is_late_is_asked():
    _, flow = trace_run(SMALL, deaths={6: 0})
    asked = [(arrow.source, arrow.dest) for arrow in flow.arrows if arrow.kind == "KEEPALIVE"]
    assert (2, 6) in asked
    assert (2, 6) in [(node, dead) for _, node, dead in flow.learned]


@pytest.mark.parametrize(
    ("deaths", "said"),
    [({7: 0}, "7 is out of range: expected a node from 0 to 6"), (dict.fromkeys(range(7), 0), "at least one must")],
)
def test_deaths_that_cannot_be(deaths: dict[int, int], said: str):
    with pytest.raises(ConfigError, match=said):
        trace_run(SMALL, deaths=deaths)
    with pytest.raises(ConfigError, match="0: node 0 never fails under these rules; use --rules paper"):
        trace_run(replace(SMALL, rules=RULES["reference"]), deaths={0: 3})
