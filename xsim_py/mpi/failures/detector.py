"""The protocol of failure detectors, which decide which rank finds out about which death, and when.

There are two, `timeout` and `heartbeat`. Either way a rank that has sent a control message to a dead process finds out
when the timeout has passed since then, for nothing acknowledges it. Collectives by FTCO have time limits and messages
of their own (`ftco.driver`), and what they find is known like the rest (`Deaths.learn`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from xsim_py.mpi.transport.protocols import ControlHandler
    from xsim_py.process.rank import Rank

    from .deaths import Death

__all__ = ["Detector"]


class Detector(Protocol):
    """Finds out about deaths for the ranks of one shard.

    Attributes
    ----------
    timeout_ps : int
        After how long a silent process counts as failed.
    """

    timeout_ps: int

    def died(self, rank: Rank, death: Death) -> None:
        """Take note that a rank of this shard has died now, and nobody knows."""

    def announced(self, rank: Rank, death: Death) -> None:
        """Take note of a death that has been announced, for a rank of this shard; the rank does not know by that."""

    def watch(self, operation: Any) -> None:
        """Watch an operation that begins to wait when there are dead processes already."""

    def expect(self, rank: Rank, number: int, waiting: Any, since_ps: int) -> None:
        """Watch what is no operation (an agreement), and waits since then for rank `number`, dead or alive."""

    def unanswered(self, rank: Rank, number: int) -> None:
        """Take note that nothing has acknowledged a control message to a dead rank for the timeout."""

    def control(self) -> Mapping[int, ControlHandler]:
        """See `transport.protocols.LibraryPart`."""

    def events(self) -> Mapping[str, Callable[[Any], None]]:
        """See `transport.protocols.LibraryPart`."""
