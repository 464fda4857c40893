"""The table of all file locks in a run, with the ranks that hold them and those that wait.

The rules are those of the operating system. Locks of two kinds are independent: `flock`, on whole files, and records,
on ranges of bytes. The owner of a lock is the process (`fcntl.lockf`) or the open file (`fcntl.flock`, and locks of
open file descriptions). Waiting requests are granted in order, as far as held locks permit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

NONE, SHARED, EXCLUSIVE = 0, 1, 2
GRANTED, REFUSED, DEADLOCK, WAITS = "granted", "refused", "deadlock", "waits"
EVERYTHING = 1 << 62
"""The end of a range without an end."""

_TOLD = 4
"""The maximum number of waiting ranks that are notified of a new holder, for the deadlock report."""


class LockRequest(NamedTuple):
    """A rank's request for a lock, and the lock itself once granted."""

    rank: int
    file: tuple[Any, ...]
    """The kind of lock, and the file."""
    owner: Hashable
    kind: int
    """`NONE` to release it."""
    start: int = 0
    end: int = EVERYTHING
    """The first byte after the locked ones."""
    waits: bool = False
    """Whether it waits if others hold the lock."""
    probes: bool = False
    """Whether it only queries the conflicting lock."""
    key: int = 0
    """Of the reply."""

    def overlaps(self, other: LockRequest) -> bool:
        """Return True if both have bytes in common."""
        return self.file == other.file and self.start < other.end and other.start < self.end

    def conflicts_with(self, other: LockRequest) -> bool:
        """Return True if the two cannot be held at the same time."""
        return EXCLUSIVE in (self.kind, other.kind) and self.owner != other.owner and self.overlaps(other)

    def without(self, other: LockRequest) -> Iterator[LockRequest]:
        """Yield the rest of this lock after its owner requests a different lock on some of its bytes."""
        if self.owner != other.owner or not self.overlaps(other):
            yield self
            return
        if self.start < other.start:
            yield self._replace(end=other.start)
        if other.end < self.end:
            yield self._replace(start=other.end)


class LockTable:
    """All locks, with the ranks that hold them and those that wait.

    It calls ``answer`` with a request, `GRANTED`, `REFUSED`, `DEADLOCK` or `WAITS`, and the conflicting lock.
    """

    def __init__(self, answer: Callable[[LockRequest, str, LockRequest | None], None]) -> None:
        self._answer = answer
        self._held: list[LockRequest] = []
        self._waiting: list[LockRequest] = []

    def ask(self, ask: LockRequest) -> None:
        """Grant, query or release a lock; converting a lock of a whole file always releases it first."""
        is_converted = ask.file[0] == "flock" and any(
            held.owner == ask.owner and held.overlaps(ask) and held.kind != ask.kind for held in self._held
        )
        if is_converted or ask.kind == NONE:
            self._take(ask._replace(kind=NONE))
        if ask.kind == NONE:
            return
        conflict = self._conflict(ask)
        if ask.probes or (conflict is not None and not ask.waits):
            self._answer(ask, GRANTED if conflict is None else REFUSED, conflict)
        elif conflict is None:
            self._take(ask)
        elif self._is_deadlock(ask):
            self._answer(ask, DEADLOCK, conflict)
        else:
            self._waiting.append(ask)
            self._answer(ask, WAITS, conflict)

    def forget(self, rank: int) -> None:
        """Drop all locks and requests of a rank that has ended."""
        self._held = [held for held in self._held if held.rank != rank]
        self._waiting = [waiting for waiting in self._waiting if waiting.rank != rank]
        self._serve()

    def _take(self, ask: LockRequest) -> None:
        """Grant or release a lock, and grant waiting requests that no longer conflict: a downgrade may permit some."""
        self._hold(ask)
        self._serve()

    def _hold(self, ask: LockRequest) -> None:
        self._held = [left for held in self._held for left in held.without(ask)]
        if ask.kind != NONE:
            self._held.append(ask)
            self._answer(ask, GRANTED, None)

    def _conflict(self, ask: LockRequest) -> LockRequest | None:
        return next((held for held in self._held if held.conflicts_with(ask)), None)

    def _serve(self) -> None:
        while served := next((ask for ask in self._waiting if self._conflict(ask) is None), None):
            self._waiting.remove(served)
            self._hold(served)
        for ask in self._waiting[:_TOLD]:
            self._answer(ask, WAITS, self._conflict(ask))

    def _is_deadlock(self, ask: LockRequest) -> bool:
        """Return True if a request would close a cycle of waiting processes, as the operating system checks."""
        seen: set[Hashable] = set()
        asked = [ask] if ask.owner == ask.rank else []
        while asked:
            each = asked.pop()
            owners = {held.owner for held in self._held if held.conflicts_with(each)} - seen
            if ask.owner in owners:
                return True
            seen |= owners
            asked += [waiting for waiting in self._waiting if waiting.owner in owners]
        return False
