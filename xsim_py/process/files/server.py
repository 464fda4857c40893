"""A server of files: it decides when each request of the ranks is served, and how it is answered.

Requests are served one at a time, in the order in which they come. Bytes take the server's time; the latency passes for
the one who waits, and meanwhile the server goes on with the next:

    answer at  max(request, server free) + bytes / bandwidth + latency

So k ranks that write b bytes each at the same time hear after ``latency + k b / bandwidth`` at the latest. What a write
brings is in the file when its last byte has come. A rank that dies before that leaves the bytes that had come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from xsim_py.units import round_half_up

from .overlay import Overlay


class StorageRequest(NamedTuple):
    """A method of the overlay that a rank asks for, with its arguments.

    Attributes
    ----------
    rank : int
        Who asks.
    key : int
        The event key that it has given to this; all events that follow from it have the same.
    kind : str
        The method's name.
    arguments : tuple
        Its arguments.
    """

    rank: int
    key: int
    kind: str
    arguments: tuple[Any, ...]


class StorageAnswer(NamedTuple):
    """The value that the method returned, or the error that it raised; and how many bytes were moved."""

    value: Any
    error: OSError | None
    size_bytes: int


_UNANSWERED = ("close",)
_WRITING = ("write", "scatter")


class Server:
    """One server and its tree of files.

    Parameters
    ----------
    overlay : Overlay
        The files.
    latency_ps : int
        What each request takes besides its bytes.
    ps_per_byte : Fraction
        What each byte takes; 0 for nothing.
    later : callable
        ``later(time_ps, request)`` has `transferred` called at that time.
    reply : callable
        ``reply(time_ps, request, answer)`` lets the rank have its answer at that time.
    """

    def __init__(
        self,
        overlay: Overlay,
        *,
        latency_ps: int,
        ps_per_byte: Fraction,
        later: Callable[[int, StorageRequest], None],
        reply: Callable[[int, StorageRequest, StorageAnswer], None],
    ) -> None:
        self.overlay = overlay
        self._latency_ps = latency_ps
        self._ps_per_byte = ps_per_byte
        self._later = later
        self._reply = reply
        self._queue: deque[StorageRequest] = deque()
        self._serving: StorageRequest | None = None
        self._began_ps = 0

    def submit(self, now_ps: int, request: StorageRequest) -> None:
        """Take a request. The caller calls this, `transferred` and `died` in the order of time."""
        self._queue.append(request)
        self._serve(now_ps)

    def transferred(self, now_ps: int, request: StorageRequest) -> None:
        """End a request, whose last byte has come if it was not cut short, and serve the next one."""
        if self._serving is request:
            self._serving = None
            if request.kind in _WRITING:
                self._carry_out(request, now_ps)
            self._serve(now_ps)

    def died(self, now_ps: int, rank: int) -> None:
        """Drop what a dead rank had still to ask; what it was writing stays as it is."""
        self._queue = deque(request for request in self._queue if request.rank != rank)
        if self._serving is not None and self._serving.rank == rank:
            self._cut_short(now_ps)
        self.overlay.died(rank)
        self._serve(now_ps)

    def stop(self, now_ps: int) -> None:
        """End everything: all ranks are dead, or have ended."""
        self._queue.clear()
        if self._serving is not None:
            self._cut_short(now_ps)
        self.overlay.died(None)

    def _serve(self, now_ps: int) -> None:
        while self._queue and self._serving is None:
            request = self._queue.popleft()
            answer = self._answer(request, now_ps)
            took = self._ps_per_byte * answer.size_bytes
            busy_ps = round_half_up(took.numerator, took.denominator)
            if busy_ps:
                self._serving, self._began_ps = request, now_ps
                self._later(now_ps + busy_ps, request)
            elif request.kind in _WRITING:
                self._carry_out(request, now_ps)
            if request.kind not in _UNANSWERED:
                self._reply(now_ps + busy_ps + self._latency_ps, request, answer)

    def _answer(self, request: StorageRequest, now_ps: int) -> StorageAnswer:
        """Make a request that changes no bytes at once; of a write, which is made at its end, say how it will end."""
        if request.kind == "write":
            number, start, data = request.arguments
            end = len(data) + (self.overlay.size(number) if start is None else start)
            return StorageAnswer(end, None, len(data))
        if request.kind == "scatter":  # the storage takes the pieces with what is between them
            _, starts, _, _, end = request.arguments
            return StorageAnswer(None, None, end - int(starts[0]))
        try:
            value = self._carry_out(request, now_ps)
        except OSError as error:
            return StorageAnswer(None, error, 0)
        return StorageAnswer(value, None, len(value) if request.kind == "read" else 0)

    def _carry_out(self, request: StorageRequest, now_ps: int) -> Any:
        self.overlay.now_ps = now_ps
        return getattr(self.overlay, request.kind)(*request.arguments)

    def _cut_short(self, now_ps: int) -> None:
        """End what is being served here and now, with the bytes that have come so far."""
        request = self._serving
        assert request is not None
        self._serving = None
        if request.kind in _WRITING:
            # A fraction divided, so that no float rounds a byte up that had not come.
            come = int((now_ps - self._began_ps) / self._ps_per_byte)
            if request.kind == "write":
                number, start, data = request.arguments
                cut: tuple[Any, ...] = (number, start, data[:come])
            else:
                number, starts, sizes, data, _ = request.arguments
                cut = (number, starts, sizes, data, int(starts[0]) + come)
            self._carry_out(request._replace(arguments=cut), now_ps)
