"""Programs on machines with a graph of one's own, with several ranks a node, and with ranks dealt out in turn."""

import io
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from xsim_py import simulate
from xsim_py.cli import main
from xsim_py.errors import ConfigError

US, NS = 10**6, 10**3
NETWORK = {"latency": "3us", "per_hop": "250ns", "bandwidth": "8Gbps", "eager_threshold": "1000B"}
NEAR = {"latency": "400ns", "bandwidth": "16Gbps", "eager_threshold": "1000B"}
HELLO = "from mpi4py import MPI\nprint(MPI.Get_processor_name())\n"


def one_way(hops: int, size: int) -> int:
    return (3 * US + hops * 250 * NS) * (3 if size > 1000 else 1) + size * NS


def near(size: int) -> int:
    return 400 * NS * (3 if size > 1000 else 1) + size * NS // 2


def all_pairs(size: int) -> dict[tuple[int, int], int]:
    """Each rank sends to each other one in a turn of its own; how long the messages to this rank took."""
    import time

    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    took = {}
    for source in range(comm.size):
        for to in range(comm.size):
            time.sleep(1e-3 * (source * comm.size + to + 1) - MPI.Wtime())
            begin_s = MPI.Wtime()
            if comm.rank == source != to:
                comm.Send(np.zeros(size, "u1"), to)
            elif comm.rank == to != source:
                comm.Recv(np.zeros(size, "u1"), source)
                took[source, to] = round((MPI.Wtime() - begin_s) * 10**12)
    return took


def times(machine: dict[str, Any], *, ranks: int, size: int, shards: int = 1) -> dict[tuple[int, int], int]:
    result = simulate(all_pairs, ranks=ranks, machine=machine, args=[size], shards=shards)
    assert (result.ended, result.warnings) == ("finished", []), result.report
    return {pair: took for values in result.values for pair, took in values.items()}


def write(graph: networkx.Graph, folder: Path, kind: str) -> Path:
    path = folder / f"drawn.{kind}"
    if kind == "graphml":
        networkx.write_graphml(graph, path)
    else:
        networkx.write_edgelist(graph, path, data=False)
    return path


def in_order(names: list[str]) -> list[str]:
    """n2 before n10."""
    return sorted(names, key=lambda name: (name[0], int(name[1:])))


@pytest.mark.parametrize("kind", ["graphml", "txt"])
@pytest.mark.parametrize("size", [0, 1000, 1001])
@pytest.mark.parametrize("shards", [1, 3])
def test_times_are_those_of_shortest_paths(tmp_path: Path, kind: str, size: int, shards: int) -> None:
    drawn = networkx.connected_watts_strogatz_graph(12, 3, 0.4, seed=5)
    drawn.add_edges_from([(0, 12), (12, 13), (13, 14)])  # a tail
    graph = networkx.relabel_nodes(drawn, {v: f"{'s' if v % 4 == 1 else 'n'}{v}" for v in drawn})
    hosts = in_order([name for name in graph if fnmatch(name, "n*")])
    machine = {"topology": {"type": "graph", "file": str(write(graph, tmp_path, kind)), "hosts": "n*"},
               "network": NETWORK}  # fmt: skip
    distances = dict(networkx.all_pairs_shortest_path_length(graph))
    found = times(machine, ranks=len(hosts), size=size, shards=shards)
    assert found == {
        (a, b): one_way(distances[hosts[a]][hosts[b]], size)
        for a in range(len(hosts))
        for b in range(len(hosts))
        if a != b
    }


def test_names_of_processors_are_those_of_the_graph(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program, machine = tmp_path / "hello.py", tmp_path / "machine.yaml"
    program.write_text(HELLO)
    (tmp_path / "drawn.txt").write_text("n10 s\nn2 s\nn1 s\n")
    machine.write_text("topology: {type: graph, file: drawn.txt, hosts: n*}\nnetwork: {latency: 1us}\n")
    assert main(["run", "-n", "3", "--label", "--machine", str(machine), str(program)]) == 0
    assert capfd.readouterr().out == "[0] n1\n[1] n2\n[2] n10\n"


@pytest.mark.parametrize("kind", ["graphml", "txt"])
def test_a_graph_in_two_parts_is_bad_input(tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = write(networkx.Graph([("a1", "a2"), ("b1", "b2")]), tmp_path, kind)
    topology = {"type": "graph", "file": str(path)}
    with pytest.raises(ConfigError, match="not connected: no path from a1 to b1"):
        simulate(HELLO, kind="code", ranks=2, machine={"topology": topology, "network": NETWORK})
    machine = tmp_path / "machine.yaml"
    machine.write_text(f"network: {{latency: 1us}}\ntopology:\n  type: graph\n  file: {path.name}\n")
    assert main(["run", "-n", "2", "--machine", str(machine), "-c", HELLO]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "machine.yaml:4:" in err
    assert "not connected" in err


def test_a_graph_with_too_few_nodes_is_bad_input() -> None:
    machine = {"topology": {"type": "graph", "edges": [["a", "b"]]}, "network": NETWORK}
    with pytest.raises(ConfigError, match="2 cores"):
        simulate(HELLO, kind="code", ranks=3, machine=machine)


RING = {"topology": {"type": "torus", "dims": [5]}, "network": NETWORK, "same_node": NEAR}


def ring_distance(a: int, b: int) -> int:
    return min((a - b) % 5, (b - a) % 5)


@pytest.mark.parametrize("placement", ["block", "round_robin"])
@pytest.mark.parametrize("size", [0, 1001])
@pytest.mark.parametrize("shards", [1, 2])
def test_several_ranks_on_a_node(placement: str, size: int, shards: int) -> None:
    machine = {**RING, "machine": {"cores_per_node": 3, "placement": placement}}
    node = {rank: rank % 5 if placement == "round_robin" else rank // 3 for rank in range(11)}
    found = times(machine, ranks=11, size=size, shards=shards)
    assert len(found) == 110
    for (a, b), took in found.items():
        distance = ring_distance(node[a], node[b])
        assert took == (one_way(distance, size) if distance else near(size)), (a, b)


@pytest.mark.parametrize("placement", ["block", "round_robin"])
def test_who_is_on_my_node(placement: str) -> None:
    def program() -> tuple[str, list[int], list[str]]:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        node = comm.Split_type(MPI.COMM_TYPE_SHARED, key=-comm.rank)
        return MPI.Get_processor_name(), node.allgather(comm.rank), node.allgather(MPI.Get_processor_name())

    machine = {**RING, "machine": {"cores_per_node": 3, "placement": placement, "processor_name": "host-{node}"}}
    values = simulate(program, ranks=11, machine=machine).values
    for rank, (name, members, names) in enumerate(values):
        node_of = (lambda r: r % 5) if placement == "round_robin" else (lambda r: r // 3)
        assert name == f"host-{node_of(rank)}"
        assert members == [r for r in reversed(range(11)) if node_of(r) == node_of(rank)]
        assert set(names) == {name}


def test_the_table_of_ranks_names_their_nodes() -> None:
    machine = {**RING, "machine": {"cores_per_node": 2, "placement": "round_robin"}}
    table = simulate(HELLO, kind="code", ranks=7, machine=machine, stdout=io.StringIO()).tables["ranks"]
    assert [str(node)[-1] for node in table.columns["node"]] == [*"0123401"]
