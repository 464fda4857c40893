"""Creation and release of communicators: context management of MPI 4.1, chapter 7.

Every call here is collective and exchanges messages over the parent, as in a real MPI, so it takes time and waits for
all participants. The new number (`derive_cid`) follows from shared information. It counts calls, not successes: if a
member has failed, a call may succeed on some ranks only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from . import constants as c
from .batched.forms import BLOCKS, VECTOR
from .calls import CollectiveChannel, Note, channel, leave, note, perform, pick, survives
from .collectives.channel import EqualBlocks, equal_sizes
from .collectives.rounds import doubled
from .comm import Communicator, context_of_members, derive_cid, shared_context
from .op import PREDEFINED, make_fold
from .predefined import PREDEFINED as DATATYPES
from .transport.call_sites import frame_here
from .transport.p2p import SendCall, receive, start_send, wait

_CREATE_GROUP = "Intracomm.Create_group"
_LARGEST = make_fold(PREDEFINED["MAX"], DATATYPES["INT64_T"])


def gather_everywhere(ch: CollectiveChannel, data: bytes, sizes: Sequence[int] | None = None) -> list[Any]:
    """Return every member's `data`, on every member, but None for a failed one.

    `sizes` are needed if they differ.
    """
    each = equal_sizes(len(data), ch.size) if sizes is None else tuple(sizes)
    taken: list[Any] = perform(ch, BLOCKS, pick(ch.comm, "allgather", each[0]), data, each)
    return taken


def agree(comm: Communicator, name: str) -> None:
    """Run one small allreduce, as a real MPI does to find a context number that is free on all members.

    MPI_Comm_disconnect does the same, to wait for all members.
    """
    _agree_on(channel(comm, note(name), check=False))


def _agree_on(ch: CollectiveChannel) -> None:
    algorithm = pick(ch.comm, "allreduce", 8)
    if ch.local is None:
        perform(ch, VECTOR, algorithm, bytes(8), _LARGEST)
        return
    algorithm(ch.local, bytes(8), _LARGEST)
    if ch.rank == 0:
        ch.sendrecv(0, b"", 0)
    pick(ch.comm, "bcast", 8)(ch.local, bytes(8) if ch.rank == 0 else None, 0, 8)


def duplicate(comm: Communicator, name: str = "Comm.Dup") -> Communicator:
    """Return the same members in a new context: MPI_Comm_dup."""
    child = comm.next_child()
    agree(comm, name)
    return _like(comm, derive_cid(comm.cid, "dup", child), child)


def prepare_duplicate(comm: Communicator, name: str) -> tuple[Communicator, Callable[[], None]]:
    """Return the communicator of MPI_Comm_idup, and the function to run in the background first."""
    child = comm.next_child()
    ch = channel(comm, Note(name), check=False, admitted=True)
    made = _like(comm, derive_cid(comm.cid, "dup", child), child)
    return made, lambda: _agree_on(ch)


def _like(comm: Communicator, cid: int, child: int) -> Communicator:
    fabric, old = comm.fabric, comm.context
    if comm.local is None:
        made = Communicator(shared_context(fabric, cid, old.ranks), comm.box, me=comm.me)
        made.topology = comm.topology
        return made
    local_cid = derive_cid(comm.local.cid, "dup of both", child)
    local = Communicator(shared_context(fabric, local_cid, old.ranks), comm.box, me=comm.me)
    return Communicator(shared_context(fabric, cid, old.ranks, old.remote), comm.box, me=comm.me, local=local)


def agree_on_duplicate(comm: Communicator, name: str) -> None:
    """Exchange the messages of an MPI_Comm_dup that mpi4py makes for the call `name`."""
    ch = channel(comm, note("Comm.Dup", detail=f"for {name}"), check=False)
    try:
        _agree_on(ch)
    except BaseException:
        leave(ch)
        raise


def duplicate_for_objects(comm: Communicator, name: str) -> tuple[Communicator, bool]:
    """Make the duplicate that mpi4py keeps for the call `name` and later ones.

    See `mpi4py.object_context`. Returns the duplicate, with its inherited properties (of an intercommunicator with a
    separate `local`), and whether the local group of an intercommunicator comes first.
    """
    agree_on_duplicate(comm, name)
    old, local, low_group = comm.context, None, False
    if comm.local is not None:
        larger = old.size - old.remote_size
        merged = merge(comm, larger > 0)
        local = create(merged, comm.ranks)
        assert local is not None
        local.preference = comm.local.preference
        low_group = larger < 0 or (not larger and merged.me < old.size)
    remote = None if local is None else old.remote
    context = shared_context(comm.fabric, derive_cid(comm.cid, "objects"), old.ranks, remote)
    made = Communicator(context, comm.box, me=comm.me, local=local)
    context.replaces = old
    made.preference, made.errhandler = comm.preference, comm.errhandler
    made.implicit = comm.implicit._replace(uniform="local")
    return made, low_group


def split(comm: Communicator, color: int, key: int, name: str = "Comm.Split") -> Communicator | None:
    """Return one communicator per colour, ordered by key and then by rank: MPI_Comm_split.

    None for ``UNDEFINED``.
    """
    if comm.local is not None:
        return _split_inter(comm, color, key, name)
    child = comm.next_child()
    table = gather_everywhere(channel(comm, Note(name), check=False), struct.pack("<qq", color, key))
    if color == c.UNDEFINED:
        return None
    cid = derive_cid(comm.cid, "split", child, color)
    context = context_of_members(comm.fabric, cid, lambda: _of_color(table, color, comm.ranks))
    return Communicator(context, comm.box)


_NO_COLOR = struct.pack("<qq", c.UNDEFINED, 0)  # a failed member


def _of_color(table: Sequence[bytes | None], color: int, ranks: Sequence[int]) -> tuple[int, ...]:
    if isinstance(table, EqualBlocks):
        entries = table.data
    else:
        entries = b"".join(_NO_COLOR if entry is None else entry for entry in table)
    colors, keys = np.frombuffer(entries, "<i8").reshape(-1, 2).T
    chosen = np.flatnonzero(colors == color)
    return tuple(ranks[rank] for rank in chosen[np.argsort(keys[chosen], kind="stable")].tolist())


def _split_inter(comm: Communicator, color: int, key: int, name: str) -> Communicator | None:
    """Split both groups of an intercommunicator: parts of equal colour form intercommunicators."""
    assert comm.local is not None
    child = comm.next_child()
    mine = gather_everywhere(channel(comm.local, Note(name), check=False), struct.pack("<qq", color, key))
    theirs = exchange(comm, b"".join(mine), name)
    table = [theirs[start : start + 16] for start in range(0, len(theirs), 16)]
    if color == c.UNDEFINED:
        return None
    ranks = _of_color(mine, color, comm.ranks)
    remote = _of_color(table, color, comm.remote)
    if not remote:
        return None
    return make_inter(comm, derive_cid(comm.cid, "split", child, color), ranks, remote)


def exchange(comm: Communicator, data: bytes, name: str) -> bytes:
    """Return the data of the other group's leader.

    `data` is the same on all ranks of this group.
    """
    ch = channel(comm, Note(name), check=False)
    assert ch.local is not None
    theirs = ch.sendrecv(0, data, 0) if comm.me == 0 else None
    return broadcast(ch.local, theirs)


def broadcast(ch: CollectiveChannel, data: bytes | None, root: int = 0) -> bytes:
    """Return the root's `data` on every member; only the root knows its size."""
    size = struct.pack("<q", len(data)) if data is not None else None
    (length,) = struct.unpack("<q", pick(ch.comm, "bcast", 8)(ch, size, root, 8))
    taken: bytes = pick(ch.comm, "bcast", length)(ch, data, root, length)
    return taken


