"""Descriptions are checked completely, and each error says where, what, and what to write instead."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.cases import ROOT
from xsim_py.config import TopologySpec, config_hash, load_machine, preset_path, presets
from xsim_py.config.algorithms import ALGORITHMS
from xsim_py.config.value_kinds import options
from xsim_py.errors import ConfigError
from xsim_py.mpi.collectives.choose import REGISTRY

TOPOLOGY_WORDS = [each.key for each in options(TopologySpec)]
GOOD: dict[str, Any] = {"topology": {"type": "torus", "dims": [4, 4]}, "network": {"latency": "1us"}}


def errors(source: object, overrides: dict[str, Any] | None = None) -> list[str]:
    """The lines of the ConfigError, or none."""
    assert isinstance(source, (str, Path, dict))
    try:
        load_machine(source, overrides=overrides)
    except ConfigError as error:
        return str(error).splitlines()
    return []


def written(folder: Path, text: str) -> Path:
    file = folder / "m.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_layer_is_off_where_its_section_has_no_value(tmp_path):
    file = tmp_path / "m.yaml"
    file.write_text("network: {latency: 1us}\nmpi: {resilience: {type: legio, group: 4}}\n")
    assert load_machine(file).mpi.resilience.group == 4
    assert load_machine(file, overrides={"mpi.resilience": "null"}).mpi.resilience is None
    assert load_machine("gige", overrides={"mpi.resilience.type": "null"}).mpi.resilience is None
    with pytest.raises(ConfigError, match=r"did you mean mpi.resilience.broadcast or mpi.collectives.bcast\?"):
        load_machine(file, overrides={"mpi.resilience.bcast": "skip"})


def test_everything_that_is_wrong_is_said_at_once_and_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """\
name: [x]
latency: 5us
topology:
  type: tours
  dims: [4, 0, a]
  twist:
    - {wrap: y, shift: q, by: 2}
network:
  latancy: 1us
  bandwidth: 1Gps
  per_hop: -5us
  per_hop: 5us
  eager_threshold: 1.5
  count_first_byte: yeah
mpi:
  collectives: {bcst: binomial}
