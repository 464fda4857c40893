"""Sets of nodes as spans of the tree's preorder, in which every subtree is one span.

A value of the formal model is the set of nodes that have contributed. Whole subtrees and single failed nodes go up a
tree, and the full set comes down: a handful of spans, whereas a bitmap would have a bit per node, and 65,536 bitmaps
would take half a gibibyte. A set with one span is in the node's row; a set with several has them in ascending order,
neither overlapping nor touching, in a block of `State.spans`.
"""

from __future__ import annotations

from . import layout as at
from .jit import jit
from .layout import State


@jit
def is_full(s: State, node: int) -> bool:
    """Return True if a node's set is complete."""
    return bool(s.nodes[node, at.SPANS] == 1 and s.nodes[node, at.HIGH] - s.nodes[node, at.LOW] == s.numbers[at.P])


@jit
def has(s: State, node: int, contact: int) -> bool:
    """Return True if a node's set has the node of a contact."""
    spot = s.contacts[contact, at.WHERE]
    if s.nodes[node, at.SPANS] == 1:
        return bool(s.nodes[node, at.LOW] <= spot < s.nodes[node, at.HIGH])
    low, high = s.nodes[node, at.HEAP], s.nodes[node, at.HEAP] + s.nodes[node, at.SPANS]
    # The first span that ends behind the spot.
    while low < high:
        middle = (low + high) // 2
        if s.spans[middle, 1] <= spot:
            low = middle + 1
        else:
            high = middle
    return bool(low < s.nodes[node, at.HEAP] + s.nodes[node, at.SPANS] and s.spans[low, 0] <= spot)


@jit
def _new_block(s: State, room: int) -> int:
    """Return a block for spans, or -1, with the trouble flag set."""
    block = s.numbers[at.SPANS_USED]
    if block + room > s.spans.shape[0]:
        s.numbers[at.TROUBLE] |= at.NO_ROOM_SPANS
        return -1
    s.numbers[at.SPANS_USED] = block + room
    return int(block)


@jit
def add_span(s: State, node: int, low: int, high: int) -> None:
    """Add the nodes of a span to a node's set."""
    s.nodes[node, at.QUERIES_FROM] = -1
    if s.nodes[node, at.SPANS] == 1:
        if low <= s.nodes[node, at.HIGH] and high >= s.nodes[node, at.LOW]:
            s.nodes[node, at.LOW] = min(s.nodes[node, at.LOW], low)
            s.nodes[node, at.HIGH] = max(s.nodes[node, at.HIGH], high)
            return
        if s.nodes[node, at.HEAP_ROOM] == 0 and not _grow(s, node):
            return
        s.spans[s.nodes[node, at.HEAP], 0] = s.nodes[node, at.LOW]
        s.spans[s.nodes[node, at.HEAP], 1] = s.nodes[node, at.HIGH]
    elif s.nodes[node, at.SPANS] == s.nodes[node, at.HEAP_ROOM] and not _grow(s, node):
        return
    _insert(s, node, low, high)


@jit
def _grow(s: State, node: int) -> bool:
    """Move a node's spans to a block of twice the room."""
    room = max(4, 2 * s.nodes[node, at.HEAP_ROOM])
    block = _new_block(s, room)
    if block < 0:
        return False
    if s.nodes[node, at.SPANS] > 1:
        for place in range(s.nodes[node, at.SPANS]):
            s.spans[block + place, 0] = s.spans[s.nodes[node, at.HEAP] + place, 0]
            s.spans[block + place, 1] = s.spans[s.nodes[node, at.HEAP] + place, 1]
    s.nodes[node, at.HEAP] = block
    s.nodes[node, at.HEAP_ROOM] = room
    return True


@jit
def _insert(s: State, node: int, low: int, high: int) -> None:
    """Add a span to those in a block that has room for one more."""
    heap, count = s.nodes[node, at.HEAP], s.nodes[node, at.SPANS]
    first = heap
    while first < heap + count and s.spans[first, 1] < low:
        first += 1
    last = first
    while last < heap + count and s.spans[last, 0] <= high:
        low = min(low, s.spans[last, 0])
        high = max(high, s.spans[last, 1])
        last += 1
    if last == first:
        for place in range(heap + count, first, -1):
            s.spans[place, 0] = s.spans[place - 1, 0]
            s.spans[place, 1] = s.spans[place - 1, 1]
    elif last > first + 1:
        for place in range(last, heap + count):
            s.spans[place - last + first + 1, 0] = s.spans[place, 0]
            s.spans[place - last + first + 1, 1] = s.spans[place, 1]
    s.spans[first, 0] = low
    s.spans[first, 1] = high
    count += first + 1 - last
    s.nodes[node, at.SPANS] = count
    if count == 1:
        s.nodes[node, at.LOW] = low
        s.nodes[node, at.HIGH] = high


@jit
def copy_to_message(s: State, node: int, event: int) -> None:
    """Put a node's set into a message."""
    s.events[event, at.COUNT] = s.nodes[node, at.SPANS]
    if s.nodes[node, at.SPANS] == 1:
        s.events[event, at.SPAN_LOW] = s.nodes[node, at.LOW]
        s.events[event, at.SPAN_HIGH] = s.nodes[node, at.HIGH]
        return
    block = _new_block(s, s.nodes[node, at.SPANS])
    if block < 0:
        s.events[event, at.COUNT] = 0
        return
    s.events[event, at.SPAN_LOW] = block
    for place in range(s.nodes[node, at.SPANS]):
        s.spans[block + place, 0] = s.spans[s.nodes[node, at.HEAP] + place, 0]
        s.spans[block + place, 1] = s.spans[s.nodes[node, at.HEAP] + place, 1]


@jit
def add_message(s: State, node: int, event: int) -> None:
    """Add a message's set to a node's."""
    if s.events[event, at.COUNT] == 1:
        add_span(s, node, s.events[event, at.SPAN_LOW], s.events[event, at.SPAN_HIGH])
    else:
        for place in range(s.events[event, at.SPAN_LOW], s.events[event, at.SPAN_LOW] + s.events[event, at.COUNT]):
            add_span(s, node, s.spans[place, 0], s.spans[place, 1])