def make_inter(comm: Communicator, cid: int, ranks: Sequence[int], remote: Sequence[int]) -> Communicator:
    """Return one rank's view of an intercommunicator between two groups, the local one first."""
    fabric, box = comm.fabric, comm.box
    if not fabric.alike and not all(0 <= number < fabric.shard.population for number in remote):
        comm.fail(c.ERR_INTERN, f"the other group is said to be {list(remote[:9])}, of {fabric.shard.population} ranks")
    local = Communicator(shared_context(fabric, derive_cid(cid, "local", ranks[0]), ranks), box)
    return Communicator(shared_context(fabric, cid, ranks, remote), box, local=local)


def create(comm: Communicator, members: Sequence[int], name: str = "Comm.Create") -> Communicator | None:
    """Return a communicator of `members` (world ranks) in their order: MPI_Comm_create.

    None for a rank that is not among them.
    """
    child = comm.next_child()
    if comm.local is not None:
        mine = tuple(members)
        packed = struct.pack(f"<{len(mine)}q", *mine)
        theirs = exchange(comm, packed, name)
        remote = struct.unpack(f"<{len(theirs) // 8}q", theirs)
        if comm.box.rank.number not in mine or not remote:
            return None
        return make_inter(comm, derive_cid(comm.cid, "create", child), mine, remote)
    agree(comm, name)
    if comm.box.rank.number not in members:
        return None
    cid = derive_cid(comm.cid, "create", child, members[0])
    return Communicator(shared_context(comm.fabric, cid, _compact(members)), comm.box)


def _compact(members: Sequence[int]) -> Sequence[int]:
    return members if isinstance(members, range) else tuple(members)


def create_from_members(
    comm: Communicator, members: Sequence[int], tag: Hashable, base_cid: int | None = None
) -> Communicator | None:
    """Create a communicator by its members only: MPI_Comm_create_group.

    Concurrent calls differ in `tag`. With `base_cid` it is MPI_Comm_create_from_group: there is no parent, so the
    members need not all be of `comm`, and the state of `comm` is irrelevant (MPI 4.1, 7.4.2).
    """
    if comm.box.rank.number not in members:
        return None
    ranks = _compact(members)
    if comm.groups_made is None:
        comm.groups_made = {}
    key = (tag, ranks)
    count = comm.groups_made[key] = comm.groups_made.get(key, 0) + 1
    cid = derive_cid(comm.cid if base_cid is None else base_cid, "group", tag, tuple(ranks), count)
    made = Communicator(shared_context(comm.fabric, cid, ranks), comm.box)
    parent = comm if base_cid is None else None
    if comm.fabric.failure_seen:
        comm.fabric.guard.admit(parent or made, None, collective=True, survives=survives(made, _CREATE_GROUP))
    made.outer = parent  # until it exists, failures of its parent concern it, too
    agree(made, _CREATE_GROUP)
    made.outer = None
    return made


