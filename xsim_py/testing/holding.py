"""Waits of ranks, in virtual time, for the outcomes of other ranks in a test; not for MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xsim_py.process.ranks import current
from xsim_py.units import PS_PER_S

PATIENCE_PS = 100 * PS_PER_S
_FIRST_NAP_PS = PS_PER_S // 1_000_000


class Holding:
    """The ranks of a job that wait for outcomes.

    Parameters
    ----------
    besides : object
        Events with this argument do not belong to the program.
    """

    def __init__(self, besides: Any) -> None:
        self._none_of_theirs: set[Any] = {besides}

    def until(self, there: Callable[[], bool]) -> bool:
        """Make the running rank wait for a condition; return False if it cannot occur in time."""
        fiber, nap_ps = current.running(), _FIRST_NAP_PS
        end_ps = fiber.clock_ps + PATIENCE_PS
        self._none_of_theirs.add(fiber)
        try:
            while not there():
                if self._nothing_happens(fiber) or fiber.clock_ps > end_ps:
                    return False
                fiber.sleep(nap_ps)
                nap_ps *= 2
        finally:
            self._none_of_theirs.discard(fiber)
        return True

    def _nothing_happens(self, fiber: Any) -> bool:
        """Return True if no shard has pending events, except for the polls of waiting ranks."""
        return not any(
            entry[2] not in self._none_of_theirs
            for kernel in fiber.rank.shard.control.kernels
            for entry in kernel.pending()
        )
