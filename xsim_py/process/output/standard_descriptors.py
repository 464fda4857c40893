"""Descriptors 0, 1 and 2 of virtual processes: a rank that redirects or closes them does it for itself only.

They begin as the rank's own streams: what a rank writes to descriptor 1 comes out among what it prints, in the order of
virtual time. The first `os.dup2` or `os.close` on one of them gives the rank an entry of its own (`private_state`): the
real descriptor is another one whenever that rank runs. So children and compiled code find it, too, and all functions of
the operating system are the real ones; who redirects nothing costs nothing.

What stands for one of the streams under another number, as after ``saved = os.dup(1)``, is noted for each rank.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks import current, private_state

from .simulator_descriptors import far_up

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.patches import Patches
    from xsim_py.process.ranks.rank import Rank

    from .collector import RankStream

STANDARD = (0, 1, 2)
_CLOSED = -1
_TABLE = "descriptors"

virtual_descriptors: set[int] = set(STANDARD)
"""The descriptors that any rank has for something else than the operating system knows: a stream, or a pipe."""

streams: list[RankStream] = []
"""The streams on which ranks print, and that take what they write to descriptors 1 and 2."""

_flush_compiled: Any = None
_real_close, _real_dup2 = os.close, os.dup2


def _table(rank: Rank) -> dict[int, int]:
    """Return which descriptors of a rank stand for which of the streams that it began with."""
    table: dict[int, int] = rank.private(_TABLE, lambda: {number: number for number in STANDARD})
    return table


def stream_of(rank: Rank, number: int) -> int | None:
    """Return which of its first streams a rank has under a descriptor; None if that is anything else."""
    table = (rank.extra or {}).get(_TABLE)
    if table is None:
        return number if number in STANDARD else None
    found: int | None = table.get(number)
    return found


def is_redirected(rank: Rank, number: int) -> bool:
    """Return whether a rank has redirected or closed a descriptor that was one of its streams."""
    return rank.extra is not None and _TABLE in rank.extra and rank.extra[_TABLE].get(number) != number


def note_copy(fiber: Fiber, number: int, copy: int) -> None:
    """Note that a rank has made `copy` the same as `number`, which may be one of its streams."""
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
            _take_back(rank, copy)
        else:
            _redirect(rank, copy)


def note_closed(fiber: Fiber, number: int) -> None:
    """Note that a rank has closed a descriptor."""
    rank = fiber.rank
    if number in STANDARD:
        _table(rank).pop(number, None)
        _forget_copy(rank, number)
        private_state.change(rank, _name(number), _CLOSED, _CLOSED)
    elif stream_of(rank, number) is not None:
        del _table(rank)[number]
        virtual_descriptors.discard(number)


def keep_shared(fiber: Fiber, number: int) -> None:
    """Keep what all ranks have under a descriptor, as a rank is about to redirect or to close it for itself."""
    if number in STANDARD and (fiber.rank.private_state is None or _name(number) not in fiber.rank.private_state):
        _flush()
        shared = _copy_of(number)
        private_state.change(fiber.rank, _name(number), shared, _CLOSED)
        if private_state.shared(_name(number)) != shared and shared != _CLOSED:
            _real_close(shared)  # another rank has been here before


def _redirect(rank: Rank, number: int) -> None:
    """Remember what a rank has just put under a standard descriptor."""
    _forget_copy(rank, number)
    private_state.change(rank, _name(number), _CLOSED, _copy_of(number))


def _take_back(rank: Rank, number: int) -> None:
    """Give a rank its own stream back where it had something else."""
    if rank.private_state is not None and _name(number) in rank.private_state:
        _flush()
        _forget_copy(rank, number)
        del rank.private_state[_name(number)]
        _put(number, private_state.shared(_name(number)))


def _copy_of(number: int) -> int:
    try:
        return far_up(number)
    except OSError:
        return _CLOSED


def _forget_copy(rank: Rank, number: int) -> None:
    copy = (rank.private_state or {}).get(_name(number), _CLOSED)
    if copy != _CLOSED:
        _real_close(copy)


def _name(number: int) -> str:
    return f"descriptor {number}"


def _flush() -> None:
    """Have what compiled code has printed so far go where its rank had it go."""
    global _flush_compiled
    if _flush_compiled is None:
        _flush_compiled = ctypes.CDLL(None).fflush
    _flush_compiled(None)


def _put(number: int, copy: int) -> None:
    """Make one of the three real descriptors what a rank has there."""
    _flush()
    if copy != _CLOSED:
        _real_dup2(copy, number)
    else:
        with suppress(OSError):
            _real_close(number)


def _keep(number: int, copy: int) -> int:
    """Keep the file that a rank has opened where it had closed a descriptor: it has got that number."""
    return _copy_of(number) if copy == _CLOSED else copy


def _drop(copy: int) -> None:
    """Close what was kept."""
    if copy != _CLOSED:
        _real_close(copy)


def _forked() -> None:
    """Have a forked child print where the rank that has forked it has its descriptors."""
    rank = current.installed
    if rank is not None and streams:
        for stream, number in zip(streams, (1, 2), strict=True):
            if is_redirected(rank, number):
                stream.follow(number)


os.register_at_fork(after_in_child=_forked)


def install(patches: Patches, *printed: RankStream) -> None:
    """Keep descriptors for ranks for the duration of a run."""
    virtual_descriptors.clear()
    virtual_descriptors.update(STANDARD)
    streams[:] = printed
    patches.at_end(streams.clear)
    for number in STANDARD:
        get, put, keep = (partial(function, number) for function in (_copy_of, _put, _keep))
        private_state.declare(_name(number), private_state.Setting(get, put, keep=keep, drop=_drop))
