"""Sockets between ranks: real sockets of the host, on which a rank waits without blocking the simulator.

A blocking call on a real socket would stop all ranks, including the one that has to reply. So a rank that finds no data
or no room to send is parked; all ranks are notified of each operation on a socket after the delay of a launcher's
signal, and parked ranks check again. Calls happen one at a time (`waits.take_turn`). Traffic over sockets takes no
other virtual time: sockets are not part of the simulated network.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks import current
from xsim_py.process.ranks.patches import Table, Wrapper

from . import waits

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank
    from xsim_py.process.ranks.shard import Shard

_HANDLER = "sockets"
_READING = ("accept", "recv", "recv_into", "recvfrom", "recvfrom_into")
_WRITING = ("send", "sendto")
_TELLING = ("bind", "listen", "connect", "shutdown", "close")


class _OnSocket:
    """A rank that waits in a socket call."""

    __slots__ = ("call",)

    def __init__(self, call: str) -> None:
        self.call = call

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return f"socket.{self.call}: another rank to do its part"


def attach(shard: Shard) -> None:
    """Let ranks of a shard wait for sockets."""
    waiting: list[Fiber] = []
    shard.socket_waiters = waiting

    def recheck(first: Callable[[Shard], None] | None) -> None:
        if first is not None:
            first(shard)
        if shard.number != 0:
            shard.kernel.events -= 1  # one event of the run, however many shards it happens in
        # In the order of ranks: with several shards, the ranks that began to wait first may be elsewhere.
        fibers = sorted(waiting, key=lambda fiber: fiber.rank.number)
        waiting.clear()
        for fiber in fibers:
            if fiber.rank.exit_status is None:
                fiber.clock_ps = max(fiber.clock_ps, shard.kernel.now_ps)
                fiber.resume()

    shard.handlers[_HANDLER] = recheck


def tell(fiber: Fiber, first: Callable[[Shard], None] | None = None) -> None:
    """Notify all ranks of an operation on a socket; `first` is called in each shard before they check."""
    tell_at(fiber.rank, fiber.clock_ps, first)


def tell_at(rank: Rank, time_ps: int, first: Callable[[Shard], None] | None = None) -> None:
    """Notify all ranks of an operation on a socket at a given time; the rank may have ended."""
    rank.key += 1
    rank.shard.post_everywhere(time_ps + rank.shard.abort_delay_ps, rank.key, _HANDLER, first)


def _wait(fiber: Fiber, name: str, ready: Callable[[], Any]) -> None:
    while not any(ready()):
        fiber.rank.shard.socket_waiters.append(fiber)
        fiber.park(_OnSocket(name))
        waits.await_turn(fiber)


def _is_named(end: socket.socket) -> bool:
    """Return True unless both ends belong to one rank: those of `socketpair` have no names."""
    try:
        return end.family != socket.AF_UNIX or bool(end.getsockname() or end.getpeername())
    except OSError:  # closed, or not connected
        return False


def _wrap(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    def call(self: socket.socket, *args: object, **kwargs: object) -> Any:
        fiber = current.here()
        if fiber is None:
            return function(self, *args, **kwargs)
        if name in ("bind", "connect") or _is_named(self):
            waits.take_turn(fiber)
        if self.fileno() >= 0 and self.gettimeout() is None:
            if name in _READING:
                # Polled without waiting: a blocking call would stop the rank that has to send.
                _wait(fiber, name, lambda: _real_select([self], [], [], 0))
            elif name in _WRITING:
                _wait(fiber, name, lambda: _real_select([], [self], [], 0))
        result = function(self, *args, **kwargs)
        tell(fiber)
        return result

    return call


def _send_all(self: socket.socket, data: ReadableBuffer, flags: int = 0) -> None:
    """Send all data as `socket.sendall` does, in pieces for which there is room."""
    if current.here() is None or self.gettimeout() is not None:
        _real_send_all(self, data, flags)
        return
    left = memoryview(data).cast("B")
    while left:
        # C's `send` on a blocking socket would wait for room for everything.
        left = left[self.send(left, flags | socket.MSG_DONTWAIT) :]


_real_select = select.select
_real_send_all = socket.socket.sendall


_WRAPPED = {name: Wrapper(_wrap, name) for name in (*_READING, *_WRITING, *_TELLING)}
PATCHED: Table = (
    ("socket.socket", "virtual: a real socket that waits in virtual time", {**_WRAPPED, "sendall": _send_all}),
)
