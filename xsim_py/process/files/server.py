"""A file server: it determines when each request is served, and its reply.

Requests are served one at a time, in the order of arrival. Bytes occupy the server; the latency passes for the waiting
rank, while the server continues with the next request:

    reply at  max(request, server free) + bytes / bandwidth + latency

So if k ranks each write b bytes at the same time, the last reply comes after ``latency + k b / bandwidth``. The data of
a write are in the file when its last byte has arrived. A rank that fails before leaves the bytes that have arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from xsim_py.units import round_half_up

from .overlay import Overlay


class StorageRequest(NamedTuple):
    """A rank's call of an overlay method, with its arguments."""

    rank: int
    key: int
    """The event key of the request; all resulting events have the same."""
    kind: str
    """The method's name."""
    arguments: tuple[Any, ...]


class StorageAnswer(NamedTuple):
    """The method's return value, or the error that it raised, and the number of bytes transferred."""

    value: object
    error: OSError | None
    size_bytes: int


_UNANSWERED = ("close",)
_WRITING = ("write", "scatter")


class Server:
    """One server and its tree of files."""

    def __init__(
        self,
        overlay: Overlay,
        *,
        latency_ps: int,  # the time of each request in addition to its bytes
        ps_per_byte: Fraction,  # 0 for infinite bandwidth
        later: Callable[[int, StorageRequest], None],  # schedules a call of `transferred` at a time in ps
        reply: Callable[[int, StorageRequest, StorageAnswer], None],  # delivers the reply to the rank at a time in ps
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
        """Queue a request. Calls of this, `transferred` and `died` must be in order of time."""
        self._queue.append(request)
        self._serve(now_ps)

    def transferred(self, now_ps: int, request: StorageRequest) -> None:
        """Finish a request, whose last byte has arrived unless it was cut short, and serve the next one."""
        if self._serving is request:
            self._serving = None
            if request.kind in _WRITING:
                self._carry_out(request, now_ps)
            self._serve(now_ps)

    def died(self, now_ps: int, rank: int) -> None:
        """Drop a failed rank's pending requests; a partial write stays."""
        self._queue = deque(request for request in self._queue if request.rank != rank)
        if self._serving is not None and self._serving.rank == rank:
            self._interrupt_current(now_ps)
        self.overlay.died(rank)
        self._serve(now_ps)

    def stop(self, now_ps: int) -> None:
        """Stop the server: all ranks have ended or failed."""
        self._queue.clear()
        if self._serving is not None:
            self._interrupt_current(now_ps)
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
        """Perform a request that changes no bytes; for a write, performed at its end, predict the reply."""
        if request.kind == "write":
            number, start, data = request.arguments
            end = len(data) + (self.overlay.size(number) if start is None else start)
            return StorageAnswer(end, None, len(data))
        if request.kind == "scatter":  # pieces are transferred together with the gaps between them
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

    def _interrupt_current(self, now_ps: int) -> None:
        """Interrupt the current request, with the bytes that have arrived so far."""
        request = self._serving
        assert request is not None
        self._serving = None
        if request.kind in _WRITING:
            # Division of fractions, so that no float rounding adds a byte that had not arrived.
            come = int((now_ps - self._began_ps) / self._ps_per_byte)
            if request.kind == "write":
                number, start, data = request.arguments
                cut: tuple[Any, ...] = (number, start, data[:come])
            else:
                number, starts, sizes, data, _ = request.arguments
                cut = (number, starts, sizes, data, int(starts[0]) + come)
            self._carry_out(request._replace(arguments=cut), now_ps)
