"""Waits of ranks, in virtual time, for the outcomes of other ranks in a test; not for MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xsim_py.process.ranks import current
from xsim_py.units import PS_PER_S

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber

MAX_WAIT_PS = 100 * PS_PER_S
_FIRST_INTERVAL_PS = PS_PER_S // 1_000_000


class RankWaits:
    """The ranks of a job that wait for outcomes.

    Events with `own_argument` as their argument do not belong to the program.
    """

    def __init__(self, own_argument: object) -> None:
        self._ignored: set[Any] = {own_argument}

    def until(self, condition: Callable[[], bool]) -> bool:
        """Make the running rank wait for a condition; return False if it cannot occur in time."""
        fiber, interval_ps = current.running(), _FIRST_INTERVAL_PS
        end_ps = fiber.clock_ps + MAX_WAIT_PS
        self._ignored.add(fiber)
        try:
            while not condition():
                if self._is_idle(fiber) or fiber.clock_ps > end_ps:
                    return False
                fiber.sleep(interval_ps)
                interval_ps *= 2
        finally:
            self._ignored.discard(fiber)
        return True

    def _is_idle(self, fiber: Fiber) -> bool:
        """Return True if no shard has pending events, except for the polls of waiting ranks."""
        return not any(
            entry[2] not in self._ignored for kernel in fiber.rank.shard.control.kernels for entry in kernel.pending()
        )
