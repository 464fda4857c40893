"""``xsim models flows``: sets of flows over links of their own, or over those of a topology."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xsim_py.cli.flow_sets import FlowSet
from xsim_py.errors import ConfigError

from .test_models import run

SETS = sorted((Path(__file__).parents[1] / "network" / "flow_sets").glob("*.json"))


@pytest.mark.parametrize("file", SETS, ids=lambda file: file.stem)
def test_own_routes_are_those_that_are_given_and_flows_end_when_simgrid_says(file: Path, tmp_path: Path) -> None:
    told: dict[str, Any] = json.loads(file.read_text())
    given = [flow["route"] for flow in told["flows"]]
    for routes in ("given", "own", None):
        found = FlowSet(file).solve(routes)
        assert found["routes"] == given
        assert found["finish_s"] == pytest.approx(told["finish_s"], rel=1e-11)
    if told["topology"]["type"] != "given":  # with the topology alone
        del told["links"]
        for flow in told["flows"]:
            del flow["route"]
        alone = tmp_path / "alone.json"
        alone.write_text(json.dumps(told))
        assert FlowSet(alone).solve(None) == FlowSet(file).solve("own")


def test_the_order_of_flows_does_not_matter(tmp_path: Path) -> None:
    told: dict[str, Any] = json.loads(SETS[0].read_text())
    straight = FlowSet(SETS[0]).solve(None)["finish_s"]
    told["flows"].reverse()
    (tmp_path / "reversed.json").write_text(json.dumps(told))
    assert FlowSet(tmp_path / "reversed.json").solve(None)["finish_s"] == straight[::-1]


def test_the_command_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "set.json"
    topology = {"type": "hyperx", "dims": [2, 2], "bandwidth_Bps": 1e9, "latency_s": 1e-6}
    file.write_text(json.dumps({"topology": topology, "flows": [{"src": 0, "dst": 3, "bytes": 1000}]}))
    assert run("flows", str(file)) == 0
    route = ["h0>r0.0", "r0.0>r1.0", "r1.0>r1.1", "r1.1>h3"]
    found = json.loads(capsys.readouterr().out)
    assert found == {"finish_s": [pytest.approx(5e-6, rel=1e-12)], "routes": [route]}
    with pytest.raises(ConfigError, match="links: missing key; add name"):
        run("flows", str(file), "--routes", "given")


def ends(told: dict[str, Any], folder: Path) -> list[float]:
    (folder / "set.json").write_text(json.dumps(told))
    found: list[float] = FlowSet(folder / "set.json").solve(None)["finish_s"]
    return found


def test_the_parking_lot(tmp_path: Path) -> None:
    """Rates of 0.5, 0.5, 9.5 and 0.5 as long as all flow: each has so many seconds' worth of bytes."""
    links = {"a": [1, 0], "b": [10, 0], "c": [1, 0]}
    routes = {"abc": 0.5, "a": 0.5, "b": 9.5, "c": 0.5}
    flows = [{"src": 0, "dst": 1, "bytes": 100 * rate, "route": [*way]} for way, rate in routes.items()]
    assert ends({"links": links, "flows": flows}, tmp_path) == pytest.approx([100] * 4, rel=1e-12)


@pytest.mark.parametrize("wiring", ["relative", "absolute"])
@pytest.mark.parametrize(("p", "a", "h"), [(2, 4, 2), (4, 8, 4)])
def test_a_group_that_sends_to_the_next_has_a_p_th_of_its_bandwidth(
    p: int, a: int, h: int, wiring: str, tmp_path: Path
) -> None:
    topology = {"type": "dragonfly", "p": p, "a": a, "h": h, "wiring": wiring, "bandwidth_Bps": 1e9, "latency_s": 0}
    hosts = a * p * (a * h + 1)
    flows = [{"src": host, "dst": (host + a * p) % hosts, "bytes": 1e9} for host in range(hosts)]
    assert ends({"topology": topology, "flows": flows}, tmp_path) == pytest.approx([a * p] * hosts, rel=1e-12)


