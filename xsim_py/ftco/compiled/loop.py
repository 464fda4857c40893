"""The steps of a run."""

from __future__ import annotations

from collections.abc import Callable

from . import layout as at
from .events import new_event, release, schedule, wake
from .jit import SOURCES, jit, jit_cached
from .layout import State
from .node import act


@jit
def _begin(s: State) -> None:
    """Begin the operation: set the alarms of all nodes, and the failures."""
    nodes = s.nodes
    for node in range(s.numbers[at.P]):
        death = nodes[node, at.DEAD_STEP]
        if death <= 0:
            continue
        if node != 0:
            s.numbers[at.BUSY] += 1
            s.numbers[at.OTHERS] += 1
        if death != at.NEVER:
            event = new_event(s, at.DEATH, node, node)
            if event >= 0:
                schedule(s, event, death)
        if nodes[node, at.ENTRY] <= 0:
            wake(s, node, 0)
        else:
            event = new_event(s, at.ALARM, node, node)
            if event >= 0:
                nodes[node, at.ALARM_STEP] = nodes[node, at.ENTRY]
                schedule(s, event, nodes[node, at.ENTRY])


@jit
def _give_notice(s: State, event: int) -> None:
    """Turn a message to a failed node into the failure notice of its sender, in the same row."""
    if s.events[event, at.KIND] == at.ACK:
        release(s, event)
        return
    s.events[event, at.KIND] = at.NOTICE
    receiver = s.events[event, at.TO]
    s.events[event, at.TO] = s.events[event, at.SOURCE]
    s.events[event, at.SOURCE] = receiver
    schedule(s, event, max(s.events[event, at.DUE], s.numbers[at.STEP]))


@jit
def _fail(s: State, node: int) -> None:
    """Fail a node; the senders of messages in its queue are only notified of the failure."""
    if node != 0:
        s.numbers[at.OTHERS] -= 1
        s.numbers[at.BUSY] -= 1 - s.nodes[node, at.IDLE]
    for kind in range(at.ACK + 1):
        event = s.nodes[node, at.LATEST + kind]
        while event >= 0:
            following = s.events[event, at.NEXT]
            _give_notice(s, event)
            event = following
        s.nodes[node, at.LATEST + kind] = -1


@jit
def _arrive(s: State, event: int) -> None:
    """Put a message into its receiver's queue."""
    node = s.events[event, at.TO]
    if s.nodes[node, at.DEAD_STEP] <= s.numbers[at.STEP]:
        _give_notice(s, event)
        return
    kind = s.events[event, at.KIND]
    s.events[event, at.NEXT] = s.nodes[node, at.LATEST + kind]
    s.nodes[node, at.LATEST + kind] = event
    s.nodes[node, at.QUEUED] += 1
    s.nodes[node, at.LONGEST] = max(s.nodes[node, at.LONGEST], s.nodes[node, at.QUEUED])
    if not s.nodes[node, at.IDLE]:
        wake(s, node, 0)


@jit
def _add_notice(s: State, event: int) -> None:
    """Add a failure notice before those of larger nodes, effective before its receiver acts."""
    node, dead = s.events[event, at.TO], s.events[event, at.SOURCE]
    before = -1
    after = s.nodes[node, at.NOTICES]
    while after >= 0 and s.events[after, at.SOURCE] < dead:
        before = after
        after = s.events[after, at.NEXT]
    s.events[event, at.NEXT] = after
    if before < 0:
        s.nodes[node, at.NOTICES] = event
    else:
        s.events[before, at.NEXT] = event
    wake(s, node, 0)


@jit
def _process_events(s: State) -> None:
    """Process the events at the start of a step: failures, failure notices, arrivals and alarms."""
    now = s.numbers[at.STEP]
    slot = now & (s.wheel.shape[0] - 1)
    event = s.wheel[slot, 0]
    while event >= 0:
        # Events may be added behind this one, so it leaves the list first.
        s.wheel[slot, 0] = s.events[event, at.NEXT]
        s.numbers[at.PENDING] -= 1
        kind, node = s.events[event, at.KIND], s.events[event, at.TO]
        if s.events[event, at.TIME] > now:
            schedule(s, event, s.events[event, at.TIME])
        elif kind <= at.ACK:
            _arrive(s, event)
        elif kind == at.NOTICE and s.nodes[node, at.DEAD_STEP] > now:
            _add_notice(s, event)
        else:
            if kind == at.DEATH:
                _fail(s, node)
            elif kind == at.ALARM and s.nodes[node, at.ALARM_STEP] == now:
                s.nodes[node, at.ALARM_STEP] = at.NEVER
                wake(s, node, 0)
            release(s, event)
        event = s.wheel[slot, 0]


@jit
def _act_all(s: State) -> None:
    """Let every node that is awake act, in numerical order."""
    nodes = s.numbers[at.P]
    now = s.numbers[at.STEP]
    side = now & 1
    awake = s.awake[side]
    for group in range((nodes + at.GROUP - 1) // at.GROUP):
        if awake[nodes + group]:
            awake[nodes + group] = 0
            for node in range(group * at.GROUP, min(nodes, (group + 1) * at.GROUP)):
                if awake[node]:
                    awake[node] = 0
                    if s.nodes[node, at.DEAD_STEP] > now:
                        act(s, node)
    s.numbers[at.AWAKE_EVEN + side] = 0


@jit
def _is_over(s: State) -> bool:
    """Return True if all survivors except node 0 have finished; node 0 for a reduction or alone."""
    if s.numbers[at.ROOT_ENDS] or s.numbers[at.OTHERS] == 0:
        return bool(s.numbers[at.FULL])
    return bool(s.numbers[at.BUSY] == 0)


@jit
def _run(s: State) -> bool:
    """Run until the operation has ended or cannot; return True if it has."""
    numbers = s.numbers
    _begin(s)
    while numbers[at.STEP] <= numbers[at.LIMIT]:
        _process_events(s)
        _act_all(s)
        if numbers[at.TROUBLE]:
            return False
        if _is_over(s):
            return True
        numbers[at.STEP] += 1
        if numbers[at.AWAKE_EVEN + (numbers[at.STEP] & 1)] == 0:
            if numbers[at.PENDING] == 0:
                return False
            while s.wheel[numbers[at.STEP] & (s.wheel.shape[0] - 1), 0] < 0:
                numbers[at.STEP] += 1
    return False


def _entry(sources: int) -> Callable[[State], bool]:
    @jit_cached
    def simulate(s: State) -> bool:
        """Run until the operation has ended or cannot; return True if it has."""
        s.numbers[at.SOURCES_ID] = sources
        return _run(s)

    return simulate


simulate = _entry(SOURCES)
