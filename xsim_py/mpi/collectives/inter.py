"""Collectives between the two groups of an intercommunicator.

In a rooted operation data are sent between one root and all ranks of the other group; in the others each group gets the
contributions of the other. These follow Open MPI's ``coll/inter``: within a group they use the algorithms of `choose`,
and only ranks 0 (or the root) communicate between groups; where block sizes may differ (gather, scatter, alltoall)
messages are sent directly, as in its ``coll/basic``. Times: those of the algorithms within the groups, plus l for each
step between groups.

In a rooted operation every rank passes its `role`: ``"root"`` (MPI_ROOT), ``"idle"`` (MPI_PROC_NULL, the others of the
root's group) or ``"member"`` of the other group; `root`, the root's rank in its own group, is used by members.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, cast

from xsim_py.mpi.collectives.channel import Bytes, Channel, Fold, cut
from xsim_py.mpi.collectives.choose import choose

Role: TypeAlias = Literal["root", "idle", "member"]


class InterChannel(Channel, Protocol):
    """A channel whose sends and receives address the remote group; `rank` and `size` are local."""

    @property
    def local(self) -> Channel:
        """A channel over the local group."""

    @property
    def remote_size(self) -> int:
        """The number of ranks in the remote group."""


def _local_bcast(ch: InterChannel, data: Bytes, size_bytes: int) -> bytes:
    """Broadcast from rank 0 within the group."""
    result: bytes = choose("bcast", ch.size, size_bytes)(ch.local, data, 0, size_bytes)
    return result


def _local_reduce(ch: InterChannel, data: bytes, fold: Fold) -> Bytes:
    """Reduce to rank 0 within the group."""
    result: Bytes = choose("reduce", ch.size, len(data), fold.commutative)(ch.local, data, fold, 0)
    return result


def barrier(ch: InterChannel) -> None:
    """Wait for all ranks of both groups: local barrier, exchange between ranks 0, local broadcast."""
    choose("barrier", ch.size)(ch.local)
    _local_bcast(ch, ch.sendrecv(0, b"", 0) if ch.rank == 0 else None, 0)


def bcast(ch: InterChannel, data: Bytes, root: int, size_bytes: int, role: Role) -> Bytes:
    """Send from the root to rank 0 of the other group, which broadcasts.

    Return the data to members.
    """
    if role == "root":
        assert data is not None
        ch.send(0, data)
    if role != "member":
        return None
    return _local_bcast(ch, ch.recv(root) if ch.rank == 0 else None, size_bytes)


def reduce(ch: InterChannel, data: Bytes, fold: Fold, root: int, role: Role) -> Bytes:
    """Reduce the members' data to their rank 0, which sends the result to the root."""
    if role == "root":
        return ch.recv(0)
    if role == "member":
        assert data is not None
        total = _local_reduce(ch, data, fold)
        if total is not None:
            ch.send(root, total)
    return None


def allreduce(ch: InterChannel, data: bytes, fold: Fold) -> bytes:
    """Reduce each group to its rank 0; ranks 0 exchange the results and broadcast them."""
    total = _local_reduce(ch, data, fold)
    theirs = None if total is None else ch.sendrecv(0, total, 0)
    return _local_bcast(ch, theirs, len(data))


def reduce_scatter(ch: InterChannel, data: bytes, fold: Fold, sizes: Sequence[int]) -> bytes:
    """Reduce each group's `data`, exchange the results between ranks 0, and scatter them.

    `sizes` are the block sizes in bytes of the local group; in both groups their sum is len(data).
    """
    total = _local_reduce(ch, data, fold)
    theirs = None if total is None else cut(ch.sendrecv(0, total, 0), sizes)
    result: bytes = choose("scatterv", ch.size)(ch.local, theirs, 0)
    return result


def gather(ch: InterChannel, data: Bytes, root: int, role: Role) -> list[bytes] | None:
    """Send every member's block, of any size, to the root."""
    if role == "root":
        return [ch.recv(rank) for rank in range(ch.remote_size)]
    if role == "member":
        assert data is not None
        ch.send(root, data)
    return None


def scatter(ch: InterChannel, parts: Sequence[bytes] | None, root: int, role: Role) -> Bytes:
    """Send a block, of any size, from the root to every member."""
    if role == "root":
        assert parts is not None
        ch.wait([ch.isend(rank, part) for rank, part in enumerate(parts)])
    return ch.recv(root) if role == "member" else None


def allgather(ch: InterChannel, data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Gather each group to its rank 0; ranks 0 exchange the blocks and broadcast them.

    `sizes` are the block sizes in bytes of the remote group, known to all.
    """
    blocks = choose("gatherv", ch.size)(ch.local, data, 0)
    theirs = None if blocks is None else ch.sendrecv(0, b"".join(blocks), 0)
    return cut(_local_bcast(ch, theirs, sum(sizes)), sizes)


def alltoall(ch: InterChannel, parts: Sequence[bytes]) -> list[bytes]:
    """Send a block, of any size, to every rank of the other group, concurrently."""
    handles = [ch.irecv(rank) for rank in range(ch.remote_size)]
    handles += [ch.isend(rank, part) for rank, part in enumerate(parts)]
    return cast("list[bytes]", ch.wait(handles)[: ch.remote_size])
