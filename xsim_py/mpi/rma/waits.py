"""Operations that a rank waits for on a window: remote operations, locks, and calls of other ranks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from xsim_py.mpi.transport.message import Operation, Send

if TYPE_CHECKING:
    from .window import Window

LOCK_OF = "the lock of"


class WindowWait(Send):
    """A wait for a condition on a window that only packets of other ranks can make true.

    It is registered with the rank's sends that wait for a reply: so it ends with an error when an awaited rank fails,
    and the program's sends give way to packets of the library.
    """

    __slots__ = ("peers", "ready", "what", "window")

    def __init__(
        self,
        window: Window,
        name: str,
        what: str,  # the awaited action, for the deadlock report
        ready: Callable[[], bool],  # returns True if the condition holds
        peers: Callable[[], Collection[int]],  # returns the awaited ranks in the window
    ) -> None:
        super().__init__(window.comm, next(iter(peers()), window.comm.me), 0, b"", name, window.clock_ps)
        self.window = window
        self.what = what
        self.ready = ready
        self.peers = peers

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        places = sorted(map(self.comm.named, self.peers()))
        who = f"rank{'s' * (len(places) > 1)} {', '.join(map(str, places[:8]))}{', ...' * (len(places) > 8)}"
        return f"{self.name} on {self.comm.shown.label()}: {self.what} {who}"

    @property
    def awaited(self) -> list[int]:
        """The awaited world ranks; empty for a lock, whose holder is unknown."""
        if self.what == LOCK_OF:
            return []
        comm = self.window.comm
        return [comm.ranks[place] for place in sorted(self.peers()) if place != comm.me]

    def depends_on(self, number: int) -> bool:
        """Return True if it cannot complete without this world rank; see `Operation`."""
        return self.window.comm.context.place(number) in self.peers()


class Departure(Operation):
    """Data that have not left the origin's memory yet."""

    __slots__ = ("name",)

    def __init__(self, name: str, time_ps: int) -> None:
        super().__init__()
        self.name = name
        self.time_ps = time_ps

    def describe(self) -> str:
        """Return one line for the deadlock report."""
        return f"{self.name}: the data to leave"
