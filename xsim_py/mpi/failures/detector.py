"""Failure detectors: they decide which rank finds out about which death, and when.

There are two, `timeout` and `heartbeat`. Either way a rank that has sent a control message to a dead process finds out
when the timeout has passed since then, for nothing acknowledges it. Collectives by FTCO have time limits and messages
of their own (`ftco.driver`), and what they find is known like the rest (`Deaths.learn`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

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
    """Finds out about deaths for the ranks of one shard; this one never does, and others say when they do.

    Parameters
    ----------
    deaths : Deaths
        What this shard has been told of deaths.
    settings : DetectorSettings
        After how long a silent process counts as failed, and how often a process gives a sign of life.
    """

    def __init__(self, deaths: Deaths, settings: DetectorSettings) -> None:
        self.deaths = deaths
        self.fabric = deaths.fabric
        self.shard = deaths.shard
        _, self.timeout_ps, self.period_ps = settings

    @staticmethod
    def settings(wanted: DetectorSpec, latency_ps: int) -> tuple[DetectorSettings, int, str]:
        """Return what a description asks for, with defaults for a network of this latency.

        Returns
        -------
        settings : DetectorSettings
            What it comes to.
        least_ps, why : int, str
            A shorter timeout would take the living for dead; what it is that takes so long.
        """
        raise NotImplementedError

    def gives_up(self, rank: Rank, until_ps: int) -> bool:
        """Return whether a process that stands still from now until then is silent for longer than the timeout.

        Where there is no other, nobody minds.
        """
        return self.shard.population > 1 and until_ps - self._last_ps(self.shard.kernel.now_ps) > self.timeout_ps

    def _last_ps(self, time_ps: int) -> int:
        """Return when a process has given its last sign of life that stands still at that time."""
        return time_ps

    def died(self, rank: Rank, death: Death) -> None:
        """Take note that a rank of this shard has died now, and nobody knows."""

    def announced(self, rank: Rank, death: Death) -> None:
        """Take note of a death that has been announced, for a rank of this shard; the rank does not know by that."""

    def watch(self, operation: Any) -> None:
        """Watch an operation that begins to wait when there are dead processes already."""

    def expect(self, rank: Rank, number: int, waiting: Any, since_ps: int) -> None:
        """Watch what is no operation (an agreement), and waits since then for rank `number`, dead or alive."""

    def looked(self, fiber: Fiber, since_ps: int, depends_on: Callable[[int], bool]) -> None:
        """Let the running rank learn what its looks since then tell, of which this one finds nothing, either.

        Parameters
        ----------
        depends_on : callable
            Whether what it looks for may come from a rank of the whole run.
        """

    def unanswered(self, rank: Rank, number: int) -> None:
        """Take note that nothing has acknowledged a control message to a dead rank for the timeout."""
