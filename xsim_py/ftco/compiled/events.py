"""The calendar: events by step, in a wheel of lists."""

from __future__ import annotations

from . import layout as at
from .jit import jit
from .layout import State


@jit
def new_event(s: State, kind: int, to: int, source: int) -> int:
    """Return a row for an event, or -1, with the trouble flag set, if no row is free."""
    numbers = s.numbers
    event = numbers[at.FREE]
    if event >= 0:
        numbers[at.FREE] = s.events[event, at.NEXT]
    elif numbers[at.EVENTS_USED] < s.events.shape[0]:
        event = numbers[at.EVENTS_USED]
        numbers[at.EVENTS_USED] = event + 1
    else:
        numbers[at.TROUBLE] |= at.NO_ROOM_EVENTS
        return -1
    s.events[event, at.KIND] = kind
    s.events[event, at.TO] = to
    s.events[event, at.SOURCE] = source
    return int(event)


@jit
def release(s: State, event: int) -> None:
    """Return an event's row to the free list."""
    s.events[event, at.NEXT] = s.numbers[at.FREE]
    s.numbers[at.FREE] = event


@jit
def schedule(s: State, event: int, step: int) -> None:
    """Schedule an event in a step, after those already in it."""
    slots = s.wheel.shape[0]
    s.events[event, at.TIME] = step
    s.events[event, at.NEXT] = -1
    # Events too far away stop half-way.
    slot = min(step, s.numbers[at.STEP] + slots - 1) & (slots - 1)
    if s.wheel[slot, 0] < 0:
        s.wheel[slot, 0] = event
    else:
        s.events[s.wheel[slot, 1], at.NEXT] = event
    s.wheel[slot, 1] = event
    s.numbers[at.PENDING] += 1


@jit
def set_alarm(s: State, node: int, step: int) -> None:
    """Let a node look for work in a later step, unless it does so before."""
    if step < s.nodes[node, at.ALARM_STEP]:
        event = new_event(s, at.ALARM, node, node)
        if event >= 0:
            s.nodes[node, at.ALARM_STEP] = step
            schedule(s, event, step)


@jit
def wake(s: State, node: int, later: int) -> None:
    """Let a node look for work in this step (`later` = 0) or in the next one (1)."""
    side = (s.numbers[at.STEP] + later) & 1
    if s.awake[side, node] == 0:
        s.awake[side, node] = 1
        s.awake[side, s.numbers[at.P] + node // at.GROUP] = 1
        s.numbers[at.AWAKE_EVEN + side] += 1
