"""Presets of machines that were measured: the errors that their files tell, and the fabrics that two of them have."""

import re

import numpy as np
import pytest

from tests.calibrate.helpers import data, pingpong, predicted_s
from xsim_py.cli import main
from xsim_py.config import load_machine, preset_path
from xsim_py.machine import Machine
from xsim_py.network import make_network

NETWORK = {
    "stampede": "stampede-remote.csv",
    "graphene": "graphene.csv",
    "azure-hdr": "azure-osu_latency.txt",
    "fattree648": "stampede-remote.csv",
    "dragonfly1056": "azure-osu_latency.txt",
}
SAME_NODE = {"stampede": "stampede-local.csv", "fattree648": "stampede-local.csv"}
CASES = [(name, "network", file) for name, file in NETWORK.items()]
CASES += [(name, "same_node", file) for name, file in SAME_NODE.items()]


def told(name: str, layer: str) -> list[float]:
    """The mean, the 95th percentile and the largest error in percent, as the file of a preset says."""
    section = preset_path(name).read_text(encoding="utf-8").partition(f"\n{layer}:")[2]
    words = re.sub(r"\n *#", "", section)
    figures = re.search(r"mean ([\d.]+) %, 95th percentile ([\d.]+) %, largest ([\d.]+) *%", words)
    assert figures
    return [float(figure) for figure in figures.groups()]


@pytest.mark.parametrize(("name", "layer", "file"), CASES)
def test_errors_of_the_fit_are_those_that_the_file_tells(name: str, layer: str, file: str):
    measured = pingpong(data(file))
    spec = load_machine(name, overrides={"machine.cores_per_node": 2 if layer == "same_node" else 1})
    errors = 100 * np.abs(predicted_s(spec, measured, layer) / [*measured.values()] - 1)
    found = [errors.mean(), np.percentile(errors, 95), errors.max()]
    assert found == pytest.approx(told(name, layer), abs=0.1)


@pytest.mark.parametrize(
    ("name", "other", "peer", "further", "more_ps"),
    [("fattree648", "stampede", 1, 647, 400_000), ("dragonfly1056", "azure-hdr", 1, 1055, 490_000)],
)
def test_near_nodes_take_what_was_measured_and_far_ones_the_links_more(
    name: str, other: str, peer: int, further: int, more_ps: int
):
    spec = load_machine(name, overrides={"machine.cores_per_node": 1})
    machine = Machine(spec, ranks=1 + further)
    network = make_network(spec, places=machine)
    sizes = [0, 1, 100, 1000, 17408, 2**20]
    plain = predicted_s(load_machine(other, overrides={"machine.cores_per_node": 1}), sizes)
    assert [network.link(0, peer).one_way_ps(size) / 1e12 for size in sizes] == pytest.approx(plain, rel=1e-5)
    assert network.link(0, further).one_way_ps(1) - network.link(0, peer).one_way_ps(1) == more_ps


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "fattree648",
            [
                "fat tree of 36 x 18 nodes, 18 spines; 16 ranks per node",
                f"648 nodes and 54 switches, diameter 4, mean distance {(17 * 2 + 630 * 4) / 647:.4f}",
                f"bisection bandwidth {324 * 54.5 / 1000:.2f} Tbps",
            ],
        ),
        (
            "dragonfly1056",
            [
                "1056 nodes and 264 switches, diameter 5, mean distance",
                "hops between routers: at most 3, mean 2.7034",  # [(a-1) + a (g-1) (1 + 2 (a-1)/a)] / (a g - 1)
                "dragonfly of 33 groups of 8 routers with 4 nodes and 4 global links each",
                f"bisection bandwidth {17 * 16 * 200 / 1000:.1f} Tbps",
            ],
        ),
    ],
)
def test_check_prints_the_closed_forms(name: str, lines: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["models", "check", name]) == 0
    printed = capsys.readouterr().out
    for line in lines:
        assert line in printed
