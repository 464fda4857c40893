"""What a rank has begun and completed, gone through once more with sends that wait for their receives.

Each step of a rank is what it has begun, what it has waited for, and whether it had to wait for just that: sides of
messages, calls of collectives, signals, and accesses to windows. A step can be gone through once all that it waits for
has been begun by others. Ranks do that while they run, as far as they come, so that few steps are kept; all of them are
only where vector clocks may be needed, for accesses to windows.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from .sides import CollectiveCall, MessageSide

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized

_NOBODY: dict[int, list[Steps]] = {}


class _Begun:
    """Stands for the other side of each message whose two sides have begun."""

    posted, clock = True, 0


_BEGUN: Any = _Begun()


class Steps:
    """The steps of a rank that it has taken, and that have not been gone through. What the first one begins has begun.

    Parameters
    ----------
    keeps : sized
        While there is anything in it, all steps are kept.

    Attributes
    ----------
    ahead : deque of tuple
        The steps, in order.
    """

    __slots__ = ("_keeps", "ahead")

    def __init__(self, keeps: Sized) -> None:
        self._keeps = keeps
        self.ahead: deque[tuple[list[Any], list[Any], bool]] = deque()

    def take(self, posted: list[Any], waited: list[Any], hard: bool) -> None:
        """Take a step."""
        if not self.ahead:
            _begin(posted)
            if not waited and not self._keeps:
                for each in posted:
                    each.clock = 0
                return
        self.ahead.append((posted, waited, hard))

    def go_on(
        self, waiters: dict[int, list[Steps]] = _NOBODY, ready: deque[Steps] | None = None, *, is_over: bool = False
    ) -> Any:
        """Go through steps, up to the first that waits for what has not begun, and forget them; return that, or None.

        What has begun is let go of: nobody else keeps it, and it keeps this.
        """
        ahead = self.ahead
        while ahead:
            posted, waited, hard = ahead[0]
            for each in waited:
                if type(each) is MessageSide:
                    other = each.partner
                    if other is None:
                        if hard and not is_over:
                            return each
                    elif other.posted or not hard or (each.sends and each.buffered):
                        each.partner = _BEGUN
                    else:
                        return other
                elif type(each) is CollectiveCall and (meeting := each.meeting) is not None:
                    if hard and meeting.posted < len(meeting.calls if is_over else meeting.members):
                        return meeting
                    each.meeting = None
                    meeting.clock = 0
            for each in posted:
                each.clock = 0  # before whatever asks for clocks later
            ahead.popleft()
            if ahead:
                _begin(ahead[0][0], waiters, ready)
        return None


def _begin(posted: list[Any], waiters: dict[int, list[Steps]] = _NOBODY, ready: Any = None) -> None:
    """Take note that a rank has begun something; who waits for that is ready."""
    for each in posted:
        each.posted = True
        if type(each) is CollectiveCall and each.meeting is not None:
            each = each.meeting
            each.posted += 1
            if each.posted < len(each.calls):
                continue
        if waiters:
            ready += waiters.pop(id(each), ())


def go_through(ranks: Iterable[Steps], *, is_over: bool) -> None:
    """Go through the steps of all ranks, each as far as it comes; at the end nobody waits for what has never come."""
    waiters: dict[int, list[Steps]] = {}
    ready = deque(ranks)
    while ready:
        steps = ready.popleft()
        missing = steps.go_on(waiters, ready, is_over=is_over)
        if missing is not None:
            waiters.setdefault(id(missing), []).append(steps)
