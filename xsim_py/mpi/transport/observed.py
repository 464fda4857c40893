"""Observation of sent and received messages; see `xsim_py.checks`.

Messages take the same paths as without an observer, including shortcuts: sends and receives of a program pass
`message.departed` and `message.observed`, which are unset in most runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from . import message as envelopes
from .message import Message


class Observer(Protocol):
    """An observer of a program's messages.

    Sends within collectives and of the library are not reported.
    """

    def departed(self, message: Message) -> None:
        """Observe a message that the running fiber sends."""

    def seen(self, what: object) -> None:
        """Observe a message that the running fiber has received, or an operation that is complete for it."""


def add_observer(observer: Observer) -> None:
    """Register an observer of sends and receives, in addition to existing ones."""
    envelopes.departed = observer.departed
    others = envelopes.observed
    envelopes.observed = observer.seen if others is None else partial(_notify_all, (others, observer.seen))


def _notify_all(watchers: tuple[Callable[[Any], None], ...], what: object) -> None:
    for watcher in watchers:
        watcher(what)
