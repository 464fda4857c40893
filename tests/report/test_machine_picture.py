"""Pictures of machines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from xsim_py.cli.machine_pictures import machine_picture
from xsim_py.config import load_machine
from xsim_py.errors import ConfigError
from xsim_py.machine import Machine, Topology
from xsim_py.machine.layout import places
from xsim_py.report.machine_picture import draw_machine, read_loads


def topology(**given: Any) -> Topology:
    return Machine(load_machine({"topology": given, "network": {"latency": "1us"}}), ranks=1).topology


SMALL: list[dict[str, Any]] = [
    {"type": "fattree", "shape": "3;2,2,2;1,2,2"},
    {"type": "dragonfly", "hosts_per_router": 2},
    {"type": "cascade", "shape": "3,1;2,1;3,1;2"},
    {"type": "hyperx", "dims": [3, 2, 2, 2], "hosts_per_router": 2},
    {"type": "torus", "dims": [3, 4, 2]},
    {"type": "graph", "edges": [["a", "b"], ["b", "c"], ["b", "c"]]},
]


@pytest.mark.parametrize("given", SMALL, ids=lambda given: given["type"])
def test_every_vertex_has_a_place_of_its_own(given: dict[str, Any]) -> None:
    built = topology(**given)
    found = places(built)
    assert sorted(found) == list(range(built.nodes + built.switches))
    assert len({(round(x, 6), round(y, 6)) for x, y in found.values()}) == len(found)


def test_a_picture_has_the_names_and_the_loads(tmp_path: Path) -> None:
    built = topology(**SMALL[0])
    file = tmp_path / "loads.csv"
    file.write_text("link,bytes,busy_s\nh0>s1.0,1000,3\ns1.0>h0,3000,2\nh0>s1.0,500,3\nh0.port,7,1\n")
    loads = read_loads(file)
    assert loads == {"h0>s1.0": 1500.0, "s1.0>h0": 3000.0, "h0.port": 7.0}
    draw_machine(machine_picture(built, title="a tree", loads=loads), tmp_path / "tree.svg")
    drawn = (tmp_path / "tree.svg").read_text()
    for text in ("a tree", "h7", "s3.3", "bytes on a link, one way", "1 KiB"):
        assert f">{text}</text>" in drawn
    widths = {float(width) for width in re.findall(r"stroke-width: ([0-9.]+)", drawn)}
    assert 3.0 in widths  # the larger of the two directions is that of the most loaded link
    draw_machine(machine_picture(built, title="a tree"), tmp_path / "plain.svg")
    assert "bytes on a link" not in (tmp_path / "plain.svg").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("link,size\na>b,3\n", ":1: missing column bytes"),
        ("link,bytes\na>b,many\n", ":2: expected a number of bytes, got 'many'"),
        ("link,bytes\na>b\n", ":2: expected a number of bytes, got None"),
    ],
)
def test_what_holds_no_loads_is_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "loads.csv"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_loads(file)


def test_loads_of_another_machine_and_machines_that_are_too_large_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the loads belong to a different machine: .* has no link n0>n1"):
        machine_picture(topology(**SMALL[0]), title="", loads={"n0>n1": 3.0})
    with pytest.raises(ConfigError, match=r"18,576 nodes and switches are too many for a figure; draw at most 3,000"):
        machine_picture(topology(type="dragonfly", hosts_per_router=8), title="")
    with pytest.raises(ConfigError, match="No such file or directory"):
        read_loads(tmp_path / "none.csv")
