"""Implicit actions after failures, which a program requests by Info keys of a communicator.

Bouteiller and Bosilca, "Implicit Actions and Non-blocking Failure Recovery with MPI", 2022. ``mpi_error_range`` selects
the failures that concern a communicator: those of the process that an operation needs (``local``), of any member
(``group``), or of any process (``universe``). For the latter two the communicator is revoked at a process that learns
of one, without a message, as in Open MPI's manual (MPIX_Comm_is_revoked); see `knowledge.is_revoked`.
``mpi_error_uniform`` selects the calls in which all members get the same error: none (``local``), those that make
communicators (``construct``), or these and all blocking collectives (``coll``). It costs an agreement in each call; no
MPI library has it yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from xsim_py.mpi import constants as c
from xsim_py.mpi import errors
from xsim_py.mpi.comm import Communicator, ImplicitActions
from xsim_py.mpi.transport.p2p import complete

from .noncollective import agree_among
from .repair import begin_agree

T = TypeVar("T")

RANGE, UNIFORM = "mpi_error_range", "mpi_error_uniform"
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    RANGE: ("local", "group", "universe"),
    UNIFORM: ("local", "construct", "coll"),
}
"""The values of each key; the first one is the default."""


def apply_hints(comm: Communicator, hints: Mapping[str, str]) -> None:
    """Set the implicit actions of a communicator from hints.

    All members must pass the same hints. An unknown value is ERR_INFO_VALUE.
    """
    values = []
    for key, words in KEYS.items():
        value = hints.get(key, words[0])
        if value not in words:
            errors.fail(c.ERR_INFO_VALUE, f"{key}: expected {' or '.join(words)}, got {value}")
        values.append(value)
    comm.implicit = ImplicitActions(*values)


def uniformly(comm: Communicator, call: Callable[[], T], name: str, members: Sequence[int] | None = None) -> T:
    """Make a call that fails on all participating ranks or on none.

    Errors of `call` other than those of failures and revocation are raised after the agreement, or at once if it has
    not begun a collective, because then no rank waits. `name` is its name in reports. `members` are the participating
    members, as world ranks; None: all.

    Raises an `Exception` with ERR_PROC_FAILED if a surviving rank has met a failure or a revocation.
    """
    error: Exception | None = None
    is_failure = False
    before = comm.collectives
    try:
        result = call()
    except Exception as raised:
        is_failure = isinstance(raised, errors.Exception) and errors.is_about_failures(raised)
        if not is_failure and members is None and comm.collectives == before:
            raise
        if is_failure:
            raised.__traceback__ = None
        error = raised
    if members is None:
        agreement = begin_agree(comm, int(not is_failure), name)
        complete(agreement)
        assert agreement.decision is not None
        success = all(agreement.decision.flags)  # of both groups of an intercommunicator
    else:
        success = bool(agree_among(comm, members, int(not is_failure), name))
    if error is not None and (not is_failure or (isinstance(error, errors.Exception) and error == c.ERR_PROC_FAILED)):
        raise error
    if not success:
        comm.fail(c.ERR_PROC_FAILED, "a member has met a failure in this call")
    return result
