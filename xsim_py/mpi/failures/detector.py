"""Failure detectors: they decide which rank detects which failure, and when.

There are two, `timeout` and `heartbeat`. With either, a rank that has sent a control message to a failed process
detects the failure when the timeout has passed since then, because no acknowledgement arrives. Collectives by FTCO have
their own timeouts and messages (`ftco.driver`), and the failures they detect are recorded like the others
(`Deaths.learn`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from xsim_py.mpi.transport.protocols import LibraryPart

if TYPE_CHECKING:
    from xsim_py.config import DetectorSpec
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank

    from .deaths import Death, Deaths


class DetectorSettings(NamedTuple):
    """The failure detector of a run: its name in descriptions, and its times (see `Detector`)."""

    kind: str
    timeout_ps: int
    period_ps: int


class Detector(LibraryPart):
    """Detects failures for the ranks of one shard; this base class detects none.

    Parameters
    ----------
    deaths : Deaths
        The failures reported to this shard.
    settings : DetectorSettings
        The timeout after which a silent process is suspected, and the period of heartbeats.
    """

    def __init__(self, deaths: Deaths, settings: DetectorSettings) -> None:
        self.deaths = deaths
        self.fabric = deaths.fabric
        self.shard = deaths.shard
        _, self.timeout_ps, self.period_ps = settings

    @staticmethod
    def settings(section: DetectorSpec, latency_ps: int) -> tuple[DetectorSettings, int, str]:
        """Return the settings of a description, with defaults for a network of this latency.

        Returns
        -------
        settings : DetectorSettings
            The settings.
        least_ps, why : int, str
            The minimum timeout, below which surviving ranks would be suspected, and the reason for it.
        """
        raise NotImplementedError

    def times_out(self, rank: Rank, until_ps: int) -> bool:
        """Return True if a process that hangs until then is silent for longer than the timeout.

        It is False if there is no other process.
        """
        return self.shard.population > 1 and until_ps - self._last_ps(self.shard.kernel.now_ps) > self.timeout_ps

    def _last_ps(self, time_ps: int) -> int:
        """Return the time of the last heartbeat of a process that hangs from a given time on."""
        return time_ps

    def died(self, rank: Rank, death: Death) -> None:
        """Handle the failure of a rank of this shard, of which no rank knows yet."""

    def announced(self, rank: Rank, death: Death) -> None:
        """Handle a failure reported to this shard, for one of its ranks, which is not notified."""

    def watch(self, operation: object) -> None:
        """Watch an operation that begins to wait after processes have failed."""

    def expect(self, rank: Rank, number: int, waiting: object, since_ps: int) -> None:
        """Watch an agreement, which waits since then for rank `number`, failed or not."""

    def polled(self, fiber: Fiber, since_ps: int, depends_on: Callable[[int], bool]) -> None:
        """Notify the running rank of failures that its polls since then detect: none in this class.

        Parameters
        ----------
        depends_on : callable
            Returns True if the polled operation depends on a world rank.
        """

    def unanswered(self, rank: Rank, number: int) -> None:
        """Handle a control message to a failed rank that was not acknowledged within the timeout."""
