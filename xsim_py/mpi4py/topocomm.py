"""`MPI.Topocomm`, `MPI.Cartcomm`, `MPI.Graphcomm` and `MPI.Distgraphcomm`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from xsim_py.mpi import constants as c
from xsim_py.mpi import management as manage
from xsim_py.mpi.topology import Cartesian, DistGraph, Graph

from .collective_calls import NeighborCollectives, handled
from .comm import Comm, Intracomm
from .handle import int_list
from .methods import attribute

__all__ = ["Cartcomm", "Distgraphcomm", "Graphcomm", "Topocomm"]


class Topocomm(Intracomm, NeighborCollectives):
    """Topology intracommunicator."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()

    _kinds: ClassVar[tuple[int, ...]] = (c.CART, c.GRAPH, c.DIST_GRAPH)
    _expected: ClassVar[str] = "a topology"

    def __new__(cls, comm: Comm | None = None) -> Self:
        self = cls._copy(comm)
        if self and self.Get_topology() not in cls._kinds:
            raise TypeError(f"expecting {cls._expected if self.is_topo else 'a topology'} communicator")
        return self

    @property
    def degrees(self) -> tuple[int, int]:
        sources, dests = self.inoutedges
        return len(sources), len(dests)

    @property
    def indegree(self) -> int:
        return self.degrees[0]

    @property
    def outdegree(self) -> int:
        return self.degrees[1]

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        comm = self._comm()
        edges: tuple[list[int], list[int]] = comm.topology.neighbors(comm.me)
        return edges

    @property
    def inedges(self) -> list[int]:
        return self.inoutedges[0]

    @property
    def outedges(self) -> list[int]:
        return self.inoutedges[1]


class Cartcomm(Topocomm):
    """Cartesian topology intracommunicator."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()

    _kinds = (c.CART,)
    _expected = "a Cartesian"

    def _grid(self) -> Cartesian:
        grid: Cartesian = self._comm().topology
        return grid

    def Get_dim(self) -> int:
        return len(self._grid().dims)

    dim = attribute(Get_dim)

    ndim = attribute(Get_dim)

    def Get_topo(self) -> tuple[list[int], list[int], list[int]]:
        grid = self._grid()
        return list(grid.dims), list(map(int, grid.periods)), grid.coords(self._comm().me)

    topo = attribute(Get_topo)

    @property
    def dims(self) -> list[int]:
        return self.Get_topo()[0]

    @property
    def periods(self) -> list[int]:
        return self.Get_topo()[1]

    @property
    def coords(self) -> list[int]:
        return self.Get_topo()[2]

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        place = int_list(coords)
        if len(place) != self.Get_dim():
            raise ValueError(f"expecting {self.Get_dim()} items, got {len(place)}")
        rank: int = handled(self._comm(), self._grid().rank, place)
        return rank

    def Get_coords(self, rank: int) -> list[int]:
        coords: list[int] = handled(self._comm(), self._grid().coords, rank)
        return coords

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        comm = self._comm()
        ends: tuple[int, int] = handled(comm, self._grid().shift, comm.me, direction, disp)
        return ends

    def Sub(self, remain_dims: Sequence[bool]) -> Cartcomm:
        comm = self._comm()
        remain = int_list(remain_dims)
        if len(remain) != self.Get_dim():
            raise ValueError(f"expecting {self.Get_dim()} items, got {len(remain)}")
        part, place, grid = self._grid().sub(comm.me, [bool(stays) for stays in remain])
        made = self._make_uniform("Cartcomm.Sub", manage.split, part, place, "Cartcomm.Sub")
        assert made is not None
        made.topology = grid
        return self._new(made, Cartcomm)


class Graphcomm(Topocomm):
    """General graph topology intracommunicator."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()

    _kinds = (c.GRAPH,)
    _expected = "a general graph"

    def _graph(self) -> Graph:
        graph: Graph = self._comm().topology
        return graph

    def Get_dims(self) -> tuple[int, int]:
        graph = self._graph()
        return len(graph.index), len(graph.edges)

    dims = attribute(Get_dims)

    @property
    def nnodes(self) -> int:
        return self.Get_dims()[0]

    @property
    def nedges(self) -> int:
        return self.Get_dims()[1]

    def Get_topo(self) -> tuple[list[int], list[int]]:
        graph = self._graph()
        return list(graph.index), list(graph.edges)

    topo = attribute(Get_topo)

    @property
    def index(self) -> list[int]:
        return self.Get_topo()[0]

    @property
    def edges(self) -> list[int]:
        return self.Get_topo()[1]

    def Get_neighbors_count(self, rank: int) -> int:
        return len(self.Get_neighbors(rank))

    @property
    def nneighbors(self) -> int:
        return self.Get_neighbors_count(self._comm().me)

    def Get_neighbors(self, rank: int) -> list[int]:
        found: list[int] = handled(self._comm(), self._graph().of, rank)
        return found

    @property
    def neighbors(self) -> list[int]:
        return self.Get_neighbors(self._comm().me)


class Distgraphcomm(Topocomm):
    """Distributed graph topology intracommunicator."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()

    _kinds = (c.DIST_GRAPH,)
    _expected = "a distributed graph"

    def _graph(self) -> DistGraph:
        graph: DistGraph = self._comm().topology
        return graph

    def Get_dist_neighbors_count(self) -> tuple[int, int, bool]:
        graph = self._graph()
        return len(graph.sources), len(graph.destinations), graph.source_weights is not None

    def Get_dist_neighbors(self) -> tuple[list[int], list[int], tuple[list[int], list[int]] | None]:
        graph = self._graph()
        weights = None
        if graph.source_weights is not None:
            weights = list(graph.source_weights), list(graph.destination_weights or ())
        return list(graph.sources), list(graph.destinations), weights
