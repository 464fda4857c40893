"""The checks keep this of each side of a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .records import Access, Place, Signal


class OpenWindow:
    """One rank's side of a window, as the checks follow it.

    Attributes
    ----------
    open : dict of int to dict of Access
        The accesses that are not complete, by target, in order.
    locks : dict of int to int
        The kind of lock that the rank has on each target.
    wanted : (int, int) or None
        The target of the lock for which the rank waits, and its kind; nobody waits for a lock of all.
    signals : dict
        How many signals have gone to and come from each rank.
    fences : int
        How many the rank has called.
    begun : dict of int to Place
        Where it began epochs last: by locks of targets, by other calls, and by Post; see `epochs`.
    is_opened_by_fence : bool
        Whether its last fence came before all epochs, and may begin one.
    locked_inside : Place or None
        Where a lock was taken since then under which there have been accesses.
    started, exposed_to : list of int
        The members of the groups of the last Start and the last Post.
    allowed : dict of int to Signal
        The Post of each member whose memory the rank may access after its Start.
    posted : list of Signal
        What its last Post has given.
    seen : list of Access
        What the last look at the rank's own memory may have seen.
    polled : list of (int, int)
        The bytes of the rank's own memory at which it has looked until a value was there.
    synced : Place or None
        Where it was synchronised last.
    is_shared : bool
        Whether its memory is that of several ranks, whose loads and stores nobody follows.
    is_of_library : bool
        Whether it is one of mpi4py's own library, which orders its accesses by loops that look at memory.
    """

    __slots__ = (
        "allowed",
        "begun",
        "exposed_to",
        "fences",
        "is_of_library",
        "is_opened_by_fence",
        "is_shared",
        "key",
        "locked_inside",
        "locks",
        "open",
        "polled",
        "posted",
        "seen",
        "signals",
        "started",
        "synced",
        "wanted",
        "window",
    )

    def __init__(self, window: Any) -> None:
        self.window = window
        self.key = (window.comm.cid, window.comm.ranks[0])
        self.open: dict[int, dict[Access, None]] = {}
        self.locks: dict[int, int] = {}
        self.wanted: tuple[int, int] | None = None
        self.signals: dict[Any, int] = {}
        self.started: list[int] = []
        self.allowed: dict[int, Signal] = {}
        self.posted: list[Signal] = []
        self.exposed_to: list[int] = []
        self.seen: Sequence[Access] = ()
        self.fences = 0
        self.begun: dict[int, Place] = {}
        self.locked_inside: Place | None = None
        self.polled: list[tuple[int, int]] = []
        self.synced: Place | None = None
        self.is_of_library = self.is_shared = self.is_opened_by_fence = False
