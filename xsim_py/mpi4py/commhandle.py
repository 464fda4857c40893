"""The base of all parts of `MPI.Comm`: it knows which communicator of the running rank a handle names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from xsim_py.mpi import constants as c
from xsim_py.mpi.comm import Communicator, self_comm, world
from xsim_py.mpi.errors import fail
from xsim_py.mpi.failures.implicit import uniformly
from xsim_py.mpi.transport.mailbox import Mailbox
from xsim_py.process.ranks import current

from .handle import Handle

__all__ = ["SELF", "WORLD", "CommHandle", "mailbox"]


class _World:
    """The mark of ``COMM_WORLD`` or ``COMM_SELF``, which names the rank's own, whichever rank asks."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


WORLD = _World("COMM_WORLD")
SELF = _World("COMM_SELF")


def mailbox() -> Mailbox:
    """The running rank's MPI state."""
    rank = current.rank()
    box: Mailbox = rank.mpi or rank.shard.fabric.open(rank)
    return box


class CommHandle(Handle):
    """A handle of a communicator. ``COMM_WORLD`` and ``COMM_SELF`` are one object each, whichever rank asks."""

    __slots__ = ()

    def _comm(self) -> Communicator:
        """This rank's communicator; raises ERR_COMM for a null one, and for one that was freed by another name."""
        impl = self._impl
        if impl is WORLD:
            try:
                box = current.fiber.rank.mpi  # type: ignore[union-attr]
            except AttributeError:  # outside of a run: `_special` says what is wrong, and nothing of this
                box = None
            if box is not None and (comm := box.world) is not None:
                return comm  # type: ignore[no-any-return]
        elif type(impl) is Communicator and not impl.freed:
            return impl
        return self._special()

    def _special(self) -> Communicator:
        if self._impl is WORLD:
            box = mailbox()
            return world(box, box.fabric.settings.ranks)
        if self._impl is SELF:
            return self_comm(mailbox())
        self._live()
        return fail(c.ERR_COMM, "the communicator was freed")

    def _made(self, name: str, make: Callable[..., Any], *args: Any, members: Any = None) -> Any:
        """Make a communicator, with the same outcome at all who take part where the program has asked for that."""
        comm = self._comm()
        if comm.implicit.uniform == "local":
            return make(comm, *args)
        return uniformly(comm, partial(make, comm, *args), name, members)
