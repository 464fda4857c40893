"""A fabric that tells an observer which message met which receive; see `xsim_py.checks`.

It does what `Fabric` does, or `TracingFabric`, through the same methods. Every message goes the long way here (through
`launch`, and through `Mailbox.match` at its end), as the shortcuts for the most common message pass by no door.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from xsim_py.process.ranks import current

from .fabric import Fabric
from .mailbox import Mailbox
from .message import CONTROL, Message, Receive

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


class ObservedMailbox(Mailbox):
    """A mailbox that tells the observer what meets."""

    __slots__ = ()

    def post(self, operation: Receive) -> None:
        """Let a receive wait for its message, where `match` finds it."""
        super().post(operation)
        # The shortcut of `Fabric._deliver` for a lone receive would pass by `match`.
        self._not_alone()
        if operation.note is None and current.fiber is not None:
            self.fabric.observer.posted(operation, current.fiber)  # type: ignore[attr-defined]

    def match(self, message: Message) -> Receive | None:
        """Return the receive that takes an arriving message, and tell that they have met."""
        operation = super().match(message)
        if operation is not None and operation.note is None:
            self.fabric.observer.met(message, operation)  # type: ignore[attr-defined]
        return operation

    def take(self, cid: int, source: int, tag: int) -> Message | None:
        """Take the earliest kept message that fits, and tell that."""
        message = super().take(cid, source, tag)
        if message is not None:
            self._given(message)
        return message

    def remove(self, message: Message) -> None:
        """Take a kept message out of the mailbox, and tell that."""
        super().remove(message)
        self._given(message)

    def _given(self, message: Message) -> None:
        if current.fiber is not None:
            self.fabric.observer.taken(message, current.fiber)  # type: ignore[attr-defined]


class ObservedFabric(Fabric):
    """A fabric that tells an observer what it carries."""

    def __init__(self, observer: Observer, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.observer = observer
        self.inline_end: int = -1
        self.shortcuts: bool = False

    def launch(self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int) -> None:
        """Let an envelope leave, and tell that."""
        if message.cid and not message.cid & 1 and message.kind != CONTROL and current.fiber is not None:
            self.observer.departed(message, current.fiber)
        super().launch(rank, message, start_ps, wire_ps, latency_ps)


def observed(kind: type[Fabric], observer: Observer) -> Callable[..., Fabric]:
    """Return what makes a fabric of a kind that tells an observer what it carries."""
    mailbox = type("ObservedMailbox", (ObservedMailbox, kind.mailbox_class), {"__slots__": ()})
    return partial(type("ObservedFabric", (ObservedFabric, kind), {"mailbox_class": mailbox}), observer)
