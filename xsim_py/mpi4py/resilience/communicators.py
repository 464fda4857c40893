"""Communicators made from others under the layer.

A duplicate has all original members, on which the program relies: it is another alias. Split and Create make
communicators of the survivors, as in Legio. Each runs on the inner communicator of its parent until all agree that it
succeeded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from xsim_py.mpi import constants as c
from xsim_py.mpi import management as manage
from xsim_py.mpi.comm import Communicator, derive_cid, shared_context
from xsim_py.mpi4py.group import Group
from xsim_py.mpi4py.handle import handle_of
from xsim_py.mpi4py.info import Info
from xsim_py.mpi4py.inside import comm_of
from xsim_py.mpi4py.management import member_ranks
from xsim_py.mpi4py.plain_arguments import integer

from .alias import adopt, alias_of, attempt_call, drop_alias, is_about_failures, not_covered, raise_on

if TYPE_CHECKING:
    from xsim_py.mpi4py.comm import Comm

__all__ = ["COVERED"]


def _check_intra(comm: Communicator, name: str) -> Communicator:
    if comm.local is not None:
        not_covered(f"{name} on an intercommunicator")
    return comm


def _dup(go: object, self: Comm, info: Info | None = None) -> object:
    """Make another alias of the same members, including failed ones."""
    comm = _check_intra(self._comm(), "Comm.Dup")
    created = alias_of(comm).run_collective(manage.duplicate)
    assert created is not None
    context = shared_context(comm.fabric, derive_cid(created.cid, "alias"), comm.context.ranks)
    return self._duplicate(adopt(Communicator(context, comm.box, me=comm.me), created), info)


def _split(go: Callable[..., Any], self: Comm, color: int, key: int) -> object:
    """Split the survivors."""
    comm = _check_intra(self._comm(), "Comm.Split")
    color = integer(color)
    if color < 0 and color != c.UNDEFINED:
        comm.fail(c.ERR_ARG, f"color {color} is negative")
    return _of_survivors(go, self, comm, color, key)


def _split_type(go: Callable[..., Any], self: Comm, *args: object) -> object:
    """Split the survivors by the resources that they share."""
    return _of_survivors(go, self, _check_intra(self._comm(), "Comm.Split_type"), *args)


def _of_survivors(go: Callable[..., Any], self: Comm, comm: Communicator, *args: object) -> object:
    """Make the communicator that the method makes from the inner one."""

    def act(inner: Communicator) -> Communicator | None:
        created = go(handle_of(self._plain_class(), inner), *args)
        return comm_of(created) if created else None

    return self._new(alias_of(comm).run_collective(act), self._plain_class())


def _create(go: object, self: Comm, group: Group) -> object:
    """Make a communicator of the survivors of a group."""
    comm = _check_intra(self._comm(), "Comm.Create")
    members = member_ranks(self, group)

    def act(inner: Communicator) -> Communicator | None:
        alive = [rank for rank in members if inner.context.place(rank) >= 0]
        if not alive:  # all ranks take part nevertheless
            manage.agree(inner, "Comm.Create")
            return None
        return manage.create(inner, alive)

    return self._new(alias_of(comm).run_collective(act), self._plain_class())


def _free(go: Callable[..., None], self: Comm) -> None:
    """Free the program's communicator, and drop the inner one."""
    comm = self._impl
    go(self)
    drop_alias(comm)


def _disconnect(go: object, self: Comm) -> None:
    """Wait for the survivors, and free the communicator.

    On an intercommunicator to spawned processes nothing is repaired: once a process has failed, the others do not wait.
    """
    comm = self._comm()
    if comm.local is not None:
        _, error = attempt_call(comm, manage.agree, comm, "Comm.Disconnect")
        if error is not None and not is_about_failures(error):
            raise_on(comm, error)
    elif not self._is_predefined():
        alias_of(comm).run_collective(lambda inner: manage.agree(inner, "Comm.Disconnect"))
    self.Free()
    drop_alias(comm)


COVERED: Final[dict[str, Callable[..., Any]]] = {
    "Comm.Clone": _dup,
    "Comm.Dup": _dup,
    "Comm.Dup_with_info": _dup,
    "Comm.Split": _split,
    "Comm.Split_type": _split_type,
    "Comm.Create": _create,
    "Comm.Free": _free,
    "Comm.free": _free,
    "Comm.Disconnect": _disconnect,
}
