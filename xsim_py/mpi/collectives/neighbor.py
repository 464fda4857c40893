"""Neighbourhood collectives: exchange along the edges of a virtual topology, all edges at once.

Neighbours are ranks, or None for MPI_PROC_NULL at the border of a non-periodic grid: nothing is sent there, and the
answer from there is None. On a latency-only network an exchange takes l and one message an edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xsim_py.mpi.collectives.channel import Channel


def grid_order(edges: int) -> list[int]:
    """Order in which a Cartesian communicator's `edges` = 2 * dimensions blocks are sent: + before -.

    What is sent towards + must arrive as the block from -. In a periodic dimension of 1 or 2 ranks both neighbours
    are the same rank, and its first message is taken as the one from -; so the one towards + has to go first.
    """
    return [edge ^ 1 for edge in range(edges)]


def alltoall(
    ch: Channel,
    parts: Sequence[bytes],
    sources: Sequence[int | None],
    dests: Sequence[int | None],
    order: Iterable[int] | None = None,
) -> list[bytes | None]:
    """Send ``parts[i]`` to ``dests[i]``, receive a block from each of `sources`: l, one message an edge.

    Parameters
    ----------
    order
        Order of the sends as indices into `dests` (`grid_order`); as they stand if None. It matters only where a
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
    """Send `data` to all of `dests`, receive a block from each of `sources`: l, one message an edge."""
    return alltoall(ch, [data] * len(dests), sources, dests)
