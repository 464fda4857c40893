"""Non-collective repair: calls for the members of a group after some of them have failed.

::

    from xsim_py import legio

    living = legio.alive(comm, group)           # the Group of surviving members, the same on all of them
    part = legio.create_group(comm, group)      # MPI_Comm_create_group without hangs or splits by failed members
    part = legio.create_from_group(group)       # a communicator of the survivors, without a parent
    part = legio.shrink_group(comm, group)      # a communicator of the survivors: Shrink for a group
    flag = legio.agree_group(comm, group, 1)    # Agree for a group

All surviving members of the group make the calls, in the same order; other ranks are not involved. All calls build on
liveness discovery: Rocco and Palermo, "Fault-Aware Non-Collective Communication Creation and Reparation
in MPI", 2022, section 4, in a variant that does not hang after further failures (`xsim_py.mpi.failures.liveness`).
Imports happen inside the calls, so that a program that is not simulated starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xsim_py.mpi.comm import Communicator
    from xsim_py.mpi4py.comm import Intracomm
    from xsim_py.mpi4py.group import Group


def alive(comm: Intracomm, group: Group, *, variant: str = "safe") -> Group:
    """Return the surviving members of a group.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        A communicator of the simulated program that contains all members; it may be revoked.
    group : mpi4py.MPI.Group
        The participants. The order of its ranks determines the tree.
    variant : str
        ``safe``; or, for comparison, a variant of the literature: ``naive``, ``legio`` or ``repaired``. These may
        return different groups or wait forever.

    Returns
    -------
    mpi4py.MPI.Group
        The participants, in the order of `group`; the same on all survivors. Ranks that fail meanwhile may be in it.

    Raises
    ------
    mpi4py.MPI.Exception
        ERR_GROUP: the group is not a subset of the communicator's, or the caller is not a member.
    ValueError
        `variant` is unknown.
    XsimError
        The program is not simulated.
    """
    state, members = _taking_part(comm, group, "alive")
    from xsim_py.mpi.failures.liveness import VARIANTS
    from xsim_py.mpi.failures.noncollective import surviving_members
    from xsim_py.mpi.group import Members
    from xsim_py.mpi4py.group import group_of

    if variant not in VARIANTS:
        raise ValueError(f"unknown variant {variant!r}; known: {', '.join(VARIANTS)}")
    return group_of(Members(surviving_members(state, members, "legio.alive", variant)), type(group))


def create_group(comm: Intracomm, group: Group, tag: int = 0) -> Intracomm:
    """Create a communicator of a group, like ``comm.Create_group``, despite failed members.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        A communicator of the simulated program that contains all members. Its processes may have failed, known or not.
    group : mpi4py.MPI.Group
        The members.
    tag : int
        Distinguishes concurrent calls, as in ``Create_group``.

    Returns
    -------
    mpi4py.MPI.Intracomm
        The members, without those that all survivors knew to have failed before the call; ``COMM_NULL`` for a caller
        that is not a member.

    Raises
    ------
    mpi4py.MPI.Exception
        ERR_PROC_FAILED on all survivors: a member has failed, unknown to some. Now all know, so the next call
        succeeds. ERR_PROC_FAILED on some survivors: a member failed during the call. The others have a communicator, so
        agree on the outcome by `agree_group`. ERR_REVOKED: `comm` is revoked. ERR_GROUP: the group is not a subset of
        the communicator's.
    XsimError
        The program is not simulated.
    """
    state = _checked(comm, group, "create_group")
    from xsim_py.mpi.failures.noncollective import create_among_survivors
    from xsim_py.mpi4py.management import member_ranks
    from xsim_py.mpi4py.ulfm import as_c_int

    tag = as_c_int(tag)
    return _face(comm, create_among_survivors(state, member_ranks(comm, group), tag, "legio.create_group"), state)


def create_from_group(group: Group, stringtag: str = "org.mpi4py") -> Intracomm:
    """Create a communicator of the surviving members of a group, without a parent communicator.

    Parameters
    ----------
    group : mpi4py.MPI.Group
        The members.
    stringtag : str
        Distinguishes concurrent calls, as in ``Intracomm.Create_from_group``.

    Returns
    -------
    mpi4py.MPI.Intracomm
        The surviving members, in the order of `group`.

    Raises
    ------
    mpi4py.MPI.Exception
        ERR_GROUP: the caller is not a member. ERR_PROC_FAILED, possibly on some members only: a member failed after the
        discovery; agree on the outcome by `agree_group`.
    XsimError
        The program is not simulated.
    """
    from xsim_py.mpi.failures.noncollective import create_from_survivors
    from xsim_py.mpi4py.comm import COMM_WORLD

    state = _checked(COMM_WORLD, group, "create_from_group")
    members = _members(state, group)
    return _face(COMM_WORLD, create_from_survivors(state, members, stringtag, "legio.create_from_group"))


def shrink_group(comm: Intracomm, group: Group) -> Intracomm:
    """Create a communicator of a group's survivors: ``comm.Shrink()`` without the other ranks.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        A communicator of the simulated program that contains all members; it may be revoked.
    group : mpi4py.MPI.Group
        The participants.

    Returns
    -------
    mpi4py.MPI.Intracomm
        The surviving members, in the order of `group`. The only cost is the discovery.

    Raises
    ------
    mpi4py.MPI.Exception
        ERR_GROUP: the group is not a subset of the communicator's, or the caller is not a member.
    XsimError
        The program is not simulated.
    """
    state, members = _taking_part(comm, group, "shrink_group")
    from xsim_py.mpi.failures.noncollective import shrink_to_survivors

    return _face(comm, shrink_to_survivors(state, members, "legio.shrink_group"), state)


def agree_group(comm: Intracomm, group: Group, flag: int, *, op: object = None) -> int:
    """Combine the flags of a group's survivors: ``comm.Agree(flag)`` without the other ranks.

    Unlike ``Agree``, it raises no error for failed members; use `alive` to detect them.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        A communicator of the simulated program that contains all members; it may be revoked.
    group : mpi4py.MPI.Group
        The participants.
    flag : int
        The caller's flag.
    op : mpi4py.MPI.Op
        ``MPI.BAND`` as in ``Agree`` (default), or ``MPI.BOR`` as in Legio; the same on each member.

    Returns
    -------
    int
        The combined flag, the same on all survivors.

    Raises
    ------
    mpi4py.MPI.Exception
        ERR_GROUP: the group is not a subset of the communicator's, or the caller is not a member.
    ValueError
        `op` is neither of the two.
    XsimError
        The program is not simulated.
    """
    state, members = _taking_part(comm, group, "agree_group")
    from xsim_py.mpi.failures.noncollective import agree_among
    from xsim_py.mpi4py.ulfm import as_c_int

    mpi: Any = import_module("xsim_py.mpi4py.MPI")
    if op is not None and op not in (mpi.BAND, mpi.BOR):
        raise ValueError("legio.agree_group combines flags by MPI.BAND or MPI.BOR")
    inverted = -1 if op is not None and op == mpi.BOR else 0  # a | b = ~(~a & ~b)
    return agree_among(state, members, as_c_int(flag) ^ inverted, "legio.agree_group") ^ inverted


def _check_simulated(name: str) -> None:
    from xsim_py.errors import XsimError
    from xsim_py.process.ranks import current

    if current.here() is None:
        raise XsimError(
            f"xsim_py.legio.{name}: needs a simulated program; run the program by: xsim run -n N --ft PROGRAM"
        )


def _taking_part(comm: Intracomm, group: Group, name: str) -> tuple[Any, Any]:
    """Return the communicator of a handle, and the group's members, which include the caller."""
    state = _checked(comm, group, name)
    from xsim_py.mpi4py.management import member_ranks

    member_ranks(comm, group)  # raises ERR_GROUP if the group is not a subset
    return state, _members(state, group)


