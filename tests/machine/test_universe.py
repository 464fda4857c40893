"""Which places of a machine go to ranks that are started later."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.machine.test_machine import machine
from xsim_py.errors import ConfigError
from xsim_py.machine import Universe


def test_a_machine_of_a_size_has_as_many_places_as_cores() -> None:
    small = machine("gige", ranks=3, machine__nodes=4, machine__cores_per_node=2)
    assert (small.universe, small.open) == (8, False)
    places = Universe(small)
    assert places.free == 5
    assert places.allocate(2) == [1, 2]
    assert places.allocate(9) == [2, 3, 3]
    assert places.allocate(1) == []


def test_ranks_that_are_dealt_out_go_to_the_emptiest_node() -> None:
    dealt = machine("gige", ranks=2, machine__nodes=3, machine__cores_per_node=2, machine__placement="round_robin")
    assert Universe(dealt).allocate(9) == [2, 0, 1, 2]


def test_a_place_that_is_given_back_is_given_out_again() -> None:
    places = Universe(machine("gige", ranks=2, machine__nodes=4))
    assert places.allocate(9) == [2, 3]
    places.release(2)
    assert (places.free, places.allocate(9), places.free) == (1, [2], 0)


def test_places_of_certain_nodes() -> None:
    places = Universe(machine("gige", ranks=1, machine__nodes=4, machine__cores_per_node=2))
    assert places.allocate(9, [3, 0]) == [0, 3, 3]
    assert places.allocate(9) == [1, 1, 2, 2]
    assert places.allocate(1, [0, 1]) == []


@pytest.mark.parametrize(("name", "nodes"), [("gige", [3, 4, 5]), ("shmem", [0, 0, 0])])
def test_a_machine_without_a_size_has_room_for_all(name: str, nodes: list[int]) -> None:
    unlimited = machine(name, ranks=3)
    assert unlimited.open
    places = Universe(unlimited)
    assert (places.free, places.allocate(3)) == (None, nodes)


def test_a_torus_has_the_nodes_of_its_dimensions() -> None:
    torus = machine("torus3d", ranks=5)
    assert not torus.open
    assert Universe(torus).free == torus.nodes - 5


def test_the_universe_may_be_said() -> None:
    said = machine("gige", ranks=2, spawn__universe=5, machine__cores_per_node=2)
    assert (said.universe, said.open, said.nodes, Universe(said).free) == (5, False, 3, 3)
    assert Universe(machine("shmem", ranks=2, spawn__universe=5)).allocate(9) == [0, 0, 0]
    with pytest.raises(ConfigError, match=r"spawn\.universe: 3 slots are too few for 4 ranks"):
        machine("gige", ranks=4, spawn__universe=3)
    with pytest.raises(ConfigError, match=r"spawn\.universe: machine gige has 4 cores .* too few for 5 ranks"):
        machine("gige", ranks=4, machine__nodes=4, spawn__universe=5)


def test_new_nodes_of_a_switch_are_as_far_as_the_others_and_have_links_of_their_own() -> None:
    grown = machine("gige", ranks=2)
    grown.add_ranks(2, [2, 3])
    grown.add_ranks(2, [2, 3])  # each shard says it
    assert list(grown.node_of) == [0, 1, 2, 3]
    assert (grown.topology.hops(0, 3), grown.processor_name(3)) == (2, "node3")
    routes = [grown.topology.route(a, b) for a in range(4) for b in range(4) if a != b]
    assert len({route[0] for route in routes} | {route[1] for route in routes}) == 8
    grown.clear()
    assert list(grown.node_of) == [0, 1]


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from(["block", "round_robin"]),
    st.lists(st.one_of(st.integers(0, 5), st.just(-1)), max_size=12),
)
def test_no_node_ever_has_more_ranks_than_cores(nodes: int, cores: int, placement: str, steps: list[int]) -> None:
    there = machine("gige", ranks=1, machine__nodes=nodes, machine__cores_per_node=cores, machine__placement=placement)
    places, taken = Universe(there), [0]
    for step in steps:
        if step >= 0:
            got = places.allocate(step)
            assert len(got) == min(step, nodes * cores - len(taken))
            taken += got
        elif len(taken) > 1:
            places.release(taken.pop())
        assert all(taken.count(node) <= cores for node in range(nodes))
        assert places.free == nodes * cores - len(taken)


def test_the_place_of_a_failed_process_comes_last_and_that_of_a_failed_node_never() -> None:
    places = Universe(machine("gige", ranks=3, machine__nodes=4))
    places.vacate(1)
    places.vacate(2)
    places.close(2)
    assert places.allocate(9) == [3, 1]
    places.release(1)
    assert places.allocate(9) == [1]
    places = Universe(machine("gige", ranks=2, machine__nodes=4))
    places.close(2)
    assert places.allocate(9, [1, 2, 3]) == [3]
    places.vacate(1)
    assert places.allocate(9, [1, 2]) == [1]
    assert Universe(machine("gige", ranks=2)).allocate(2) == [2, 3]
