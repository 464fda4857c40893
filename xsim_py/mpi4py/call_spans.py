"""Spans of a traced run: each outermost MPI call of a program is one span of its rank.

A rank has one line in the timeline. If several of its threads are in calls at the same time, only the one that began
first is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.mpi import errors
from xsim_py.mpi.transport.call_sites import here, line_of

from .call_hooks import watch

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.patches import Patches
    from xsim_py.trace import Recorder

__all__ = ["install_spans"]

_LOCAL = ("Get_", "Set_", "Is_")
_RECORDED_LOCAL = frozenset({"Get_failed", "Is_revoked"})


def install_spans(patches: Patches) -> None:
    """Record the calls of every rank in its shard's trace.

    Local queries without duration, such as ``Get_rank``, are omitted: they would hide other calls.
    """
    watch(patches, enter=_enter, leave=_leave)


def _recorder(fiber: Fiber) -> Recorder:
    recorder: Recorder = fiber.rank.shard.fabric.trace
    return recorder


class _Drawn:
    """The call of a rank being drawn: its thread, and the end of the previous one."""

    __slots__ = ("fiber", "until_ps")

    def __init__(self) -> None:
        self.fiber: Fiber | None = None
        self.until_ps = 0


def _enter(number: int, name: str, fiber: Fiber) -> None:
    drawn: _Drawn = fiber.rank.private("drawn call", _Drawn)
    if drawn.fiber is None:
        drawn.fiber = fiber
        drawn.until_ps = max(fiber.clock_ps, drawn.until_ps)  # each thread has a separate clock
        file, line = line_of(here())
        _recorder(fiber).begin(number, name, drawn.until_ps, f"{file}:{line}")


def _leave(number: int, name: str, fiber: Fiber, error: BaseException | None) -> None:
    drawn: _Drawn = fiber.rank.private("drawn call", _Drawn)
    if drawn.fiber is not fiber:
        return
    drawn.fiber = None
    drawn.until_ps = max(fiber.clock_ps, drawn.until_ps)
    local = error is None and name.startswith(_LOCAL) and name not in _RECORDED_LOCAL
    _recorder(fiber).end(number, drawn.until_ps, _described(error), skip_if_instant=local)


def _described(error: BaseException | None) -> str:
    """Return the error class or type of an exception; empty without one."""
    if error is None:
        return ""
    error_class = ""
    if isinstance(error, errors.Exception):
        error_class = errors.error_string(error.Get_error_class()).partition(":")[0].removeprefix("MPI_")
    return error_class or type(error).__name__
