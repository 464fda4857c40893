"""Frames between two processes of this machine, by a socket."""

from __future__ import annotations

import _socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from pickle import dumps, loads  # as they are before a program puts others there
from typing import Any, Final

__all__ = ["Closed", "Link"]

_LENGTHS: Final = struct.Struct("<QQ")
_frame = memoryview(bytearray(1 << 16))  # what is heard comes here first; few frames are longer
_PIECES: Final = 512  # buffers that one call of the system takes


class Closed(Exception):
    """The other end of a socket has gone, or this one."""


class Link:
    """One end of a socket: a frame is an object and some buffers."""

    def __init__(self, end: _socket.socket) -> None:
        self._end = end

    def close(self) -> None:
        """Close this end."""
        self._end.close()

    def hang_up(self) -> None:
        """Have whoever waits for a frame here see that there will be none."""
        with suppress(OSError):
            self._end.shutdown(_socket.SHUT_RDWR)

    def send(self, what: Any, buffers: Sequence[Any] = (), waiting: Callable[[], None] | None = None) -> None:
        """Send a frame; `waiting` is called now and then while the other end takes nothing."""
        sizes = [len(buffer) for buffer in buffers]
        head = dumps((what, sizes), -1)
        left = [_LENGTHS.pack(len(head), sum(sizes)) + head, *buffers]
        try:
            while left:
                try:
                    sent = self._end.sendmsg(left[:_PIECES])
                except TimeoutError:
                    if waiting is not None:
                        waiting()
                    continue
                done = 0
                while done < len(left) and sent >= len(left[done]):
                    sent -= len(left[done])
                    done += 1
                del left[:done]
                if sent:
                    left[0] = memoryview(left[0])[sent:]
        except OSError:
            raise Closed from None

    def hear(self, waiting: Callable[[], None] | None = None) -> tuple[Any, list[Any]]:
        """The next frame; `waiting` is called now and then while nothing comes.

        There is one at a time, for the other end waits for an answer to it.
        """
        frame = _frame
        got = self._into(frame, 0, _LENGTHS.size, waiting)
        head, rest = _LENGTHS.unpack_from(frame)
        end = _LENGTHS.size + head + rest
        if end > len(frame):
            longer = memoryview(bytearray(end))
            longer[:got] = frame[:got]
            frame = longer
        self._into(frame, got, end, waiting)
        at = _LENGTHS.size + head
        what, sizes = loads(frame[_LENGTHS.size : at])
        buffers = []
        for size in sizes:
            buffer = frame[at : at + size]
            buffers.append(bytes(buffer) if frame is _frame else buffer)
            at += size
        return what, buffers

    def _into(self, frame: memoryview, got: int, needed: int, waiting: Callable[[], None] | None) -> int:
        """Take in what comes, at least so much in all; returns how much there is."""
        while got < needed:
            try:
                more = self._end.recv_into(frame[got:])
            except TimeoutError:
                if waiting is not None:
                    waiting()
                continue
            except OSError:
                more = 0
            if not more:
                raise Closed
            got += more
        return got
