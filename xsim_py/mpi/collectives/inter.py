"""Collectives between the two groups of an intercommunicator.

In a rooted operation data goes between one root and all ranks of the other group; in the others each group gets what
the other one contributes. These follow Open MPI's ``coll/inter``: the work inside a group is done by the algorithms
that `choose` takes there, only ranks 0 (or the root) talk across; where block sizes may differ (gather, scatter,
alltoall) messages go directly, as in its ``coll/basic``. Times: those of the algorithms inside the groups, plus l for
each step across.

In a rooted operation every rank passes its `role`: ``"root"`` (MPI_ROOT), ``"idle"`` (MPI_PROC_NULL, the others of
the root's group) or ``"member"`` of the other group; `root`, the root's rank in its own group, is used by members.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, cast

from xsim_py.mpi.collectives.channel import Bytes, Channel, Fold, cut
from xsim_py.mpi.collectives.choose import choose

Role: TypeAlias = Literal["root", "idle", "member"]


class InterChannel(Channel, Protocol):
    """A channel whose sends and receives address the remote group; `rank` and `size` are those of one's own group."""

    @property
    def local(self) -> Channel:
        """A channel over one's own group."""

    @property
    def remote_size(self) -> int:
        """The number of ranks in the other group."""


def _local_bcast(ch: InterChannel, data: Bytes, size_bytes: int) -> bytes:
    """Broadcast from rank 0 inside the group."""
    result: bytes = choose("bcast", ch.size, size_bytes)(ch.local, data, 0, size_bytes)
    return result


def _local_reduce(ch: InterChannel, data: bytes, fold: Fold) -> Bytes:
    """Reduce to rank 0 inside the group."""
    result: Bytes = choose("reduce", ch.size, len(data), fold.commutative)(ch.local, data, fold, 0)
    return result


def barrier(ch: InterChannel) -> None:
    """Wait for all ranks of both groups: barrier in the group, exchange of ranks 0, broadcast in the group."""
    choose("barrier", ch.size)(ch.local)
    _local_bcast(ch, ch.sendrecv(0, b"", 0) if ch.rank == 0 else None, 0)


def bcast(ch: InterChannel, data: Bytes, root: int, size_bytes: int, role: Role) -> Bytes:
    """The root sends to rank 0 of the other group, which broadcasts there; the members get the data."""
    if role == "root":
        assert data is not None
        ch.send(0, data)
    if role != "member":
        return None
    return _local_bcast(ch, ch.recv(root) if ch.rank == 0 else None, size_bytes)


def reduce(ch: InterChannel, data: Bytes, fold: Fold, root: int, role: Role) -> Bytes:
    """The members reduce to their rank 0, which sends the result to the root."""
    if role == "root":
        return ch.recv(0)
    if role == "member":
        assert data is not None
        total = _local_reduce(ch, data, fold)
        if total is not None:
            ch.send(root, total)
    return None


def allreduce(ch: InterChannel, data: bytes, fold: Fold) -> bytes:
    """Each group reduces to its rank 0; these exchange the results and broadcast what they got."""
    total = _local_reduce(ch, data, fold)
    theirs = None if total is None else ch.sendrecv(0, total, 0)
    return _local_bcast(ch, theirs, len(data))


def reduce_scatter(ch: InterChannel, data: bytes, fold: Fold, sizes: Sequence[int]) -> bytes:
    """The groups reduce `data`, ranks 0 exchange the results, and each group scatters what it got.

    `sizes` are the block sizes in bytes of one's own group; both groups' sum is len(data).
    """
    total = _local_reduce(ch, data, fold)
    theirs = None if total is None else cut(ch.sendrecv(0, total, 0), sizes)
    result: bytes = choose("scatterv", ch.size)(ch.local, theirs, 0)
    return result


def gather(ch: InterChannel, data: Bytes, root: int, role: Role) -> list[bytes] | None:
    """Every member sends its block, of any size, to the root."""
    if role == "root":
        return [ch.recv(rank) for rank in range(ch.remote_size)]
    if role == "member":
        assert data is not None
        ch.send(root, data)
    return None


def scatter(ch: InterChannel, parts: Sequence[bytes] | None, root: int, role: Role) -> Bytes:
    """The root sends a block, of any size, to every member."""
    if role == "root":
        assert parts is not None
        ch.wait([ch.isend(rank, part) for rank, part in enumerate(parts)])
    return ch.recv(root) if role == "member" else None


def allgather(ch: InterChannel, data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Each group gathers to its rank 0; these exchange everything and broadcast what they got.

    `sizes` are the block sizes in bytes of the remote group, known to all.
    """
    blocks = choose("gatherv", ch.size)(ch.local, data, 0)
    theirs = None if blocks is None else ch.sendrecv(0, b"".join(blocks), 0)
    return cut(_local_bcast(ch, theirs, sum(sizes)), sizes)


def alltoall(ch: InterChannel, parts: Sequence[bytes]) -> list[bytes]:
    """Everyone sends a block, of any size, to every rank of the other group, all at once."""
    handles = [ch.irecv(rank) for rank in range(ch.remote_size)]
    handles += [ch.isend(rank, part) for rank, part in enumerate(parts)]
    return cast("list[bytes]", ch.wait(handles)[: ch.remote_size])