machine: 4
compute:
""",
    )
    found = errors(file, {"network.gap": "soon", "topology.foo.bar": "1", "name.x": "3", "mpi.poll_time": ""})
    assert found == [
        f"{file}:1:7: name: expected text, got a list",
        (
            f"{file}:2:1: latency: unknown key; did you mean "
            "network.latency or network.scale.latency or network.noise.latency or same_node.latency or "
            "same_node.scale.latency or "
            "nic.latency or memory.latency or storage.latency?"
        ),
        f"{file}:4:9: topology.type: unknown value 'tours'; did you mean torus?",
        f"{file}:5:13: topology.dims[1]: expected an integer from 1 to 2147483647, got 0",
        f"{file}:5:16: topology.dims[2]: expected an integer from 1 to 2147483647, got 'a'",
        f"{file}:7:24: topology.twist[0].shift: unknown dimension 'q'; expected x, y, z, w, v or u",
        f"{file}:9:3: network.latancy: unknown key; did you mean latency?",
        f"{file}:9:3: network.latency: missing key: time from the end of the injection to the arrival, without hops.",
        f"{file}:10:14: network.bandwidth: unknown unit in '1Gps'; did you mean Gbps?",
        f"{file}:11:12: network.per_hop: -5us is out of range: a time cannot be negative",
        f"{file}:12:3: per_hop: duplicate key, first in line 11",
        f"{file}:13:20: network.eager_threshold: expected a whole number of bytes, got 1.5",
        f"{file}:14:21: network.count_first_byte: expected true or false, got 'yeah'",
        f"{file}:16:17: mpi.collectives.bcst: unknown key; did you mean bcast?",
        f"{file}:17:10: machine: expected a section of keys and values, got 4",
        "--set mpi.poll_time=: mpi.poll_time: missing value after =",
        "--set name.x=3: name.x: cannot set x: name is not a section",
        (
            "--set network.gap=soon: network.gap: expected a time, got 'soon'; "
            "write for example 20us, 1.5ms or 1e-6 (seconds)"
        ),
        f"--set topology.foo.bar=1: topology.foo: unknown key; known: {', '.join(TOPOLOGY_WORDS)}",
    ]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("name: [x", "2:1", "not YAML: while parsing a flow sequence, did not find expected ',' or ']'"),
        ("name: a\n\tb: c", "2:1", "not YAML: while scanning a plain scalar, found a tab character"),
        (
            "name: a\n---\nname: b",
            "2:1",
            "not YAML: expected a single document in the stream, but found another document",
        ),
        ("name: *nobody", "1:7", "not YAML: found undefined alias"),
        ("? {x: y}\n: 3", "1:3", "a key must be a name"),
        ("- a list", "1:1", "a machine description must be a section of the form `key: value`"),
        ("machine: &m\n  nodes: *m", "2:10", "this value contains itself"),
        ("", "1:1", "network: missing key: message costs, needed by topology.type switch"),
        ("name: a\nnetwork:", "1:1", "network: missing key: message costs, needed by topology.type switch"),
    ],
)
def test_a_file_that_is_no_description_is_explained(tmp_path: Path, text: str, place: str, message: str) -> None:
    file = written(tmp_path, text)
    found = [line for line in errors(file) if message in line]
    assert len(found) == 1
    assert found[0].startswith(f"{file}:{place}: ")


def test_bytes_that_are_not_text_are_placed(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_bytes(b"name: a\nname\xff: b")
    assert errors(file) == [f"{file}:2:5: not YAML: invalid UTF-8"]
    file.write_bytes(b"name: a\nna\x01me: b")
    assert errors(file) == [f"{file}:2:3: not YAML: control characters are not allowed"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machine.nodes": 7}, "machine.nodes: a 4x4 torus has 16 nodes, not 7"),
        ({"topology.dims": None, "machine.nodes": 7}, "machine.nodes: the size of a torus is given by topology.dims"),
        ({"topology.type": "switch"}, "topology.dims: cannot be combined with topology.type switch: only a torus or"),
        ({"topology.file": "x"}, "topology.file: cannot be combined with topology.type torus: only a graph has file"),
        (
            {"topology": {"type": "single"}, "same_node.latency": 1},
            "network: a single node has no network; use same_node",
        ),
        ({"topology": {"type": "graph"}}, "topology: a graph needs either file or edges; give one of them"),
        ({"topology": {"type": "graph", "file": "no/x"}}, "topology.file: cannot find the file no/x"),
        (
            {"topology": {"type": "graph", "edges": [["a", "b", "c"]]}},
            "topology.edges[0]: expected two names, got a list of 3",
        ),
        ({"network": None}, "network: missing key: message costs, needed by topology.type torus"),
        ({"network": {"latency": 0}}, "latency and per_hop are both zero; a message time must be positive"),
        ({"same_node": {"latency": "0s"}}, "same_node.latency: 0 is out of range: a message time must be positive"),
        (
            {"topology.dims": [3, 4], "topology.twist": "half"},
            "half of x needs an even length in x and a second dimension",
        ),
        ({"topology.dims": None, "topology.twist": [{"wrap": "y", "shift": "x", "by": 1}]}, "needs topology.dims"),
        ({"topology.twist": [{"wrap": "z", "shift": "x", "by": 1}]}, "out of range: this torus has 2 dimensions"),
        ({"topology.twist": [{"wrap": "x", "shift": "x", "by": 1}]}, "a dimension cannot be shifted along itself"),
        ({"topology.twist": [{"wrap": "y", "shift": "x", "by": 4}]}, "out of range: the shift must be less than the"),
        (
            {"topology.twist": [{"wrap": "y", "shift": "x", "by": 1}, {"wrap": "x", "shift": "y", "by": 1}]},
            "topology.twist[0]: not supported: another twist shifts the dimension that this one wraps",
        ),
        ({"machine.processor_name": "n{rank}"}, "must not be empty, and may contain {node} but no other braces"),
        ({"topology.dims": [2] * 7}, "topology.dims: expected the lengths of one to six dimensions, such as [8, 8,"),
        ({"topology.dims": {"x": 3}}, "topology.dims: expected a list, got a section"),
        ({"topology.dims": 4}, "topology.dims: expected a list, got 4"),
        ({"mpi.collectives": "tunde"}, "mpi.collectives: unknown value 'tunde'; did you mean tuned?"),
        (
            {"mpi.collectives.bcast": "binomal"},
            "mpi.collectives.bcast: unknown value 'binomal'; did you mean binomial?",
        ),
        ({"mpi.collectives": ["ring"]}, "mpi.collectives: expected a section, got a list"),
        ({"mpi.collectives.scan": "ftco"}, "mpi.collectives.scan: unknown value 'ftco'"),
        ({"mpi.collectives.bcast": {"64": "fto"}}, "mpi.collectives.bcast.64: unknown value 'fto'; did you mean ftco?"),
        (
            {"mpi.collectives.bcast": {"0": "ftco"}},
            "mpi.collectives.bcast.0: expected a number of ranks, got 0; write a section",
        ),
        ({"mpi.collectives.bcast": {}}, "mpi.collectives.bcast: expected a section of ranks: algorithm, such as {1:"),
        ({"mpi.ftco.radix": "2.5"}, "mpi.ftco.radix: expected an integer from 2 to 2147483647, got 2.5"),
        (
            {"topology.dims": [100_000, 100_000]},
            "topology.dims: a 100000x100000 torus has 10,000,000,000 nodes",
        ),
        (
            {"topology.dims": [2**20, 2], "topology.twist": "half"},
            "topology.twist: such twists make 524,290 ways around a torus of 2,097,152 nodes, of which 32 can be tried",
        ),
        (
            {"topology.dims": [2**12, 2], "topology.twist": [{"wrap": "y", "shift": "x", "by": 1}]},
            "topology.twist: such twists make 2,050 ways around a torus of 8,192 nodes, of which 1,000 can be tried",
        ),
        ({"mpi.poll_time": "0s"}, "mpi.poll_time: 0 is out of range: polling at no cost would stop the clock"),
        ({"network.latency": "1e15s"}, "network.latency: 1e15s is out of range (at most 24h)"),
        ({"network.bandwidth": "1e-30bps"}, "1e-30bps is out of range (0 per byte, or 8e-24 to 8 s per byte, 1 bps)"),
        ({"network.eager_threshold": "1e400B"}, "network.eager_threshold: 1e400B is out of range (at most 1024PiB)"),
        ({"compute.speed": "1.0e-300"}, "compute.speed: 1e-300 is out of range (1e-09 to 1e+09)"),
        ({"compute.speed": ".inf"}, "compute.speed: expected a number above zero, got inf"),
        ({"name": "x" * 10**5}, "expected a name of at most 200 characters on one line, got 'xxxxxxxxxxxxxxxxxxxx'..."),
        ({"name": '"a\\nb"'}, "name: expected a name of at most 200 characters on one line, got 'a\\nb'..."),
        ({"failures.trace": '"a\\0b"'}, "--set failures.trace=\"a\\0b\": failures.trace: NUL character in 'a\\x00b'"),
        ({".".join("a" * 99): 1}, "nested more than 64 levels deep"),
        ({"mpi.ftco.timeout": 0}, "mpi.ftco.timeout: 0 is out of range: the timeout must be positive"),
        ({"compute.speed": 0}, "compute.speed: expected a number above zero, got 0"),
        ({"compute.speed": "1e-3"}, "compute.speed: '1e-3' is text in YAML 1.1; write 1.0e-3"),
        ({"compute.speed": "2e9"}, "compute.speed: '2e9' is text in YAML 1.1; write 2.0e+9"),
        ({"name": 3}, "name: expected text, got 3; put it in quotes"),
        ({"mpi.detector.period": "1s"}, "mpi.detector.period: a timeout detector has no period"),
        (
            {"mpi.detector": {"type": "heartbeat", "period": 0}},
            "mpi.detector.period: 0 is out of range: the heartbeat period must be positive",
        ),
        ({"failures.trace": "no/x.csv"}, "failures.trace: cannot find the file no/x.csv"),
        (
            {"failures.draws": [{"mtbf": "1h"}]},
            "failures.draws[0].per: missing: level of the components that fail, each independently",
        ),
        ({"failures.draws": [{"per": "node", "mtbf": "1 hour"}]}, "failures.draws[0].mtbf: unknown unit in '1 hour'"),
        ({"failures.at": "rank=5@1ms"}, "expected a list, got 'rank=5@1ms'; write a list such as [rank=5@1.2ms"),
        (
            {"failures.components": [{"name": "blade", "nods": 4}]},
            "components[0].nods: unknown key; did you mean nodes",
        ),
        ({"storage.bandwidth": "1GB/s"}, "storage.latency: missing: time per operation (open, read"),
        ({"storage": {"latency": 0}}, "storage.latency: 0 is out of range: an operation must take time"),
        ({"storage": {"latency": "1ms", "block": "2GiB"}}, "storage.block: out of range (1B to 1GiB)"),
        ({"storage": {"latency": "1ms", "layout": "nodes"}}, "unknown value 'nodes'; did you mean node?"),
        ({"storage": {"latency": "1ms", "path": "/scratch"}}, "expected a list, got '/scratch'; write a list of"),
        ({"mpi.ulfm.agree": "twophase"}, "unknown value 'twophase'; did you mean two_phase?"),
        ({"mpi.fault_tolerance": "maybe"}, "mpi.fault_tolerance: expected true or false, got 'maybe'"),
    ],
)
def test_what_cannot_stand_together_is_refused(changes: dict[str, Any], message: str) -> None:
    found = errors(GOOD, changes)
    assert len(found) == (2 if "wraps" in message else 1), found
    assert message in found[0]
    assert found[0].startswith(("--set ", "machine description: "))


def test_a_network_that_a_single_node_does_not_have_is_named_whatever_is_missing_in_it() -> None:
    found = errors("shmem", {"network.gap": "300ns"})
    assert found[0] == "--set network.gap=300ns: network: a single node has no network; use same_node"
    assert [line.split(": ")[1:3] for line in found[1:]] == [["network.latency", "missing key"]]


def test_an_option_changes_one_value_and_leaves_the_source_alone() -> None:
    changes = {
        "network.latency": "5us",
        "topology.dims": "[2, 3, 4]",
        "same_node.latency": 1e-9,
        "mpi.collectives.bcast": "linear",
    }
    spec = load_machine(GOOD, overrides=changes)
    assert spec.network is not None
    assert spec.same_node is not None
    assert (spec.network.latency_ps, spec.topology.dims, spec.same_node.latency_ps) == (5_000_000, (2, 3, 4), 1000)
    assert spec.mpi.collectives == {"bcast": "linear"}
    assert load_machine(GOOD) == load_machine(GOOD, overrides={})
    assert load_machine(GOOD).topology.dims == (4, 4)


def test_a_detector_and_the_algorithms_of_recovery_have_defaults_and_can_be_chosen() -> None:
    spec = load_machine(GOOD).mpi
    assert (spec.detector.type, spec.detector.timeout_ps, spec.detector.period_ps) == ("timeout", None, None)
    assert (spec.ulfm.agree, spec.ulfm.shrink, spec.ulfm.revoke) == ("two_phase", "two_phase", "reliable_broadcast")
    assert spec.fault_tolerance is None
    chosen = {"type": "heartbeat", "timeout": "10s", "period": "3s"}
    spec = load_machine(GOOD, overrides={"mpi.detector": chosen, "mpi.fault_tolerance": "false"}).mpi
    assert (spec.detector.timeout_ps, spec.detector.period_ps) == (10 * 10**12, 3 * 10**12)
    assert spec.fault_tolerance is False


def test_every_entry_of_a_list_knows_its_place(tmp_path: Path) -> None:
    file = written(tmp_path, "network: {latency: 1us}\nfailures:\n  at:\n    - rank=1@1ms\n    - rank=2@1ms\n")
    spec = load_machine(file)
    assert spec.failures.at == ("rank=1@1ms", "rank=2@1ms")
    assert str(spec.place("failures.at[1]")) == f"{file}:5:7"


def test_descriptions_know_the_algorithms_that_there_are() -> None:
    assert {operation: tuple(names) for operation, names in REGISTRY.items()} == ALGORITHMS


def test_null_means_left_out() -> None:
    assert load_machine(GOOD, overrides={"topology.dims": "null"}).topology.dims is None


def test_aliases_are_followed(tmp_path: Path) -> None:
    file = written(tmp_path, "network: &costs {latency: 1us}\nsame_node: *costs\n")
    spec = load_machine(file)
    assert spec.same_node is not None
    assert spec.same_node.latency_ps == 1_000_000


def test_a_graph_file_lies_beside_the_description(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("a b\n")
    file = written(tmp_path, "topology: {type: graph, file: g.txt}\nnetwork: {latency: 1us}")
    assert load_machine(file).topology.file == tmp_path / "g.txt"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert errors(tmp_path / "no.yaml") == [
        f"cannot read the machine description {tmp_path / 'no.yaml'}: No such file or directory"
    ]


def test_an_unknown_preset_is_answered_with_the_nearest_and_with_all() -> None:
    with pytest.raises(ConfigError) as caught:
        preset_path("gigee")
    assert str(caught.value) == (
        "unknown preset machine 'gigee': did you mean gige?\n"
        f"presets: {', '.join(sorted(path.stem for path in (ROOT / 'models').glob('*.yaml')))}; "
        "the name of a file ends in .yaml"
    )


def test_the_presets_hold_the_figures_of_their_papers() -> None:
    gige, shmem, torus, logp = (load_machine(name) for name in ("gige", "shmem", "torus3d", "logp"))
    assert gige.network is not None
    assert (gige.network.latency_ps, gige.network.per_hop_ps) == (0, 10_000_000)
    assert gige.network.ps_per_byte == 8000
    assert gige.network.eager_threshold_bytes == 128 * 1024
    assert shmem.network is None
    assert shmem.same_node is not None
    assert shmem.same_node.latency_ps == 6_000_000
    assert shmem.same_node.ps_per_byte == 2500
    assert torus.network is not None
    assert (torus.network.latency_ps, torus.network.ps_per_byte) == (7_000_000, Fraction(10000, 11))
    assert (torus.topology.dims, torus.topology.twist) == (None, "none")
    assert logp.network is not None
    assert (logp.network.send_overhead_ps, logp.network.latency_ps) == (130_000, 1_530_000)
    assert logp.network.eager_threshold_bytes is None


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_preset_says_what_it_is_and_where_its_figures_come_from(name: str) -> None:
    spec = load_machine(name)
    assert spec.name == name
    assert spec.description
    assert spec.source


def test_the_hash_does_not_see_how_a_machine_is_written(tmp_path: Path) -> None:
    one = written(tmp_path, "name: one\nnetwork: {latency: 1us, bandwidth: 1Gbps}\ntopology: {type: switch}\n")
    other = {"source": "x", "topology": {}, "network": {"bandwidth": "125MB/s", "latency": 1e-6}}
    assert config_hash(load_machine(one)) == config_hash(load_machine(other))


def test_the_hash_sees_every_value(tmp_path: Path) -> None:
    graph = tmp_path / "g"
    graph.write_text("a b")
    on_graph = {"topology": {"type": "graph", "file": str(graph)}, "network": {"latency": "1us"}}
    hashes = {config_hash(load_machine(on_graph))}
    graph.write_text("a c")
    hashes.add(config_hash(load_machine(on_graph)))
    changes: list[dict[str, Any]] = [
        {},
        {"network.latency": "2us"},
        {"network.eager_threshold": 0},
        {"topology.dims": [2, 8]},
        {"topology.twist": "half"},
        {"topology.twist": [{"wrap": "y", "shift": "x", "by": 1}]},
        {"mpi.collectives": {"bcast": "linear"}},
        {"mpi.collectives": {"bcast": {1: "linear", 64: "ftco"}}},
        {"mpi.collectives": {"bcast": {1: "linear", 65: "ftco"}}},
        {"mpi.collectives": "ftco"},
        {"mpi.ftco.radix": 3},
        {"mpi.ftco.timeout": "2s"},
        {"compute.speed": 2},
        {"machine.placement": "round_robin"},
        {"same_node": {"latency": "1us"}},
    ]
    hashes |= {config_hash(load_machine(GOOD, overrides=change)) for change in changes}
    assert len(hashes) == len(changes) + 2


def test_the_hash_of_a_preset_is_the_same_in_every_process() -> None:
    program = "from xsim_py.config import *; print(config_hash(load_machine('torus3d')))"
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == config_hash(load_machine("torus3d"))


def test_reading_a_preset_imports_nothing_slow() -> None:
    program = (
        "import sys; from xsim_py.config import load_machine; from xsim_py.machine import Machine\n"
        "Machine(load_machine('torus3d'), ranks=64)\n"
        "print(sorted({'networkx', 'numpy', 'jsonschema', 'matplotlib', 'simpy'} & set(sys.modules)))"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_the_name_of_the_library_is_what_the_machine_says():
    said = load_machine("gige", overrides={"mpi.library_version": "MPICH (simulated)"})
    assert said.mpi.library_version == "MPICH (simulated)"
    assert config_hash(said) != config_hash(load_machine("gige"))
