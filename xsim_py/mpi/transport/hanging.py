"""Fabrics some of whose ranks hang for a while: transient failures.

While a process hangs, its NIC still receives messages and sends those passed to it, but its library does nothing: it
matches no message, replies to no rendezvous, and forwards no notices. It does all that when it resumes, in the order of
arrival. A process that is declared failed meanwhile never resumes: it is killed at that time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from xsim_py.process.lifecycle import kill
from xsim_py.process.ranks.fiber import continue_after_stop, hang, stop_at

from .fabric import Fabric
from .message import HungProcess

if TYPE_CHECKING:
    from xsim_py.failure import Hang
    from xsim_py.network import Cost
    from xsim_py.process.ranks.rank import Rank

    from .message import Message

_NEVER_PS = 1 << 200


class HangingFabric(Fabric):
    """A fabric that defers messages to ranks that hang."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.equally_far = False  # otherwise one event may represent messages to many ranks
        self._until_ps: dict[int, int] = {}
        self._for_ps: dict[int, int] = {}
        self._given_up: set[int] = set()
        self._hung: list[HungProcess] = []

    def schedule_hangs(self, hangs: Iterable[Hang]) -> None:
        """Schedule the hangs of all shards; called before any rank runs.

        Collectives of these ranks are simulated individually (see `batched.instances`).
        """
        for each in hangs:
            if self.instances is not None:
                self.instances.deaths.pop(each.rank, None)
            if self.shard.local(each.rank):
                rank = self.shard.rank(each.rank)
                stop_at(rank, each.time_ps, hangs=True)
                self.kernel.post(each.time_ps, each.rank, partial(self._hang, rank), each)

    def _hang(self, rank: Rank, what: Hang) -> None:
        """Begin the hang of a rank; an event handler."""
        if rank.exit_status is not None or self.shard.defer_for_all(partial(self._hang, rank), what):
            return
        continue_after_stop(rank)
        hang(rank, what.for_ps)
        until_ps = what.time_ps + what.for_ps
        self.shard.processor().pause(rank, what.time_ps, until_ps)
        description = f"injected: {what}"
        cause = f"{description}; longer than the detection timeout, killed when it continued"
        dead = self.on_hang(rank, until_ps, cause)
        if dead:
            self._given_up.add(rank.number)
            self.kernel.post(until_ps, rank.number, kill, (rank, cause))
        else:
            self._until_ps[rank.number] = until_ps
            self._for_ps[rank.number] = what.for_ps
            if self.trace is not None:
                self.trace.mark(rank.number, what.time_ps, "hangs", description)
        self._hung.append(HungProcess(what.time_ps, rank.number, until_ps, dead, str(what)))

    def hung(self) -> list[HungProcess]:
        """Return the processes that have hung."""
        return self._hung

    def _defer(self, number: int, handler: Callable[[Any], object], argument: Any) -> bool:
        """Return True if a rank hangs; then ``handler(argument)`` is called when it resumes."""
        until_ps = self._until_ps.get(number, 0)
        if until_ps <= self.kernel._now:
            return False
        # The event's own key: messages of one rank stay in order, also with those of that very time.
        self.kernel.post(until_ps, self.kernel.key, handler, argument)
        return True

    def _deliver(self, message: Message) -> None:
        """Match an envelope that has arrived, or keep it, as soon as the library is active."""
        until_ps = self._until_ps.get(message.to, 0)
        if self._defer(message.to, self.deliver, message):
            message.arrival_ps = until_ps
        else:
            super()._deliver(message)

    def _control_ready(self, entry: tuple[Rank, Message, int, Cost]) -> None:
        """Pass a control message to the NIC; the duration of a hang during its overhead is added."""
        rank, message, at_ps, cost = entry
        if self._until_ps.get(rank.number, 0) <= self.kernel._now:
            super()._control_ready(entry)
            return
        at_ps += self._for_ps[rank.number]
        self.kernel.post(at_ps, self.kernel.key, self._control_ready, (rank, message, at_ps, cost))

    def _clear_to_send(self, argument: tuple[int, int]) -> None:
        if not self._defer(argument[0], self._clear_to_send, argument):
            super()._clear_to_send(argument)

    def _acknowledged(self, argument: tuple[int, int]) -> None:
        if not self._defer(argument[0], self._acknowledged, argument):
            super()._acknowledged(argument)

    def defer_for(self, rank: Rank, handler: Callable[[Any], object], argument: Any) -> bool:
        """Return True if library work on a rank is deferred, or lost with a rank that never resumes."""
        if rank.number in self._given_up and handler != self.take_control:  # messages to a failed rank bounce
            return True
        return self._defer(rank.number, handler, argument) or super().defer_for(rank, handler, argument)


@cache
def hanging(kind: type[Fabric]) -> type[HangingFabric]:
    """Return a subclass of a fabric class whose ranks may hang."""
    return type(f"Hanging{kind.__name__}", (HangingFabric, kind), {})
