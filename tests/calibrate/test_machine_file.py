"""Written machines: they say what they were fitted to and how well, and take the rest from another machine."""

from pathlib import Path

import pytest

from tests.calibrate.helpers import DATA, data, predicted_s
from xsim_py.calibrate.layers import FittedLayer, fit_layer
from xsim_py.calibrate.machine_file import default_sections, machine_text, other_sections_of
from xsim_py.calibrate.measured import PINGPONG, Measured
from xsim_py.config import config_hash, load_machine
from xsim_py.errors import ConfigError


@pytest.fixture
def fitted() -> FittedLayer:
    return fit_layer([Measured(PINGPONG, {0: 2e-6, 1024: 3e-6, 4096: 6e-6}, "a.csv")], threshold_bytes=2048)


def written(text: str, folder: Path, name: str = "made.yaml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_the_file_says_how_well_it_fits(fitted: FittedLayer):
    text = machine_text("m: 1", {"network": fitted}, default_sections(["network"]), files=["a.csv"], command="a test")
    assert text.startswith('# Fitted by a test to a.csv.\nname: "m: 1"\n')
    assert "# 3 sizes from 0 to 4,096 B. Errors of the fitted one-way times: mean 0.00 %" in text
    assert "# no measurement above 4,096 B; these times are extrapolated." in text
    assert "eager_threshold: 2048B  # given" in text


def test_a_node_alone_is_a_machine(fitted: FittedLayer, tmp_path: Path):
    text = machine_text("m", {"same_node": fitted}, default_sections(["same_node"]), files=["a.csv"], command="a test")
    spec = load_machine(written(text, tmp_path))
    assert spec.topology.type == "single"
    assert spec.network is None


LIKE = """\
# A comment about the file.
name: other
machine: {nodes: 8, cores_per_node: 4}
# about the topology
topology:
  type: torus
  dims: [2, 2, 2]
network: {latency: 5us, per_hop: 100ns, bandwidth: 1Gbps, contention: links, noise: {latency: 0.1}}
same_node:
  latency: 1us
mpi:
  ulfm: {agree: early_returning}
"""


def test_the_rest_is_that_of_another_machine(fitted: FittedLayer, tmp_path: Path):
    like = written(LIKE.replace("nodes: 8, ", ""), tmp_path, "like.yaml")
    frame = other_sections_of(str(like), str(tmp_path / "made.yaml"), ["network"])
    text = machine_text("m", {"network": fitted}, frame, files=["a.csv"], command="a test")
    spec, other = load_machine(written(text, tmp_path)), load_machine(like)
    assert (spec.machine, spec.topology, spec.same_node, spec.mpi) == (
        other.machine,
        other.topology,
        other.same_node,
        other.mpi,
    )
    assert "# about the topology" in text
    assert spec.network is not None
    assert spec.network.contention == "links"
    assert spec.network.noise == other.network.noise
    assert spec.network.per_hop_ps == 100_000
    sizes = [0, 1024, 4096]
    spec = load_machine(tmp_path / "made.yaml", overrides={"machine.cores_per_node": 1})
    assert predicted_s(spec, sizes) == pytest.approx([fitted.one_way_s(size) for size in sizes], rel=1e-3)


def test_comments_on_a_layer_that_is_fitted_are_left_out(tmp_path: Path):
    text = """\
# One rank a node,
# see same_node for more.
machine:
  # of the vendor
  cores_per_node: 1       # nothing was measured within a node
topology: {type: switch}  # as it is built
network: {latency: 5us}
"""
    like = str(written(text, tmp_path, "like.yaml"))
    assert other_sections_of(like, "-", ["network"]).text == text.partition("network:")[0]
    assert (
        other_sections_of(like, "-", ["network", "same_node"]).text
        == """\
machine:
  # of the vendor
topology: {type: switch}  # as it is built
"""
    )


def test_one_rank_a_node_for_want_of_measurements_is_not_taken_over(fitted: FittedLayer, tmp_path: Path):
    first = machine_text("m", {"network": fitted}, default_sections(["network"]), files=["a.csv"], command="a test")
    like = str(written(first, tmp_path, "like.yaml"))
    assert "cores_per_node: 1" in other_sections_of(like, "-", ["network"]).text
    frame = other_sections_of(like, "-", ["network", "same_node"])
    assert frame.text.strip() == "topology:\n  type: switch"
    own = str(written(first.replace("cores_per_node: 1 ", "cores_per_node: 2 "), tmp_path, "own.yaml"))
    assert "cores_per_node: 2" in other_sections_of(own, "-", ["network", "same_node"]).text


def test_a_preset_can_be_the_other_machine(fitted: FittedLayer, tmp_path: Path):
    frame = other_sections_of("gige", "-", ["network", "same_node"])
    layers = {"network": fitted, "same_node": fitted}
    spec = load_machine(written(machine_text("m", layers, frame, files=["a"], command="a test"), tmp_path))
    assert spec.spawn == load_machine("gige").spawn


def test_a_graph_is_found_only_from_its_folder(tmp_path: Path):
    written("a b\n", tmp_path, "edges.txt")
    like = written("topology: {type: graph, file: edges.txt}\nnetwork: {latency: 1us}\n", tmp_path, "like.yaml")
    (tmp_path / "sub").mkdir()
    assert "edges.txt" in other_sections_of(str(like), str(tmp_path / "made.yaml"), ["network"]).text
    with pytest.raises(ConfigError, match="write --out into that, too"):
        other_sections_of(str(like), str(tmp_path / "sub" / "made.yaml"), ["network"])


def test_sections_in_braces_cannot_be_taken_apart(tmp_path: Path):
    like = written("{network: {latency: 1us}}\n", tmp_path, "like.yaml")
    with pytest.raises(ConfigError, match="from the beginning of a line"):
        other_sections_of(str(like), "-", ["network"])


@pytest.mark.parametrize(
    ("preset", "network", "same_node"),
    [
        ("stampede", ["stampede-remote.csv"], ["stampede-local.csv"]),
        ("graphene", ["graphene.csv"], []),
        ("azure-hdr", ["azure-osu_latency.txt", "azure-osu_bw.txt"], []),
    ],
)
def test_presets_are_what_their_measurements_say(preset: str, network: list[str], same_node: list[str], tmp_path: Path):
    layers = {
        layer: fit_layer([each for file in files for each in data(file)], what=layer)
        for layer, files in (("network", network), ("same_node", same_node))
        if files
    }
    text = machine_text(preset, layers, default_sections([*layers]), files=[*network, *same_node], command="a test")
    made, spec = load_machine(written(text, tmp_path)), load_machine(preset)
    assert (made.network, made.same_node) == (spec.network, spec.same_node)
    assert config_hash(spec)
    assert all((DATA / file).is_file() for file in network)
