"""The compiled model does what the plain one does, and runs without numba, too."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import astuple, replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.campaign import CAMPAIGN
from xsim_py.errors import ConfigError
from xsim_py.ftco import compiled
from xsim_py.ftco.compiled import jit
from xsim_py.ftco.model import RULES, Configuration, run_seed
from xsim_py.ftco.steps import Action, run_steps

REFERENCE = RULES["reference"]
PACKAGE = "xsim_py.ftco.compiled"


@pytest.fixture(scope="module")
def uncompiled() -> Iterator[ModuleType]:
    """The package as it is where there is no numba."""
    mine = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(PACKAGE)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "numba", None)
        plain = importlib.import_module(PACKAGE)
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]
    sys.modules.update(mine)
    assert not plain.COMPILED
    return plain


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    """Everything that the compiled model knows."""
    nodes = draw(st.integers(1, 40))
    roots = draw(st.sampled_from(("single", "multi"))) if nodes > 1 else "single"
    faults = draw(st.integers(0, min(nodes - 1, 6)))
    inactive = draw(st.integers(0, faults))
    window = draw(st.one_of(st.none(), st.tuples(st.integers(0, 60), st.integers(61, 120))))
    rules = replace(
        REFERENCE,
        order=draw(st.sampled_from(("code", "printed"))),
        keepalive=draw(st.sampled_from(("all", "not_arrived"))),
        control_latency=draw(st.sampled_from(("distance", "full"))),
        service=draw(st.sampled_from(("rsd", "disd", "none"))),
        streams=draw(st.sampled_from(("shared", "own"))),
        draw=draw(st.sampled_from(("replacement", "distinct"))),
        eta=draw(st.sampled_from(("reset", "kept"))),
    )
    return Configuration(
        nodes=nodes,
        tree=draw(st.sampled_from(("knomial", "kary"))),
        radix=draw(st.integers(2, min(nodes, 8) if roots == "multi" else 8)),
        roots=roots,
        L=draw(st.integers(1, 12)),
        inactive=inactive,
        failures=faults - inactive,
        window=window,
        imbalance=draw(st.sampled_from(("none", "uniform:30", "normal:100"))),
        operation=draw(st.sampled_from(("allreduce", "reduce", "bcast"))),
        rules=rules,
        timeout=draw(st.one_of(st.none(), st.integers(1, 60))),
    )


def both(model: ModuleType, configuration: Configuration, seed: int) -> None:
    actions: list[Any] = []
    outcome = model.run(configuration, seed, record=actions)
    if not outcome.hung:
        expected: list[Action] = []
        assert outcome == run_steps(configuration, seed, record=expected)
        assert actions == [tuple(action) for action in expected]


@given(configurations(), st.integers(0, 2**64 - 1))
def test_every_action_is_that_of_the_plain_model(
    uncompiled: ModuleType, configuration: Configuration, seed: int
) -> None:
    both(uncompiled, configuration, seed)


CASES = [
    Configuration(nodes=100, radix=4, inactive=5, failures=5),
    Configuration(nodes=100, radix=4, inactive=5, rules=replace(REFERENCE, service="disd", order="printed")),
    Configuration(nodes=100, radix=3, failures=7, rules=replace(REFERENCE, streams="own", control_latency="full")),
    Configuration(nodes=90, radix=3, roots="single", tree="kary", inactive=3, imbalance="normal:300", timeout=50),
    Configuration(nodes=70, radix=3, failures=3, operation="reduce", imbalance="uniform:50"),
    Configuration(nodes=70, radix=3, failures=3, operation="bcast", rules=replace(REFERENCE, keepalive="not_arrived")),
]


@pytest.mark.parametrize("configuration", CASES)
def test_compiled_it_does_the_same(configuration: Configuration) -> None:
    for run in range(10 if CAMPAIGN else 3):
        both(compiled, configuration, run_seed(3, run))


def test_many_runs_are_the_runs_one_by_one(uncompiled: ModuleType) -> None:
    rows = uncompiled.run_many(CASES[0], 5, range(2, 6))
    alone = [astuple(uncompiled.run(CASES[0], run_seed(5, run))) for run in range(2, 6)]
    assert np.array_equal(rows, alone)


def test_arrays_that_are_too_small_are_made_larger(uncompiled: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    enlarge = uncompiled.Model.enlarge
    monkeypatch.setattr(uncompiled.Model, "enlarge", lambda model, kind: (made.append(kind), enlarge(model, kind)))
    configuration = Configuration(nodes=300, radix=5, inactive=60)
    expected: list[Action] = []
    found: list[Any] = []
    assert uncompiled.run(configuration, 1, record=found) == run_steps(configuration, 1, record=expected)
    assert found == [tuple(action) for action in expected]
    assert len(made) > 1


FAULT_FREE = [
    (1024, 11, 99, 3060, 21, 9),
    (2048, 12, 114, 6119, 23, 11),
    (4096, 9, 125, 12296, 32, 8),
    (8192, 10, 136, 24575, 32, 9),
    (16384, 12, 148, 49127, 32, 11),
    (32768, 9, 161, 98312, 43, 8),
    (65536, 9, 171, 196616, 43, 9),
]


@pytest.mark.parametrize(("nodes", "radix", "latency", "messages", "spread", "queue"), FAULT_FREE)
def test_published_figures_without_faults(
    nodes: int, radix: int, latency: int, messages: int, spread: int, queue: int
) -> None:
    """Margolin and Barak, figure 7 and table 2, and what their simulator prints."""
    outcome = compiled.run(Configuration(nodes=nodes, radix=radix), 1)
    found = (outcome.latency_steps, outcome.messages, outcome.output_spread, outcome.longest_queue)
    assert found == (latency, messages, spread, queue)


def test_it_runs_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def njit(*, cache: bool = False, **_options: bool) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: ("compiled", function)

    monkeypatch.setattr(jit, "_njit", njit)
    assert jit.jit_cached(len) == ("compiled", len)


def test_other_traversals_are_refused() -> None:
    configuration = Configuration(nodes=8, radix=2, rules=RULES["paper"])
    assert not compiled.supports(configuration)
    with pytest.raises(ConfigError, match="traversal=paper"):
        compiled.run(configuration, 1)


# What is run, the mean latency that is published or was found with the authors' simulator, and in how many runs; ours.
PUBLISHED = [
    (Configuration(nodes=2048, radix=12, inactive=1), 144.38, 3000, 200 if CAMPAIGN else 80),
    (Configuration(nodes=2048, radix=12, inactive=10), 187.0, 3000, 150 if CAMPAIGN else 50),
    (Configuration(nodes=4096, radix=9, failures=10), 178.7, 3000, 80 if CAMPAIGN else 20),
]


@pytest.mark.parametrize(("configuration", "published_steps", "their_runs", "runs"), PUBLISHED)
def test_published_means_with_faults(
    configuration: Configuration, published_steps: float, their_runs: int, runs: int
) -> None:
    """Margolin and Barak, figures 8 to 10, within three standard errors of both; `test_figures` has the others."""
    rows = compiled.run_many(configuration, 1, range(runs))
    latencies = rows[rows[:, compiled.COLUMNS.index("hung")] == 0, compiled.COLUMNS.index("latency_steps")]
    error = latencies.std() * np.sqrt(1 / len(latencies) + 1 / their_runs)
    assert abs(latencies.mean() - published_steps) <= 3 * error


@pytest.mark.sampled
@pytest.mark.parametrize("faults", [{"inactive": 1}, {"inactive": 10}, {"inactive": 100}, {"failures": 10}], ids=str)
def test_the_plain_model_does_the_same_at_the_size_of_the_published_means(faults: dict[str, int]) -> None:
    configuration = Configuration(nodes=1024, radix=11, **faults)
    runs = range(3 if CAMPAIGN else 1)
    rows = compiled.run_many(configuration, 1, runs)
    assert np.array_equal(rows, [astuple(run_steps(configuration, run_seed(1, run))) for run in runs])
