"""The neighbourhood collectives as plans (see `collective_plans`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from xsim_py.mpi import constants as c
from xsim_py.mpi.calls import CollectiveChannel, channel, note
from xsim_py.mpi.collectives import neighbor
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi.topology import Cartesian

from .bufspec import packed, unpack_each
from .collective_plans import PARSERS, Plan
from .object_plans import dump_all, packed_size
from .pickling import dump, load

__all__ = ["allgather", "allgather_objects", "alltoall", "alltoall_objects"]

Neighbors = list[int | None]


def _edges(comm: Communicator) -> tuple[Neighbors, Neighbors, list[int] | None]:
    """Return this rank's sources and destinations, and the order of sends.

    None marks the border of a grid.
    """
    if comm.topology.kind == c.CART:
        return _edges_of_grid(comm.topology, comm.me)
    sources, dests = comm.topology.neighbors(comm.me)
    return _real(sources), _real(dests), None


@lru_cache(maxsize=1024)
def _edges_of_grid(grid: Cartesian, rank: int) -> tuple[Neighbors, Neighbors, list[int]]:
    """Return the edges of a rank in a grid, as shared lists that must not be modified."""
    sources, dests = grid.neighbors(rank)
    return _real(sources), _real(dests), neighbor.grid_order(len(dests))


def _real(ranks: Sequence[int]) -> Neighbors:
    return [None if rank == c.PROC_NULL else rank for rank in ranks]


def _channel(comm: Communicator, name: str, *, check: bool = True) -> CollectiveChannel:
    """Return the channel of a call whose messages go directly to neighbours."""
    ch = channel(comm, note(name), check=check)
    ch.algorithm = "linear"
    return ch


def allgather(comm: Communicator, name: str, form: str, sendbuf: object, recvbuf: object) -> Plan:
    """Plan an allgather from all neighbours."""
    sources, dests, _ = _edges(comm)
    data = packed(sendbuf)
    target = PARSERS[form](recvbuf, writable=True, blocks=len(sources))
    ch = _channel(comm, name)
    return len(data), lambda: unpack_each(target, neighbor.allgather(ch, data, sources, dests), "neighbour"), ch


def alltoall(comm: Communicator, name: str, form: str, sendbuf: object, recvbuf: object) -> Plan:
    """Plan an exchange of one block with each neighbour."""
    sources, dests, order = _edges(comm)
    parts = PARSERS[form](sendbuf, writable=False, blocks=len(dests)).pack_parts(len(dests))
    target = PARSERS[form](recvbuf, writable=True, blocks=len(sources))
    ch = _channel(comm, name)

    def body() -> None:
        unpack_each(target, neighbor.alltoall(ch, parts, sources, dests, order), "neighbour")

    return sum(map(len, parts)), body, ch


def allgather_objects(comm: Communicator, name: str, obj: object) -> Plan:
    """Plan sending one pickle to all neighbours."""
    return _exchange_pickles(comm, name, lambda count: [dump(obj)] * count)


def alltoall_objects(comm: Communicator, name: str, objects: Sequence[Any]) -> Plan:
    """Plan sending a separate pickle to each neighbour."""
    return _exchange_pickles(comm, name, lambda count: dump_all(objects, count))


def _exchange_pickles(comm: Communicator, name: str, parts: Callable[[int], list[bytes]]) -> Plan:
    """Plan an exchange of pickles with all neighbours, preceded by their sizes."""
    sources, dests, order = _edges(comm)
    data = parts(len(dests))
    ch = _channel(comm, name, check=False)

    def body() -> list[Any]:
        neighbor.alltoall(ch, [packed_size(part) for part in data], sources, dests, order)
        received = neighbor.alltoall(ch, data, sources, dests, order)
        return [None if part is None else load(part) for part in received]

    return sum(map(len, data)), body, ch
