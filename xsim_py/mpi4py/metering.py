"""The meter of computation, as a tool: a rank's code between two MPI calls is charged for at the later one."""

from __future__ import annotations

from xsim_py.process.ranks import meter

from .door import COMMUNICATING, Call, Handlers, Method, Tool

__all__ = ["Metering"]


class Metering(Tool):
    """Charges for the computation of ranks."""

    def handlers(self, method: Method) -> Handlers | None:
        """Return what to do about the calls of a method."""
        return Handlers(_before, _after, _after) if method.owner in COMMUNICATING else None


def _before(call: Call) -> None:
    assert call.frame is not None
    meter.enter(call.fiber, call, call.frame)


def _after(call: Call, outcome: object) -> None:
    meter.leave(call.fiber, call)
