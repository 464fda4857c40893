"""Non-collective repair for programs: what the members of a group do by themselves when some of them are dead.

::

    from xsim_py import legio

    living = legio.alive(comm, group)           # a Group, the same at all of its members that live
    part = legio.create_group(comm, group)      # MPI_Comm_create_group that no dead member hangs or splits
    part = legio.create_from_group(group)       # a communicator of those that live, without a parent
    part = legio.shrink_group(comm, group)      # a communicator of those that live: Shrink for a group
    flag = legio.agree_group(comm, group, 1)    # Agree for a group

Only members of the group call, all of them that live, and in the same order. The others need not know. All that is
here is made of liveness discovery: Rocco and Palermo, "Fault-Aware Non-Collective Communication Creation and Reparation
in MPI", 2022, section 4, in a variant that no failure during it can make hang (`xsim_py.mpi.failures.liveness`).
Nothing is imported before a call, so that a program loses no time if nobody simulates it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def alive(comm: Any, group: Any, *, variant: str = "safe") -> Any:
    """Return the members of a group that are alive.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        A communicator of the simulated program that all members are in; it may be revoked.
    group : mpi4py.MPI.Group
        Who takes part. The order of its ranks makes the tree.
    variant : str
        ``safe``; or ``naive``, ``legio`` or ``repaired``, which are in the literature and in use, to see where they
        give different groups or wait for ever.

    Returns
    -------
    mpi4py.MPI.Group
        Those that have taken part, in the order of `group`; the same at all that live. Who dies meanwhile may be in it.

    Raises
    ------
    mpi4py.MPI.Exception
        ERR_GROUP: the group is no subset of the communicator's, or the caller is no member.
    ValueError
        There is no such variant.
    XsimError
        The program is not being simulated.
    """
    state, members = _taking_part(comm, group, "alive")
    from xsim_py.mpi.failures.liveness import VARIANTS
    from xsim_py.mpi.failures.noncollective import living_members
    from xsim_py.mpi.group import Members

    if variant not in VARIANTS:
        raise ValueError(f"variant {variant!r} is none of {', '.join(VARIANTS)}")
    return type(group)._of(Members(living_members(state, members, "legio.alive", variant)))


def create_group(comm: Any, group: Any, tag: int = 0) -> Any:
    """Make a communicator of a group, as ``comm.Create_group`` does, after its members have found out who is alive.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        A communicator of the simulated program that all members are in. That some of its processes have failed, known
        or not, does not matter.
    group : mpi4py.MPI.Group
        The members.
    tag : int
        Tells calls apart that are made at once, as in ``Create_group``.

    Returns
    -------
    mpi4py.MPI.Intracomm
        The members, without those whose failure all living ones had known of before the call; ``COMM_NULL`` for a
        caller that is no member.

    Raises
    ------
    mpi4py.MPI.Exception
        ERR_PROC_FAILED, at all members that live: one is dead whose failure not all had known of. All know it then, so
        the next call succeeds. Some members only, if one dies during the call: the others have a communicator then, so
        agree on it by `agree_group`. ERR_REVOKED: `comm` is revoked. ERR_GROUP: the group is no subset.
    XsimError
        The program is not being simulated.
    """
    state = _checked(comm, group, "create_group")
    from xsim_py.mpi.failures.noncollective import create_of_living
    from xsim_py.mpi4py.ulfm import as_c_int

    tag = as_c_int(tag)
    return _face(comm, create_of_living(state, comm._members(group), tag, "legio.create_group"), state)


def create_from_group(group: Any, stringtag: str = "org.mpi4py") -> Any:
    """Make a communicator of those members of a group that are alive, without another communicator.

    Parameters
    ----------
    group : mpi4py.MPI.Group
        The members.
    stringtag : str
        Tells calls apart that are made at once, as in ``Intracomm.Create_from_group``.

    Returns
    -------
    mpi4py.MPI.Intracomm
        The members that are alive, in the order of `group`.

    Raises
    ------
    mpi4py.MPI.Exception
        ERR_GROUP: the caller is no member. ERR_PROC_FAILED, perhaps at some members only: one died after it had been
        found alive; agree on it by `agree_group`.
    XsimError
        The program is not being simulated.
    """
    from xsim_py.mpi.failures.noncollective import create_from_living
    from xsim_py.mpi4py.comm import COMM_WORLD

    state = _checked(COMM_WORLD, group, "create_from_group")
    members = _members(state, group)
    return _face(COMM_WORLD, create_from_living(state, members, stringtag, "legio.create_from_group"))


def shrink_group(comm: Any, group: Any) -> Any:
    """Make a communicator of those members of a group that are alive: ``comm.Shrink()`` without the others.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        A communicator of the simulated program that all members are in; it may be revoked.
    group : mpi4py.MPI.Group
        Who takes part.

    Returns
    -------
    mpi4py.MPI.Intracomm
        The members that are alive, in the order of `group`. It costs the discovery and nothing else.

    Raises
    ------
    mpi4py.MPI.Exception
        ERR_GROUP: the group is no subset of the communicator's, or the caller is no member.
    XsimError
        The program is not being simulated.
    """
    state, members = _taking_part(comm, group, "shrink_group")
    from xsim_py.mpi.failures.noncollective import shrink_to_living

    return _face(comm, shrink_to_living(state, members, "legio.shrink_group"), state)


def agree_group(comm: Any, group: Any, flag: int, *, op: Any = None) -> int:
    """Combine the flags of those members of a group that are alive: ``comm.Agree(flag)`` without the others.

    A member that has failed makes no error, in contrast to ``Agree``: who wants to know asks `alive`.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        A communicator of the simulated program that all members are in; it may be revoked.
    group : mpi4py.MPI.Group
        Who takes part.
    flag : int
        The caller's.
    op : mpi4py.MPI.Op
        ``MPI.BAND`` as in ``Agree`` (None: this), or ``MPI.BOR`` as in Legio; the same at all members.

    Returns
    -------
    int
        The same at all members that live.

    Raises
    ------
    mpi4py.MPI.Exception
        ERR_GROUP: the group is no subset of the communicator's, or the caller is no member.
    ValueError
        The operation is another one.
    XsimError
        The program is not being simulated.
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
            f"xsim_py.legio.{name}: this needs a simulated program, and there is none here; "
            "run the program by: xsim run -n N --ft PROGRAM"
        )


