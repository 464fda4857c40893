"""The repair of a tree by the reference rules: replacements for failed nodes."""

from __future__ import annotations

from . import layout as at
from .jit import jit
from .layout import State
from .sets import add_span


@jit
def find_contact(s: State, node: int, other: int) -> int:
    """Return the row of a node's contact; -1 if it does not know the number."""
    first = s.nodes[node, at.CONTACTS]
    for contact in range(first, first + s.nodes[node, at.KNOWN]):
        if s.contacts[contact, at.PEER] == other:
            return int(contact)
    return -1


@jit
def _patience(s: State, node: int, distance: int) -> int:
    """Return the timeout of a query in steps, by distance."""
    return int(s.patience[node, min(distance, s.patience.shape[1] - 1)])


@jit
def _enlarge(s: State, node: int) -> bool:
    """Move a node's contacts to a block with twice the room."""
    room = max(4, 2 * s.nodes[node, at.ROOM])
    new = s.numbers[at.CONTACTS_USED]
    if new + room > s.contacts.shape[0]:
        s.numbers[at.TROUBLE] |= at.NO_ROOM_CONTACTS
        return False
    s.numbers[at.CONTACTS_USED] = new + room
    old = s.nodes[node, at.CONTACTS]
    for place in range(s.nodes[node, at.KNOWN]):
        for column in range(at.CONTACT_WIDTH):
            s.contacts[new + place, column] = s.contacts[old + place, column]
    s.nodes[node, at.CONTACTS] = new
    s.nodes[node, at.ROOM] = room
    return True


@jit
def _adopt(s: State, node: int, other: int, distance: int, role: int) -> None:
    """Add a contact to those of a node, unless it is known already."""
    if other == node or find_contact(s, node, other) >= 0:
        return
    if s.nodes[node, at.KNOWN] == s.nodes[node, at.ROOM] and not _enlarge(s, node):
        return
    place = s.nodes[node, at.CONTACTS] + s.nodes[node, at.KNOWN]
    s.nodes[node, at.KNOWN] += 1
    s.nodes[node, at.QUIET_UNTIL] = 0
    s.nodes[node, at.QUERIES_FROM] = -1
    for column in range(at.CONTACT_WIDTH):
        s.contacts[place, column] = 0
    s.contacts[place, at.PEER] = other
    s.contacts[place, at.DISTANCE] = distance
    s.contacts[place, at.ROLE] = role
    s.contacts[place, at.SLOT] = -1
    s.contacts[place, at.WHERE] = s.nodes[other, at.SPOT]
    s.numbers[at.FARTHEST] = max(s.numbers[at.FARTHEST], distance)
    s.contacts[place, at.PATIENCE] = _patience(s, other, distance)
    s.contacts[place, at.INTERVAL] = max(s.contacts[place, at.PATIENCE], _patience(s, node, distance))


@jit
def _restart_from(s: State, node: int, other: int) -> None:
    """Set a node back to the point from which it compensates for a failure."""
    s.nodes[node, at.QUERIES_FROM] = -1
    if other > node or node < s.numbers[at.ROOTS]:
        s.nodes[node, at.PHASE] = s.numbers[at.FIRST_PHASE]
        s.nodes[node, at.PLACE] = 0
    elif s.nodes[node, at.PHASE] >= at.SEND_ADOPTED_FATHERS:
        s.nodes[node, at.PHASE] = max(at.SEND_ADOPTED_FATHERS, s.numbers[at.FIRST_PHASE])
        s.nodes[node, at.PLACE] = 0
    if s.nodes[node, at.IDLE]:
        s.nodes[node, at.IDLE] = 0
        s.numbers[at.BUSY] += 1


@jit
def _mark_failed(s: State, node: int, other: int) -> None:
    """Inform a node of a failure; the nodes behind the failed one replace it."""
    place = find_contact(s, node, other)
    if place < 0:
        return
    if s.contacts[place, at.FAILED]:
        return
    s.contacts[place, at.FAILED] = 1
    if s.contacts[place, at.ACK_OWED]:
        s.contacts[place, at.ACK_OWED] = 0
        s.nodes[node, at.OWED] -= 1
    spot = s.nodes[other, at.SPOT]
    add_span(s, node, spot, spot + 1)
    if s.numbers[at.ETA_RESET]:
        s.nodes[node, at.ETA_SUB] = 0
        s.nodes[node, at.ETA_FULL] = 0
    distance = s.contacts[place, at.DISTANCE] + 1
    roots = s.numbers[at.ROOTS]
    first = s.nodes[other, at.FIRST]
    fathers = s.nodes[other, at.FATHERS]
    if other > node or node < roots:
        for child in range(first + fathers, first + fathers + s.nodes[other, at.CHILDREN]):
            _adopt(s, node, s.contacts[child, at.PEER], distance, at.ADOPTED_CHILD)
    else:
        for father in range(first, first + fathers):
            _adopt(s, node, s.contacts[father, at.PEER], distance, at.ADOPTED_FATHER)
    _restart_from(s, node, other)


@jit
def _mark_failed_down_to(s: State, node: int, last: int) -> None:
    """Mark a node below as failed, after all on the route to it, the topmost first."""
    roots = s.numbers[at.ROOTS]
    levels = 0
    top = last
    while s.nodes[top, at.PARENT] != node and top >= roots:
        top = s.nodes[top, at.PARENT]
        levels += 1
    for level in range(levels, -1, -1):
        other = last
        for _ in range(level):
            other = s.nodes[other, at.PARENT]
        _mark_failed(s, node, other)


@jit
def handle_failure(s: State, node: int, other: int) -> None:
    """Process a failure notice; a second one for the same node sets the receiver back once more."""
    contact = find_contact(s, node, other)
    if contact >= 0 and s.contacts[contact, at.FAILED]:
        _restart_from(s, node, other)
    elif other > node:
        _mark_failed_down_to(s, node, other)
    else:
        _mark_failed(s, node, other)


@jit
def contact_of(s: State, node: int, other: int, distance: int) -> int:
    """Return the row of a message's sender; if new, all nodes strictly between have failed."""
    contact = find_contact(s, node, other)
    if contact >= 0:
        return contact
    if other > node:
        if s.nodes[other, at.PARENT] >= 0:
            _mark_failed_down_to(s, node, s.nodes[other, at.PARENT])
        role = at.ADOPTED_CHILD
    else:
        between = s.nodes[node, at.PARENT]
        while between >= 0 and between != other:
            _mark_failed(s, node, between)
            between = s.nodes[between, at.PARENT]
        role = at.ADOPTED_FATHER
    _adopt(s, node, other, distance, role)
    return find_contact(s, node, other)
