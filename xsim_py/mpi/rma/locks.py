"""The lock of one rank's memory: its holders, and the waiting ranks in request order.

Requests are granted first come, first served: a shared request does not overtake a waiting exclusive one, to prevent
starvation.
"""

from __future__ import annotations

from collections import deque

from xsim_py.mpi.constants import LOCK_SHARED


class LockQueue:
    """A queue that grants shared and exclusive locks."""

    __slots__ = ("_waiting", "holders")

    def __init__(self) -> None:
        self.holders: dict[int, int] = {}  # the current holders, and the modes in which they hold the lock
        self._waiting: deque[tuple[int, int]] = deque()

    def request(self, who: int, mode: int) -> bool:
        """Request the lock; return True if it is granted at once.

        Otherwise a `release` will grant it.
        """
        if not self._waiting and self._is_free(mode):
            self.holders[who] = mode
            return True
        self._waiting.append((who, mode))
        return False

    def release(self, who: int) -> list[int]:
        """Release the lock; return the waiting ranks that hold it now."""
        self.holders.pop(who, None)
        granted = []
        while self._waiting and self._is_free(self._waiting[0][1]):
            other, mode = self._waiting.popleft()
            self.holders[other] = mode
            granted.append(other)
        return granted

    def _is_free(self, mode: int) -> bool:
        if mode == LOCK_SHARED:
            return not self.holders or next(iter(self.holders.values())) == LOCK_SHARED
        return not self.holders
