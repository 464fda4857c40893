"""Communicators made from others under the layer.

A duplicate has all original members, on which the program relies: it is another alias. Split and Create make
communicators of the survivors, as in Legio. Each runs on the inner communicator of its parent until all agree that it
succeeded.
"""

from __future__ import annotations

from typing import Any

from xsim_py.mpi import constants as c
from xsim_py.mpi import management as manage
from xsim_py.mpi.comm import Communicator, derive_cid, shared_context
from xsim_py.mpi4py.group import Group
from xsim_py.mpi4py.info import INFO_NULL, Info
from xsim_py.mpi4py.management import Management
from xsim_py.mpi4py.plain_arguments import converting
from xsim_py.process.ranks.patches import Patches

from .alias import adopt, alias_of, attempt_call, drop_alias, is_about_failures, not_covered, raise_on

__all__ = ["install_communicators"]

_split_type, _free = Management.Split_type, Management.Free


def _check_intra(comm: Communicator, name: str) -> Communicator:
    if comm.local is not None:
        not_covered(f"{name} on an intercommunicator")
    return comm


def dup(self: Any, info: Info | None = None) -> Any:
    """Make another alias of the same members, including failed ones."""
    comm = _check_intra(self._comm(), "Comm.Dup")
    created = alias_of(comm).run_collective(manage.duplicate)
    assert created is not None
    context = shared_context(comm.fabric, derive_cid(created.cid, "alias"), comm.context.ranks)
    return self._duplicate(adopt(Communicator(context, comm.box, me=comm.me), created), info)


def split(self: Any, color: int = 0, key: int = 0) -> Any:
    """Split the survivors."""
    comm = _check_intra(self._comm(), "Comm.Split")
    if color < 0 and color != c.UNDEFINED:
        comm.fail(c.ERR_ARG, f"color {color} is negative")
    created = alias_of(comm).run_collective(lambda inner: manage.split(inner, color, key))
    return self._new(created, self._plain_class())


def split_type(self: Any, split_type: int, key: int = 0, info: Info = INFO_NULL) -> Any:
    """Split the survivors by the resources that they share."""
    comm = _check_intra(self._comm(), "Comm.Split_type")

    def act(inner: Communicator) -> Communicator | None:
        created = _split_type(self._plain_class()._make(inner), split_type, key, info)
        return created._comm() if created else None

    return self._new(alias_of(comm).run_collective(act), self._plain_class())


def create(self: Any, group: Group) -> Any:
    """Make a communicator of the survivors of a group."""
    comm = _check_intra(self._comm(), "Comm.Create")
    members = self._members(group)

    def act(inner: Communicator) -> Communicator | None:
        alive = [rank for rank in members if inner.context.place(rank) >= 0]
        if not alive:  # all ranks take part nevertheless
            manage.agree(inner, "Comm.Create")
            return None
        return manage.create(inner, alive)

    return self._new(alias_of(comm).run_collective(act), self._plain_class())


def free(self: Any) -> None:
    """Free the program's communicator, and drop the inner one."""
    comm = self._comm()
    _free(self)
    drop_alias(comm)


def disconnect(self: Any) -> None:
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


def install_communicators(patches: Patches) -> None:
    """Route communicator management of programs through the layer."""
    for name, function in (
        ("Dup", dup),
        ("Split", split),
        ("Split_type", split_type),
        ("Create", create),
        ("Free", free),
        ("Disconnect", disconnect),
    ):
        function.__name__ = name
        patches.set(Management, name, converting(function))
