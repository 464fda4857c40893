"""The steps of a node by the reference rules: Algorithms 1 to 5 of Margolin and Barak, changed and extended.

The plain twin of this is `xsim_py.mpi.ftco.reference`.
"""

from __future__ import annotations

from xsim_py.ftco import model

from . import layout as at
from .events import new_event, release, schedule, set_alarm, wake
from .jit import jit, word
from .layout import State
from .repair import contact_of, handle_failure
from .sets import add_message, copy_to_message, has, is_full

_mix = jit(model.mix)
_service_distance = jit(model.service_distance)
_interval_distance = jit(model.interval_distance)
_service_index = jit(model.service_index)


@jit
def _record(s: State, node: int, taken: int, kind: int, other: int) -> None:
    """Record an action, if actions are recorded."""
    if s.actions.shape[0] == 0:
        return
    used = s.numbers[at.ACTIONS_USED]
    if used == s.actions.shape[0]:
        s.numbers[at.TROUBLE] |= at.NO_ROOM_ACTIONS
        return
    s.actions[used, 0] = s.numbers[at.STEP]
    s.actions[used, 1] = node
    s.actions[used, 2] = taken
    s.actions[used, 3] = kind
    s.actions[used, 4] = other
    s.numbers[at.ACTIONS_USED] = used + 1


@jit
def _send(s: State, node: int, place: int, kind: int) -> None:
    """Send a message to a contact."""
    now = s.numbers[at.STEP]
    other = s.contacts[place, at.PEER]
    _record(s, node, 0, kind, other)
    s.numbers[at.SENT_DATA + kind] += 1
    if s.contacts[place, at.ACK_OWED]:
        s.contacts[place, at.ACK_OWED] = 0
        s.nodes[node, at.OWED] -= 1
    event = new_event(s, kind, other, node)
    if event < 0:
        return
    s.events[event, at.SENT_DISTANCE] = s.contacts[place, at.DISTANCE]
    s.events[event, at.AT] = s.contacts[place, at.SLOT]
    s.events[event, at.DUE] = now + s.contacts[place, at.PATIENCE]
    if kind != at.ACK:
        s.contacts[place, at.SENT] = now
        s.contacts[place, at.AWAITS_REPLY] = 1
    if kind == at.DATA:
        copy_to_message(s, node, event)
        schedule(s, event, now + s.numbers[at.LATENCY] + 1)
    elif s.numbers[at.CONTROL_FULL]:
        schedule(s, event, now + s.numbers[at.LATENCY] + 1)
    else:
        schedule(s, event, now + s.contacts[place, at.DISTANCE])


@jit
def _due(s: State, place: int) -> int:
    """Return the step from which a contact is due a query, by the messages sent and received."""
    if s.contacts[place, at.AWAITS_REPLY]:
        return at.NEVER
    if s.contacts[place, at.HEARD]:
        return int(s.contacts[place, at.SENT] + s.contacts[place, at.INTERVAL] + 1)
    return 0


@jit
def _take(s: State, node: int, kind: int, distance: int) -> int:
    """Take the latest message of a kind from a distance (0: any); return the row or -1."""
    before = -1
    event = s.nodes[node, at.LATEST + kind]
    while event >= 0 and distance > 0 and s.events[event, at.SENT_DISTANCE] != distance:
        before = event
        event = s.events[event, at.NEXT]
    if event < 0:
        return -1
    if before < 0:
        s.nodes[node, at.LATEST + kind] = s.events[event, at.NEXT]
    else:
        s.events[before, at.NEXT] = s.events[event, at.NEXT]
    s.nodes[node, at.QUEUED] -= 1
    other = s.events[event, at.SOURCE]
    _record(s, node, 1, kind, other)
    if s.events[event, at.AT] >= 0:
        place = s.nodes[node, at.CONTACTS] + s.events[event, at.AT]
    else:
        place = contact_of(s, node, other, s.events[event, at.SENT_DISTANCE])
    if place >= 0 and not s.contacts[place, at.FAILED]:
        s.contacts[place, at.HEARD] = 1
        s.contacts[place, at.AWAITS_REPLY] = 0
        s.nodes[node, at.QUIET_UNTIL] = min(s.nodes[node, at.QUIET_UNTIL], _due(s, place))
        if kind != at.ACK and not s.contacts[place, at.ACK_OWED]:
            s.contacts[place, at.ACK_OWED] = 1
            s.nodes[node, at.OWED] += 1
        if kind == at.DATA:
            add_message(s, node, event)
    release(s, event)
    return int(place)


