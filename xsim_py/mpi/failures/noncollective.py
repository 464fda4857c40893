"""Calls made by the members of a group alone: liveness discovery and its uses.

The calls of Rocco and Palermo, "Fault-Aware Non-Collective Communication Creation and Reparation in MPI", 2022, section
4, and of the library Legio: the survivors of a group, a communicator of these, and an agreement among them. A discovery
is a `RepairCall` on a communicator of the group alone that no other code sees: its messages match none of the
program's, and two discoveries of different groups, or of one group for different purposes, do not mix. Revocation does
not affect it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xsim_py.mpi import constants as c
from xsim_py.mpi.comm import WORLD_CID, Communicator, derive_cid, shared_context
from xsim_py.mpi.management import create_from_members
from xsim_py.mpi.transport.p2p import complete

from .liveness import SAFE
from .repair import RepairCall, agreed_flag, shrunk

_ALGORITHMS = {SAFE: "liveness"}  # of `repair`; the other variants have the same names there


def _discovery(
    comm: Communicator,
    members: Sequence[int],
    name: str,
    *,
    flags: tuple[int, ...] | None = None,
    purpose: Hashable = "",
    variant: str = SAFE,
    parent: int | None = None,
) -> RepairCall:
    """Run a discovery among `members`, given as world ranks; return when this rank has the result.

    All members must pass the same `parent`, the number of a communicator: by default that of `comm`.
    """
    ranks = members if isinstance(members, range) else tuple(members)
    if parent is None:
        parent = (comm.outer or comm).cid
    context = shared_context(comm.fabric, derive_cid(parent, "discovery", purpose, ranks), ranks)
    group = Communicator(context, comm.box)
    group.name = f"a group of {len(ranks)} ranks"
    call = RepairCall(group, name, _ALGORITHMS.get(variant, variant), flags)
    complete(call)
    return call


def _survivors(call: RepairCall) -> Sequence[int]:
    """Return the survivors as world ranks, in the group's order."""
    ranks = call.members.ranks
    return tuple([rank for index, rank in enumerate(ranks) if index not in call.failed]) if call.failed else ranks


def surviving_members(comm: Communicator, members: Sequence[int], name: str, variant: str = SAFE) -> Sequence[int]:
    """Return the survivors of `members`, the same list on all of them."""
    return _survivors(_discovery(comm, members, name, variant=variant))


def agree_among(comm: Communicator, members: Sequence[int], flag: int, name: str) -> int:
    """Return the AND of the flags of the survivors; failed members do not cause an error."""
    return agreed_flag(_discovery(comm, members, name, flags=(flag,)))


def shrink_to_survivors(comm: Communicator, members: Sequence[int], name: str) -> Communicator:
    """Return a communicator of the survivors; only the discovery needs messages."""
    return shrunk(_discovery(comm, members, name))


def create_among_survivors(
    comm: Communicator, members: Sequence[int], tag: int, name: str = "Intracomm.Create_group"
) -> Communicator | None:
    """Run MPI_Comm_create_group after a discovery; return None on non-members.

    It fails on all members if one has failed and another did not know it before, which then learns of it; known failed
    members are excluded. Other failures in `comm` do not matter, unless it is revoked.
    """
    if comm.fabric.failure_seen:
        comm.fabric.guard.admit(comm, None)
    if comm.box.rank.number not in members:
        return None
    call = _discovery(comm, members, name, purpose=tag)
    assert call.decision is not None
    if call.decision.error:
        failed = sorted(call.members.ranks[index] for index in call.decision.missing)
        who = f"rank{'s' * (len(failed) > 1)} {', '.join(map(str, failed))} of {comm.fabric.shard.everyone}"
        comm.fail(c.ERR_PROC_FAILED, f"{who} did not take part, and some ranks had not detected it")
    return create_from_members(comm, _survivors(call), tag, comm.cid)


def create_from_survivors(
    comm: Communicator, members: Sequence[int], tag: str, name: str = "Intracomm.Create_from_group"
) -> Communicator | None:
    """Run MPI_Comm_create_from_group among survivors; return None on non-members.

    A discovery precedes it, and failed members are excluded.

    The members have no communicator in common: spawned ranks have another COMM_WORLD.
    """
    if comm.box.rank.number not in members:
        return None
    survivors = _survivors(_discovery(comm, members, name, purpose=("from group", tag), parent=WORLD_CID))
    return create_from_members(comm, survivors, ("group", tag), WORLD_CID)
