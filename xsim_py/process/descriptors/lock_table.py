"""The locks of files that ranks of one run hold, and who waits for which: one table for all ranks, in one place.

The rules are those of the operating system. Locks of two kinds know nothing of each other: `flock`, on whole files, and
records, on ranges of bytes. What a lock belongs to is its owner: the process (`fcntl.lockf`), or what one `open` has
made (`fcntl.flock`, and locks of open file descriptions). Who waits is served in the order in which it asked, as far as
what is held allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

NONE, SHARED, EXCLUSIVE = 0, 1, 2
GRANTED, REFUSED, DEADLOCK, WAITS = "granted", "refused", "deadlock", "waits"


_TOLD = 4
"""So many who wait hear of it when another has got the lock, for what a deadlock report says; all would be too many."""


class LockRequest(NamedTuple):
    """A lock that a rank asks for, and then holds.

    Attributes
    ----------
    rank, key : int
        Who asks, and under which key it will get the answer.
    file : tuple
        Of which kind the lock is, and which file.
    owner : hashable
        To what the lock belongs.
    kind : int
        `NONE` to let go of it.
    start, end : int
        The bytes from `start` up to, and without, `end`.
    waits : bool
        Whether it waits, if others hold the lock.
    probes : bool
        Whether it only wants to know who does.
    """

    rank: int
    key: int
    file: tuple[Any, ...]
    owner: Hashable
    kind: int
    start: int
    end: int
    waits: bool = False
    probes: bool = False

    def overlaps(self, other: LockRequest) -> bool:
        """Return whether both are about some of the same bytes."""
        return self.file == other.file and self.start < other.end and other.start < self.end

    def conflicts_with(self, other: LockRequest) -> bool:
        """Return whether the two cannot be held at one time."""
        exclusive = EXCLUSIVE in (self.kind, other.kind)
        return exclusive and self.owner != other.owner and self.overlaps(other)

    def without(self, other: LockRequest) -> Iterator[LockRequest]:
        """Yield what is left of this lock where its owner asks for another one on some of its bytes."""
        if self.owner != other.owner or not self.overlaps(other):
            yield self
            return
        if self.start < other.start:
            yield self._replace(end=other.start)
        if other.end < self.end:
            yield self._replace(start=other.end)


Answer = Callable[[LockRequest, str, "LockRequest | None"], None]


class LockTable:
    """All locks, with the ranks that hold them and those that wait.

    Parameters
    ----------
    answer : callable
        Called with what was asked for, `GRANTED`, `REFUSED`, `DEADLOCK` or `WAITS`, and with what is in the way.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._held: list[LockRequest] = []
        self._waiting: list[LockRequest] = []

    def ask(self, ask: LockRequest) -> None:
        """Grant a lock, or let go of it."""
        conflict = self._conflict(ask) if ask.kind != NONE else None
        if ask.probes:
            self._answer(ask, GRANTED if conflict is None else REFUSED, conflict)
        elif conflict is None:
            self._take(ask)
            if ask.kind != NONE:
                self._answer(ask, GRANTED, None)
            self._serve()
        elif not ask.waits:
            self._answer(ask, REFUSED, conflict)
        elif self._is_deadlock(ask):
            self._answer(ask, DEADLOCK, conflict)
        else:
            self._waiting.append(ask)
            self._answer(ask, WAITS, conflict)

    def convert(self, ask: LockRequest) -> None:
        """Grant a lock of a whole file, or let go of it: what its owner had is gone first, whatever comes of it."""
        if any(held.owner == ask.owner and held.overlaps(ask) and held.kind != ask.kind for held in self._held):
            self._take(ask._replace(kind=NONE))
            self._serve()
        self.ask(ask)

    def forget(self, rank: int) -> None:
        """Let go of what a rank holds that has ended, and of what it waits for."""
        self._held = [held for held in self._held if held.rank != rank]
        self._waiting = [waiting for waiting in self._waiting if waiting.rank != rank]
        self._serve()

    def _take(self, ask: LockRequest) -> None:
        self._held = [left for held in self._held for left in held.without(ask)]
        if ask.kind != NONE:
            self._held.append(ask)

    def _conflict(self, ask: LockRequest) -> LockRequest | None:
        return next((held for held in self._held if held.conflicts_with(ask)), None)

    def _serve(self) -> None:
        """Grant what can be granted now; others may go after it, where somebody asks for less than it had."""
        served = True
        while served:
            served = False
            for ask in list(self._waiting):
                if self._conflict(ask) is None:
                    self._waiting.remove(ask)
                    self._take(ask)
                    self._answer(ask, GRANTED, None)
                    served = True
        for ask in self._waiting[:_TOLD]:
            self._answer(ask, WAITS, self._conflict(ask))

    def _is_deadlock(self, ask: LockRequest) -> bool:
        """Return whether those who hold a process up wait for that process, as the operating system finds out."""
        if ask.owner != ask.rank:
            return False
        seen: set[Hashable] = set()
        asked = [ask]
        while asked:
            each = asked.pop()
            for held in self._held:
                if held.conflicts_with(each) and held.owner not in seen:
                    if held.owner == ask.owner:
                        return True
                    seen.add(held.owner)
                    asked += [waiting for waiting in self._waiting if waiting.owner == held.owner]
        return False
