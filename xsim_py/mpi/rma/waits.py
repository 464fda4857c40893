"""Operations that a rank waits for on a window: operations at targets, locks, and the calls of other ranks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from xsim_py.mpi.transport.message import Operation, Send

if TYPE_CHECKING:
    from .window import Window

LOCK_OF = "the lock of"


class WindowWait(Send):
    """Waits until something is true of a window, which only what other ranks send can change.

    It stands among the rank's sends that wait for an answer: so it ends with an error when a rank fails that it waits
    for, and sends of the program leave room for what the library sends meanwhile.

    Attributes
    ----------
    ready : callable
        Whether it is true now.
    whom : callable
        The ranks in the window that it waits for.
    what : str
        What they have to do, for the deadlock report.
    """

    __slots__ = ("ready", "what", "whom", "window")

    def __init__(
        self, window: Window, name: str, what: str, ready: Callable[[], bool], whom: Callable[[], Collection[int]]
    ) -> None:
        super().__init__(window.comm, next(iter(whom()), window.comm.me), 0, b"", name, window.clock_ps)
        self.window = window
        self.what = what
        self.ready = ready
        self.whom = whom

    def describe(self) -> str:
        """One line for the deadlock report."""
        places = sorted(map(self.comm.named, self.whom()))
        who = f"rank{'s' * (len(places) > 1)} {', '.join(map(str, places[:8]))}{', ...' * (len(places) > 8)}"
        return f"{self.name} on {self.comm.shown.label()}: {self.what} {who}"

    @property
    def awaited(self) -> list[int]:
        """The ranks of the whole run that have to do something; nobody else knows who has a lock, nor may tell it."""
        if self.what == LOCK_OF:
            return []
        comm = self.window.comm
        return [comm.ranks[place] for place in sorted(self.whom()) if place != comm.me]

    def depends_on(self, number: int) -> bool:
        """Return whether it can not complete without a certain rank; see `Operation`."""
        return self.window.comm.context.place(number) in self.whom()


class Departure(Operation):
    """Data that have not left the origin's memory yet."""

    __slots__ = ("name",)

    def __init__(self, name: str, time_ps: int) -> None:
        super().__init__()
        self.name = name
        self.time_ps = time_ps

    def describe(self) -> str:
        """One line for the deadlock report."""
        return f"{self.name}: the data to leave"
