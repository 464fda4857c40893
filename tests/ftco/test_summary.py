"""Means, standard errors and penalties from the figures of runs."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.ftco.backend import measure
from xsim_py.ftco.model import Configuration
from xsim_py.ftco.summary import COLUMNS, UNITS, Statistic, expected_largest, statistic, summarise

MADE = Configuration(nodes=10, radix=3, inactive=1, failures=1)


def rows(**columns: list[int]) -> np.ndarray:
    """Return runs with these figures, and zeros elsewhere."""
    count = len(next(iter(columns.values())))
    return np.array([[columns.get(name, [0] * count)[run] for name in COLUMNS] for run in range(count)], np.int64)


@given(st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=50))
def test_a_statistic_is_the_textbooks(values: list[int]):
    found = statistic(values)
    assert found.mean == pytest.approx(statistics.mean(values), rel=1e-12, abs=1e-9)
    assert found.stderr == pytest.approx(statistics.stdev(values) / math.sqrt(len(values)), rel=1e-9, abs=1e-9)
    assert (found.min, found.max) == (min(values), max(values))


def test_one_value_has_no_standard_error_and_none_no_statistic():
    assert statistic([3]) == Statistic(3.0, None, 3.0, 3.0)
    assert statistic([]) is None
    assert statistic([0.1] * 7) == Statistic(0.1, 0.0, 0.1, 0.1)


def test_work_is_exact_and_truncated():
    found = summarise(MADE, 0, rows(messages=[19, 31]), rows(messages=[11]), None)
    assert found["work"].mean == pytest.approx((1.9 + 3.1) / 2)
    assert found["work_truncated"].mean == (1 + 3) / 2


def test_penalties_are_divided_by_the_number_of_faults_drawn():
    found = summarise(
        MADE, 0, rows(latency_steps=[110, 130], messages=[50, 70]), rows(latency_steps=[100], messages=[30]), None
    )
    assert found.fault_free_steps == 100
    assert found["penalty_steps_per_fault"][:1] + found["penalty_steps_per_fault"][2:] == (10.0, 5.0, 15.0)
    assert found["penalty_work_per_fault"].mean == pytest.approx((20 + 40) / 2 / 10 / 2)


def test_without_faults_there_is_no_penalty():
    found = summarise(Configuration(nodes=10, radix=3), 0, rows(latency_steps=[100]), rows(latency_steps=[100]), None)
    assert found["penalty_steps_per_fault"] is None
    assert found["latency_s"] is None


def test_under_imbalance_each_run_is_compared_with_the_same_starts():
    found = summarise(MADE, 0, rows(latency_steps=[110, 130]), rows(latency_steps=[100, 128]), 1e-7)
    assert found["penalty_steps_per_fault"].mean == (10 + 2) / 2 / 2
    assert found.fault_free_steps is None
    assert found["latency_s"].mean == pytest.approx(120e-7)


def test_a_run_that_hangs_is_counted_and_in_no_mean():
    found = summarise(MADE, 5, rows(latency_steps=[110, 9, 130], hung=[0, 1, 0]), rows(latency_steps=[100]), None)
    assert (found.runs, found.hung, found["latency_steps"].mean) == (3, 1, 120.0)
    told = found.to_dict()
    assert (told["runs"], told["hung"], told["seed"], told["radix"]) == (3, 1, 5, 3)
    assert told["latency_steps"] == {"mean": 120.0, "stderr": 10.0, "min": 110.0, "max": 130.0}
    assert set(UNITS) < set(told)


def test_when_all_hang_there_is_nothing_to_say():
    found = summarise(MADE, 0, rows(hung=[1]), rows(latency_steps=[100]), None)
    assert (found.hung, found["latency_steps"]) == (1, None)


def test_the_formal_model_is_there_by_name():
    from xsim_py import ftco
    from xsim_py.ftco import ensemble, model

    assert ftco.Configuration is model.Configuration
    assert ftco.run_ensemble is ensemble.run_ensemble
    assert all(getattr(ftco, name) is not None for name in ftco.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'run_ensembles'"):
        _ = ftco.run_ensembles


def test_the_largest_of_many_runs_is_estimated_from_a_few_of_them():
    """300 times: 50 draws of Gumbel's distribution, and how far off the largest of 5,000 others is."""
    draw = np.random.default_rng(1)
    off = []
    for _ in range(300):
        expected, deviation = expected_largest(statistic(draw.gumbel(40, 3, 50)), 50, 5000)
        off.append((draw.gumbel(40, 3, 5000).max() - expected) / deviation)
    assert abs(np.mean(off)) < 0.2
    assert 0.7 < np.std(off) < 1.3


def test_the_longest_queue_of_a_block_of_runs_is_that_of_an_extreme_value():
    made = Configuration(nodes=256, radix=4, imbalance="normal:128")
    rows = measure(made, 3, range(600))[:, COLUMNS.index("longest_queue")]
    expected, deviation = expected_largest(statistic(rows[:40]), 40, 56)
    assert rows[40:].reshape(10, 56).max(axis=1).mean() == pytest.approx(expected, abs=2 * deviation)
