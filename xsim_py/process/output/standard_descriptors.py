"""Descriptors 0, 1 and 2 of virtual processes: redirecting or closing them affects one rank only.

They start as the rank's own streams: data written to descriptor 1 appear among the rank's output, in virtual-time
order. The first `os.dup2` or `os.close` on one of them gives the rank a private entry (`private_state`): the real
descriptor is replaced whenever that rank runs. So children and compiled code see it, too, and all functions of the
operating system are the real ones; a rank that redirects nothing costs nothing.

Copies of the streams under other descriptors, as after ``saved = os.dup(1)``, are recorded for each rank.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from xsim_py.process.ranks import current, private_state

from .simulator_descriptors import high_number

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.patches import Patches
    from xsim_py.process.ranks.rank import Rank

    from .collector import RankStream

STANDARD = (0, 1, 2)
_CLOSED = -1
_TABLE = "descriptors"

virtual_descriptors: set[int] = set(STANDARD)
"""The descriptors that some rank uses for something unknown to the operating system: a stream or a pipe."""

streams: list[RankStream] = []
"""The streams on which ranks print, which also receive writes to descriptors 1 and 2."""

_flush_compiled: Callable[[None], object] | None = None
_real_close, _real_dup2 = os.close, os.dup2


def _table(rank: Rank) -> dict[int, int]:
    """Return the mapping from a rank's descriptors to its original streams."""
    table: dict[int, int] = rank.private(_TABLE, lambda: {number: number for number in STANDARD})
    return table


def stream_of(rank: Rank, number: int) -> int | None:
    """Return the original stream that a rank's descriptor refers to; None for anything else."""
    table = (rank.extra or {}).get(_TABLE)
    if table is None:
        return number if number in STANDARD else None
    found: int | None = table.get(number)
    return found


def is_redirected(rank: Rank, number: int) -> bool:
    """Return True if a rank has redirected or closed a descriptor that was one of its streams."""
    return rank.extra is not None and _TABLE in rank.extra and rank.extra[_TABLE].get(number) != number


def note_copy(fiber: Fiber, number: int, copy: int) -> None:
    """Record that a rank has made `copy` a duplicate of `number`, which may be one of its streams."""
    rank = fiber.rank
    stream = stream_of(rank, number)
    if stream is None and stream_of(rank, copy) is None and copy not in STANDARD:
        return
    table = _table(rank)
    if stream is None:
        table.pop(copy, None)
    else:
        table[copy] = stream
        virtual_descriptors.add(copy)
    if copy in STANDARD:
        if stream == copy:
            _restore_stream(rank, copy)
        else:
            _redirect(rank, copy)


def note_closed(fiber: Fiber, number: int) -> None:
    """Record that a rank has closed a descriptor."""
    rank = fiber.rank
    if number in STANDARD:
        _table(rank).pop(number, None)
        _forget_copy(rank, number)
        private_state.change(rank, _name(number), _CLOSED, _CLOSED)
    elif stream_of(rank, number) is not None:
        del _table(rank)[number]
        virtual_descriptors.discard(number)


def keep_shared(fiber: Fiber, number: int) -> None:
    """Save the shared file of a descriptor that a rank is about to redirect or close for itself."""
    if number in STANDARD and (fiber.rank.private_state is None or _name(number) not in fiber.rank.private_state):
        _flush()
        shared = _copy_of(number)
        private_state.change(fiber.rank, _name(number), shared, _CLOSED)
        if private_state.shared(_name(number)) != shared and shared != _CLOSED:
            _real_close(shared)  # another rank has done this before


def _redirect(rank: Rank, number: int) -> None:
    """Save the new file of a rank's standard descriptor."""
    _forget_copy(rank, number)
    private_state.change(rank, _name(number), _CLOSED, _copy_of(number))


def _restore_stream(rank: Rank, number: int) -> None:
    """Restore a rank's own stream after a redirection."""
    if rank.private_state is not None and _name(number) in rank.private_state:
        _flush()
        _forget_copy(rank, number)
        del rank.private_state[_name(number)]
        _put(number, private_state.shared(_name(number)))


def _copy_of(number: int) -> int:
    try:
        return high_number(number)
    except OSError:
        return _CLOSED


def _forget_copy(rank: Rank, number: int) -> None:
    copy = (rank.private_state or {}).get(_name(number), _CLOSED)
    if copy != _CLOSED:
        _real_close(copy)


def _name(number: int) -> str:
    return f"descriptor {number}"


def _flush() -> None:
    """Flush output of compiled code to the descriptors of the rank that printed it."""
    global _flush_compiled
    if _flush_compiled is None:
        _flush_compiled = ctypes.CDLL(None).fflush
    _flush_compiled(None)


def _put(number: int, copy: int) -> None:
    """Make one of the three real descriptors refer to a rank's file."""
    _flush()
    if copy != _CLOSED:
        _real_dup2(copy, number)
    else:
        with suppress(OSError):
            _real_close(number)


def _keep(number: int, copy: int) -> int:
    """Keep the file that a rank has opened after closing a descriptor, whose number it has got."""
    return _copy_of(number) if copy == _CLOSED else copy


def _drop(copy: int) -> None:
    """Close a kept file."""
    if copy != _CLOSED:
        _real_close(copy)


def _forked() -> None:
    """Make a forked child print to the descriptors of the rank that forked it."""
    rank = current.installed
    if rank is not None and streams:
        for stream, number in zip(streams, (1, 2), strict=True):
            if is_redirected(rank, number):
                stream.follow(number)


os.register_at_fork(after_in_child=_forked)


def install(patches: Patches, *printed: RankStream) -> None:
    """Keep separate descriptors for ranks for the duration of a run."""
    virtual_descriptors.clear()
    virtual_descriptors.update(STANDARD)
    streams[:] = printed
    patches.at_end(streams.clear)
    for number in STANDARD:
        get, put, keep = (partial(function, number) for function in (_copy_of, _put, _keep))
        private_state.declare(_name(number), private_state.Setting(get, put, keep=keep, drop=_drop))
