"""A fabric that tells an observer which messages leave, and which are received; see `xsim_py.checks`.

It does what `Fabric` does, or `TracingFabric`, through the same methods. Every message leaves by `launch` here, as the
shortcut for the most common message passes by no door; what meets what is known where it is received.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from xsim_py.process.ranks import current

from . import message as envelopes
from .fabric import Fabric
from .message import CONTROL, Message

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber
    from xsim_py.process.ranks.rank import Rank


class Observer(Protocol):
    """Is told of the messages of a program; those within collectives and of the library are left out on their way."""

    def departed(self, message: Message, fiber: Fiber) -> None:
        """Take note of a message that this fiber sends."""

    def seen(self, what: Any) -> None:
        """Take note of a message that the running fiber has received, or of an operation that is complete for it."""


class ObservedFabric(Fabric):
    """A fabric that tells an observer what it carries."""

    def __init__(self, observer: Observer, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.inline_end: int = -1
        self._departed, self._seen, self._launch = observer.departed, observer.seen, super().launch

    def connect(self) -> None:
        """Have the observer told of what programs see, beside who is told already."""
        super().connect()
        others = envelopes.observed
        envelopes.observed = self._seen if others is None else partial(_tell, (others, self._seen))

    def launch(self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int) -> None:
        """Let an envelope leave, and tell that."""
        cid = message.cid
        if cid and not cid & 1 and message.kind != CONTROL and (fiber := current.fiber) is not None:
            self._departed(message, fiber)
        self._launch(rank, message, start_ps, wire_ps, latency_ps)


def _tell(watchers: tuple[Callable[[Any], None], ...], what: Any) -> None:
    for watcher in watchers:
        watcher(what)


def observed(kind: type[Fabric], observer: Observer) -> Callable[..., Fabric]:
    """Return what makes a fabric of a kind that tells an observer what it carries."""
    return partial(type("ObservedFabric", (ObservedFabric, kind), {}), observer)
