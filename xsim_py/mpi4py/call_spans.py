"""Spans of a traced run: each outermost MPI call of a program is one span of its rank.

A rank has one line in the timeline. If several of its threads are in calls at the same time, only the one that began
first is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.mpi import errors
from xsim_py.mpi.transport.call_sites import line_of

from .door import Call, Handlers, Method, Tool, is_mpi_call

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.trace import Recorder

__all__ = ["Spans"]

_LOCAL = ("Get_", "Set_", "Is_")
_RECORDED_LOCAL = frozenset({"Get_failed", "Is_revoked"})


class Spans(Tool):
    """Records the calls of every rank in its shard's trace.

    Local queries without duration, such as ``Get_rank``, are omitted: they would hide other calls.
    """

    def handlers(self, method: Method) -> Handlers | None:
        """Return what to do about the calls of a method."""
        return Handlers(_begin, _returned, _end) if is_mpi_call(method) else None


class _Drawn:
    """The call of a rank being drawn: its thread, and the end of the previous one."""

    __slots__ = ("call", "until_ps")

    def __init__(self) -> None:
        self.call: Call | None = None
        self.until_ps = 0


def _begin(call: Call) -> None:
    rank = call.fiber.rank
    drawn: _Drawn = rank.private("drawn call", _Drawn)
    if drawn.call is None and call.outer is None:
        drawn.call = call
        drawn.until_ps = max(call.fiber.clock_ps, drawn.until_ps)  # each thread has a separate clock
        file, line = line_of((call.code, call.at))
        _recorder(call.fiber).begin(rank.number, call.name, drawn.until_ps, f"{file}:{line}")


def _returned(call: Call, result: object) -> None:
    _end(call, None)


def _end(call: Call, error: BaseException | None) -> None:
    fiber = call.fiber
    drawn: _Drawn = fiber.rank.private("drawn call", _Drawn)
    if drawn.call is not call:
        return
    drawn.call = None
    drawn.until_ps = max(fiber.clock_ps, drawn.until_ps)
    local = error is None and call.name.startswith(_LOCAL) and call.name not in _RECORDED_LOCAL
    _recorder(fiber).end(fiber.rank.number, drawn.until_ps, _described(error), skip_if_instant=local)


def _recorder(fiber: Fiber) -> Recorder:
    recorder: Recorder = fiber.rank.shard.fabric.trace
    return recorder


def _described(error: BaseException | None) -> str:
    """Return the error class or type of an exception; empty without one."""
    if error is None:
        return ""
    error_class = ""
    if isinstance(error, errors.Exception):
        error_class = errors.error_string(error.Get_error_class()).partition(":")[0].removeprefix("MPI_")
    return error_class or type(error).__name__
