"""The duplicate of a communicator for mpi4py's own messages: object reductions and `pkl5`.

The first call that needs it creates it, with the messages of MPI_Comm_dup, and it lasts as long as the communicator
(mpi4py's ``pympicommctx.h``). On an intercommunicator it includes an intracommunicator of the local group, by
MPI_Intercomm_merge and MPI_Comm_create.

So a revocation of the communicator does not affect such a call, and after a failed attempt to create the duplicate each
further call raises ERR_COMM: observed with Open MPI 5.0 and mpi4py 4.1. A layer that replaces communicators
(`resilience`) handles such a call as a whole, on its own communicators, and counts the duplication as a preceding call.
"""

from __future__ import annotations

from functools import partial

from xsim_py.mpi import constants as c
from xsim_py.mpi import management as manage
from xsim_py.mpi.calls import CollectiveChannel, channel, lone_note, note
from xsim_py.mpi.comm import Communicator, ReportName
from xsim_py.mpi.errors import fail
from xsim_py.mpi.failures.implicit import uniformly

__all__ = ["ObjectContext", "context_of", "duplicate_of", "open_channel"]


class ObjectContext:
    """The duplicate of one communicator, as kept by one process."""

    __slots__ = ("comm", "low_group", "uses")

    def __init__(self) -> None:
        self.comm: Communicator | None = None  # None if it could not be created
        self.low_group = False  # for an intercommunicator, whether this rank is in the group that comes first
        self.uses = 0  # the number of calls that have used it: the tag of the next one

    def next_tag(self) -> int:
        """Return the next tag, equal on all members because uses are collective."""
        self.uses += 1
        return self.uses - 1


def context_of(comm: Communicator, name: str) -> ObjectContext:
    """Return the context of a communicator; the first call creates it together with all members.

    `name` is the call that needs it, for reports. Raises the error that prevented its creation; in later calls,
    ERR_COMM.
    """
    context: ObjectContext | None = comm.object_context
    if context is None:
        context = comm.object_context = ObjectContext()
        make = partial(manage.duplicate_for_objects, comm, name)
        agrees = comm.implicit.uniform in ("construct", "coll")
        context.comm, context.low_group = uniformly(comm, make, "Comm.Dup") if agrees else make()
        context.comm.report_name = ReportName(comm)
    if context.comm is None:
        fail(c.ERR_COMM, f"the duplicate of {comm.label()} that {name} needs could not be made at its first such call")
    return context


def duplicate_of(comm: Communicator, name: str) -> Communicator:
    """Return the duplicate of a communicator for a call that uses it once; see `context_of`."""
    if comm.report_name is not None:
        return comm
    context = context_of(comm, name)
    context.uses += 1
    assert context.comm is not None
    return context.comm


def open_channel(
    comm: Communicator, before: int, duplicate: Communicator, name: str, root: int | None = None
) -> CollectiveChannel:
    """Return the channel of a call on the duplicate of `comm`, with the same number on both.

    `before` is the number of calls on `comm` before this one; if it has changed, creating the duplicate has taken the
    number.
    """
    alone = comm.report_name is None and comm.implicit.uniform != "agreed"
    call_note = lone_note(name, root) if alone else note(name, root)
    if comm.collectives == before:
        comm.collectives += 1
        if comm.report_name is None and comm.local is None and comm.context.size > 1:
            comm.fabric.order.begin(comm, comm.collectives, call_note)
    duplicate.collectives = comm.collectives - 1
    if duplicate.local is not None:
        duplicate.local.collectives = duplicate.collectives
    return channel(duplicate, call_note, check=False, admitted=alone)
