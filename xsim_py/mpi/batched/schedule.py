"""The schedule of a call: what all ranks send and receive, in which order, and the message contents.

A schedule is a list of consecutive *stages*: no message is in flight between two of them. A stage has messages, and
*steps* in an order that respects their dependencies. Everything here holds for all ranks at once; its meaning for the
times of each is defined in `timing` only.

There are two sources of schedules: formulas (`formulas`) and trees (`trees`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from copy import copy
from enum import Enum, auto
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Marks = NDArray[np.bool_]
Column: TypeAlias = int | Numbers
"""A number for all messages, or an array with one for each."""
Places: TypeAlias = Numbers | slice
Memory = TypeVar("Memory")
"""The type of the data from which a schedule makes the contents of messages."""
ALL = slice(None)
# Ranks with few and with many messages are separated if a common matrix would be mostly empty.
_MOST_PADDING = 4
_MOST_KEPT = 1 << 12  # messages: making the stages of a short call takes a tenth of its time


class StepKind(Enum):
    """The kinds of step."""

    SEND = auto()
    """Send messages, one after the other."""
    POST = auto()
    """Post the receives of messages."""
    TAKE = auto()
    """Wait for these messages, all together."""
    LEAVE = auto()
    """Wait until a message above the eager threshold has left."""


class Step(NamedTuple):
    """An action of some ranks at the same position in the order."""

    kind: StepKind
    ranks: Places
    """The (n,) ranks, each once: an array or a slice."""
    messages: Places
    """The message of each, an (n,) array or a slice; or several of each, as a column of a (width, n) array."""
    real: Marks | None = None
    """A (width, n) array: where there are messages, if the ranks have different numbers of them."""


class Stage:
    """Some messages of a call, and their steps: here at most one send and one receive per rank."""

    order: Column = 1
    """The number of each message among those of its source in this stage, from 1: one for all, or an array."""
    may_be_rendezvous = True
    """Whether messages may be above the eager threshold."""
    padded = False
    """Whether steps contain a dummy message."""

    def __init__(self, size: int, source: Numbers, dest: Numbers, size_bytes: Column) -> None:
        self.size = size  # the number of ranks of the call
        self.source = source  # of each message, by rank
        self.dest = dest  # of each message, by rank
        self.size_bytes = size_bytes  # of all messages, or an array with that of each

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def steps(self) -> Sequence[Step]:
        """The steps, in order."""
        senders = ALL if len(self.source) == self.size else self.source  # a view, if all ranks send in their order
        return (
            Step(StepKind.SEND, senders, ALL),
            Step(StepKind.POST, self.dest, ALL),
            Step(StepKind.TAKE, self.dest, ALL),
            Step(StepKind.LEAVE, senders, ALL),
        )

    def exchanges(self) -> tuple[Numbers, Numbers]:
        """Return for each rank the message that it sends, and the one that it receives; -1: none."""
        sent, received = np.full((2, self.size), -1)
        sent[self.source] = received[self.dest] = np.arange(len(self))
        return sent, received


class ListedStage(Stage):
    """A stage whose steps are listed, in any order; see `Draft`."""

    def __init__(
        self, size: int, source: Numbers, dest: Numbers, size_bytes: Column, steps: Sequence[Step], order: Column
    ) -> None:
        super().__init__(size, source, dest, size_bytes)
        self.order = order
        self.may_be_rendezvous = False
        self.padded = any(step.real is not None for step in steps)
        self.steps = steps


Plan: TypeAlias = tuple[ListedStage, Numbers]
"""A stage, still without message sizes, and the number of the payload of each message."""


class Draft:
    """A builder of a stage."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._steps: list[tuple[StepKind, Numbers, Numbers, Numbers]] = []
        self._source: list[Numbers] = []
        self._dest: list[Numbers] = []
        self._payload: list[Numbers] = []
        self._order: list[Numbers] = []
        self._count = 0
        self._sent = np.zeros(size, np.int64)

    def send(self, ranks: Numbers, widths: Numbers, dests: Numbers, payloads: Numbers) -> Numbers:
        """Let each rank send `widths` messages, rank by rank; return the message numbers."""
        numbers = np.arange(self._count, self._count + len(dests))
        self._count += len(dests)
        source = np.repeat(ranks, widths)
        self._source.append(source)
        self._dest.append(dests)
        self._payload.append(payloads)
        self._order.append(self._sent[source] + 1 + turns(widths))
        self._sent[ranks] += widths
        self.add(StepKind.SEND, ranks, widths, numbers)
        return numbers

    def receive(self, ranks: Numbers, widths: Numbers, messages: Numbers) -> None:
        """Let each rank wait for `widths` messages."""
        self.add(StepKind.POST, ranks, widths, messages)
        self.add(StepKind.TAKE, ranks, widths, messages)

    def add(self, kind: StepKind, ranks: Numbers, widths: Numbers, messages: Numbers) -> None:
        """Add a step."""
        self._steps.append((kind, ranks, widths, messages))

    def plan(self) -> Plan:
        """Return the plan with the steps so far."""
        source, dest, payloads, order = map(np.concatenate, (self._source, self._dest, self._payload, self._order))
        steps = [step for each in self._steps for step in _steps(*each, self._count)]
        return ListedStage(self.size, source, dest, 0, steps, order), payloads


