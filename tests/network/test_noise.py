"""What noise adds follows its law, whoever draws first, and nothing is ever taken away."""

from __future__ import annotations

from math import exp
from statistics import NormalDist, fmean

import pytest

from xsim_py.config import NoiseSpec, config_hash, load_machine
from xsim_py.errors import ConfigError
from xsim_py.network import make_noise
from xsim_py.network.noise import NoiseModel

SIGMA = 0.7
DRAWS = 20_000


def model(seed: int = 1, **medians: float) -> NoiseModel:
    return NoiseModel(NoiseSpec(sigma=SIGMA, **medians), seed=seed, node_of=range(50))


@pytest.mark.parametrize("which", [0, 1])
def test_mean_and_quantiles_are_those_of_the_lognormal_law(which: int) -> None:
    """The bounds are four standard errors: of the mean, and of the share of draws below a quantile."""
    noise = model(latency=0.2, bandwidth=0.2)
    drawn = [noise.parts(3, 4, key)[which] for key in range(DRAWS)]
    mean = 0.2 * exp(SIGMA**2 / 2)
    deviation = mean * (exp(SIGMA**2) - 1) ** 0.5
    assert fmean(drawn) == pytest.approx(mean, abs=4 * deviation / DRAWS**0.5)
    for share in (0.05, 0.5, 0.95):
        bound = 0.2 * exp(SIGMA * NormalDist().inv_cdf(share))
        below = sum(part < bound for part in drawn) / DRAWS
        assert below == pytest.approx(share, abs=4 * (share * (1 - share) / DRAWS) ** 0.5)
    assert min(drawn) > 0


def test_latency_and_time_on_the_wire_are_drawn_by_themselves() -> None:
    noise = model(latency=1, bandwidth=1)
    pairs = [noise.parts(0, 1, key) for key in range(2000)]
    above = sum((first > 1) == (second > 1) for first, second in pairs) / len(pairs)
    assert above == pytest.approx(0.5, abs=4 * 0.5 / len(pairs) ** 0.5)


def test_a_node_is_drawn_once_and_slows_all_that_it_sends() -> None:
    noise = model(nodes=0.3)
    parts = {node: {noise.parts(node, (node + 1) % 50, key) for key in range(5)} for node in range(50)}
    assert all(len(each) == 1 for each in parts.values())
    assert len({part for each in parts.values() for part in each}) == 50


def test_a_draw_belongs_to_its_message_and_to_the_seed() -> None:
    first, second = model(latency=1), model(latency=1)
    keys = [(rank, key) for rank in range(3) for key in range(10)]
    forth = {each: first.parts(each[0], 9, each[1]) for each in keys}
    assert forth == {each: second.parts(each[0], 9, each[1]) for each in reversed(keys)}
    assert len(set(forth.values())) == len(keys)
    assert forth[0, 0] != model(seed=2, latency=1).parts(0, 9, 0)


def test_inside_a_node_there_is_no_noise() -> None:
    noise = NoiseModel(NoiseSpec(latency=1, bandwidth=1, nodes=1), seed=0, node_of=[0, 0, 1])
    assert noise.parts(0, 1, 7) == (0, 0)
    assert min(noise.parts(0, 2, 7)) > 0


def test_a_machine_without_noise_is_what_it_was() -> None:
    quiet, loud = load_machine("gige"), load_machine("gige", overrides={"network.noise.latency": 0.1})
    assert make_noise(quiet, seed=0, node_of=[0]) is None
    assert make_noise(loud, seed=0, node_of=[0]) is not None
    assert config_hash(quiet) != config_hash(loud)


@pytest.mark.parametrize(("key", "value"), [("latency", -1), ("latency", 1001), ("sigma", 11), ("nodes", "x")])
def test_what_is_no_noise_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"network.noise.{key}: "):
        load_machine("gige", overrides={f"network.noise.{key}": value})
