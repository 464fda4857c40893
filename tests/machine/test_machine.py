"""Machines: how many ranks fit, where they are, and what they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xsim_py.config import load_machine
from xsim_py.config.contradictions import MOST_RANKS
from xsim_py.engine import MAX_ORIGINS
from xsim_py.errors import ConfigError
from xsim_py.machine import Machine


def machine(source: str | dict[str, Any], *, ranks: int, **changes: object) -> Machine:
    return Machine(
        load_machine(source, overrides={key.replace("__", "."): value for key, value in changes.items()}), ranks=ranks
    )


def test_a_machine_without_a_size_grows_with_its_ranks() -> None:
    assert machine("gige", ranks=7).nodes == 7
    assert machine("gige", ranks=7, machine__cores_per_node=4).nodes == 2
    assert (machine("shmem", ranks=7).nodes, machine("shmem", ranks=7).cores_per_node) == (1, 7)
    assert str(machine("torus3d", ranks=1000)) == "10x10x10 torus, not twisted; 1 rank per node, block placement"
    twisted = machine("torus3d", ranks=128, topology__twist="half")
    assert str(twisted.topology) == "8x4x4 torus, twisted: y shifts x by 4, z shifts x by 4"


def test_a_machine_with_a_size_keeps_it() -> None:
    assert machine("gige", ranks=2, machine__nodes=5).nodes == 5
    assert machine("torus3d", ranks=2, topology__dims=[4, 2]).nodes == 8


@pytest.mark.parametrize(
    ("name", "changes", "cores"),
    [
        ("gige", {"machine__nodes": 5, "machine__cores_per_node": 3}, "15 cores (5 nodes of 3)"),
        ("shmem", {"machine__cores_per_node": 8}, "8 cores (1 node of 8)"),
        ("torus3d", {"topology__dims": [2, 2, 2]}, "8 cores (8 nodes of 1)"),
    ],
)
def test_a_machine_that_is_too_small_says_how_many_cores_it_has(
    name: str, changes: dict[str, object], cores: str
) -> None:
    with pytest.raises(ConfigError, match="too few for 16 ranks") as caught:
        machine(name, ranks=16, **changes)
    assert f"machine: machine {name} has {cores}, too few for 16 ranks" in str(caught.value)


def test_the_error_of_a_machine_names_the_line_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("network: {latency: 1us}\nmachine:\n  nodes: 2\n")
    with pytest.raises(ConfigError) as caught:
        Machine(load_machine(file), ranks=3)
    said = (
        "machine m has 2 cores (2 nodes of 1), too few for 3 ranks; "
        "add nodes, or set machine.oversubscribe to share cores"
    )
    assert str(caught.value) == f"{file}:3:3: machine: {said}"


def test_a_million_ranks_and_a_torus_of_128_cubed_are_machines() -> None:
    assert machine("torus3d", ranks=2, topology__dims=[128, 128, 128]).topology.diameter() == 192
    assert machine("gige", ranks=10**6).nodes == 10**6


def test_more_ranks_or_nodes_than_any_machine_has_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"ranks: 1,000,000,000 is out of range \(at most 16,777,216\)"):
        machine("gige", ranks=10**9)
    with pytest.raises(ConfigError, match=r"a torus of 2,147,483,647 nodes is too large \(at most 4,194,304\)"):
        machine("torus3d", ranks=2, spawn__universe=2**31 - 1)
    assert MOST_RANKS == MAX_ORIGINS // 2


def test_ranks_fill_nodes_or_are_dealt_out() -> None:
    block = machine("gige", ranks=6, machine__nodes=3, machine__cores_per_node=2)
    assert list(block.node_of) == [0, 0, 1, 1, 2, 2]
    dealt = machine("gige", ranks=6, machine__nodes=3, machine__cores_per_node=2, machine__placement="round_robin")
    assert list(dealt.node_of) == [0, 1, 2, 0, 1, 2]


def test_a_processor_is_called_by_its_node() -> None:
    two = machine("gige", ranks=4, machine__cores_per_node=2)
    assert [two.processor_name(rank) for rank in range(4)] == ["node0", "node0", "node1", "node1"]
    named = machine("gige", ranks=2, machine__processor_name="cab{node}-x")
    assert named.processor_name(1) == "cab1-x"


def test_closed_forms_know_their_distances() -> None:
    switch, single = machine("gige", ranks=4).topology, machine("shmem", ranks=4).topology
    assert (switch.hops(0, 3), switch.hops(2, 2), switch.diameter(), switch.mean_distance()) == (2, 0, 2, 2.0)
    assert switch.route(0, 3) == [(0, 4), (4, 3)]
    assert switch.route(1, 1) == []
    assert (single.hops(0, 0), single.diameter(), single.mean_distance(), single.route(0, 0)) == (0, 0, 0.0, [])


@pytest.mark.parametrize(
    ("each", "oversubscribe", "blocks"),
    [
        (1, False, [1] * 7),
        (3, False, [3, 3, 1]),
        (1, True, [2, 2, 2, 1]),
        (3, True, [4, 3]),
        (9, True, [7]),
    ],
)
def test_who_shares_a_core_is_in_one_process(each: int, oversubscribe: bool, blocks: list[int]) -> None:
    sizes = {"machine.nodes": "2", "machine.cores_per_node": "2" if oversubscribe else "4"}
    spec = load_machine("gige", overrides={**sizes, "machine.oversubscribe": str(oversubscribe).lower()})
    assert [len(block) for block in Machine(spec, ranks=7).process_blocks(each)] == blocks
