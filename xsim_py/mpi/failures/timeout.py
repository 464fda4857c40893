"""The detector ``timeout``: who waits for a dead process notices that nobody answers.

As in xSim (Naughton, Engelmann et al., PDP 2014, III-A) an operation that waits for a dead process fails at
max(its start, the time of death) + timeout. A collective operation waits for every member in this sense, and a receive
from any source for every member whose failure is not acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.mpi.transport.message import Receive

if TYPE_CHECKING:
    from xsim_py.mpi.transport.protocols import ControlHandler
    from xsim_py.process.rank import Rank

    from .deaths import Death, Deaths

__all__ = ["TimeoutDetector"]


class TimeoutDetector:
    """Ends what waits for the dead, a timeout after it has begun to wait in vain; see `detector.Detector`."""

    def __init__(self, deaths: Deaths, timeout_ps: int) -> None:
        self.timeout_ps = timeout_ps
        self._deaths = deaths
        self._expiry: dict[int, Callable[[Any], None]] = {}  # `_expired` for each of the dead

    def control(self) -> dict[int, ControlHandler]:
        """See `transport.protocols.LibraryPart`."""
        return {}

    def events(self) -> dict[str, Callable[[Any], None]]:
        """See `transport.protocols.LibraryPart`."""
        return {}

    def died(self, rank: Rank, death: Death) -> None:
        """See `Detector.died`."""

    def announced(self, rank: Rank, death: Death) -> None:
        """See `Detector.announced`."""
        if rank.exit_status is None:
            for operation in rank.mpi.pending():
                if operation.depends_on(death.rank):
                    self.expect(rank, death.rank, operation, operation.post_ps)

    def watch(self, operation: Any) -> None:
        """See `Detector.watch`."""
        box = operation.comm.box
        known = box.knowledge.known if box.knowledge is not None else ()
        for number in self._deaths.dead:
            if number not in known and operation.depends_on(number):
                self.expect(box.rank, number, operation, operation.post_ps)

    def expect(self, rank: Rank, number: int, waiting: Any, since_ps: int) -> None:
        """See `Detector.expect`."""
        death = self._deaths.dead.get(number)
        if death is None:
            return
        expiry = self._expiry.get(number)
        if expiry is None:
            expiry = self._expiry[number] = partial(self._expired, number)
        rank.key += 1
        rank.shard.kernel.post(max(since_ps, death.time_ps) + self.timeout_ps, rank.key, expiry, waiting)

    def _expired(self, number: int, waiting: Any) -> None:
        """Let a rank learn of a death if what has waited for the dead rank does so still."""
        deaths = self._deaths
        if type(waiting) is Receive and waiting.post_ps + self.timeout_ps > deaths.shard.kernel.now_ps:
            return  # it has been used again, for another message
        rank = getattr(waiting, "rank", None) or waiting.comm.box.rank  # an agreement is a rank's, not an operation
        if (
            rank.exit_status is None
            and not waiting.done
            and waiting.depends_on(number)
            and not deaths.fabric.put_off_for(rank, self._expiry[number], waiting)
        ):
            deaths.learn(rank, (number,), "timeout")

    def unanswered(self, rank: Rank, number: int) -> None:
        """See `Detector.unanswered`."""
        self._deaths.learn(rank, (number,), "timeout")
