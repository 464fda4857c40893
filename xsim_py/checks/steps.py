"""Replay of the steps of all ranks, as if each send waited for its receive.

A step is what the rank has begun, what it has waited for, and whether it had to wait for exactly that: sides of
messages, calls of collectives, signals, and accesses to windows. A step can be replayed once others have begun
everything it waits for. Ranks replay steps during the run as far as possible, so that few are kept; all steps are kept
only while vector clocks may be needed for accesses to windows.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from .records import CollectiveCall, MessageSide

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized

_NO_WAITERS: dict[int, list[Steps]] = {}
PERHAPS = "perhaps"
Step = MessageSide | tuple[list[Any], list[Any], bool | str]
"""The side of a message that a blocking call begins and waits for; or what a step begins, what it waits for, and
whether it has to wait for exactly that: `PERHAPS` if only a further run can decide.
"""


class _Begun:
    """A stand-in for the other side of each message whose two sides have begun."""

    posted, clock = True, 0


_BEGUN: Any = _Begun()


class Steps:
    """The steps of a rank that have not been replayed; the actions of the first one have begun."""

    __slots__ = ("_keeps", "pending")

    def __init__(self, keeps: Sized) -> None:
        self._keeps = keeps  # all steps are kept while this is not empty
        self.pending: deque[Step] = deque()

    def add_blocking(self, side: MessageSide) -> None:
        """Add the step of a blocking call, which begins messages and waits for them."""
        if not self.pending:
            _post(side)
        self.pending.append(side)

    def add(self, posted: list[Any], waited: list[Any], exact: bool | str) -> None:
        """Add any other step."""
        step = posted, waited, exact
        if not self.pending:
            _begin(step)
            if not waited and not self._keeps:
                for each in posted:
                    each.clock = 0
                return
        self.pending.append(step)

    def listed(self) -> list[tuple[list[Any], list[Any], bool | str]]:
        """Return the steps, each as what it begins, what it waits for, and how exactly."""
        return [(step.listed(), step.listed(), True) if type(step) is MessageSide else step for step in self.pending]

    def relax(self) -> None:
        """Stop waiting in steps that did not certainly wait for a particular request."""
        for i, step in enumerate(self.pending):
            if type(step) is tuple and step[2] is PERHAPS:
                self.pending[i] = step[0], step[1], False

    def forget_clocks(self) -> None:
        """Reset the clocks of the remaining steps, so that `clocks` computes them again.

        Replayed steps have none.
        """
        for posted, waited, _ in self.listed():
            for each in posted:
                each.clock = None
            for each in waited:
                if type(each) is CollectiveCall and each.instance is not None and each.instance.clock:
                    each.instance.clock = None

    def replay(
        self, waiters: dict[int, list[Steps]] = _NO_WAITERS, ready: deque[Steps] | None = None, *, is_over: bool = False
    ) -> object:
        """Replay and drop steps up to the first that waits for something not begun.

        Return that, or None.

        References to what has begun are dropped: nothing else keeps it alive, and it refers to this object.
        """
        pending = self.pending
        while pending:
            step = pending[0]
            if type(step) is MessageSide:  # hot path
                side: MessageSide | None = step
                while side is not None:
                    other = side.partner
                    if other is None:
                        if not is_over:
                            return side
                    elif other.posted or (side.sends and side.buffered):
                        side.partner = _BEGUN
                    else:
                        return other
                    side.clock = 0  # before anything that uses clocks later
                    side = side.next_side
            else:
                missing = _missing(step[1], step[2], is_over=is_over) if step[1] else None
                if missing is not None:
                    return missing
                for each in step[0]:
                    each.clock = 0
            pending.popleft()
            if not pending:
                break
            step = pending[0]
            if type(step) is MessageSide and not waiters:
                _post(step)
            else:
                _begin(step, waiters, ready)
        return None


def _missing(waited: list[Any], exact: bool | str, *, is_over: bool) -> Any:
    """Return what a step waits for that has not begun (for a collective, its members), or None."""
    for each in waited:
        if type(each) is MessageSide:
            other = each.partner
            if other is None:
                if exact and not is_over:
                    return each
            elif other.posted or not exact or (each.sends and each.buffered):
                each.partner = _BEGUN
            else:
                return other
        elif type(each) is CollectiveCall and (instance := each.instance) is not None:
            if exact and instance.posted < len(instance.calls if is_over else instance.members):
                return instance
            each.instance = None
            instance.clock = 0
    return None


def _post(side: MessageSide) -> None:
    """Record that a rank has reached a blocking call: `_begin` without waiters."""
    side.posted = True
    if side.next_side is not None:
        side.next_side.posted = True


def _begin(step: Step, waiters: dict[int, list[Steps]] = _NO_WAITERS, ready: Any = None) -> None:
    """Record that a rank has reached a step; ranks waiting for its actions become ready."""
    for each in step.listed() if type(step) is MessageSide else step[0]:
        each.posted = True
        if type(each) is CollectiveCall and each.instance is not None:
            each = each.instance
            each.posted += 1
            if each.posted < len(each.calls):
                continue
        if waiters:
            ready += waiters.pop(id(each), ())


def replay_all(ranks: Iterable[Steps], *, is_over: bool) -> None:
    """Replay all ranks' steps as far as they can go.

    If the run is over, ignore what never began.
    """
    waiters: dict[int, list[Steps]] = {}
    ready = deque(ranks)
    while ready:
        steps = ready.popleft()
        missing = steps.replay(waiters, ready, is_over=is_over)
        if missing is not None:
            waiters.setdefault(id(missing), []).append(steps)