@jit
def _awaited(s: State, node: int, begin: int, end: int, role: int) -> bool:
    """Return True if live contacts of a role have not arrived, from the current position on."""
    first = s.nodes[node, at.CONTACTS]
    for place in range(max(begin, s.nodes[node, at.PLACE]), end):
        contact = first + place
        # A failed one is in the set.
        if s.contacts[contact, at.ROLE] == role and not has(s, node, contact):
            s.nodes[node, at.PLACE] = place
            return True
    s.nodes[node, at.PLACE] = 0
    s.nodes[node, at.PHASE] += 1
    return False


@jit
def _next(s: State, node: int, begin: int, end: int, role: int) -> int:
    """Return the row of the next live contact of a role, or -1."""
    first = s.nodes[node, at.CONTACTS]
    for place in range(max(begin, s.nodes[node, at.PLACE]), end):
        contact = first + place
        if s.contacts[contact, at.ROLE] == role and not s.contacts[contact, at.FAILED]:
            s.nodes[node, at.PLACE] = place + 1
            return int(contact)
    s.nodes[node, at.PLACE] = 0
    s.nodes[node, at.PHASE] += 1
    return -1


@jit
def _traverse(s: State, node: int) -> int:
    """Return the row of the contact for DATA now, or -1 (Algorithm 3, extended)."""
    while s.nodes[node, at.PHASE] != s.numbers[at.LAST_PHASE]:
        phase = s.nodes[node, at.PHASE]
        fathers, known = s.nodes[node, at.FATHERS], s.nodes[node, at.KNOWN]
        born = fathers + s.nodes[node, at.CHILDREN]
        receiver = -1
        if phase == at.AWAIT_CHILDREN:
            waiting = _awaited(s, node, fathers, born, at.CHILD)
        elif phase == at.AWAIT_ADOPTED_CHILDREN:
            waiting = _awaited(s, node, born, known, at.ADOPTED_CHILD)
        elif phase == at.AWAIT_FATHERS:
            waiting = _awaited(s, node, 0, fathers, at.FATHER)
        elif phase == at.AWAIT_ADOPTED_FATHERS:
            waiting = _awaited(s, node, born, known, at.ADOPTED_FATHER)
        elif phase == at.AWAIT_ALL or phase == at.AWAIT_ALL_AT_FIRST:
            waiting = (phase == at.AWAIT_ALL or node == 0) and not is_full(s, node)
            if not waiting:
                s.nodes[node, at.PHASE] += 1
                s.nodes[node, at.PLACE] = 0
        else:
            waiting = False
            if phase == at.SEND_FATHERS:
                receiver = _next(s, node, 0, fathers, at.FATHER)
            elif phase == at.SEND_ADOPTED_FATHERS:
                receiver = _next(s, node, born, known, at.ADOPTED_FATHER)
            elif phase == at.SEND_CHILDREN:
                receiver = _next(s, node, fathers, born, at.CHILD)
            else:
                receiver = _next(s, node, born, known, at.ADOPTED_CHILD)
        if receiver >= 0:
            return receiver
        if waiting:
            return -1
    return -1


@jit
def _queries_from(s: State, node: int) -> int:
    """Return the step from which a node sends queries (Algorithm 4)."""
    expected = s.nodes[node, at.ETA_FULL]
    if s.nodes[node, at.PHASE] <= at.AWAIT_ADOPTED_CHILDREN:
        expected = min(expected, s.nodes[node, at.ETA_SUB])
    return int(expected + 1)


@jit
def _due_query(s: State, node: int, distance: int) -> int:
    """Return the row of the first contact at a distance (0: any) due a query, or -1."""
    now = s.numbers[at.STEP]
    if now < s.nodes[node, at.QUIET_UNTIL] or now < s.nodes[node, at.QUERIES_FROM]:
        return -1
    earliest = at.NEVER
    for place in range(s.nodes[node, at.CONTACTS], s.nodes[node, at.CONTACTS] + s.nodes[node, at.KNOWN]):
        if s.contacts[place, at.FAILED] or (not s.numbers[at.ASK_ALL] and has(s, node, place)):
            continue
        due = _due(s, place)
        if due <= now and (distance == 0 or s.contacts[place, at.DISTANCE] == distance):
            if s.nodes[node, at.KNOWN] == 1:
                s.nodes[node, at.QUIET_UNTIL] = at.NEVER  # there is no other, and that one is about to be queried
            return int(place)
        earliest = min(earliest, due)
    s.nodes[node, at.QUIET_UNTIL] = earliest
    return -1


@jit
def _due_ack(s: State, node: int, distance: int) -> int:
    """Return the row of the first contact at a distance (0: any) due an ACK, or -1."""
    if s.nodes[node, at.OWED] == 0:
        return -1
    for place in range(s.nodes[node, at.CONTACTS], s.nodes[node, at.CONTACTS] + s.nodes[node, at.KNOWN]):
        if s.contacts[place, at.ACK_OWED] and (distance == 0 or s.contacts[place, at.DISTANCE] == distance):
            return int(place)
    return -1


