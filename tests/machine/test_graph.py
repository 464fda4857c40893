"""Graphs that users draw: routing against networkx, and the errors."""

from __future__ import annotations

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
def test_only_nodes_count_for_the_nearest_and_the_farthest_pair(vertices: int, seed: int, hosts: set[int]) -> None:
    drawn = networkx.connected_watts_strogatz_graph(vertices, 2, 0.3, seed=seed)
    chosen = sorted(host for host in hosts if host < vertices)
    name = {vertex: f"{'n' if vertex in chosen else 's'}{vertex}" for vertex in drawn}
    topology = GraphTopology([(name[a], name[b]) for a, b in drawn.edges()], hosts="n*")
    distances = [networkx.shortest_path_length(drawn, a, b) for a in chosen for b in chosen if a < b]
    assert topology.least_hops == min(distances, default=0)
    assert topology.diameter() == max(distances, default=0)
    assert topology.mean_distance() == pytest.approx(sum(distances) / max(len(distances), 1))


def test_the_order_of_edges_does_not_change_routes() -> None:
    ring = [(f"v{i}", f"v{(i + 1) % 8}") for i in range(8)]
    one, other = GraphTopology(ring), GraphTopology([(b, a) for a, b in reversed(ring)])
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
        ({"edges": [["a", "b"], ["c", "d"]]}, "topology.edges: the graph is not connected: no path from a to c"),
        (
            {"edges": [["s", "n1"], ["n2", "t"]], "hosts": "n?"},
            "the graph is not connected: no path from n1 to n2",
        ),
        ({"edges": [["a", "b"], ["b", "b"]]}, "topology.edges[1]: a link cannot connect b to itself; drop it"),
        (
            {"edges": [{"ends": ["a", "a"]}, ["a", "b"]]},
            "topology.edges[0]: a link cannot connect a to itself; drop it",
        ),
        ({"edges": [["a", "b"]], "hosts": "n*"}, "topology.hosts: no vertex matches n*, of 2"),
    ],
)
def test_a_graph_that_is_no_machine_is_refused(topology: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        machine(topology)
    assert str(caught.value) == f"machine description: {message}" or str(caught.value).endswith(message)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "a b\nc d {weight",
            "2:1: not a valid graph: expected the end of the line after two names, got {weight",
        ),
        ("a b\nb b {}", "2:1: a link cannot connect b to itself; drop it"),
        ("a b\n\nc", "3:1: not a valid graph: expected two names, got only c"),
        ("a b\nb \udc80", "2:3: not a valid graph: invalid UTF-8"),
        ("a b {'bandwidth': 3km}", "1:1: not a valid graph: write attributes such as {'bandwidth'"),
        ("a b {'bandwidth': '3km'}", "1:1: the link of a and b: unknown unit in '3km'"),
        ("a b\nb c {'parallel': 0}", "2:1: the link of b and c: expected a number of parallel links from 1 to "),
    ],
)
def test_a_list_of_edges_that_is_no_graph_is_refused_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "g.txt"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        machine({"file": str(file)})
    assert str(caught.value).startswith(f"{file}:{said}")


def graphml(inside: str, *, edges: str = "undirected", keys: str = "") -> str:
    namespace = "http://graphml.graphdrawing.org/xmlns"
    return f'<graphml xmlns="{namespace}">{keys}\n<graph edgedefault="{edges}">\n{inside}</graph></graphml>'


A_B = '<node id="a"/><node id="b"/>'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<graphml", "1:1: not a valid graph: not XML: unclosed token"),
        ("<graphml/>", "1:1: not a valid graph: it has no <graph>"),
        (
            '<?xml version="1.0" encoding="foo"?><graphml/>',
            "1:1: not a valid graph: unknown encoding: foo",
        ),
        ('<!DOCTYPE g [<!ENTITY a "b">]><graphml><graph/></graphml>', "1:25: XML entities are not supported"),
        (graphml('<node id="a"/><edge source="a"/>'), "3:15: missing attribute target of an edge"),
        (graphml('<node id="a"/>\n<edge target="a"/>'), "4:1: missing attribute source of an edge"),
        (
            graphml('<edge source="a" target="b"/><node id="a"/>'),
            "3:1: the target of this edge, b, is not a node of the graph",
        ),
        (graphml(f'{A_B}\n<edge source="a" target="a"/>'), "4:1: a link cannot connect a to itself; drop it"),
        (graphml("<node/>"), "3:1: missing attribute id of a node"),
        (graphml('<node id="a"/><node id="a"/>'), "3:15: duplicate node a, first in line 3"),
        (graphml(f"{A_B}<hyperedge/>"), "3:29: <hyperedge> is not supported: a link joins two vertices"),
        (graphml("<graph/>"), "3:1: a second <graph>; a machine is one graph"),
    ],
)
def test_graphml_that_is_no_graph_is_refused_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "g.graphml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        machine({"file": str(file)})
    assert str(caught.value).startswith(f"{file}:{said}")


def test_the_two_directions_of_a_link_are_one_link(tmp_path: Path) -> None:
    key = '<key id="k" for="edge" attr.name="w" attr.type="string"/>'
    edges = '<edge source="a" target="b"><data key="k">x</data></edge><edge source="b" target="a"/>'
    (tmp_path / "g.xml").write_text(graphml(A_B + edges, edges="directed", keys=key))
    assert str(machine({"file": str(tmp_path / "g.xml")}).topology) == "graph of 2 nodes, 0 switches and 1 links"


