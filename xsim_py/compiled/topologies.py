"""Virtual topologies whose arrays have a length that another object determines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xsim_py.mpi import constants as c
from xsim_py.mpi.errors import fail
from xsim_py.mpi4py.inside import comm_of

from .by_hand import MPI, Given, by_hand
from .calls import integers, write_handle, write_integers

if TYPE_CHECKING:
    from .child import Child

_UNWEIGHTED, _WEIGHTS_EMPTY = 10, 11  # addresses of the ABI


def _grid(child: Child, number: int) -> tuple[Any, int]:
    """Return a Cartesian communicator, and the number of its dimensions."""
    comm = child.handles.get(number, MPI.Comm)
    if not isinstance(comm, MPI.Cartcomm):
        fail(c.ERR_TOPOLOGY, "the communicator has no Cartesian topology")
    return comm, len(comm_of(comm).topology.dims)


@by_hand
def Cart_rank(child: Child, given: Given) -> None:
    comm, dimensions = _grid(child, given[0])
    write_integers(child, given[2], [comm.Get_cart_rank(integers(child, given[1], dimensions, "i"))], "i")


@by_hand
def Cart_sub(child: Child, given: Given) -> None:
    comm, dimensions = _grid(child, given[0])
    write_handle(child, given[2], comm.Sub(integers(child, given[1], dimensions, "i")))


@by_hand
def Dims_create(child: Child, given: Given) -> None:
    nodes, count, dims = given
    write_integers(child, dims, MPI.Compute_dims(nodes, integers(child, dims, count, "i")), "i")


def _graph(child: Child, given: Given) -> tuple[Any, list[int], list[int]]:
    """Return a communicator, and the arrays of a graph."""
    comm, count, index, edges = given[:4]
    ends = integers(child, index, count, "i")
    return child.handles.get(comm, MPI.Comm), ends, integers(child, edges, ends[-1] if ends else 0, "i")


@by_hand
def Graph_create(child: Child, given: Given) -> None:
    comm, index, edges = _graph(child, given)
    write_handle(child, given[5], comm.Create_graph(index, edges, bool(given[4])))


@by_hand
def Graph_map(child: Child, given: Given) -> None:
    comm, index, edges = _graph(child, given)
    write_integers(child, given[4], [comm.Graph_map(index, edges)], "i")


def _weights(child: Child, address: int, count: int) -> list[int] | None:
    return None if address == _UNWEIGHTED else integers(child, address, 0 if address == _WEIGHTS_EMPTY else count, "i")


@by_hand
def Dist_graph_create(child: Child, given: Given) -> None:
    comm, count, sources, degrees, destinations, weights, info, reorder, place = given
    counts = integers(child, degrees, count, "i")
    made = child.handles.get(comm, MPI.Comm).Create_dist_graph(
        integers(child, sources, count, "i"),
        counts,
        integers(child, destinations, sum(counts), "i"),
        _weights(child, weights, sum(counts)),
        child.handles.get(info, MPI.Info),
        bool(reorder),
    )
    write_handle(child, place, made)


@by_hand
def Dist_graph_create_adjacent(child: Child, given: Given) -> None:
    comm, arriving, sources, source_weights, leaving, destinations, weights, info, reorder, place = given
    made = child.handles.get(comm, MPI.Comm).Create_dist_graph_adjacent(
        integers(child, sources, arriving, "i"),
        integers(child, destinations, leaving, "i"),
        _weights(child, source_weights, arriving),
        _weights(child, weights, leaving),
        child.handles.get(info, MPI.Info),
        bool(reorder),
    )
    write_handle(child, place, made)


@by_hand
def Dist_graph_neighbors(child: Child, given: Given) -> None:
    comm = child.handles.get(given[0], MPI.Comm)
    *ends, weights = comm.Get_dist_neighbors()
    for (most, ranks, place), found, weight in zip((given[1:4], given[4:7]), ends, weights or ([], []), strict=True):
        write_integers(child, ranks, found[:most], "i")
        write_integers(child, 0 if place == _UNWEIGHTED else place, weight[:most], "i")