def create_topology(comm: Communicator, members: int, topology: object, name: str) -> Communicator | None:
    """Return a communicator of the first `members` ranks with a topology; None for the others."""
    child = comm.next_child()
    agree(comm, name)
    cid = derive_cid(comm.cid, "topology", child)
    if comm.me >= members:
        return None
    made = Communicator(shared_context(comm.fabric, cid, comm.ranks[:members]), comm.box, me=comm.me)
    made.topology = topology
    return made


_EDGE = struct.Struct("<6q")  # destination, owner and index there, source, destination, weight


def exchange_edges(comm: Communicator, edges: Sequence[tuple[int, int, int]], name: str) -> list[tuple[int, int, int]]:
    """Send each edge (source, destination, weight) to the two ranks that it joins, from any rank.

    Returns this rank's edges, ordered by the rank that passed them and by their indices there.

    Receivers do not know the senders. So the edges travel like the blocks of an alltoall in Bruck's algorithm, by steps
    of 1, 2, 4, ... ranks, and only existing ones: ceil(log2 p) messages per rank.
    """
    ch = channel(comm, note(name), check=False)
    here: list[Any] = [(to, ch.rank, place, *edge) for place, edge in enumerate(edges) for to in {*edge[:2]}]
    for distance in doubled(ch.size):
        staying: list[Any] = []
        leaving: list[Any] = []
        for edge in here:
            (leaving if (edge[0] - ch.rank) % ch.size & distance else staying).append(edge)
        packed = b"".join(_EDGE.pack(*edge) for edge in leaving)
        coming = ch.sendrecv((ch.rank + distance) % ch.size, packed, (ch.rank - distance) % ch.size)
        here = [*staying, *_EDGE.iter_unpack(coming)]
    return [(source, dest, weight) for _, _, _, source, dest, weight in sorted(here)]


def create_intercomm(
    comm: Communicator,
    local_leader: int,
    peer: Communicator | None,
    remote_leader: int,
    tag: int,
) -> Communicator:
    """Create an intercommunicator: MPI_Intercomm_create.

    The leaders exchange their groups over `peer`.
    """
    name = "Intracomm.Create_intercomm"
    child = comm.next_child()
    ch = channel(comm, Note(name), check=False)
    theirs = None
    if comm.me == local_leader:
        assert peer is not None
        mine = struct.pack(f"<{len(comm.ranks) + 2}q", comm.cid, child, *comm.ranks)
        send = start_send(peer, remote_leader, tag, mine, peer.cid, SendCall(name, check=False), frame_here())
        theirs = receive(peer, remote_leader, tag, peer.cid, name).data
        if send is not None:
            wait(send)
    theirs = broadcast(ch, theirs, local_leader)
    other_cid, other_child, *remote = struct.unpack(f"<{len(theirs) // 8}q", theirs)
    sides = sorted([(comm.ranks[0], comm.cid, child), (remote[0], other_cid, other_child)])
    return make_inter(comm, derive_cid("inter", tag, *sides), comm.ranks, tuple(remote))


def merge(comm: Communicator, high: bool) -> Communicator:
    """Merge both groups into one: MPI_Intercomm_merge. The group with `high` comes last."""
    assert comm.local is not None
    child = comm.next_child()
    other = exchange(comm, bytes([high]), "Intercomm.Merge")
    other_high = bool(other[0])
    first = (high, comm.ranks[0]) < (other_high, comm.remote[0])
    ranks = (*comm.ranks, *comm.remote) if first else (*comm.remote, *comm.ranks)
    cid = derive_cid(comm.cid, "merge", child)
    return Communicator(shared_context(comm.fabric, cid, ranks), comm.box)


def same_context(one: Communicator, other: Communicator) -> int:
    """Compare two communicators: MPI_Comm_compare. Returns IDENT, CONGRUENT, SIMILAR or UNEQUAL."""
    if one.is_inter is not other.is_inter:
        return c.UNEQUAL
    if one.cid == other.cid:
        return c.IDENT
    pairs = [(one.context.ranks, other.context.ranks)]
    if one.is_inter:
        pairs.append((one.context.remote, other.context.remote))
    if all(_equal(mine, theirs) for mine, theirs in pairs):
        return c.CONGRUENT
    if all(sorted(mine) == sorted(theirs) for mine, theirs in pairs):
        return c.SIMILAR
    return c.UNEQUAL


def _equal(mine: Sequence[int], theirs: Sequence[int]) -> bool:
    return len(mine) == len(theirs) and all(a == b for a, b in zip(mine, theirs, strict=True))