@jit
def _draw_distance(s: State, node: int) -> int:
    """Return the service distance of a node in this step (appendix A)."""
    numbers = s.numbers
    now = numbers[at.STEP]
    if numbers[at.SERVICE_KIND] == 0:
        return 0
    if numbers[at.SERVICE_KIND] == 2:
        return int(_interval_distance(now, s.nodes[node, at.DEGREE]))
    if numbers[at.OWN_STREAMS]:
        index = _service_index(word(now), word(node))
        return int(_service_distance(_mix(word(s.seed[0]), word(model.SERVICE), index)))
    if numbers[at.DISTANCE_STEP] != now:
        numbers[at.DISTANCE_STEP] = now
        index = _service_index(word(now), word(0))
        numbers[at.DISTANCE_NOW] = _service_distance(_mix(word(s.seed[0]), word(model.SERVICE), index))
    return int(numbers[at.DISTANCE_NOW])


@jit
def _serve(s: State, node: int, distance: int) -> bool:
    """Take the first due action with contacts at a distance (0: any)."""
    if s.nodes[node, at.LATEST] >= 0 and _take(s, node, at.DATA, distance) != -1:
        return True
    sends_first = s.numbers[at.ORDER] == 0
    if not sends_first:
        if _take(s, node, at.KEEPALIVE, distance) != -1:
            return True
        if _take(s, node, at.ACK, distance) != -1:
            return True
    place = _due_ack(s, node, distance)
    if place >= 0:
        _send(s, node, place, at.ACK)
        return True
    place = _due_query(s, node, distance)
    if place >= 0:
        _send(s, node, place, at.KEEPALIVE)
        return True
    if sends_first:
        if _take(s, node, at.KEEPALIVE, distance) != -1:
            return True
        if _take(s, node, at.ACK, distance) != -1:
            return True
    return False


@jit
def _act_early(s: State, node: int) -> bool:
    """Act before the operation has begun for the node (Algorithm 5): only reply to queries."""
    place = _take(s, node, at.KEEPALIVE, 0)
    if place != -1:
        if not s.contacts[place, at.FAILED]:
            _send(s, node, place, at.ACK)
            s.contacts[place, at.ACK_OWED] = 1
            s.nodes[node, at.OWED] += 1
        return True
    return _take(s, node, at.ACK, 0) != -1


@jit
def act(s: State, node: int) -> None:
    """Take at most one action of a node in this step, and set its next alarm."""
    now = s.numbers[at.STEP]
    while s.nodes[node, at.NOTICES] >= 0:
        notice = s.nodes[node, at.NOTICES]
        s.nodes[node, at.NOTICES] = s.events[notice, at.NEXT]
        handle_failure(s, node, s.events[notice, at.SOURCE])
        release(s, notice)
    if now < s.nodes[node, at.ENTRY]:
        if _act_early(s, node):
            wake(s, node, 1)
        else:
            set_alarm(s, node, s.nodes[node, at.ENTRY])
        return
    if s.nodes[node, at.QUERIES_FROM] < 0:
        receiver = _traverse(s, node)
        if node == 0 and not s.numbers[at.FULL] and is_full(s, 0):
            s.numbers[at.FULL] = 1
        if receiver >= 0:
            _send(s, node, receiver, at.DATA)
            wake(s, node, 1)
            return
        if s.nodes[node, at.PHASE] == s.numbers[at.LAST_PHASE] and node != 0:
            if not s.nodes[node, at.IDLE]:
                s.nodes[node, at.IDLE] = 1
                s.numbers[at.BUSY] -= 1
                if s.nodes[node, at.FINISH] < 0:
                    s.nodes[node, at.FINISH] = now
            return
        s.nodes[node, at.QUERIES_FROM] = _queries_from(s, node)
    if s.nodes[node, at.QUEUED] > 0 or s.nodes[node, at.OWED] > 0 or now >= s.nodes[node, at.QUIET_UNTIL]:
        distance = _draw_distance(s, node)
        if distance > s.numbers[at.FARTHEST]:
            distance = 0  # no node is that far away, or all are neighbours: no search through the queue
        has_served = (distance > 0 and _serve(s, node, distance)) or _serve(s, node, 0)
        if has_served and (s.nodes[node, at.QUEUED] or s.nodes[node, at.OWED] or s.nodes[node, at.QUERIES_FROM] < 0):
            wake(s, node, 1)  # otherwise the time of the next work is known already
            return
    expected = max(s.nodes[node, at.QUERIES_FROM], s.nodes[node, at.QUIET_UNTIL])
    if expected <= now + 1:
        wake(s, node, 1)
    elif expected < at.NEVER:
        set_alarm(s, node, expected)
