"""The state that the checks keep for each side of a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xsim_py.mpi.rma.window import Window

    from .records import Access, Place, Signal


class OpenWindow:
    """One rank's side of a window, as followed by the checks."""

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

    def __init__(self, window: Window) -> None:
        self.window = window
        self.key = (window.comm.cid, window.comm.ranks[0])
        self.open: dict[int, dict[Access, None]] = {}  # the incomplete accesses, by target, in order
        self.locks: dict[int, int] = {}  # the kind of lock that the rank holds on each target
        # The target and kind of the lock that the rank is waiting for; a lock of all targets never waits.
        self.awaited_lock: tuple[int, int] | None = None
        self.signals: dict[Any, int] = {}  # the number of signals sent to and received from each rank
        self.started: list[int] = []  # the members of the group of the last Start
        self.allowed: dict[int, Signal] = {}  # the Post of each member whose memory the rank may access after its Start
        self.posted: list[Signal] = []  # the signals of its last Post
        self.exposed_to: list[int] = []  # the members of the group of the last Post
        self.last_seen: Sequence[Access] = ()  # the accesses that the last read of the rank's own memory may have seen
        self.fences = 0  # the number of fences that the rank has called
        # The place where each epoch last began: by lock of a target, by other calls, and by Post; see `epochs`.
        self.begun: dict[int, Place] = {}
        # The place of a lock, acquired since the last fence, under which accesses were made.
        self.locked_inside: Place | None = None
        self.polled: list[tuple[int, int]] = []  # the bytes of the rank's own memory that it has polled for a value
        self.synced: Place | None = None  # the place of its last Sync
        # Whether it belongs to mpi4py's own library, which orders accesses by polling; whether several ranks share its
        # memory, whose loads and stores are not followed; whether its last fence came before all epochs and may begin
        # one.
        self.is_of_library = self.is_shared = self.is_opened_by_fence = False
