"""What each link has carried: conservation, equal for all shards, ways of sharing and of simulating collectives."""

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cases import ROOT
from xsim_py import simulate
from xsim_py.cli import main
from xsim_py.machine.torus import Torus

MODES = ("none", "links", "flows")


def mixed() -> None:
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    for step in (1, 5):
        comm.Sendrecv_replace(
            np.zeros(1000 * step, "u1"), (comm.rank + step) % comm.size, source=(comm.rank - step) % comm.size
        )
    comm.allreduce(comm.rank)


def loads(machine: dict[str, Any], **options: Any) -> Any:
    result = simulate(mixed, ranks=12, machine=machine, links=True, **options)
    assert result.ended == "finished"
    return result


@pytest.mark.parametrize("mode", MODES)
def test_every_byte_goes_over_as_many_links_as_its_way_has(mode: str) -> None:
    machine = {"topology": {"type": "torus", "dims": [4, 3]}, "network": {"latency": "1us", "contention": mode}}
    runs = [loads(machine, shards=shards) for shards in (1, 3)]
    assert dict(runs[0].tables["links"]) == dict(runs[1].tables["links"])
    pairs, links, hops = runs[0].tables["pairs"], runs[0].tables["links"], Torus([4, 3]).hops
    ends = list(zip(pairs["source"], pairs["dest"], strict=True))
    for column in ("messages", "bytes"):
        assert sum(links[column]) == sum(n * hops(*both) for n, both in zip(pairs[column], ends, strict=True))
    assert links["link"] == sorted(set(links["link"]))
    assert all(name == f"{a}>{b}" for name, a, b in zip(links["link"], links["from"], links["to"], strict=True))
    assert set(links["utilisation"]) == {0.0}  # no bandwidth is said


def test_they_do_not_depend_on_how_links_are_shared_or_collectives_are_simulated() -> None:
    found = []
    for mode in MODES:
        for collectives in ("messages", "arrays")[: 2 if mode == "none" else 1]:
            network = {"latency": "1us", "bandwidth": "8Gbps", "contention": mode}
            result = loads(
                {"topology": {"type": "hyperx", "dims": [3, 2]}, "network": network}, collectives=collectives
            )
            table = result.tables["links"]
            found.append([table[name] for name in ("link", "layer", "bytes", "messages", "busy_s")])
            of = zip(table["bytes"], table["busy_s"], table["utilisation"], strict=True)
            for size, busy_s, part in of:
                assert busy_s == pytest.approx(size * 1e-9)
                assert part == pytest.approx(busy_s / result.virtual_time_s)
                assert part <= 1
    assert all(each == found[0] for each in found)


def test_links_of_the_nodes_themselves_are_among_them() -> None:
    machine = {
        "machine": {"cores_per_node": 4, "nics_per_node": 2},
        "network": {"latency": "1us", "bandwidth": "8Gbps"},
        "same_node": {"latency": "500ns"},
        "nic": {"bandwidth": "4Gbps"},
        "memory": {"bandwidth": "80Gbps"},
    }
    table = loads(machine).tables["links"]
    layers: Counter[str] = Counter()
    for layer, size in zip(table["layer"], table["bytes"], strict=True):
        layers[layer] += size
    pairs = loads(machine).tables["pairs"]
    ends = zip(pairs["source"], pairs["dest"], pairs["bytes"], strict=True)
    apart = [size * (a // 4 != b // 4) for a, b, size in ends]
    assert layers == {"node": 2 * sum(apart), "nic": 2 * sum(apart), "memory": sum(pairs["bytes"]) - sum(apart)}


def test_a_command_writes_them_and_another_one_draws_them(tmp_path: Path, capsys: Any) -> None:
    machine = tmp_path / "tree.yaml"
    machine.write_text(
        'topology: {type: fattree, shape: "2;4,4;1,2;1,1"}\nnetwork: {latency: 1us, contention: flows}\n'
    )
    target, picture = tmp_path / "links.csv", tmp_path / "links.svg"
    program = str(ROOT / "apps" / "pi.py")
    assert main(["run", "-n", "16", "--machine", str(machine), "--quiet", "--links", str(target), program]) == 0
    with target.open() as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == ["link", "layer", "from", "to", "bytes", "messages", "busy_s", "utilisation"]
    assert {"h1>s1.0", "s1.0>h0"} <= {row["link"] for row in rows}
    assert main(["models", "draw", str(machine), "--loads", str(target), "-o", str(picture)]) == 0
    assert picture.stat().st_size
    capsys.readouterr()
