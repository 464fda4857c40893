"""The calls of a traced run: each outermost MPI call of a program becomes a span of its rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.mpi import errors

from .watch import watch

if TYPE_CHECKING:
    from xsim_py.process.fiber import Fiber
    from xsim_py.process.patches import Patches
    from xsim_py.trace import Recorder

__all__ = ["install_spans"]

_LOCAL = ("Get_", "Set_", "Is_")
_TELLING = frozenset({"Get_failed", "Is_revoked"})


def install_spans(patches: Patches) -> None:
    """Record the calls of every rank in its shard's trace.

    Questions that a rank answers by itself in no time (``Get_rank``) are left out: they would hide the others.
    """
    watch(patches, enter=_enter, leave=_leave)


def _recorder(fiber: Fiber) -> Recorder:
    recorder: Recorder = fiber.rank.shard.fabric.trace
    return recorder


def _enter(number: int, name: str, fiber: Fiber) -> None:
    _recorder(fiber).begin(number, name, fiber.clock_ps)


def _leave(number: int, name: str, fiber: Fiber, error: BaseException | None) -> None:
    local = error is None and name.startswith(_LOCAL) and name not in _TELLING
    _recorder(fiber).end(number, fiber.clock_ps, _described(error), if_it_took_time=local)


def _described(error: BaseException | None) -> str:
    """What a call raised, in a word."""
    if error is None:
        return ""
    said = ""
    if isinstance(error, errors.Exception):
        said = errors.error_string(error.Get_error_class()).partition(":")[0].removeprefix("MPI_")
    return said or type(error).__name__
