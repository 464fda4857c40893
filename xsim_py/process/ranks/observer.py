"""What the simulator tells the one tool of a run that wants to know more than its MPI calls: the checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .rank import Rank


class Observer(Protocol):
    """Takes notice of events in the running rank; see `current.observer`."""

    def completed(self, task: Any, operation: Any) -> None:
        """Take notice of a request that a call has completed, and its operation."""

    def handled(self, error: Any) -> None:
        """Take notice of an MPI error that goes to an error handler."""

    def misplaced(self, when: str) -> None:
        """Take notice of a call before MPI_Init or after MPI_Finalize."""

    def accessing(self, file: Any) -> Callable[[Any, bool], None] | None:
        """Return what to call with the pieces of a file that a call accesses, and whether it writes them."""

    def uncaught(self, error: BaseException) -> None:
        """Take notice of an exception that the program has not caught, before it is shown."""

    def unfinalized(self, rank: Rank) -> None:
        """Take notice of a rank that ends without MPI_Finalize."""
