"""The buffers of a collective that a rank reads or writes.

Not all arguments are significant on all ranks.

MPI 4.1, 6.4 to 6.12 and 8.6, define where an argument is significant: the receive buffer of a gather on the root only,
that of an exclusive scan not on rank 0, and the block of a missing neighbour nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xsim_py.mpi.constants import PROC_NULL, ROOT
from xsim_py.mpi4py.bufspec import BlockBuffer
from xsim_py.mpi4py.call_table import COLLECTIVES, Collective
from xsim_py.mpi4py.collective_plans import PARSERS
from xsim_py.mpi4py.memory import is_in_place

from . import arguments, buffers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .monitor import After, Monitor, MpiCall


def _roles(core: Any, row: Collective, root: Any) -> tuple[bool, bool]:
    """Return whether a rank sends in a collective, and whether it receives."""
    is_between = core.local is not None
    is_root = root == (ROOT if is_between else core.me)
    sent, received = row.sent, row.received
    if is_between and root == PROC_NULL:
        return False, False
    if sent is not None and sent is received:
        return is_root, not is_root
    if sent is not None and sent.is_of_root:
        return is_root, not (is_root and is_between)
    if received is not None and received.is_of_root:
        return not (is_root and is_between), is_root
    return True, row.name != "Exscan" or core.me > 0


def receives(core: object, row: Collective, root: object) -> bool:
    """Return True if a rank receives in a collective."""
    return _roles(core, row, root)[1]


def significant(core: Any, row: Collective, root: object, given: dict[str, Any]) -> tuple[Any, Any]:
    """Return the buffers that a rank reads and writes in a collective, or None.

    Both are buffer arguments that `buffers` accepts, or parsed buffers.
    """
    reads, writes = _roles(core, row, root)
    if row.sent is None or row.received is None:  # a barrier
        return None, None
    sent, received = given[row.sent.parameter], given[row.received.parameter]
    if row.sent is row.received:
        return (sent, None) if reads else (None, received if writes else None)
    sources: Sequence[int] = range(len(core.remote))
    dests = sources
    if row.is_of_neighbors:
        sources, dests = core.topology.neighbors(core.me)
    is_in_one = is_in_place(sent) or (row.sent.form == "part" and sent is received)
    if is_in_one and not writes:  # exclusive scan
        sent = received
    elif is_in_one or not reads:
        sent = None
    elif row.sent.blocks is not None:
        sent = _blocks(sent, row.sent.blocks, dests, writable=False)
    if not writes:
        received = None
    elif row.received.blocks is not None:
        received = _blocks(received, row.received.blocks, sources, writable=True)
    elif is_in_one and row.reduces and row.sent.blocks is not None:
        received = _blocks(received, row.sent.blocks, sources, writable=True)
    return sent, received


def _blocks(spec: object, form: str, peers: Sequence[int], *, writable: bool) -> object:
    """Return the blocks of a buffer with one block per rank, without those of missing ranks."""
    if spec is None or is_in_place(spec) or not peers:
        return None
    all_exist = min(peers) >= 0
    if not form and all_exist and not isinstance(spec, list | tuple):
        return spec  # hot path: the whole buffer
    try:
        parsed = PARSERS[form](spec, writable=writable, blocks=len(peers))
    except Exception:  # the call itself reports the error
        return None
    if not isinstance(parsed, BlockBuffer):
        if all_exist:
            return parsed.of_count(parsed.count * len(peers))
        step = parsed.count * parsed.datatype.extent
        offsets = [parsed.offset + i * step for i in range(len(peers))]
        parsed = parsed.spread(offsets)
    if not all_exist:
        parsed.counts = [count if peer >= 0 else 0 for count, peer in zip(parsed.counts, peers, strict=True)]
    return parsed


def check_blocks(monitor: Monitor, call: MpiCall, received: object) -> None:
    """Find a byte that a collective would write more than once."""
    if isinstance(received, BlockBuffer):
        arguments.once(monitor, call, buffers.pieces_of_blocks(received))


def guards(monitor: Monitor, call: MpiCall, sent: object, received: object) -> tuple[buffers.Used | None, ...]:
    """Return the guards of the buffers of a nonblocking collective; see `significant`."""
    return buffers.guard_send_buffer(monitor, call, sent), buffers.guard_receive_buffer(monitor, call, received)


def check_buffers(
    monitor: Monitor, call: MpiCall, core: object, row: Collective, root: object, given: dict[str, Any]
) -> After | None:
    """Find incorrect buffers of a blocking collective, and the requests that use them."""
    is_in_use = bool(call.rank.buffers or call.rank.exposed)
    if row.is_of_objects:
        if is_in_use and row.sent is not None and _roles(core, COLLECTIVES[row.name.capitalize()], root)[0]:
            buffers.overlapping_object(monitor, call, given[row.sent.parameter])
        return None
    sent, received = significant(core, row, root, given)
    check_blocks(monitor, call, received)
    if not is_in_use:
        return None
    buffers.overlapping(monitor, call, sent, reads=True)
    return buffers.overlapping(monitor, call, received)
