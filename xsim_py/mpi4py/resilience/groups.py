"""The group of a window or file under the layer: all original members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xsim_py.mpi.group import Members
from xsim_py.mpi4py.group import Group
from xsim_py.process.ranks.patches import Patches

from .alias import Alias

__all__ = ["keep_group"]


def keep_group(patches: Patches, owner: type, alias: Callable[[Any], Alias]) -> None:
    """Let handles of a class return the group of the communicator that they were created on.

    `owner` is ``Win`` or ``File``. `alias` takes a handle, and returns the alias of that communicator.
    """

    def get_group(self: Any) -> Group:
        return Group._of(Members(alias(self).outer.context.ranks))

    get_group.__name__ = "Get_group"
    patches.set(owner, "Get_group", get_group)
    patches.set(owner, "group_size", property(lambda self: get_group(self).size))
    patches.set(owner, "group_rank", property(lambda self: get_group(self).rank))
