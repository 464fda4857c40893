"""Graphs that users draw: routing against networkx, and the errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.config import load_machine
from xsim_py.errors import ConfigError
from xsim_py.machine import Machine
from xsim_py.machine.graph import GraphTopology

FAT = [("s0", "s1"), *((f"n{i}", f"s{i % 2}") for i in range(12))]


def machine(topology: dict[str, object], *, ranks: int = 1) -> Machine:
    return Machine(
        load_machine({"topology": {"type": "graph", **topology}, "network": {"latency": "1us"}}), ranks=ranks
    )


@given(st.integers(2, 20), st.integers(0, 1000))
def test_hops_and_routes_are_shortest_paths(nodes: int, seed: int) -> None:
    drawn = networkx.connected_watts_strogatz_graph(nodes, min(4, nodes), 0.5, seed=seed)
    edges = [(f"v{a}", f"v{b}") for a, b in drawn.edges()]
    topology = GraphTopology(edges)
    named = networkx.Graph(edges)
    distances = dict(networkx.all_pairs_shortest_path_length(named))
    for a in range(nodes):
        for b in range(nodes):
            far = distances[topology.name(a)][topology.name(b)]
            route = topology.route(a, b)
            assert topology.hops(a, b) == far == len(route)
            assert [a, *(to for _, to in route)] == [*(at for at, _ in route), b]
            assert all(named.has_edge(topology.name(at), topology.name(to)) for at, to in route)
    assert topology.diameter() == networkx.diameter(named)
    assert topology.mean_distance() == pytest.approx(networkx.average_shortest_path_length(named))


@given(st.integers(2, 25), st.integers(0, 1000), st.sets(st.integers(0, 24), min_size=2))
def test_the_two_nearest_nodes_are_found(vertices: int, seed: int, hosts: set[int]) -> None:
    drawn = networkx.connected_watts_strogatz_graph(vertices, 2, 0.3, seed=seed)
    chosen = sorted(host for host in hosts if host < vertices)
    name = {vertex: f"{'n' if vertex in chosen else 's'}{vertex}" for vertex in drawn}
    topology = GraphTopology([(name[a], name[b]) for a, b in drawn.edges()], hosts="n*")
    distances = [networkx.shortest_path_length(drawn, a, b) for a in chosen for b in chosen if a < b]
    assert topology.least_hops == min(distances, default=0)


def test_the_order_of_edges_does_not_change_routes() -> None:
    ring = [(f"v{i}", f"v{(i + 1) % 8}") for i in range(8)]
    one, other = GraphTopology(ring), GraphTopology([(b, a) for a, b in reversed(ring)] + ring[:3])
    assert [one.route(a, b) for a in range(8) for b in range(8)] == [
        other.route(a, b) for a in range(8) for b in range(8)
    ]


def test_nodes_come_in_natural_order_and_switches_after_them() -> None:
    built = machine({"edges": FAT, "hosts": "n*"}, ranks=12)
    assert built.nodes == 12
    assert [built.processor_name(rank) for rank in range(12)] == [f"n{i}" for i in range(12)]
    assert (built.topology.hops(0, 2), built.topology.hops(0, 1)) == (2, 3)
    assert built.topology.least_hops == 2
    assert str(built.topology) == "graph of 12 nodes, 2 switches and 13 links"


def test_graphml_and_edge_lists_are_read_alike(tmp_path: Path) -> None:
    drawn = networkx.Graph(FAT)
    networkx.write_graphml(drawn, tmp_path / "g.graphml")
    networkx.write_edgelist(drawn, tmp_path / "g.txt")
    (tmp_path / "g.edges").write_text("# comment\n" + "\n".join(f"{a} {b}" for a, b in FAT))
    built = [
        machine({"file": str(tmp_path / name), "hosts": "n*"}, ranks=12) for name in ("g.graphml", "g.txt", "g.edges")
    ]
    built.append(machine({"edges": FAT, "hosts": "n*"}, ranks=12))
    assert len({tuple(tuple(m.topology.route(a, b)) for a in range(12) for b in range(12)) for m in built}) == 1


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ({"edges": [["a", "b"], ["c", "d"]]}, "topology.edges: the graph is not connected: no way leads from a to c"),
        (
            {"edges": [["s", "n1"], ["n2", "t"]], "hosts": "n?"},
            "the graph is not connected: no way leads from n1 to n2",
        ),
        ({"edges": [["a", "b"]], "hosts": "n*"}, "topology.hosts: none of the 2 vertices is called n*"),
    ],
)
def test_a_graph_that_is_no_machine_is_refused(topology: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        machine(topology)
    assert str(caught.value) == f"machine description: {message}" or str(caught.value).endswith(message)


@pytest.mark.parametrize(("name", "text"), [("g.graphml", "<graphml"), ("g.txt", "a b {weight"), ("g.txt", "\udc80")])
def test_a_file_that_is_no_graph_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=f"topology.file: .*{name} cannot be read as a graph: "):
        machine({"file": str(tmp_path / name)})


def test_a_vertex_without_edges_is_not_connected(tmp_path: Path) -> None:
    drawn = networkx.Graph([("a", "b")])
    drawn.add_node("c")
    networkx.write_graphml(drawn, tmp_path / "g.graphml")
    with pytest.raises(ConfigError, match="no way leads from a to c"):
        machine({"file": str(tmp_path / "g.graphml")})


def test_edges_in_the_description_need_no_networkx() -> None:
    program = (
        "import sys; from xsim_py.config import load_machine; from xsim_py.machine import Machine\n"
        "topology = {'type': 'graph', 'edges': [['a', 'b']]}\n"
        "Machine(load_machine({'topology': topology, 'network': {'latency': 1}}), ranks=2)\n"
        "print('networkx' in sys.modules)"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
