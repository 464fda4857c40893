"""Neighbourhood exchanges on rings, grids with borders, and grids so small that both neighbours are one rank."""

from typing import Any

import pytest

from tests.mpi.collectives.toy_network import ToyNetwork
from xsim_py.mpi.collectives import neighbor


def line(size: int, rank: int, periodic: bool) -> list[int | None]:
    """Neighbours (-, +) of `rank` on a line of `size` ranks."""
    sides = (rank - 1, rank + 1)
    return [side % size if periodic or 0 <= side < size else None for side in sides]


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_what_goes_towards_plus_arrives_from_minus(size: int, periodic: bool):
    def program(ch: Any) -> Any:
        sides = line(size, ch.rank, periodic)
        parts = [b"%d-" % ch.rank, b"%d+" % ch.rank]
        return neighbor.alltoall(ch, parts, sides, sides, neighbor.grid_order(2))

    expected = []
    for rank in range(size):
        minus, plus = line(size, rank, periodic)
        expected.append([None if minus is None else b"%d+" % minus, None if plus is None else b"%d-" % plus])
    assert ToyNetwork(size, rendezvous=True).run(program) == expected


def test_a_periodic_grid_of_two_by_one():
    def program(ch: Any) -> Any:
        sides = [1 - ch.rank, 1 - ch.rank, ch.rank, ch.rank]
        parts = [bytes([ch.rank, edge]) for edge in range(4)]
        return neighbor.alltoall(ch, parts, sides, sides, neighbor.grid_order(4))

    results = ToyNetwork(2, rendezvous=True).run(program)
    assert results == [[bytes([1 - r, 1]), bytes([1 - r, 0]), bytes([r, 3]), bytes([r, 2])] for r in range(2)]


def test_a_directed_graph_with_different_degrees():
    """A star: rank 0 hears from all others and answers none."""

    def program(ch: Any) -> Any:
        if ch.rank == 0:
            return neighbor.allgather(ch, b"", range(1, ch.size), [])
        return neighbor.allgather(ch, bytes([ch.rank]), [], [0])

    assert ToyNetwork(5, rendezvous=True).run(program) == [[b"\1", b"\2", b"\3", b"\4"], [], [], [], []]
