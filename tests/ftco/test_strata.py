"""Stratified ensembles have the means of plain ones."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xsim_py.errors import ConfigError
from xsim_py.ftco.backend import measure
from xsim_py.ftco.ensemble import run_ensemble
from xsim_py.ftco.model import NEVER, RULES, Configuration, plan, ranking, run_seed
from xsim_py.ftco.strata import levels, strata
from xsim_py.ftco.summary import COLUMNS, statistic
from xsim_py.rng import derive_seed

pytestmark = pytest.mark.usefixtures("in_this_process")

SMALL = Configuration(nodes=16, radix=2)


def test_levels_of_a_tree_are_those_of_its_distances():
    assert levels(Configuration(nodes=1024, radix=11)) == [(1, 11), (11, 121), (121, 209), (209, 1024)]
    assert levels(Configuration(nodes=30, radix=3, tree="kary")) == [(1, 3), (3, 12), (12, 30)]
    assert levels(Configuration(nodes=20, radix=2, rules=RULES["paper"]))[0] == (0, 2)
    order, bounds = ranking(9, "knomial", 3, "single")
    assert order.tolist() == [0, 1, 2, 3, 6, 4, 5, 7, 8]  # 3 and 6 are the root's, the last four its children's
    assert bounds.tolist() == [0, 1, 3, 5, 9]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(4, 300), st.sampled_from(("knomial", "kary")), st.sampled_from(("single", "multi")),
    st.integers(1, 3), st.sampled_from(("reference", "paper")), st.data(),
)  # fmt: skip
def test_strata_are_all_that_can_happen_and_draws_keep_to_them(nodes, tree, roots, faults, rules, data):
    radix = data.draw(st.integers(2, min(nodes, 12)))
    made = Configuration(
        nodes=nodes, radix=radix, tree=tree, roots=roots, inactive=faults - 1, failures=1, rules=RULES[rules]
    )
    parts = strata(made, 20)
    assert math.fsum(part.weight for part in parts) == pytest.approx(1.0)
    bounds = [part.configuration.topmost for part in parts]
    assert bounds[0][0] == made.first_mortal
    assert bounds[-1][1] == nodes
    assert all(one[1] == other[0] for one, other in pairwise(bounds))
    for part in parts:
        first, end = part.configuration.topmost
        dead = np.flatnonzero(plan(part.configuration, run_seed(1, data.draw(st.integers(0, 99)))).dead_step != NEVER)
        place = np.argsort(ranking(nodes, tree, radix, roots)[0])
        assert first <= place[dead].min() < end
        assert rules == "reference" or len(dead) == faults


@pytest.mark.parametrize("draw", ["replacement", "distinct"])
def test_draws_of_a_stratum_are_those_of_all_nodes_that_belong_to_it(draw: str):
    """Two faults of nodes 1 to 5, the smaller of them 2 or 3: by a list of all pairs, and by 4,000 draws."""
    made = Configuration(
        nodes=6, radix=2, tree="kary", inactive=2, topmost=(2, 4), rules=replace(RULES["reference"], draw=draw)
    )
    pairs = product(range(1, 6), repeat=2) if draw == "replacement" else permutations(range(1, 6), 2)
    expected = Counter(tuple(sorted(set(pair))) for pair in pairs if 2 <= min(pair) < 4)
    total = sum(expected.values())
    found = Counter(tuple(np.flatnonzero(plan(made, run_seed(3, run)).dead_step == 0).tolist()) for run in range(4000))
    assert set(found) == set(expected)
    for pair, count in expected.items():
        share = count / total
        assert abs(found[pair] - 4000 * share) < 4.5 * math.sqrt(4000 * share * (1 - share)), pair
    weights = {part.configuration.topmost: part.weight for part in strata(replace(made, topmost=None), 10)}
    count = 25 if draw == "replacement" else 20
    assert list(weights) == [(1, 2), (2, 6)]
    assert weights[2, 6] == pytest.approx((16 if draw == "replacement" else 12) / count)
    assert total == (12 if draw == "replacement" else 10)


@settings(max_examples=2, deadline=None)
@given(
    st.sampled_from([(64, 4), (81, 3), (100, 5)]), st.sampled_from([(1, 0), (0, 1), (3, 0), (0, 3), (2, 2)]),
    st.integers(0, 10**6),
)  # fmt: skip
def test_they_have_the_means_of_plain_runs(tree, faults, seed):
    made = Configuration(nodes=tree[0], radix=tree[1], inactive=faults[0], failures=faults[1])
    (plain,) = run_ensemble([made], runs=1000, seed=seed, jobs=1)
    (found,) = run_ensemble([made], runs=400, seed=seed + 1, jobs=1, sampling="strata")
    for name in ("latency_steps", "work", "penalty_steps_per_fault"):
        one, other = plain[name], found[name]
        # Four figures of eight draws lie within 4.5 errors of the difference in all but one in 5,000 such tests.
        assert abs(one.mean - other.mean) <= 4.5 * math.hypot(one.stderr, other.stderr), name


def test_one_fault_is_a_finite_sum_where_there_are_runs_enough():
    made = replace(SMALL, inactive=1)
    (found,) = run_ensemble([made], runs=15, seed=5, jobs=1, sampling="strata")
    place = COLUMNS.index("latency_steps")
    steps = [
        int(measure(replace(made, topmost=(first + run, first + run + 1)), seed, range(run, run + 1))[0, place])
        for stream, (first, end) in enumerate(levels(made), 1)
        for seed in [derive_seed(5, "stratum", stream)]
        for run in range(end - first)
    ]
    assert found.runs == 15
    assert found["latency_steps"].mean == pytest.approx(sum(steps) / 15)


def test_errors_are_smaller_than_those_of_as_many_plain_runs():
    made = Configuration(nodes=1024, radix=11, inactive=1)
    (plain,) = run_ensemble([made], runs=200, jobs=1)
    (found,) = run_ensemble([made], runs=200, jobs=1, sampling="strata")
    assert 0 < found["latency_steps"].stderr < 0.2 * plain["latency_steps"].stderr


def test_neither_processes_nor_pieces_show_in_strata_either():
    made = [replace(SMALL, inactive=2), replace(SMALL, inactive=1, imbalance="uniform:9"), SMALL]
    expected = run_ensemble(made, runs=20, jobs=1, sampling="strata")
    assert run_ensemble(made, runs=20, jobs=2, sampling="strata") == expected
    assert expected[2] == run_ensemble([SMALL], runs=20, jobs=1)[0]


def test_the_error_of_a_sum_over_all_nodes_is_that_of_neighbours():
    assert statistic([1.0, 3.0, 5.0, 7.0], exhaustive=True).stderr == pytest.approx(math.sqrt(3 * 4 / 2 / 3 / 4))


def test_what_is_no_sampling_is_refused():
    with pytest.raises(ConfigError, match="sampling: expected plain or strata, got 'some'"):
        run_ensemble([SMALL], runs=1, sampling="some")
    with pytest.raises(ConfigError, match="topmost: no node that can fail has an index from 0"):
        replace(SMALL, inactive=1, topmost=(0, 3))
    with pytest.raises(ConfigError, match="topmost: 0 faults cannot be drawn"):
        replace(SMALL, topmost=(1, 3))
