"""Has an observer told which messages leave, and which are received; see `xsim_py.checks`.

Messages go by the same ways as without one, shortcuts too: what a program sends and receives passes `message.departed`
and `message.observed`, where most runs have nobody to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from . import message as envelopes
from .message import Message


class Observer(Protocol):
    """Is told of the messages of a program; those within collectives and of the library are left out on their way."""

    def departed(self, message: Message) -> None:
        """Take note of a message that the running fiber sends."""

    def seen(self, what: Any) -> None:
        """Take note of a message that the running fiber has received, or of an operation that is complete for it."""


def tell(observer: Observer) -> None:
    """Have an observer told of what programs send and see from now on, beside who is told already."""
    envelopes.departed = observer.departed
    others = envelopes.observed
    envelopes.observed = observer.seen if others is None else partial(_tell, (others, observer.seen))


def _tell(watchers: tuple[Callable[[Any], None], ...], what: Any) -> None:
    for watcher in watchers:
        watcher(what)