def _checked(comm: Intracomm, group: Group, name: str) -> Any:
    """Return the communicator of a handle; raise TypeError for arguments of other types."""
    from xsim_py.mpi4py.inside import comm_of

    _check_simulated(name)
    mpi: Any = import_module("xsim_py.mpi4py.MPI")
    for value, kind in ((comm, mpi.Intracomm), (group, mpi.Group)):
        if not isinstance(value, kind):
            raise TypeError(f"legio.{name}: expected mpi4py.MPI.{kind.__name__}, got {type(value).__name__}")
    return comm_of(comm)


def _members(state: Communicator, group: Group) -> Any:
    from xsim_py.mpi.constants import ERR_GROUP
    from xsim_py.mpi4py.inside import members_of
    from xsim_py.process.output.tracebacks import forget_frames

    forget_frames()
    members = members_of(group)
    if state.box.rank.number not in members:
        state.fail(ERR_GROUP, "this process is not a member of the group")
    return members.ranks


def _face(comm: Intracomm, made: Communicator | None, parent: Communicator | None = None) -> Intracomm:
    """Return the program's handle of a new communicator."""
    from xsim_py.mpi4py.inside import plain_class_of
    from xsim_py.mpi4py.management import wrapped

    kind: type[Intracomm] = plain_class_of(comm)
    return kind() if made is None else wrapped(kind, made, parent)