def turns(widths: Numbers) -> Numbers:
    """Return 0, 1, 2 ... up to each of these widths."""
    ends = np.cumsum(widths)
    found: Numbers = np.arange(ends[-1]) - np.repeat(ends - widths, widths)
    return found


def _steps(kind: StepKind, ranks: Numbers, widths: Numbers, messages: Numbers, none: int) -> Iterator[Step]:
    """Yield the steps of ranks with `widths` messages each, as matrices with little padding."""
    width, starts = int(widths.max()), np.cumsum(widths) - widths
    if width == 1:
        yield Step(kind, ranks, messages)
        return
    if width * len(ranks) > _MOST_PADDING * len(messages):
        for which in (2 * widths > width, 2 * widths <= width):
            yield from _steps(kind, ranks[which], widths[which], messages[np.repeat(which, widths)], none)
        return
    places = np.arange(width)[:, None]
    real = places < widths
    matrix = np.where(real, messages[np.minimum(starts + places, len(messages) - 1)], none)
    yield Step(kind, ranks, matrix, None if real.all() else real)


class CollectiveSchedule(Generic[Memory]):
    """A call on a number of ranks, whichever they are; here one without content."""

    size: int
    """The number of ranks."""

    def stages(self) -> Iterable[Stage]:
        """Return the stages, in order; always the same."""
        return self._kept or self.make_stages()

    @cached_property
    def _kept(self) -> list[Stage]:
        return [*self.make_stages()] if self.messages <= _MOST_KEPT else []

    def make_stages(self) -> Iterator[Stage]:
        """Yield the stages."""
        raise NotImplementedError

    def memory(self, contributions: Sequence[bytes], fold: object) -> Memory:
        """Return the data for the methods below, from the contributions.

        `fold` is the reduction operation.
        """
        return None  # type: ignore[return-value]  # without content, `Memory` is None

    def results(self, memory: Memory) -> Sequence[Any]:
        """Return the result of each rank."""
        return [None] * self.size

    def checks(self, memory: Memory, turn: int) -> int | NDArray[np.uint32]:
        """Return the checksums of the messages of a stage, or one for all."""
        return 0

    def payload(self, memory: Memory, turn: int, number: int) -> bytes:
        """Return the contents of a message of a stage."""
        return b""

    @cached_property
    def messages(self) -> int:
        """The number of messages."""
        return sum(map(len, self.make_stages()))

    @property
    def shape(self) -> Hashable:
        """A key that is equal for schedules with messages between the same ranks, of any sizes."""
        return type(self), self.size


class Listed(CollectiveSchedule[Memory]):
    """A schedule of one stage, whose messages contain numbered payloads."""

    shape: Hashable = None

    def __init__(self, plan: Plan, lengths: Numbers, shape: Hashable = None) -> None:
        stage, self._payloads = plan
        self.stage = copy(stage)  # plans are kept
        self.stage.size_bytes = lengths[self._payloads]
        self.size = stage.size
        self.shape = shape

    def stages(self) -> Iterable[Stage]:
        """Return the stage."""
        return (self.stage,)

    @property
    def messages(self) -> int:
        """The number of messages."""
        return len(self.stage)

    def payload(self, memory: Memory, turn: int, number: int) -> bytes:
        """Return the contents of a message."""
        return self.numbered(memory, int(self._payloads[number]))

    def numbered(self, memory: Memory, number: int) -> bytes:
        """Return a payload."""
        raise NotImplementedError
