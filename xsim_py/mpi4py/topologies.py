"""The methods of `MPI.Intracomm` for virtual topologies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from xsim_py.mpi import constants as c
from xsim_py.mpi import management as manage
from xsim_py.mpi.topology import Cartesian, DistGraph, Graph, check_edges, gather_edges, weights_of

from .collective_calls import handled
from .commhandle import CommHandle
from .handle import int_list
from .info import INFO_NULL, Info

if TYPE_CHECKING:
    from xsim_py.mpi.comm import Communicator

    from .topocomm import Cartcomm, Distgraphcomm, Graphcomm

__all__ = ["Topologies"]

K = TypeVar("K")


@lru_cache(maxsize=64)
def _shared(topology: object) -> Any:
    """Return one object for all ranks with the same topology.

    A graph is as large as the communicator.
    """
    return topology


def _cartesian(dims: Sequence[int], periods: Sequence[bool] | bool | None) -> Cartesian:
    lengths = int_list(dims)
    if periods is None or isinstance(periods, bool):
        periods = [bool(periods)] * len(lengths)
    if len(periods) != len(lengths):
        raise ValueError(f"expecting {len(lengths)} items, got {len(periods)}")
    grid: Cartesian = _shared(Cartesian(tuple(lengths), tuple(map(bool, int_list(periods)))))
    return grid


def _graph(index: Sequence[int], edges: Sequence[int]) -> Graph:
    ends, ranks = int_list(index), int_list(edges)
    if ends and ends[0] == 0 and ends[-1] == len(ranks):
        del ends[0]  # mpi4py also accepts the usual form of adjacency arrays, which begins with a 0
    # drop edges after the last end
    graph: Graph = _shared(Graph(tuple(ends), tuple(ranks[: ends[-1]] if ends else ())))
    return graph


class Topologies(CommHandle):
    """The methods of `Intracomm` for topologies."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _new(self, made: Communicator | None, cls: type[K]) -> K: ...

    @staticmethod
    def _class_of(topology: int) -> type[Any] | None:
        """Return the class of communicators with a kind of topology; None if there is none."""
        from .topocomm import Cartcomm, Distgraphcomm, Graphcomm

        return {c.CART: Cartcomm, c.GRAPH: Graphcomm, c.DIST_GRAPH: Distgraphcomm}.get(topology)

    def Create_cart(
        self, dims: Sequence[int], periods: Sequence[bool] | None = None, reorder: bool = False
    ) -> Cartcomm:
        from .topocomm import Cartcomm

        grid = _cartesian(dims, periods)
        return self._with_topology(grid, grid.size, Cartcomm, "Intracomm.Create_cart")

    def Create_graph(self, index: Sequence[int], edges: Sequence[int], reorder: bool = False) -> Graphcomm:
        from .topocomm import Graphcomm

        graph = _graph(index, edges)
        return self._with_topology(graph, graph.size, Graphcomm, "Intracomm.Create_graph")

    def Create_dist_graph_adjacent(
        self,
        sources: Sequence[int],
        destinations: Sequence[int],
        sourceweights: Sequence[int] | None = None,
        destweights: Sequence[int] | None = None,
        info: Info = INFO_NULL,
        reorder: bool = False,
    ) -> Distgraphcomm:
        from .topocomm import Distgraphcomm

        comm = self._comm()
        arriving, leaving = (int_list(() if given is None else given) for given in (sources, destinations))
        graph = DistGraph(
            tuple(arriving),
            tuple(leaving),
            weights_of(sourceweights, len(arriving)),
            weights_of(destweights, len(leaving)),
        )
        return self._with_topology(graph, len(comm.ranks), Distgraphcomm, "Intracomm.Create_dist_graph_adjacent")

    def Create_dist_graph(
        self,
        sources: Sequence[int],
        degrees: Sequence[int],
        destinations: Sequence[int],
        weights: Sequence[int] | None = None,
        info: Info = INFO_NULL,
        reorder: bool = False,
    ) -> Distgraphcomm:
        from .topocomm import Distgraphcomm

        comm, name = self._comm(), "Intracomm.Create_dist_graph"
        starts, counts = int_list(sources), int_list(degrees)
        if len(counts) != len(starts):
            raise ValueError(f"expecting {len(starts)} items, got {len(counts)}")
        ends = int_list(destinations)
        if len(ends) != sum(counts):
            raise ValueError(f"expecting {sum(counts)} items, got {len(ends)}")
        given = weights_of(weights, len(ends))
        begins = [start for start, count in zip(starts, counts, strict=True) for _ in range(count)]
        edges = list(zip(begins, ends, given or [1] * len(ends), strict=True))

        def exchange(comm: Communicator) -> Communicator | None:
            joined = manage.exchange_edges(comm, edges, name)
            graph = gather_edges(comm.me, [joined], weighted=given is not None)
            return manage.create_topology(comm, len(comm.ranks), graph, name)

        def create() -> Any:
            check_edges((*starts, *ends), len(comm.ranks), given)
            return self._make_uniform(name, exchange)

        return self._new(handled(comm, create), Distgraphcomm)

    def Cart_map(self, dims: Sequence[int], periods: Sequence[bool] | None = None) -> int:
        return self._rank_in(_cartesian(dims, periods))

    def Graph_map(self, index: Sequence[int], edges: Sequence[int]) -> int:
        return self._rank_in(_graph(index, edges))

    def _rank_in(self, topology: Cartesian | Graph) -> int:
        comm = self._comm()
        handled(comm, topology.check, len(comm.ranks))
        return comm.me if comm.me < topology.size else c.UNDEFINED

    def _with_topology(self, topology: Any, members: int, cls: type[K], name: str) -> K:
        comm = self._comm()

        def create() -> Any:
            topology.check(len(comm.ranks))
            return self._make_uniform(name, manage.create_topology, members, topology, name)

        return self._new(handled(comm, create), cls)