def test_what_networkx_cannot_read_is_bad_input(tmp_path: Path) -> None:
    file = tmp_path / "g.graphml"
    key = '<key id="k" for="node" attr.name="w" attr.type="wtf"/>'
    file.write_text(graphml(A_B, keys=key))
    with pytest.raises(ConfigError, match=r"not a valid graph: networkx cannot read 'wtf' \(KeyError\)"):
        machine({"file": str(file)})


KEYS = """<key id="b" for="edge" attr.name="bandwidth" attr.type="string"/>
<key id="l" for="edge" attr.name="latency" attr.type="string"/>"""
FAST = '<data key="b">10Gbps</data><data key="l">1us</data>'


def test_links_side_by_side_count_and_may_have_figures_of_their_own(tmp_path: Path) -> None:
    fast = {"ends": ["a", "b"], "bandwidth": "10Gbps", "latency": "1us"}
    given: list[dict[str, object]] = [
        {"edges": [["a", "b"], ["c", "b"], {"ends": ["b", "c"], "parallel": 2}, fast]},
        {"file": str(tmp_path / "g.txt")},
        {"file": str(tmp_path / "g.xml")},
        {"file": str(tmp_path / "directed.xml")},
    ]
    (tmp_path / "g.txt").write_text("a b\nb c {'parallel': 3}\na b {'bandwidth': '10Gbps', 'latency': '1us'}")
    nodes = '<node id="a"/><node id="b"/><node id="c"/>'
    edge = '<edge source="{}" target="{}">{}</edge>'
    links = [("a", "b", ""), ("b", "c", ""), ("c", "b", ""), ("b", "c", ""), ("a", "b", FAST)]
    text = nodes + "".join(edge.format(*link) for link in links)
    (tmp_path / "g.xml").write_text(graphml(text, keys=KEYS))
    links[2] = ("b", "c", "")
    both = [*links, *((b, a, told) for a, b, told in links)]
    text = nodes + "".join(edge.format(*link) for link in both)
    (tmp_path / "directed.xml").write_text(graphml(text, edges="directed", keys=KEYS))
    for each in given:
        topology = machine(each).topology
        assert str(topology) == "graph of 3 nodes, 0 switches and 5 links"
        assert sorted(map(topology.link_name, topology.wires())) == ["a>b", "a>b#1", "b>c", "b>c#1", "b>c#2"]
        assert topology.link_parameters == ((0, 0), (800, 1_000_000))
        assert [topology.link_name(link) for link in topology.route(0, 2)] == ["a>b", "b>c#2"]
        assert [topology.link_name(link) for link in topology.route(2, 0)] == ["c>b", "b>a"]
        assert topology.links_per_layer(0, 1) == (0, 1)
    by_source = machine({**given[0], "cables": "source"}).topology
    assert [by_source.link_name(link) for link in by_source.route(2, 0)] == ["c>b#2", "b>a"]


def test_one_of_equally_short_ways_is_drawn_by_the_seed_for_each_pair() -> None:
    edges = [(f"n{node}", leaf) for node in range(8) for leaf in ([f"s{node % 2}"])]
    edges += [(f"s{leaf}", f"t{spine}") for leaf in range(2) for spine in range(4)]
    drawn = GraphTopology(edges, hosts="n*", routing="ecmp")
    ways = {pair: drawn.route(*pair) for pair in [(a, b) for a in range(8) for b in range(8)]}
    assert all(len(way) == drawn.hops(*pair) for pair, way in ways.items())
    assert {way[1][1] for way in ways.values() if len(way) == 4} == {10, 11, 12, 13}
    assert ways == {pair: GraphTopology(edges, hosts="n*", routing="ecmp").route(*pair) for pair in ways}
    drawn.seed = 1
    assert ways != {pair: drawn.route(*pair) for pair in ways}


def test_what_flows_between_two_halves_of_a_graph_is_bounded_by_its_links() -> None:
    edges = [("n0", "s0"), ("n1", "s0"), ("n2", "s1"), ("n3", "s1"), ("s0", "s1"), ("s0", "s1")]
    graph = GraphTopology(edges, hosts="n*")
    assert graph.bisection([5.0]) == 10.0
    assert GraphTopology([*edges, ("s0", "s1")], hosts="n*").bisection([5.0]) == 10.0  # the nodes send no more
    assert GraphTopology(edges[:5], hosts="n*").bisection([5.0]) == 5.0


def test_a_graph_is_a_file_of_bounded_size(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"topology\.file: cannot find the file /dev/zero"):
        machine({"file": "/dev/zero"})
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(17 * 2**20)
    with pytest.raises(ConfigError, match=r"large: too large \(at most 16 MiB\)"):
        machine({"file": str(large)})


def test_names_sort_by_the_numbers_in_them_however_long() -> None:
    long = "n" + "9" * 5000
    names = ["n1", "n01", "n2", "n10", "n\u00b2", "n", long]
    edges = [(name, "x") for name in names]
    assert GraphTopology(edges).names == ["n", "n01", "n1", "n2", "n10", long, "n\u00b2", "x"]
    assert GraphTopology(edges[::-1]).names == GraphTopology(edges).names


def test_a_vertex_without_edges_is_not_connected(tmp_path: Path) -> None:
    drawn = networkx.Graph([("a", "b")])
    drawn.add_node("c")
    networkx.write_graphml(drawn, tmp_path / "g.graphml")
    with pytest.raises(ConfigError, match=r"topology\.file: the graph is not connected: no path from a to c"):
        machine({"file": str(tmp_path / "g.graphml")})