FLOW = {"src": 0, "dst": 1, "bytes": 1}
TREE = {"type": "fat_tree", "m": [2], "w": [1], "bandwidth_Bps": [1], "latency_s": [0]}
DRAGONFLY = {"type": "dragonfly", "p": 1, "a": 2, "h": 1, "bandwidth_Bps": 1, "latency_s": 0}
CASCADE = {"type": "dragonfly_cascade", "groups": 3, "chassis": 1, "blades": 2, "nodes_per_blade": 1}


def over(topology: dict[str, Any], **flow: Any) -> dict[str, Any]:
    return {"flows": [{**FLOW, **flow}], "topology": topology}


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("{", "not valid JSON: Expecting property name"),
        ([], "file: expected a section of keys and values"),
        ({}, "flows: missing key; add a list of flows"),
        ({"flows": [3]}, r"flows\[0\]: expected a section of keys and values"),
        ({"flows": [FLOW]}, "topology: missing"),
        (over({"type": "fattree"}), "topology.type: unknown value 'fattree'; did you mean fat_tree?"),
        (over({"type": "given"}), "topology.type: a topology of links needs a route in each flow"),
        (over(TREE, dst=2), r"flows\[0\]\.dst: 2 is out of range: expected a rank from 0 to 1"),
        (over(TREE, bytes=-1), r"flows\[0\].bytes: expected a number of at least 0, got -1"),
        (over(TREE, src=0.5), r"flows\[0\].src: expected an integer, got 0.5"),
        (over({**TREE, "w": [1, 1]}), "topology.m: m, w and p have different numbers of levels"),
        (over({**TREE, "m": 3}), "topology.m: expected a list of integers, got 3"),
        (over({**TREE, "bandwidth_Bps": [1, 2]}), "topology.bandwidth_Bps: expected one number per link layer"),
        (over({**TREE, "bandwidth_Bps": [0]}), "topology.bandwidth_Bps.level1: 0 is out of range: expected a"),
        (over({**TREE, "duplex": "half"}), "topology.duplex: 'half' is only for links of a switch and for ports"),
        (over({**TREE, "cables": "dest"}), "topology.cables: unknown value 'dest'; known: destination, source"),
        (over(DRAGONFLY, via_group=3), r"flows\[0\]\.via_group: out of range: expected a group from 0 to 2"),
        (over({**DRAGONFLY, "groups": 4}), "4 is out of range: a group has 2 links"),
        (over(CASCADE), "3 is out of range: blade j links to group j, so 2 blades allow at most 2 groups"),
        ({"flows": [{**FLOW, "route": ["a"]}], "links": {}}, r"flows\[0\].route: unknown link 'a'"),
        ({"flows": [{**FLOW, "route": ["a"]}], "links": {"a": 3}}, r"links\.a: expected \[bytes per second, seconds"),
        ({"flows": [{**FLOW, "route": ["a"]}], "links": {"a": [0, 0]}}, r"links\.a\[0\]: 0 is out of range:"),
    ],
)
def test_what_is_no_set_is_refused_with_the_place(told: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "set.json"
    file.write_text(told if isinstance(told, str) else json.dumps(told))
    with pytest.raises(ConfigError, match=message) as caught:
        FlowSet(file).solve(None)
    assert str(caught.value).startswith(f"{file}: ")


def test_own_routes_need_a_topology(tmp_path: Path) -> None:
    file = tmp_path / "set.json"
    file.write_text(json.dumps({"flows": [{**FLOW, "route": ["a"]}], "links": {"a": [1, 0]}}))
    assert FlowSet(file).solve("given") == FlowSet(file).solve(None) == {"finish_s": [1.0], "routes": [["a"]]}
    with pytest.raises(ConfigError, match="topology: missing key; --routes own needs a topology"):
        FlowSet(file).solve("own")


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        FlowSet(tmp_path / "none.json")
