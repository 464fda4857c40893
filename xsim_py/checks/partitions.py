"""Checks of partitioned messages.

A partition must not be accessed once it is ready, or before it arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xsim_py.mpi.constants import PROC_NULL
from xsim_py.mpi4py.bufspec import message
from xsim_py.mpi4py.inside import impl_of

from . import buffers, signatures
from .point_to_point import core_of
from .records import MessageSide
from .requests import RequestRecord, of_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from xsim_py.mpi.comm import Communicator

    from .monitor import After, Monitor, MpiCall


def _prepared(*, sends: bool) -> Callable[..., After | None]:
    """Return the check of ``Psend_init`` or ``Precv_init``."""

    def follow(
        monitor: Monitor, call: MpiCall, comm: object, buf: object, partitions: int, peer: int, tag: int, info: object
    ) -> After:
        core = core_of(comm)

        def prepared(request: object) -> None:
            record = of_request(monitor, call, request)
            if record is None or peer == PROC_NULL:
                return
            parsed = message(buf, writable=not sends, blocks=partitions)
            record.partitions = [buffers.PackedMemory(parsed.block(i)) for i in range(partitions)]
            record.sends = sends
            signature = signatures.of_elements(parsed.datatype, parsed.count * partitions)
            side = call.side(core, peer, tag, signature, sends)
            _match_halves(monitor, core, side)

        return prepared

    return follow


def _match_halves(monitor: Monitor, core: Communicator, side: MessageSide) -> None:
    """Compare the types of a partitioned message with those of its other half, if known."""
    ends = (side.rank, core.remote[side.peer])
    key = "partitioned", core.cid, ends if side.sends else ends[::-1], side.tag
    waiting = monitor.signals.setdefault(key, [])
    if not waiting or waiting[0].sends == side.sends:
        waiting.append(side)  # halves match in the order in which they are made
        return
    other = waiting.pop(0)
    send, receive = (side, other) if side.sends else (other, side)
    monitor.compare_types(send, receive)


def unmatched(monitor: Monitor) -> list[MessageSide]:
    """Return the halves of partitioned messages without a matching half."""
    return [side for key, sides in monitor.signals.items() if key[0] == "partitioned" for side in sides]


def _use(monitor: Monitor, call: MpiCall, record: RequestRecord, partitions: Iterable[int]) -> None:
    for i in partitions:
        if 0 <= i < len(record.partitions):
            used = buffers.Used(monitor, call.rank, record.partitions[i], record.sends)
            used.begin(record)


def started(monitor: Monitor, call: MpiCall, record: RequestRecord) -> None:
    """Record the start of a partitioned request.

    A receive buffer must not be accessed from now on.
    """
    if not record.sends:
        _use(monitor, call, record, range(len(record.partitions)))


def _ready(which: Callable[..., Iterable[int]]) -> Callable[..., After | None]:
    """Return the check of ``Pready``, ``Pready_range`` or ``Pready_list``."""

    def follow(monitor: Monitor, call: MpiCall, request: object, *args: object) -> After | None:
        record = call.rank.requests.get(id(impl_of(request)))
        if record is None or not record.active:
            return None
        chosen = list(which(*args))
        return lambda _: _use(monitor, call, record, chosen)

    return follow


def _arrived(monitor: Monitor, call: MpiCall, request: object, partition: int) -> After | None:
    """Check ``Parrived``, after which the partition may be read."""
    record: RequestRecord | None = call.rank.requests.get(id(impl_of(request)))
    if record is None or not record.used:
        return None

    def check_arrival(is_there: object) -> None:
        for used in record.used if is_there else ():
            if used.memory is record.partitions[partition]:
                record.used.remove(used)
                used.end()
                break

    return check_arrival


CHECKS: dict[str, Callable[..., Any]] = {"Psend_init": _prepared(sends=True), "Precv_init": _prepared(sends=False)}
"""The check of each method of a communicator."""

OF_REQUESTS: dict[str, Callable[..., Any]] = {
    "Pready": _ready(lambda partition: (partition,)),
    "Pready_range": _ready(lambda low, high: range(low, high + 1)),
    "Pready_list": _ready(list),
    "Parrived": _arrived,
}
"""The check of each method of a partitioned request."""
