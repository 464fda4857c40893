"""`MPI.Topocomm`, `MPI.Cartcomm`, `MPI.Graphcomm` and `MPI.Distgraphcomm`, and their neighbourhood collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from xsim_py.mpi import constants as c
from xsim_py.mpi import management as manage
from xsim_py.mpi.calls import CollectiveChannel, channel, note
from xsim_py.mpi.collectives import neighbor
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.topology import Cartesian, DistGraph, Graph

from .bufspec import packed, unpack_each
from .collective_calls import PARSERS, Plan, handled, run, start
from .comm import Comm, Intracomm
from .handle import int_list
from .info import INFO_NULL, Info
from .objects import dump_all, packed_size
from .persistent import persist
from .pickling import dump, load
from .request import Prequest, Request

__all__ = ["Cartcomm", "Distgraphcomm", "Graphcomm", "Topocomm"]

Neighbors = list[int | None]


# --------------------------------------------------------------------------------------- neighbourhood collectives


def _edges(comm: Communicator) -> tuple[Neighbors, Neighbors, list[int] | None]:
    """From whom and to whom this rank's edges go, and in which order to send; None is the border of a grid."""
    if comm.topology.kind == c.CART:
        return _edges_of_grid(comm.topology, comm.me)
    sources, dests = comm.topology.neighbors(comm.me)
    return _real(sources), _real(dests), None


@lru_cache(maxsize=1024)
def _edges_of_grid(grid: Cartesian, rank: int) -> tuple[Neighbors, Neighbors, list[int]]:
    """The same in a grid; nobody changes these lists."""
    sources, dests = grid.neighbors(rank)
    return _real(sources), _real(dests), neighbor.grid_order(len(dests))


def _real(ranks: Sequence[int]) -> Neighbors:
    return [None if rank == c.PROC_NULL else rank for rank in ranks]


def _channel(comm: Communicator, name: str, *, check: bool = True) -> CollectiveChannel:
    """The channel of a call whose messages all go to neighbours directly."""
    ch = channel(comm, note(name), check=check)
    ch.algorithm = "linear"
    return ch


def _allgather(comm: Communicator, name: str, form: str, sendbuf: Any, recvbuf: Any) -> Plan:
    """Everybody gets a block of each of its neighbours."""
    sources, dests, _ = _edges(comm)
    data = packed(sendbuf)
    target = PARSERS[form](recvbuf, writable=True, blocks=len(sources))
    ch = _channel(comm, name)
    return len(data), lambda: unpack_each(target, neighbor.allgather(ch, data, sources, dests), "neighbour"), ch


def _alltoall(comm: Communicator, name: str, form: str, sendbuf: Any, recvbuf: Any) -> Plan:
    """Everybody sends a block to each of its neighbours."""
    sources, dests, order = _edges(comm)
    parts = PARSERS[form](sendbuf, writable=False, blocks=len(dests)).pack_parts(len(dests))
    target = PARSERS[form](recvbuf, writable=True, blocks=len(sources))
    ch = _channel(comm, name)

    def body() -> None:
        unpack_each(target, neighbor.alltoall(ch, parts, sources, dests, order), "neighbour")

    return sum(map(len, parts)), body, ch


def _alltoall_objects(comm: Communicator, name: str, parts: Callable[[int], list[bytes]]) -> Plan:
    """Everybody sends a pickle to each of its neighbours, its size first."""
    sources, dests, order = _edges(comm)
    data = parts(len(dests))
    ch = _channel(comm, name, check=False)

    def body() -> list[Any]:
        neighbor.alltoall(ch, [packed_size(part) for part in data], sources, dests, order)
        taken = neighbor.alltoall(ch, data, sources, dests, order)
        return [None if part is None else load(part) for part in taken]

    return sum(map(len, data)), body, ch


# ------------------------------------------------------------------------------------------------------ the classes


