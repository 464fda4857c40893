"""Neighbourhood collectives: exchange along all edges of a virtual topology concurrently.

Neighbours are ranks, or None for MPI_PROC_NULL at the border of a non-periodic grid: nothing is sent there, and the
block from there is None. On a latency-only network an exchange takes l and one message per edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xsim_py.mpi.collectives.channel import Channel


def grid_order(edges: int) -> list[int]:
    """Return the send order of a Cartesian communicator's `edges` = 2 * dimensions blocks: + before -.

    The block sent towards + must arrive as the block from -. In a periodic dimension of 1 or 2 ranks both neighbours
    are the same rank, and its first message is taken as the one from -; so the one towards + has to be sent first.
    """
    return [edge ^ 1 for edge in range(edges)]


def alltoall(
    ch: Channel,
    parts: Sequence[bytes],
    sources: Sequence[int | None],
    dests: Sequence[int | None],
    order: Iterable[int] | None = None,
) -> list[bytes | None]:
    """Send ``parts[i]`` to ``dests[i]``, receive a block from each of `sources`: l, one message per edge.

    `order` has the order of the sends as indices into `dests` (`grid_order`); None: ascending. It only matters if a
    rank is a neighbour twice.
    """
    handles = [ch.irecv(source) for source in sources if source is not None]
    for edge in range(len(dests)) if order is None else order:
        dest = dests[edge]
        if dest is not None:
            handles.append(ch.isend(dest, parts[edge]))
    blocks = iter(ch.wait(handles))
    return [None if source is None else next(blocks) for source in sources]


def allgather(
    ch: Channel, data: bytes, sources: Sequence[int | None], dests: Sequence[int | None]
) -> list[bytes | None]:
    """Send `data` to all of `dests`, receive a block from each of `sources`: l, one message per edge."""
    return alltoall(ch, [data] * len(dests), sources, dests)
