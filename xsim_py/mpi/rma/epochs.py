"""The epochs of a rank on a window, which determine its legal calls (MPI 4.1, 12.5).

The rules are those on which MPICH and Open MPI agree. Where they differ, the standard decides; where it is silent,
MPICH. A fence opens a tentative epoch, which becomes one with its first operation: until then an epoch of another kind
may begin, as in MPICH.
"""

from __future__ import annotations

from collections.abc import Collection

from xsim_py.mpi import constants as c
from xsim_py.mpi.errors import fail

_NONE, _FENCED, _FENCE, _STARTED, _LOCKED, _LOCKED_ALL = range(6)
_NAMES = (
    "in no epoch",
    "after Win.Fence",
    "between two Win.Fence",
    "after Win.Start",
    "in an epoch of Win.Lock",
    "in an epoch of Win.Lock_all",
)


class Epochs:
    """One rank's epochs on one window."""

    __slots__ = ("_access", "exposed_to", "targets")

    def __init__(self) -> None:
        self._access = _NONE
        # Permitted for operations: after Start its group, after Lock the locked ranks.
        self.targets: Collection[int] = ()
        self.exposed_to: Collection[int] | None = None  # the group of Post; None outside of such an epoch

    def _refuse(self, call: str) -> None:
        fail(c.ERR_RMA_SYNC, f"{call} {_NAMES[self._access]}")

    def _may_begin(self, call: str) -> None:
        if self._access not in (_NONE, _FENCED):
            self._refuse(call)

    @property
    def all_locked(self) -> bool:
        """True in an epoch of Lock_all."""
        return self._access == _LOCKED_ALL

    @property
    def opened(self) -> str:
        """A description of the open epoch; empty if there is none."""
        if self.exposed_to is not None:
            return "exposed by Win.Post"
        return _NAMES[self._access] if self._access >= _FENCE else ""

    def operate(self, target: int, call: str) -> None:
        """Check that an operation on `target` is legal."""
        if self._access == _FENCED:
            self._access = _FENCE
        elif self._access == _NONE:
            self._refuse(call)
        elif self._access in (_STARTED, _LOCKED) and target not in self.targets:
            fail(c.ERR_RMA_SYNC, f"{call} on rank {target}, which this epoch is not about")

    def fence(self, last: bool) -> None:
        """Apply Win.Fence; `last` means that no epoch begins with it."""
        if self._access > _FENCE or self.exposed_to is not None:
            self._refuse("Win.Fence")
        self._access = _NONE if last else _FENCED

    def start(self, targets: Collection[int]) -> None:
        """Apply Win.Start."""
        self._may_begin("Win.Start")
        self._access = _STARTED
        self.targets = targets

    def complete(self) -> Collection[int]:
        """Apply Win.Complete; return the group of Start."""
        if self._access != _STARTED:
            self._refuse("Win.Complete")
        self._access = _NONE
        targets, self.targets = self.targets, ()
        return targets

    def post(self, origins: Collection[int]) -> None:
        """Apply Win.Post."""
        if self.exposed_to is not None:
            fail(c.ERR_RMA_SYNC, "Win.Post while the memory is exposed by Win.Post")
        if self._access == _FENCE:
            self._refuse("Win.Post")
        self.exposed_to = origins

    def wait(self, call: str) -> Collection[int]:
        """Check Win.Wait or Win.Test; return the group of Post, whose epoch lasts until `unexpose`."""
        if self.exposed_to is None:
            fail(c.ERR_RMA_SYNC, f"{call} without Win.Post")
        return self.exposed_to

    def unexpose(self) -> None:
        """End the epoch that Post began."""
        self.exposed_to = None

    def lock(self, target: int) -> None:
        """Apply Win.Lock."""
        if self._access == _LOCKED:
            if target in self.targets:
                fail(c.ERR_RMA_SYNC, f"Win.Lock of rank {target}, which this rank has locked already")
            self.targets = {*self.targets, target}
            return
        self._may_begin("Win.Lock")
        self._access = _LOCKED
        self.targets = {target}

    def unlock(self, target: int) -> None:
        """Apply Win.Unlock."""
        if self._access != _LOCKED or target not in self.targets:
            self._refuse(f"Win.Unlock of rank {target}")
        self.targets = {other for other in self.targets if other != target}
        if not self.targets:
            self._access = _NONE

    def lock_all(self) -> None:
        """Apply Win.Lock_all."""
        self._may_begin("Win.Lock_all")
        self._access = _LOCKED_ALL

    def unlock_all(self) -> None:
        """Apply Win.Unlock_all."""
        if self._access != _LOCKED_ALL:
            self._refuse("Win.Unlock_all")
        self._access = _NONE

    def passive(self, call: str) -> None:
        """Check that a call is inside an epoch of Lock or Lock_all."""
        if self._access not in (_LOCKED, _LOCKED_ALL):
            self._refuse(call)

    def close(self) -> None:
        """Apply Win.Free."""
        self._may_begin("Win.Free")
        if self.exposed_to is not None:
            fail(c.ERR_RMA_SYNC, "Win.Free while the memory is exposed by Win.Post")
