"""Random failures follow their law, each component for itself, for ever, and the same way every time."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.failure.models import described, errors, model, times_s
from xsim_py.config import DrawSpec
from xsim_py.errors import ConfigError
from xsim_py.failure import FailureModel
from xsim_py.failure.draws import Renewals, interval_ps
from xsim_py.units import PS_PER_S

EXPONENTIAL = DrawSpec(per="node", law="exponential", mtbf_ps=100 * PS_PER_S)
WEIBULLS = [DrawSpec(per="node", law="weibull", mtbf_ps=100 * PS_PER_S, shape=shape) for shape in (0.7, 0.78, 1.0, 3.0)]
LAWS = pytest.mark.parametrize("draw", [EXPONENTIAL, *WEIBULLS], ids=lambda draw: f"{draw.law}-{draw.shape}")
MANY = 20_000


def renewals(draw: DrawSpec, *, count: int = MANY, seed: int = 0, occurrence: int = 0) -> Renewals:
    return Renewals(draw, occurrence=occurrence, count=count, seed=seed)


def chances(draw: DrawSpec, times_ps: list[int]) -> npt.NDArray[np.float64]:
    """How probable a failure was by each time; uniform if the times follow the law."""
    shape = draw.shape or 1.0
    scale_ps = draw.mtbf_ps / math.gamma(1 + 1 / shape)
    return 1 - np.exp(-((np.array(times_ps, dtype=float) / scale_ps) ** shape))


def distance(uniform: npt.NDArray[np.float64]) -> float:
    """Kolmogorov and Smirnov's distance from uniform, in units of its standard size."""
    ordered, steps = np.sort(uniform), np.arange(len(uniform) + 1) / len(uniform)
    return float(max(np.max(ordered - steps[:-1]), np.max(steps[1:] - ordered)) * math.sqrt(len(uniform)))


def close(sample: npt.NDArray[np.float64], mean: float) -> bool:
    """Whether a sample's mean is within three standard errors of what it should be."""
    return bool(abs(np.mean(sample) - mean) < 3 * np.std(sample, ddof=1) / math.sqrt(len(sample)))


@LAWS
def test_first_failures_follow_the_law(draw: DrawSpec) -> None:
    first = renewals(draw).next_ps(-1)
    assert distance(chances(draw, first)) < 1.63  # the 1 % point
    assert close(np.array(first) / draw.mtbf_ps, 1)


@LAWS
def test_the_time_from_a_failure_to_the_next_follows_the_law(draw: DrawSpec) -> None:
    drawn = renewals(draw, count=2000)
    first = drawn.next_ps(-1)
    third = [drawn._later_ps(i, drawn._later_ps(i, time_ps)) for i, time_ps in enumerate(first)]
    second = [drawn._later_ps(i, time_ps) for i, time_ps in enumerate(first)]
    for earlier, later in [(first, second), (second, third)]:
        intervals = [b - a for a, b in zip(earlier, later, strict=True)]
        assert distance(chances(draw, intervals)) < 1.63
        assert abs(np.corrcoef(earlier, intervals)[0, 1]) < 3 / math.sqrt(2000)


def test_weibull_with_shape_one_is_exponential() -> None:
    for uniform in (0.0, 0.1, 0.5, 0.999999, 1 - 2**-53):
        assert interval_ps(WEIBULLS[2], uniform) == pytest.approx(interval_ps(EXPONENTIAL, uniform), rel=1e-12)


@pytest.mark.parametrize(("shape", "factor"), [(0.7, 1.2658), (0.78, 1.1543), (0.8, 1.1330)])
def test_the_mean_of_a_weibull_law_is_its_scale_times_gamma(shape: float, factor: float) -> None:
    """At 1 - 1/e of the distribution stands the scale; the factors are tabulated in the literature."""
    draw = DrawSpec(per="node", law="weibull", mtbf_ps=10**15, shape=shape)
    assert 10**15 / interval_ps(draw, 1 - math.exp(-1)) == pytest.approx(factor, rel=1e-4)


@pytest.mark.parametrize("draw", [EXPONENTIAL, WEIBULLS[0]], ids=lambda draw: draw.law)
def test_the_first_of_many_components_fails_so_much_earlier(draw: DrawSpec) -> None:
    """The minimum of n is of the same law, its mean divided by n^(1/shape): for exponential laws MTBF / n."""
    n = 16
    firsts = np.array([min(renewals(draw, count=n, seed=seed).next_ps(-1)) for seed in range(1500)]) / draw.mtbf_ps
    assert close(firsts, n ** (-1 / (draw.shape or 1)))


def test_in_the_long_run_there_is_a_failure_every_mtbf() -> None:
    told = model("exponential:rank,mtbf=1s", ranks=1)
    count, now_s = 0, 0.0
    while (now_s := times_s(told, now_s)[0]) < 4000:
        count += 1
    assert abs(count - 4000) < 3 * math.sqrt(4000)


def test_an_mtbf_of_a_million_years_is_nothing_special() -> None:
    times = times_s(model("weibull:node,mtbf=1e10h,shape=0.5", ranks=1000))
    assert np.mean(list(times.values())) == pytest.approx(3.6e13, rel=0.3)


def test_a_failure_does_not_depend_on_how_many_others_there_are() -> None:
    """So neither on who simulates which ranks."""
    few, many = (model("exponential:node,mtbf=1h", ranks=ranks) for ranks in (10, 1000))
    for start_s in (0, 3600, 36_000):
        assert times_s(few, start_s) == {rank: s for rank, s in times_s(many, start_s).items() if rank < 10}


