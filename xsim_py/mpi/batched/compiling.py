"""From a recording to a schedule: numbers for the messages, steps that many ranks take together, places for bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .content import Combine, ContentPlan, Join
from .recording import Item, Node, Recording, Rope, Symbol
from .schedule import Draft, Exchanges, Listed, StepKind


def compiled(recording: Recording) -> Listed | None:
    """Return the schedule of a recording; None where the ranks wait for each other in a circle.

    Where no rank has several messages under way, these may be above the eager threshold: unless they would wait for
    each other then.
    """
    items = recording.items
    levels = _levels(items, True) if recording.one_at_a_time else None
    may_be_rendezvous = levels is not None
    if levels is None:
        items = [_in_bursts(each) for each in items]
        levels = _levels(items, False)
        if levels is None:
            return None
    places = _Places(recording)
    draft = Draft(recording.size)
    sent = [message for level in sorted(levels) if level % 2 for _, item in levels[level] for message in item.sends]
    for number, message in enumerate(sent):
        message.number = number
    for level in sorted(levels):
        group = levels[level]
        senders, takers = ([(r, item) for r, item in group if item[side]] for side in (0, 1))
        if level % 2:
            if senders:
                _send(draft, places, senders)
            _add(draft, (StepKind.POST,), takers)
        else:
            _add(draft, (StepKind.TAKE,), takers)
            draft.depth += bool(takers)
            if may_be_rendezvous and senders:
                _add(draft, (StepKind.LEAVE,), [(r, Item([], item.sends)) for r, item in senders])
    schedule = draft.listed(places.content_plan([places.result(result) for result in recording.results]))
    schedule.early = recording.early
    if may_be_rendezvous:
        each = [(rank, item) for rank, program in enumerate(items) for item in program]
        first, received = ([item[side][0].number if item[side] else -1 for _, item in each] for side in (0, 1))
        schedule.stage.listed = Exchanges(np.array([rank for rank, _ in each]), np.array(first), np.array(received))
        schedule.stage.may_be_rendezvous = True
    return schedule


def _send(draft: Draft, places: _Places, group: list[tuple[int, Item]]) -> None:
    messages = [message for _, item in group for message in item.sends]
    ranks, widths = np.array([rank for rank, _ in group]), np.array([len(item.sends) for _, item in group])
    payloads = [places.payload(message.payload) for message in messages]  # type: ignore[arg-type]
    draft.send(ranks, widths, np.array([message.dest for message in messages]), np.array(payloads))


def _add(draft: Draft, kinds: Iterable[StepKind], group: list[tuple[int, Item]]) -> None:
    if group:
        numbers = np.array([message.number for _, item in group for message in item.takes])
        ranks, widths = np.array([rank for rank, _ in group]), np.array([len(item.takes) for _, item in group])
        for kind in kinds:
            draft.add(kind, ranks, widths, numbers)


def _in_bursts(items: list[Item]) -> list[Item]:
    """Return what a rank does with all that it sends before it waits in one item."""
    found: list[Item] = []
    for item in items:
        if found and not found[-1].takes:
            item = Item(found.pop().sends + item.sends, item.takes)
        found.append(item)
    return found


def _levels(programs: list[list[Item]], any_rendezvous: bool) -> dict[int, list[tuple[int, Item]]] | None:
    """Return the items that begin at each odd level and end at each even one; None where ranks wait in a circle.

    An item ends when those in which its messages are sent have begun; and, with messages that ask first, those in which
    what it sends is taken.
    """
    items = [(rank, item) for rank, program in enumerate(programs) for item in program]
    sent_in = {message: at for at, (_, item) in enumerate(items) for message in item.sends}
    taken_in = {message: at for at, (_, item) in enumerate(items) for message in item.takes}
    begins, ends = [0] * len(items), [0] * len(items)
    ready = [at for at, (rank, _) in enumerate(items) if not at or items[at - 1][0] != rank]
    for at in ready:
        begins[at] = 1
    waiting: dict[int, list[int]] = {}
    while ready:
        at = ready.pop()
        rank, item = items[at]
        others = [sent_in[message] for message in item.takes]
        if any_rendezvous:
            others += [taken_in[message] for message in item.sends]
        missing = next((other for other in others if not begins[other]), None)
        if missing is not None:
            waiting.setdefault(missing, []).append(at)
            continue
        ends[at] = 1 + max([begins[at], *(begins[other] for other in others)])
        after = at + 1
        if after < len(items) and items[after][0] == rank:
            begins[after] = ends[at] + 1
            ready += [after, *waiting.pop(after, ())]
    if not all(ends):
        return None
    levels: dict[int, list[tuple[int, Item]]] = {}
    for when in (begins, ends):
        for level, each in zip(when, items, strict=True):
            levels.setdefault(level, []).append(each)
    return levels


class _Places:
    """Gives everything that a call has or makes its place in memory, after what it is made of."""

    def __init__(self, recording: Recording) -> None:
        self.depth: dict[Node, int] = {}  # after how many steps it is there
        self.place: dict[Node, int] = {}
        self.operands: dict[Node, tuple[Node, Node]] = {}
        self.same: dict[Any, Node] = {}
        self.pieces: dict[Node, Rope] = {}
        self.payloads: dict[tuple[Node, int, int], int] = {}
        self.end = 0
        self.depth[_EMPTY] = self.place[_EMPTY] = 0
        for node in recording.inputs:
            self.depth[node] = 0
            self.place[node] = self.end
            self.end += node.size_bytes

    def payload(self, symbol: Symbol) -> int:
        """Return the number of what a message contains."""
        piece = self._whole(symbol.known().rope)
        return self.payloads.setdefault(piece, len(self.payloads))

    def result(self, result: Any) -> Any:
        """Return what a rank has at the end, in terms of nodes."""
        if isinstance(result, Symbol):
            return self._whole(result.known().rope)
        return None if result is None else tuple(self.result(part) for part in result)

    def _whole(self, rope: Rope) -> tuple[Node, int, int]:
        """Return a rope as one piece of a node; with several pieces it is joined, once."""
        rope = tuple((self._made(node), start, stop) for node, start, stop in rope)
        if not rope:
            return _NOTHING
        if len(rope) == 1:
            return rope[0]
        node = self.same.get(rope)
        if node is None:
            node = self.same[rope] = Node(-1, sum(stop - start for _, start, stop in rope))
            self.pieces[node] = rope
            self.depth[node] = 1 + max(self.depth[piece[0]] for piece in rope)
        return node, 0, node.size_bytes

    def _made(self, node: Node) -> Node:
        """Return the node that stands for this one and all that are equal; its operands have their places before it."""
        todo = [node]
        while todo:
            last = todo[-1]
            if last in self.depth or last in self.same:
                todo.pop()
                continue
            assert last.operands is not None
            ropes = [Symbol(rope).known().rope for rope in last.operands]
            missing = [n for rope in ropes for n, _, _ in rope if n not in self.depth and n not in self.same]
            if missing:
                todo += missing
                continue
            todo.pop()
            left, right = (self._whole(rope) for rope in ropes)
            key = (left, right)
            twin = self.same.get((key,))
            if twin is None:
                twin = self.same[key,] = last
                self.operands[last] = key  # type: ignore[assignment]
                self.depth[last] = 1 + max(self.depth[left[0]], self.depth[right[0]])
            else:
                self.same[last] = twin
        return self.same.get(node, node)

    def content_plan(self, results: list[Any]) -> ContentPlan:
        """Give everything its place."""
        groups: dict[Any, list[Node]] = {}
        for node, depth in self.depth.items():
            if node in self.pieces:
                shape: Any = tuple(stop - start for _, start, stop in self.pieces[node])
                groups.setdefault((depth, 0, shape), []).append(node)
            elif node in self.operands:
                groups.setdefault((depth, 1, (node.size_bytes,)), []).append(node)
        steps: list[Join | Combine] = []
        for (_, folds, shape), nodes in sorted(groups.items()):
            start = self.end
            for node in nodes:
                self.place[node] = self.end
                self.end += node.size_bytes
            if folds:
                left, right = (self._at(self.operands[node][side] for node in nodes) for side in (0, 1))
                steps.append(Combine(left, right, shape[0], start))
            else:
                columns = zip(*(self.pieces[node] for node in nodes), strict=True)
                steps.append(Join([self._at(column) for column in columns], list(shape), start, len(nodes)))
        places, lengths = self._at(self.payloads), [stop - start for _, start, stop in self.payloads]
        return ContentPlan(self.end, steps, places, np.array(lengths), [self._result(result) for result in results])

    def _at(self, pieces: Iterable[Any]) -> NDArray[np.int64]:
        return np.array([self.place[node] + start for node, start, _ in pieces], np.int64)

    def _result(self, result: Any) -> Any:
        if result is None:
            return None
        if isinstance(result[0], Node):
            node, start, stop = result
            return self.place[node] + start, stop - start
        return tuple(self._result(part) for part in result)


_EMPTY = Node(-1, 0)
_NOTHING = (_EMPTY, 0, 0)
