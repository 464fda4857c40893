"""A core shared by several ranks of a node: those that compute get equal parts of it (processor sharing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fiber import Fiber, Parked

if TYPE_CHECKING:
    from .rank import Rank


class Computing(Parked):
    """The reason of a fiber that computes on a shared core."""

    __slots__ = ()

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return "computing"


_COMPUTING = Computing()


class SharedCore:
    """A core whose k busy fibers progress at rate 1/k each; ranks that wait in MPI or sleep do not use it."""

    __slots__ = ("_left_ps", "_since_ps", "_turn")

    def __init__(self) -> None:
        self._left_ps: dict[Fiber, int] = {}
        self._since_ps = 0  # the time for which `_left_ps` holds
        self._turn = 0  # only the last posted event counts

    def compute(self, fiber: Fiber, duration_ps: int) -> None:
        """Make a fiber compute for a duration that applies if it has the core alone; it resumes when done."""
        fiber.sync()  # others may start or stop using the core before the fiber's clock
        if duration_ps <= 0:
            return
        self._serve(fiber.clock_ps)
        self._left_ps[fiber] = duration_ps
        self._await(fiber.rank)
        fiber.park(_COMPUTING)

    def leave(self, rank: Rank, now_ps: int) -> dict[Fiber, int]:
        """Remove a failed rank from the core; return its fibers' remaining work, in picoseconds."""
        if all(fiber.rank is not rank for fiber in self._left_ps):
            return {}
        self._serve(now_ps)
        gone = {fiber: left_ps for fiber, left_ps in self._left_ps.items() if fiber.rank is rank}
        for fiber in gone:
            del self._left_ps[fiber]
        if self._left_ps:
            self._await(next(iter(self._left_ps)).rank)
        return gone

    def pause(self, rank: Rank, now_ps: int, until_ps: int) -> None:
        """Remove a hanging rank from the core until it resumes."""
        if gone := self.leave(rank, now_ps):
            rank.key += 1
            rank.shard.kernel.post(until_ps, rank.key, self._requeue, (rank, gone))

    def _requeue(self, entry: tuple[Rank, dict[Fiber, int]]) -> None:
        rank, gone = entry
        if rank.exit_status is None:  # else it has failed meanwhile
            self._serve(rank.shard.kernel.now_ps)
            self._left_ps |= gone
            self._await(rank)

    def _serve(self, now_ps: int) -> None:
        """Account for the progress of all fibers up to now."""
        if self._left_ps:
            done_ps, rest_ps = divmod(now_ps - self._since_ps, len(self._left_ps))
            for fiber in self._left_ps:
                self._left_ps[fiber] -= done_ps
            now_ps -= rest_ps  # less than a picosecond per fiber
        self._since_ps = now_ps

    def _await(self, rank: Rank) -> None:
        """Resume the fiber that finishes next, unless fibers join or leave before."""
        self._turn += 1
        rank.key += 1
        end_ps = self._since_ps + min(self._left_ps.values()) * len(self._left_ps)
        rank.shard.kernel.post(end_ps, rank.key, self._finish, (self._turn, rank, end_ps))

    def _finish(self, entry: tuple[int, Rank, int]) -> None:
        turn, rank, now_ps = entry
        if turn != self._turn:
            return
        self._serve(now_ps)
        done = [fiber for fiber, left_ps in self._left_ps.items() if left_ps == 0]
        for fiber in done:
            del self._left_ps[fiber]
        if self._left_ps:
            self._await(rank)
        with rank.shard.in_series():
            for fiber in done:
                fiber.clock_ps = now_ps
                fiber.resume()