def test_a_failure_does_not_depend_on_what_was_asked_before() -> None:
    asked = model("weibull:node,mtbf=1h,shape=0.7")
    answers = {start_s: times_s(asked, start_s) for start_s in (0, 10_000, 500, 10_000, 99_999, 0)}
    for start_s, answer in answers.items():
        assert answer == times_s(model("weibull:node,mtbf=1h,shape=0.7"), start_s)


def test_a_restart_meets_what_would_have_come_next() -> None:
    told = model("exponential:node,mtbf=1h")
    start_s, dead = 0.0, []
    for _ in range(20):
        times = times_s(told, start_s)
        rank = min(times, key=lambda rank: times[rank])
        assert times[rank] > start_s
        later = times_s(told, times[rank])
        assert {other: s for other, s in later.items() if other != rank} == {
            other: s for other, s in times.items() if other != rank
        }
        assert later[rank] > times[rank]
        start_s = times[rank]
        dead.append(rank)
    assert len(set(dead)) > 3


def test_laws_do_not_meddle_with_each_other() -> None:
    alone = times_s(model("exponential:node,mtbf=1h", per_node=2))
    beside = model(
        "exponential:rank,mtbf=1e6h", "exponential:node,mtbf=1h", "weibull:node,mtbf=1e6h,shape=9", per_node=2
    )
    assert times_s(beside) == alone
    twice = times_s(model("exponential:node,mtbf=1h", "exponential:node,mtbf=1h", per_node=2))
    assert all(twice[rank] <= alone[rank] for rank in alone)
    assert twice != alone


def test_a_seed_is_another_fate() -> None:
    assert times_s(model("exponential:node,mtbf=1h", seed=1)) != times_s(model("exponential:node,mtbf=1h", seed=2))


def test_every_process_draws_the_same() -> None:
    program = "from tests.failure.models import *; print(times_s(model('weibull:node,mtbf=1h,shape=0.7'), 9999))"
    environment = {"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join([str(Path(__file__).parents[2]), *sys.path])}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(times_s(model("weibull:node,mtbf=1h,shape=0.7"), 9999))


def test_draws_are_these_for_ever() -> None:
    """A run must be repeatable next year: who changes these numbers changes everybody's results."""
    told = model("exponential:node,mtbf=1h", ranks=2)
    assert times_s(told) == pytest.approx({0: 6950.614965024696, 1: 1448.362468958924}, rel=1e-12)
    assert times_s(told, 36_000) == pytest.approx({0: 38525.54710003002, 1: 38834.98479161838}, rel=1e-12)
    told = model("weibull:node,mtbf=1h,shape=0.7", ranks=2)
    assert times_s(told) == pytest.approx({0: 7279.504460396643, 1: 774.526260353529}, rel=1e-12)


def test_what_a_drawn_failure_says_of_its_cause() -> None:
    causes = [
        model(law).schedule().timed[0].cause
        for law in ("exponential:rank,mtbf=60s", "exponential:machine,mtbf=60s", "weibull:node,mtbf=60s,shape=0.7")
    ]
    assert causes[:2] == ["drawn: rank, exponential, MTBF 60 s", "drawn: machine, exponential, MTBF 60 s"]
    rank = model("weibull:node,mtbf=60s,shape=0.7").schedule().timed[0].rank
    assert causes[2] == f"drawn: node {rank}, weibull, MTBF 60 s, shape 0.7"


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ("exponential:node,mtbf=0s", "mtbf: 0 is out of range: the mean time between failures must be positive"),
        (
            "exponential:node,mtbf=1s,shape=2",
            "shape: cannot be combined with the exponential law; use weibull or drop shape",
        ),
        ("weibull:node,mtbf=1s", "shape: missing key: the shape of a Weibull distribution, e.g. 0.7"),
        ("weibull:node,mtbf=1s,shape=0.05", "shape: 0.05 is out of range (0.1 to 100)"),
        ("exponential:node,mtbf=1e400", "mtbf: 1e400 is out of range (at most 1e+15 s, thirty million years)"),
        ("exponential:node,mtbf=1_0", "mtbf: unknown unit in '1_0'; write for example 20us, 1.5ms or 1e-6 (seconds)"),
        (
            "exponential:node,mtbf=nan",
            "mtbf: expected a time, got 'nan'; write for example 20us, 1.5ms or 1e-6 (seconds)",
        ),
        ("weibull:node,mtbf=1s,shape=101", "shape: 101 is out of range (0.1 to 100)"),
        ("exponential:cabinet,mtbf=1s", "per: unknown component 'cabinet'; known: machine, node, rank"),
    ],
)
def test_a_law_that_makes_no_sense_is_refused(law: str, message: str) -> None:
    assert errors(law) == [f"--fail {law}: {message}"]


def test_a_law_for_more_components_than_can_be_drawn_is_refused() -> None:
    """A node of two billion sockets numbers those of the next node from there on, whoever is in them."""
    sockets = {"components": [{"name": "socket", "cores": 1}]}
    spec = described(sockets)
    law = "exponential:socket,mtbf=1h"
    with pytest.raises(ConfigError, match=f"--fail {law}: too many components of level socket: 2,147,483,648"):
        FailureModel(spec, extra=[law], ranks=2, node_of=[0, 1], cores_per_node=2**31 - 1, seed=0)


def test_more_failures_than_anybody_could_want_are_refused() -> None:
    with pytest.raises(ConfigError, match="one failure of a rank of 8 every 1 ns: more than a million up to 2 ms"):
        model("exponential:rank,mtbf=1ns").schedule(2 * 10**9)
