"""Gather and Scatter among the survivors: blocks keep their offsets, or move up.

Legio keeps offsets by one-sided transfers into the root's buffer. Here it is the gather or scatter of the smaller
communicator, and the root places the blocks: the result is the same, in the time of that operation. Without a failure
both are the usual operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from xsim_py.mpi.calls import channel, note
from xsim_py.mpi.comm import Communicator
from xsim_py.mpi4py import collective_plans as plans
from xsim_py.mpi4py import object_plans as objects
from xsim_py.mpi4py.bufspec import is_in_place, message, packed, receiver
from xsim_py.mpi4py.collective_plans import Plan, algorithm_for
from xsim_py.mpi4py.ftco_replacements import lost_block

from .alias import options_of

__all__ = ["gather", "gather_objects", "scatter", "scatter_objects"]


def places_of(whole: Communicator, inner: Communicator, shift: bool) -> Sequence[int]:
    """Return the index of each inner member's block in the root's buffer or list."""
    if shift:
        return range(inner.context.size)
    return [whole.context.index(number) for number in inner.context.ranks]


def gather(
    inner: Communicator, name: str, whole: Communicator, shift: bool, sendbuf: object, recvbuf: object, root: int
) -> Plan:
    """Plan a gather whose root has room for all original members.

    NaN or zeros replace lost blocks. `whole` is the program's communicator, and `root` a rank of the inner one. With
    `shift`, blocks move up to replace those of failed ranks.
    """
    if inner.context.size == whole.context.size:
        return plans.gather(inner, name, "", sendbuf, recvbuf, root)
    target = None
    if root == inner.me:
        target = message(recvbuf, writable=True, blocks=whole.context.size)
        data = target.pack_part(whole.me) if is_in_place(sendbuf) else packed(sendbuf)
        plans.check_fit(len(data), target.part_bytes(whole.me))
    else:
        data = packed(sendbuf)
    ch = channel(inner, note(name, plans.root_of(inner, root), len(data)))
    algorithm = algorithm_for(ch, "gather", len(data))
    lost = partial(lost_block, whole, name, missing=options_of(whole).missing, option="mpi.resilience.missing")

    def body() -> None:
        parts = algorithm(ch, data, root)
        if target is not None:
            found = dict(zip(places_of(whole, inner, shift), parts, strict=True))
            for place in range(whole.context.size):
                target.unpack_part(place, found[place] if place in found else lost(target=target, i=place))

    return len(data), body, ch


def scatter(
    inner: Communicator, name: str, whole: Communicator, shift: bool, sendbuf: object, recvbuf: object, root: int
) -> Plan:
    """Plan a scatter whose root has blocks for all original members.

    Blocks for failed ranks, or with a shift the last ones, are not sent.
    """
    if inner.context.size == whole.context.size:
        return plans.scatter(inner, name, "", sendbuf, recvbuf, root)
    parts = None
    target = None if is_in_place(recvbuf) else receiver(recvbuf)
    size_bytes = 0 if target is None else target.nbytes
    if root == inner.me:
        every = message(sendbuf, writable=False, blocks=whole.context.size).pack_parts(whole.context.size)
        parts = [every[place] for place in places_of(whole, inner, shift)]
        size_bytes = len(parts[root])
        if target is not None:
            plans.check_fit(size_bytes, target.nbytes)
    ch = channel(inner, note(name, plans.root_of(inner, root), size_bytes))
    algorithm = algorithm_for(ch, "scatter", size_bytes)

    def body() -> None:
        received = algorithm(ch, parts, root)
        if target is not None:
            target.unpack(received)

    return 0 if parts is None else sum(map(len, parts)), body, ch


def gather_objects(inner: Communicator, name: str, whole: Communicator, shift: bool, obj: object, root: int) -> Plan:
    """Plan a gather of objects.

    The root's list has None for failed ranks, or is shorter with a shift.
    """
    size_bytes, body, ch = objects.gather(inner, name, obj, root)
    if shift or inner.context.size == whole.context.size:
        return size_bytes, body, ch

    def spread() -> list[Any] | None:
        found = body()
        if found is None:
            return None
        every = [None] * whole.context.size
        for place, each in zip(places_of(whole, inner, shift), found, strict=True):
            every[place] = each
        return every

    return size_bytes, spread, ch


def scatter_objects(
    inner: Communicator, name: str, whole: Communicator, shift: bool, objs: Iterable[object] | None, root: int
) -> Plan:
    """Plan a scatter of a list with an object for each original member."""
    if root == inner.me and inner.context.size < whole.context.size and objs is not None:
        every = list(objs)
        if len(every) != whole.context.size:
            raise ValueError(f"expecting {whole.context.size} items, got {len(every)}")
        objs = [every[place] for place in places_of(whole, inner, shift)]
    return objects.scatter(inner, name, objs, root)
