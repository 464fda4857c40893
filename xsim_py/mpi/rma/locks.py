"""The lock of one rank's memory: who has it, and who waits for it, in the order in which they asked.

Requests are granted first come, first served: a shared one does not overtake an exclusive one that waits, or that one
might wait for ever.
"""

from __future__ import annotations

from collections import deque

from xsim_py.mpi.constants import LOCK_SHARED


class LockQueue:
    """Grants shared and exclusive locks.

    Attributes
    ----------
    holders : dict of int to int
        How those hold it who do.
    """

    __slots__ = ("_waiting", "holders")

    def __init__(self) -> None:
        self.holders: dict[int, int] = {}
        self._waiting: deque[tuple[int, int]] = deque()

    def request(self, who: int, mode: int) -> bool:
        """Ask for the lock; whether it is granted at once. If not, a `release` will tell."""
        if not self._waiting and self._is_free(mode):
            self.holders[who] = mode
            return True
        self._waiting.append((who, mode))
        return False

    def release(self, who: int) -> list[int]:
        """Give the lock back; returns who has it now that had to wait."""
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
