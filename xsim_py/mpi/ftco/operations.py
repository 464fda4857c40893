"""The collectives of FTCO, as algorithms like those of `collectives`: functions of a channel.

Reduce, Allreduce and Bcast are the paper's. A barrier is an Allreduce without data; gathers are reductions that
concatenate blocks, scatters are broadcasts of all blocks, and a reduce-scatter is an Allreduce of which each rank keeps
its block.

Each takes a `fill`, which supplies replacements for the contributions of failed ranks (`Fill`). Without one a failed
rank has None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from xsim_py.mpi.collectives.channel import Fold
from xsim_py.mpi.op import UserFold

from .driver import Ftco, absent
from .node import TreeResult
from .paper import ALLREDUCE, BCAST, REDUCE
from .payload import Contributions, Folded, fold_parts, folding, gathering

if TYPE_CHECKING:
    from xsim_py.mpi.calls import CollectiveChannel


class Fill(Protocol):
    """Replacements for the contributions of failed ranks."""

    def block(self, rank: int, size_bytes: int | None) -> bytes | None:
        """Return a block for a failed rank, of a size if that is known, or None.

        Errors must be the same on all ranks.
        """

    def operand(self, rank: int, size_bytes: int) -> bytes | None:
        """Return an operand of a reduction, or None to skip the rank.

        Errors must be the same on all ranks.
        """


def _run(
    ch: CollectiveChannel, operation: str, root: int, contribute: Callable[[int], Any], combine: Any
) -> TreeResult:
    """Run an operation and record the missing ranks in the communicator."""
    result: TreeResult = ch.comm.fabric.part(Ftco).run(ch, operation, root, contribute, combine)
    ch.comm.missing = result.missing
    return result


def collect(
    ch: CollectiveChannel,
    operation: str,
    root: int,
    data: bytes,
    fold: Callable[[bytes, bytes], bytes] | None,
    *,
    plain: bool,
    fill: Fill,
) -> dict[int, bytes] | None:
    """Return the operands of a reduction by rank, or None if this rank gets no result.

    `plain` operands may already be folded by `fold`.
    """
    rank = ch.rank
    result = _run(ch, operation, root, lambda low: Contributions(low, {rank: data}, len(data), plain), gathering(fold))
    if result.payload is None:
        return None
    parts = dict(result.payload.parts)
    for other in sorted(result.missing):
        value = fill.operand(other, 0)
        if value is not None:
            parts[other] = value
    return parts


def _combined(
    ch: CollectiveChannel, operation: str, root: int, data: bytes, fold: Fold, fill: Fill | None
) -> bytes | None:
    """Reduce to all ranks or to the root; return None on ranks without a result."""
    in_order = not fold.commutative or isinstance(fold, UserFold)
    rank = ch.rank
    if in_order:
        result = _run(ch, operation, root, lambda low: Contributions(low, {rank: data}, len(data)), gathering())
    else:
        result = _run(ch, operation, root, lambda low: Folded(low, data), folding(fold))
    payload = result.payload
    if payload is None:
        return None
    parts: dict[int, bytes] = dict(payload.parts) if in_order else {-1: payload.data}
    if fill is not None and result.missing:
        for other in sorted(result.missing):
            value = fill.operand(other, len(data))
            if value is not None:
                parts[other] = value
    return fold_parts(parts, fold)


def _gathered(
    ch: CollectiveChannel, operation: str, root: int, data: bytes, sizes: Sequence[int] | None, fill: Fill | None
) -> list[Any] | None:
    """Gather all blocks on all ranks or on the root; return None on ranks without a result."""
    rank = ch.rank
    result = _run(ch, operation, root, lambda low: Contributions(low, {rank: data}, len(data)), gathering())
    if result.payload is None:
        return None
    parts: Mapping[int, bytes] = result.payload.parts
    blocks: list[Any] = [parts.get(rank) for rank in range(ch.size)]
    if fill is not None:
        for rank in sorted(result.missing):
            blocks[rank] = fill.block(rank, None if sizes is None else sizes[rank])
    return blocks


def _from_root(ch: CollectiveChannel, data: object, root: int) -> Any:
    """Broadcast the root's data; return None if no surviving rank has received it."""
    result = _run(ch, BCAST, root, lambda low: data, None)
    if result.payload is None:
        ch.comm.missing = frozenset((root,))
    return result.payload


def barrier(ch: CollectiveChannel) -> None:
    """Wait for all surviving ranks."""
    _run(ch, ALLREDUCE, 0, lambda low: Folded(low, b""), folding(_nothing))


def _nothing(_: bytes, other: bytes) -> bytes:
    return other


def bcast(ch: CollectiveChannel, data: bytes | None, root: int, size_bytes: int, *, fill: Fill | None = None) -> bytes:
    """Return the root's data, on all ranks."""
    result: bytes | None = _from_root(ch, data, root)
    if result is None and fill is not None:
        result = fill.operand(root, size_bytes)
    if result is None:
        raise absent(ch.comm, (root,))
    return result


def scatter(ch: CollectiveChannel, parts: Sequence[bytes] | None, root: int, *, fill: Fill | None = None) -> bytes:
    """Return this rank's block of the root's data."""
    sent = None if parts is None else Contributions(0, dict(enumerate(parts)), sum(map(len, parts)))
    result: Contributions | None = _from_root(ch, sent, root)
    if result is not None:
        return result.parts[ch.rank]
    block = None if fill is None else fill.operand(root, -1)
    if block is None:
        raise absent(ch.comm, (root,))
    return block


def reduce(ch: CollectiveChannel, data: bytes, fold: Fold, root: int, *, fill: Fill | None = None) -> bytes | None:
    """Return the fold over all ranks, on the root."""
    return _combined(ch, REDUCE, root, data, fold, fill)


def allreduce(ch: CollectiveChannel, data: bytes, fold: Fold, *, fill: Fill | None = None) -> bytes:
    """Return the fold over all ranks."""
    result = _combined(ch, ALLREDUCE, 0, data, fold, fill)
    assert result is not None
    return result


def reduce_scatter(ch: CollectiveChannel, parts: Sequence[bytes], fold: Fold, *, fill: Fill | None = None) -> bytes:
    """Return this rank's block of the fold over all ranks."""
    result = allreduce(ch, b"".join(parts), fold, fill=fill)
    start = sum(map(len, parts[: ch.rank]))
    return result[start : start + len(parts[ch.rank])]


def gather(ch: CollectiveChannel, data: bytes, root: int, *, fill: Fill | None = None) -> list[Any] | None:
    """Return the blocks of all ranks, on the root."""
    return _gathered(ch, REDUCE, root, data, None, fill)


def allgather(
    ch: CollectiveChannel, data: bytes, sizes: Sequence[int] | None, *, fill: Fill | None = None
) -> list[Any]:
    """Return the blocks of all ranks."""
    result = _gathered(ch, ALLREDUCE, 0, data, sizes, fill)
    assert result is not None
    return result


ALGORITHMS: Mapping[str, Callable[..., Any]] = {
    "barrier": barrier,
    "bcast": bcast,
    "reduce": reduce,
    "allreduce": allreduce,
    "gather": gather,
    "gatherv": gather,
    "scatter": scatter,
    "scatterv": scatter,
    "allgather": allgather,
    "allgatherv": allgather,
    "reduce_scatter": reduce_scatter,
    "reduce_scatter_block": reduce_scatter,
}
"""The operations by their names in `collectives`."""
