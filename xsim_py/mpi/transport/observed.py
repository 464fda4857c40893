"""A fabric that tells an observer which message met which receive; see `xsim_py.checks`.

It does what `Fabric` does, or `TracingFabric`, through the same methods. Every message goes the long way here (through
`launch`, and through `Mailbox.match` at its end), as the shortcuts for the most common message pass by no door.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from xsim_py.process.ranks import current

from .fabric import Fabric
from .mailbox import Mailbox
from .message import CONTROL, Message, Receive
from .tracing import TracingFabric, TracingMailbox

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank


class Observer(Protocol):
    """Is told of the messages of a program; those within collectives and of the library are left out."""

    def departed(self, message: Message, fiber: Fiber) -> None:
        """Take note of a message that this fiber sends."""

    def posted(self, operation: Receive, fiber: Fiber) -> None:
        """Take note of a receive that this fiber has posted."""

    def met(self, message: Message, operation: Receive) -> None:
        """Take note of a message that has met a posted receive."""

    def taken(self, message: Message, fiber: Fiber) -> None:
        """Take note of a message that had arrived before this fiber asked for it."""


class _Observed:
    """Has a mailbox tell what it gives to whom."""

    __slots__ = ()

    fabric: Any

    def post(self, operation: Receive) -> None:
        super().post(operation)  # type: ignore[misc]
        # The shortcut of `Fabric._deliver` for a lone receive would pass by `match`.
        self._not_alone()  # type: ignore[attr-defined]
        if operation.note is None and current.fiber is not None:
            self.fabric.observer.posted(operation, current.fiber)

    def match(self, message: Message) -> Receive | None:
        operation: Receive | None = super().match(message)  # type: ignore[misc]
        if operation is not None and operation.note is None:
            self.fabric.observer.met(message, operation)
        return operation

    def take(self, cid: int, source: int, tag: int) -> Message | None:
        message: Message | None = super().take(cid, source, tag)  # type: ignore[misc]
        if message is not None:
            self._given(message)
        return message

    def remove(self, message: Message) -> None:
        super().remove(message)  # type: ignore[misc]
        self._given(message)

    def _given(self, message: Message) -> None:
        if current.fiber is not None:
            self.fabric.observer.taken(message, current.fiber)


class ObservedMailbox(_Observed, Mailbox):
    """A mailbox that tells the observer what meets."""

    __slots__ = ()


class ObservedTracingMailbox(_Observed, TracingMailbox):
    """A mailbox that tells the observer what meets, and records it."""

    __slots__ = ()


class _Observing:
    """Has a fabric tell what leaves."""

    def __init__(self, observer: Observer, *args: Any) -> None:
        super().__init__(*args)
        self.observer = observer
        self.inline_end = -1
        self.shortcuts = False

    def launch(self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int) -> None:
        if message.cid and not message.cid & 1 and message.kind != CONTROL and current.fiber is not None:
            self.observer.departed(message, current.fiber)
        super().launch(rank, message, start_ps, wire_ps, latency_ps)  # type: ignore[misc]


class ObservedFabric(_Observing, Fabric):
    """A fabric that tells an observer what it carries."""

    def open(self, rank: Rank) -> Mailbox:
        """Make the MPI state of a rank, with a mailbox that tells what meets."""
        box = super().open(rank)
        rank.mpi = mine = ObservedMailbox(rank, self)
        mine.background = box.background
        return mine


class ObservedTracingFabric(_Observing, TracingFabric):
    """A fabric that records what it carries, and tells an observer."""

    def open(self, rank: Rank) -> Mailbox:
        """Make the MPI state of a rank, with a mailbox that tells what meets, and records it."""
        rank.mpi = box = ObservedTracingMailbox(rank, self)
        return box


def fabric_class(observer: Observer | None, *, traced: bool) -> Any:
    """Return what makes the fabric of a run, which may be traced, observed, both or neither."""
    if observer is None:
        return TracingFabric if traced else Fabric
    cls = ObservedTracingFabric if traced else ObservedFabric
    return lambda *args: cls(observer, *args)
