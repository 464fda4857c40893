"""Frames between two processes of this host, over a socket."""

from __future__ import annotations

import _socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from pickle import dumps, loads  # the originals: a program may replace them
from typing import Any, Final

_LENGTHS: Final = struct.Struct("<QQ")
_frame = memoryview(bytearray(1 << 16))  # receive buffer of every frame; few frames are longer
_head = _frame[_LENGTHS.size :]
_SMALL: Final = 1 << 15  # bytes: smaller buffers are pickled with the object; one more copy, but fewer system calls
_PIECES: Final = 512  # the maximum number of buffers per system call


class Closed(Exception):
    """The error raised when this end or the other end of a socket is closed."""


class FrameSocket:
    """One end of a socket. A frame is an object and a list of buffers.

    If `end` has a timeout, `waiting` is called each time it expires while a frame is sent or received.
    """

    def __init__(self, end: _socket.socket, waiting: Callable[[], None] | None = None) -> None:
        self._end = end
        self._waiting = waiting

    def close(self) -> None:
        """Close this end."""
        self._end.close()

    def shut_down(self) -> None:
        """Shut the socket down, so that a pending `receive` raises `Closed`."""
        with suppress(OSError):
            self._end.shutdown(_socket.SHUT_RDWR)

    def send(self, what: object, buffers: Sequence[Any] = ()) -> None:
        """Send a frame."""
        rest = sum(map(len, buffers)) if buffers else 0
        if rest > _SMALL:
            head = dumps((what, [len(buffer) for buffer in buffers]), -1)
            self._send_all([_LENGTHS.pack(len(head), rest) + head, *buffers])
        else:
            head = dumps((what, buffers), -1)
            self._send_all([_LENGTHS.pack(len(head), 0) + head])

    def _send_all(self, left: list[Any]) -> None:
        try:
            while left:
                try:
                    sent = self._end.sendmsg(left[:_PIECES])
                except TimeoutError:
                    if self._waiting is not None:
                        self._waiting()
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

    def receive(self) -> tuple[Any, Sequence[Any]]:
        """Receive and return the next frame. At most one is in flight: its sender waits for a reply."""
        got = self._into(_frame, 0, _LENGTHS.size)
        head, rest = _LENGTHS.unpack_from(_frame)
        at = _LENGTHS.size + head
        # Hot path: one system call nearly always returns the whole frame.
        if got == at and not rest:
            content: tuple[Any, Sequence[Any]] = loads(_head)  # pickled data mark their own end
            return content
        frame = memoryview(bytearray(at + rest))
        frame[:got] = _frame[:got]
        self._into(frame, got, len(frame))
        what, buffers = loads(frame[_LENGTHS.size : at])
        if rest:
            ends = list(accumulate(buffers, initial=at))
            pieces = [frame[start:end] for start, end in pairwise(ends)]
            buffers = [piece if len(piece) > _SMALL else bytes(piece) for piece in pieces]
        return what, buffers

    def _into(self, frame: memoryview, got: int, needed: int) -> int:
        """Read until the buffer holds at least `needed` bytes; return how many it holds."""
        while got < needed:
            try:
                more = self._end.recv_into(frame[got:] if got else frame)
            except TimeoutError:
                if self._waiting is not None:
                    self._waiting()
                continue
            except OSError:
                more = 0
            if not more:
                raise Closed
            got += more
        return got
