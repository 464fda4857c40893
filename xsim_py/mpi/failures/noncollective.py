"""Calls of the members of a group by themselves, without the others of a communicator: liveness discovery and its uses.

The calls of Rocco and Palermo, "Fault-Aware Non-Collective Communication Creation and Reparation in MPI", 2022, section
4, and of the library Legio: who of a group is alive; a communicator of those; an agreement among them. A discovery is a
`RepairCall` on a communicator of the group alone, which nobody else sees: its messages meet none of the program's, and
two of different groups, or of one group for different purposes, do not mix. It does not mind revocation.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xsim_py.mpi import constants as c
from xsim_py.mpi.comm import WORLD_CID, Communicator, derive_cid, shared_context
from xsim_py.mpi.management import create_from_members
from xsim_py.mpi.transport.p2p import complete

from .liveness import SAFE
from .repair import RepairCall, agreed_flag, shrunk

_ALGORITHMS = {SAFE: "liveness"}  # of `repair`; the other variants have their names there


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
    """Find out who of `members`, ranks of the whole run, is alive; return when this rank knows.

    All members must give one `parent`, the number of a communicator: by default that of `comm`.
    """
    ranks = members if isinstance(members, range) else tuple(members)
    if parent is None:
        parent = (comm.outer or comm).cid
    context = shared_context(comm.fabric, derive_cid(parent, "discovery", purpose, ranks), ranks)
    whole = Communicator(context, comm.box)
    whole.name = f"a group of {len(ranks)} ranks"
    call = RepairCall(whole, name, _ALGORITHMS.get(variant, variant), flags)
    complete(call)
    return call


def _living(call: RepairCall) -> Sequence[int]:
    """Return who is alive, as ranks of the whole run in the group's order."""
    ranks = call.members.ranks
    return tuple([rank for place, rank in enumerate(ranks) if place not in call.failed]) if call.failed else ranks


def living_members(comm: Communicator, members: Sequence[int], name: str, variant: str = SAFE) -> Sequence[int]:
    """Return those of `members` that are alive, the same for all of them that live."""
    return _living(_discovery(comm, members, name, variant=variant))


def agree_among(comm: Communicator, members: Sequence[int], flag: int, name: str) -> int:
    """Return the AND of the flags of the members that are alive; who is dead makes no error."""
    return agreed_flag(_discovery(comm, members, name, flags=(flag,)))


def shrink_to_living(comm: Communicator, members: Sequence[int], name: str) -> Communicator:
    """Return a communicator of the members that are alive; it needs no messages but those of the discovery."""
    return shrunk(_discovery(comm, members, name))


def create_of_living(
    comm: Communicator, members: Sequence[int], tag: int, name: str = "Intracomm.Create_group"
) -> Communicator | None:
    """MPI_Comm_create_group with a discovery first; None for who is no member.

    It fails at all members if one is dead whose failure one did not know of before, and so it does not stay unknown;
    known ones are left out. What else has become of `comm` does not matter, unless it is revoked.
    """
    if comm.fabric.troubled:
        comm.fabric.guard.admit(comm, None)
    if comm.box.rank.number not in members:
        return None
    call = _discovery(comm, members, name, purpose=tag)
    assert call.decision is not None
    if call.decision.error:
        dead = sorted(call.members.ranks[place] for place in call.decision.missing)
        who = f"rank{'s' * (len(dead) > 1)} {', '.join(map(str, dead))} of {comm.fabric.shard.everyone}"
        comm.fail(c.ERR_PROC_FAILED, f"{who} did not take part, and some ranks had not detected it")
    return create_from_members(comm, _living(call), tag, comm.cid)


def create_from_living(
    comm: Communicator, members: Sequence[int], tag: str, name: str = "Intracomm.Create_from_group"
) -> Communicator | None:
    """MPI_Comm_create_from_group with a discovery first: the dead are left out; None for who is no member.

    The members have no communicator in common: those that were spawned have another COMM_WORLD.
    """
    if comm.box.rank.number not in members:
        return None
    living = _living(_discovery(comm, members, name, purpose=("from group", tag), parent=WORLD_CID))
    return create_from_members(comm, living, ("group", tag), WORLD_CID)
