"""The state that the checks keep for each side of a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .records import Access, Place, Signal


class OpenWindow:
    """One rank's side of a window, as followed by the checks.

    Attributes
    ----------
    open : dict of int to dict of Access
        The incomplete accesses, by target, in order.
    locks : dict of int to int
        The kind of lock that the rank holds on each target.
    awaited_lock : (int, int) or None
        The target and kind of the lock that the rank is waiting for; a lock of all targets never waits.
    signals : dict
        The number of signals sent to and received from each rank.
    fences : int
        The number of fences that the rank has called.
    begun : dict of int to Place
        The place where each epoch last began: by lock of a target, by other calls, and by Post; see `epochs`.
    is_opened_by_fence : bool
        Whether its last fence came before all epochs and may begin one.
    locked_inside : Place or None
        The place of a lock acquired since then under which accesses were made.
    started, exposed_to : list of int
        The members of the groups of the last Start and the last Post.
    allowed : dict of int to Signal
        The Post of each member whose memory the rank may access after its Start.
    posted : list of Signal
        The signals of its last Post.
    last_seen : list of Access
        The accesses that the last read of the rank's own memory may have seen.
    polled : list of (int, int)
        The bytes of the rank's own memory that it has polled for a value.
    synced : Place or None
        The place of its last Sync.
    is_shared : bool
        Whether several ranks share its memory, whose loads and stores are not followed.
    is_of_library : bool
        Whether it belongs to mpi4py's own library, which orders accesses by polling.
    """

    __slots__ = (
        "allowed",
        "awaited_lock",
        "begun",
        "exposed_to",
        "fences",
        "is_of_library",
        "is_opened_by_fence",
        "is_shared",
        "key",
        "last_seen",
        "locked_inside",
        "locks",
        "open",
        "polled",
        "posted",
        "signals",
        "started",
        "synced",
        "window",
    )

    def __init__(self, window: Any) -> None:
        self.window = window
        self.key = (window.comm.cid, window.comm.ranks[0])
        self.open: dict[int, dict[Access, None]] = {}
        self.locks: dict[int, int] = {}
        self.awaited_lock: tuple[int, int] | None = None
        self.signals: dict[Any, int] = {}
        self.started: list[int] = []
        self.allowed: dict[int, Signal] = {}
        self.posted: list[Signal] = []
        self.exposed_to: list[int] = []
        self.last_seen: Sequence[Access] = ()
        self.fences = 0
        self.begun: dict[int, Place] = {}
        self.locked_inside: Place | None = None
        self.polled: list[tuple[int, int]] = []
        self.synced: Place | None = None
        self.is_of_library = self.is_shared = self.is_opened_by_fence = False