class Topocomm(Intracomm):
    """Topology intracommunicator."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()

    _kinds: ClassVar[tuple[int, ...]] = (c.CART, c.GRAPH, c.DIST_GRAPH)
    _expected: ClassVar[str] = "a topology"

    def __new__(cls, comm: Comm | None = None) -> Topocomm:
        self: Topocomm = cls._copy(comm)
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

    def Neighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        run(self._comm(), _allgather, "Topocomm.Neighbor_allgather", "", sendbuf, recvbuf)

    def Neighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        run(self._comm(), _allgather, "Topocomm.Neighbor_allgatherv", "v", sendbuf, recvbuf)

    def Neighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        run(self._comm(), _alltoall, "Topocomm.Neighbor_alltoall", "", sendbuf, recvbuf)

    def Neighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        run(self._comm(), _alltoall, "Topocomm.Neighbor_alltoallv", "v", sendbuf, recvbuf)

    def Neighbor_alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        run(self._comm(), _alltoall, "Topocomm.Neighbor_alltoallw", "w", sendbuf, recvbuf)

    def Ineighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        return start(self._comm(), _allgather, "Topocomm.Ineighbor_allgather", "", sendbuf, recvbuf)

    def Ineighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        return start(self._comm(), _allgather, "Topocomm.Ineighbor_allgatherv", "v", sendbuf, recvbuf)

    def Ineighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        return start(self._comm(), _alltoall, "Topocomm.Ineighbor_alltoall", "", sendbuf, recvbuf)

    def Ineighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        return start(self._comm(), _alltoall, "Topocomm.Ineighbor_alltoallv", "v", sendbuf, recvbuf)

    def Ineighbor_alltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        return start(self._comm(), _alltoall, "Topocomm.Ineighbor_alltoallw", "w", sendbuf, recvbuf)

    def Neighbor_allgather_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), _allgather, "Topocomm.Neighbor_allgather_init", "", sendbuf, recvbuf)

    def Neighbor_allgatherv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), _allgather, "Topocomm.Neighbor_allgatherv_init", "v", sendbuf, recvbuf)

    def Neighbor_alltoall_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), _alltoall, "Topocomm.Neighbor_alltoall_init", "", sendbuf, recvbuf)

    def Neighbor_alltoallv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), _alltoall, "Topocomm.Neighbor_alltoallv_init", "v", sendbuf, recvbuf)

    def Neighbor_alltoallw_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        return persist(self._comm(), _alltoall, "Topocomm.Neighbor_alltoallw_init", "w", sendbuf, recvbuf)

    def neighbor_allgather(self, sendobj: Any) -> list[Any]:
        def copies(count: int) -> list[bytes]:
            return [dump(sendobj)] * count

        gathered: list[Any] = run(self._comm(), _alltoall_objects, "Topocomm.neighbor_allgather", copies)
        return gathered

    def neighbor_alltoall(self, sendobj: list[Any]) -> list[Any]:
        def pickles(count: int) -> list[bytes]:
            return dump_all(sendobj, count)

        exchanged: list[Any] = run(self._comm(), _alltoall_objects, "Topocomm.neighbor_alltoall", pickles)
        return exchanged


class Cartcomm(Topocomm):
    """Cartesian topology intracommunicator."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()

    _kinds = (c.CART,)
    _expected = "a Cartesian"

    def __new__(cls, comm: Comm | None = None) -> Cartcomm:
        made: Cartcomm = super().__new__(cls, comm)  # type: ignore[assignment]
        return made

    def _grid(self) -> Cartesian:
        grid: Cartesian = self._comm().topology
        return grid

    def Get_dim(self) -> int:
        return len(self._grid().dims)

    @property
    def dim(self) -> int:
        return self.Get_dim()

    @property
    def ndim(self) -> int:
        return self.Get_dim()

    def Get_topo(self) -> tuple[list[int], list[int], list[int]]:
        grid = self._grid()
        return list(grid.dims), list(map(int, grid.periods)), grid.coords(self._comm().me)

    @property
    def topo(self) -> tuple[list[int], list[int], list[int]]:
        return self.Get_topo()

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
        made = manage.split(comm, part, place, "Cartcomm.Sub")
        assert made is not None
        made.topology = grid
        sub: Cartcomm = self._new(made, Cartcomm)
        return sub


class Graphcomm(Topocomm):
    """General graph topology intracommunicator."""

    __module__ = "mpi4py.MPI"
    __slots__ = ()

    _kinds = (c.GRAPH,)
    _expected = "a general graph"

    def __new__(cls, comm: Comm | None = None) -> Graphcomm:
        made: Graphcomm = super().__new__(cls, comm)  # type: ignore[assignment]
        return made

    def _graph(self) -> Graph:
        graph: Graph = self._comm().topology
        return graph

    def Get_dims(self) -> tuple[int, int]:
        graph = self._graph()
        return len(graph.index), len(graph.edges)

    @property
    def dims(self) -> tuple[int, int]:
        return self.Get_dims()

    @property
    def nnodes(self) -> int:
        return self.Get_dims()[0]

    @property
    def nedges(self) -> int:
        return self.Get_dims()[1]

    def Get_topo(self) -> tuple[list[int], list[int]]:
        graph = self._graph()
        return list(graph.index), list(graph.edges)

    @property
    def topo(self) -> tuple[list[int], list[int]]:
        return self.Get_topo()

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

    def __new__(cls, comm: Comm | None = None) -> Distgraphcomm:
        made: Distgraphcomm = super().__new__(cls, comm)  # type: ignore[assignment]
        return made

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