def _taking_part(comm: Any, group: Any, name: str) -> tuple[Any, Any]:
    """Return the communicator behind a handle, and the members of the group, of which the caller must be one."""
    state = _checked(comm, group, name)
    comm._members(group)  # fails if it is no subset
    return state, _members(state, group)


def _checked(comm: Any, group: Any, name: str) -> Any:
    """Return the communicator behind a handle; TypeError if the two are no intracommunicator and no group."""
    _check_simulated(name)
    mpi: Any = import_module("xsim_py.mpi4py.MPI")
    for value, kind in ((comm, mpi.Intracomm), (group, mpi.Group)):
        if not isinstance(value, kind):
            raise TypeError(f"legio.{name}: expected mpi4py.MPI.{kind.__name__}, got {type(value).__name__}")
    return comm._comm()


def _members(state: Any, group: Any) -> Any:
    from xsim_py.mpi.constants import ERR_GROUP
    from xsim_py.process.output.tracebacks import forget_frames

    forget_frames()
    members = group._members
    if state.box.rank.number not in members:
        state.fail(ERR_GROUP, "this process is not a member of the group")
    return members.ranks


def _face(comm: Any, made: Any, parent: Any = None) -> Any:
    """Return the program's handle of a new communicator."""
    kind = comm._plain()
    return kind() if made is None else kind._welcome(made, parent)
