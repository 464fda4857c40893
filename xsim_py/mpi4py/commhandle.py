"""The base of all parts of `MPI.Comm`: the running rank's communicator of a handle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """A placeholder for ``COMM_WORLD`` or ``COMM_SELF`` of the calling rank."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


WORLD = _World("COMM_WORLD")
SELF = _World("COMM_SELF")


def mailbox() -> Mailbox:
    """Return the running rank's MPI state."""
    rank = current.rank()
    box: Mailbox = rank.mpi or rank.shard.fabric.open(rank)
    return box


class CommHandle(Handle):
    """A handle of a communicator.

    ``COMM_WORLD`` and ``COMM_SELF`` are one object each for all ranks.
    """

    __slots__ = ()

    def _comm(self) -> Communicator:
        """Return this rank's communicator.

        Raise ERR_COMM for a null one, or one freed through another handle.
        """
        impl = self._impl
        if impl is WORLD:
            try:
                box = current.fiber.rank.mpi  # type: ignore[union-attr]
            except AttributeError:  # outside a run: `_special` reports the error
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

    def _make_uniform(
        self, name: str, make: Callable[..., Any], *args: object, members: Sequence[int] | None = None
    ) -> Any:
        """Create a communicator, with the same outcome on all participants if so requested."""
        comm = self._comm()
        if comm.implicit.uniform == "local":
            return make(comm, *args)
        return uniformly(comm, partial(make, comm, *args), name, members)
