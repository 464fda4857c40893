"""From a recording to arrays: numbers for the messages, steps that many ranks take together, and places for bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .content import Combine, Join, Recipe
from .exchanges import exchanges
from .recording import Incoming, Node, Receives, Recording, Rope, Sends, Symbol
from .timing import Step, Timetable

__all__ = ["compiled"]


def compiled(recording: Recording) -> tuple[Timetable, Recipe, NDArray[np.int64]] | None:
    """The timetable of a recording, its recipe, and the payload of each message by its number in the recipe.

    None where the ranks wait for each other in a circle.
    """
    levels = _levels(recording)
    if levels is None:
        return None
    messages: list[Incoming] = []
    source: list[int] = []
    dest: list[int] = []
    steps: list[Step] = []
    for (_, sends), entries in sorted(levels.items()):
        if sends:
            for rank, step in entries:
                for message in step.messages:
                    message.number = len(messages)
                    messages.append(message)
                source += [rank] * len(step.messages)
                dest += step.dests
        numbers = [message.number for _, step in entries for message in step.messages]
        widths = np.array([len(step.messages) for _, step in entries])
        steps.append(Step(sends, np.array([rank for rank, _ in entries]), widths, np.array(numbers)))
    places = _Places(recording)
    payloads = np.array([places.payload(message.payload) for message in messages])  # type: ignore[arg-type]
    order = np.zeros(len(messages), np.int64)
    count = [0] * recording.size
    for each in recording.steps:
        for step in each:
            if isinstance(step, Sends):
                for message in step.messages:
                    rank = source[message.number]
                    count[rank] += 1
                    order[message.number] = count[rank]
    results = [places.result(result) for result in recording.results]
    recipe = places.recipe(results)
    sizes = recipe.lengths[payloads]
    timetable = Timetable(recording.size, np.array(source), np.array(dest), sizes, steps, order)
    timetable.early = recording.early
    if recording.one_at_a_time:
        timetable.exchanges = exchanges(recording, len(messages))
    return timetable, recipe, payloads


def _levels(recording: Recording) -> dict[tuple[int, bool], list[tuple[int, Any]]] | None:
    """The steps of all ranks by how many others come before them and their kind."""
    found: dict[tuple[int, bool], list[tuple[int, Any]]] = {}
    at = [0] * recording.size
    level = [0] * recording.size
    waiting: dict[Incoming, int] = {}
    ready = list(range(recording.size))[::-1]
    while ready:
        rank = ready.pop()
        steps = recording.steps[rank]
        while at[rank] < len(steps):
            step = steps[at[rank]]
            sends = isinstance(step, Sends)
            if isinstance(step, Receives):
                missing = next((message for message in step.messages if not message.level), None)
                if missing is not None:
                    waiting[missing] = rank
                    break
                level[rank] = max(level[rank], *(message.level for message in step.messages))
            level[rank] += 1
            found.setdefault((level[rank], sends), []).append((rank, step))
            at[rank] += 1
            if sends:
                for message in step.messages:
                    message.level = level[rank]
                    if message in waiting:
                        ready.append(waiting.pop(message))
    return found if all(at[rank] == len(steps) for rank, steps in enumerate(recording.steps)) else None


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
        """The number of what a message contains."""
        piece = self._whole(symbol.known().rope)
        return self.payloads.setdefault(piece, len(self.payloads))

    def result(self, result: Any) -> Any:
        """What a rank has at the end, in terms of nodes."""
        if isinstance(result, Symbol):
            return self._whole(result.known().rope)
        return None if result is None else tuple(self.result(part) for part in result)

    def _whole(self, rope: Rope) -> tuple[Node, int, int]:
        """A rope as one piece of a node; with several pieces it is joined, once."""
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
        """The node that stands for this one and for all that are equal; its operands have their places before it."""
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

    def recipe(self, results: list[Any]) -> Recipe:
        """Everything in its place."""
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
        return Recipe(self.end, steps, places, np.array(lengths), [self._result(result) for result in results])

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
