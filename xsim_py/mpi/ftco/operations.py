"""The collective operations that FTCO serves, as algorithms like those of `collectives`: functions of a channel.

Reduce, Allreduce and Bcast are the paper's. A barrier is an Allreduce of nothing; gathers are reductions that put
blocks side by side, scatters are broadcasts of all blocks, and a reduce-scatter is an Allreduce of which each takes its
own.

Each takes a `fill`, which says what stands for somebody who is dead (`Fill`). Without one a dead rank has None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from xsim_py.mpi.collectives.channel import Fold
from xsim_py.mpi.op import UserFold

from .driver import Ftco, absent
from .node import TreeResult
from .paper import ALLREDUCE, BCAST, REDUCE
from .payload import Contributions, Folded, fold_parts, folding, gathering


class Fill(Protocol):
    """Replacements for the contributions of the dead."""

    def block(self, rank: int, size_bytes: int | None) -> bytes | None:
        """A block of its own, of a size if that is known; None: nothing. May raise, the same at all ranks."""

    def operand(self, rank: int, size_bytes: int) -> bytes | None:
        """An operand of a reduction; None: it is left out. May raise, the same at all ranks."""


def _run(ch: Any, operation: str, root: int, contribute: Callable[[int], Any], combine: Any) -> TreeResult:
    """Take part; the communicator remembers who was missing."""
    result: TreeResult = ch.comm.fabric.part(Ftco).run(ch, operation, root, contribute, combine)
    ch.comm.missing = result.missing
    return result


def collect(
    ch: Any,
    operation: str,
    root: int,
    data: bytes,
    fold: Callable[[bytes, bytes], bytes] | None,
    *,
    plain: bool,
    fill: Fill,
) -> dict[int, bytes] | None:
    """Operands of a reduction, by rank, None where there is no result; `plain` ones may be folded by `fold` already."""
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


def _combined(ch: Any, operation: str, root: int, data: bytes, fold: Fold, fill: Fill | None) -> bytes | None:
    """A reduction: to all, or to the root; None at the others."""
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


def _gathered(ch: Any, operation: str, root: int, data: bytes, sizes: Any, fill: Fill | None) -> list[Any] | None:
    """Everybody's block, at all or at the root; None at the others."""
    rank = ch.rank
    result = _run(ch, operation, root, lambda low: Contributions(low, {rank: data}, len(data)), gathering())
    if result.payload is None:
        return None
    parts: Mapping[int, bytes] = result.payload.parts
    blocks: list[Any] = [parts.get(place) for place in range(ch.size)]
    if fill is not None:
        for place in sorted(result.missing):
            blocks[place] = fill.block(place, None if sizes is None else sizes[place])
    return blocks


def _from_root(ch: Any, data: Any, root: int) -> Any:
    """Broadcast what the root has; None where nobody alive has heard it."""
    result = _run(ch, BCAST, root, lambda low: data, None)
    if result.payload is None:
        ch.comm.missing = frozenset((root,))
    return result.payload


def barrier(ch: Any) -> None:
    """Wait for everybody who is alive."""
    _run(ch, ALLREDUCE, 0, lambda low: Folded(low, b""), folding(_nothing))


def _nothing(_: bytes, other: bytes) -> bytes:
    return other


def bcast(ch: Any, data: bytes | None, root: int, size_bytes: int, *, fill: Fill | None = None) -> bytes:
    """Return what the root has, at all ranks."""
    taken: bytes | None = _from_root(ch, data, root)
    if taken is None and fill is not None:
        taken = fill.operand(root, size_bytes)
    if taken is None:
        raise absent(ch.comm, (root,))
    return taken


def scatter(ch: Any, parts: Sequence[bytes] | None, root: int, *, fill: Fill | None = None) -> bytes:
    """One's own of the root's blocks."""
    sent = None if parts is None else Contributions(0, dict(enumerate(parts)), sum(map(len, parts)))
    taken: Contributions | None = _from_root(ch, sent, root)
    if taken is not None:
        return taken.parts[ch.rank]
    block = None if fill is None else fill.operand(root, -1)
    if block is None:
        raise absent(ch.comm, (root,))
    return block


def reduce(ch: Any, data: bytes, fold: Fold, root: int, *, fill: Fill | None = None) -> bytes | None:
    """The fold over all, at the root."""
    return _combined(ch, REDUCE, root, data, fold, fill)


def allreduce(ch: Any, data: bytes, fold: Fold, *, fill: Fill | None = None) -> bytes:
    """The fold over all."""
    taken = _combined(ch, ALLREDUCE, 0, data, fold, fill)
    assert taken is not None
    return taken


def reduce_scatter(ch: Any, parts: Sequence[bytes], fold: Fold, *, fill: Fill | None = None) -> bytes:
    """One's own block of the fold over all."""
    taken = allreduce(ch, b"".join(parts), fold, fill=fill)
    start = sum(map(len, parts[: ch.rank]))
    return taken[start : start + len(parts[ch.rank])]


def gather(ch: Any, data: bytes, root: int, *, fill: Fill | None = None) -> list[Any] | None:
    """Everybody's block, at the root."""
    return _gathered(ch, REDUCE, root, data, None, fill)


def allgather(ch: Any, data: bytes, sizes: Sequence[int] | None, *, fill: Fill | None = None) -> list[Any]:
    """Everybody's block."""
    taken = _gathered(ch, ALLREDUCE, 0, data, sizes, fill)
    assert taken is not None
    return taken


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
"""By the names that `collectives` has for them."""
