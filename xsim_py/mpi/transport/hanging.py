"""Ranks that hang for a while: transient failures.

While a process hangs, its NIC still receives messages and sends those passed to it, but its library does nothing: it
matches no message, replies to no rendezvous, and forwards no notices. It does all that when it resumes, in the order of
arrival. A process that is declared failed meanwhile never resumes: it is killed at that time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from xsim_py.process.lifecycle import kill
from xsim_py.process.ranks.fiber import continue_after_stop, hang, stop_at

from .fabric import Fabric, FaultCarrier

if TYPE_CHECKING:
    from xsim_py.failure.hangs import Hang
    from xsim_py.network import Cost
    from xsim_py.process.ranks.rank import Rank

    from .message import Message


class Hangs(FaultCarrier):
    """Defers messages to ranks that hang."""

    launches = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._until_ps: dict[int, int] = {}
        self._for_ps: dict[int, int] = {}
        self._given_up: set[int] = set()

    def attach(self, fabric: Fabric) -> None:
        """Join a fabric that is not connected yet."""
        super().attach(fabric)
        fabric.equally_far = False  # otherwise one event may represent messages to many ranks
        self._deliver, fabric.deliver = fabric.deliver, self.deliver
        self._control_ready, fabric.control_ready = fabric.control_ready, self.control_ready

    def install(self, rank: Rank, fault: Hang) -> None:
        """Stop a rank when it hangs."""
        stop_at(rank, fault.at_ps, hangs=True)
        self.fabric.kernel.post(fault.at_ps, rank.number, partial(self._hang, rank), fault)

    def _hang(self, rank: Rank, what: Hang) -> None:
        """Begin the hang of a rank; an event handler."""
        if rank.exit_status is not None or self.fabric.shard.defer_for_all(partial(self._hang, rank), what):
            return
        continue_after_stop(rank)
        hang(rank, what.for_ps)
        until_ps = what.at_ps + what.for_ps
        self.fabric.shard.processor().pause(rank, what.at_ps, until_ps)
        cause = f"injected: {what}; longer than the detection timeout, killed when it continued"
        dead = self.fabric.on_silence(rank, until_ps, cause)
        if dead:
            self._given_up.add(rank.number)
            self.fabric.kernel.post(until_ps, rank.number, kill, (rank, cause))
        else:
            self._until_ps[rank.number] = until_ps
            self._for_ps[rank.number] = what.for_ps
            if self.fabric.trace is not None:
                self.fabric.trace.mark(rank.number, what.at_ps, "hangs", f"injected: {what}")
        self.note(what, what.at_ps, until_ps, dead)

    def _defer(self, number: int, handler: Callable[[Any], object], argument: object) -> bool:
        """Return True if a rank hangs; then ``handler(argument)`` is called when it resumes."""
        until_ps = self._until_ps.get(number, 0)
        kernel = self.fabric.kernel
        if until_ps <= kernel.now_ps:
            return False
        # The event's own key: messages of one rank stay in order, also with those of that very time.
        kernel.post(until_ps, kernel.key, handler, argument)
        return True

    def deliver(self, message: Message) -> None:
        """Match an envelope that has arrived, or keep it, as soon as the library is active."""
        until_ps = self._until_ps.get(message.to, 0)
        if self._defer(message.to, self.deliver, message):
            message.arrival_ps = until_ps
        else:
            self._deliver(message)

    def control_ready(self, entry: tuple[Rank, Message, int, Cost]) -> None:
        """Pass a control message to the NIC; the duration of a hang during its overhead is added."""
        rank, message, at_ps, cost = entry
        kernel = self.fabric.kernel
        if self._until_ps.get(rank.number, 0) <= kernel.now_ps:
            self._control_ready(entry)
            return
        at_ps += self._for_ps[rank.number]
        kernel.post(at_ps, kernel.key, self.control_ready, (rank, message, at_ps, cost))

    def events(self, handlers: dict[str, Callable[[Any], None]]) -> dict[str, Callable[[Any], None]]:
        """Return handlers of replies that wait until their rank resumes."""
        return handlers | {name: self._deferring(handlers[name]) for name in ("cts", "ack")}

    def _deferring(self, handler: Callable[[tuple[int, int]], None]) -> Callable[[tuple[int, int]], None]:
        def handle(argument: tuple[int, int]) -> None:
            if not self._defer(argument[0], handle, argument):
                handler(argument)

        return handle

    def defers(self, rank: Rank, handler: Callable[[Any], object], argument: object) -> bool:
        """Return True if library work on a rank is deferred, or lost with a rank that never resumes."""
        if rank.number in self._given_up and handler != self.fabric.take_control:  # messages to a failed rank bounce
            return True
        return self._defer(rank.number, handler, argument)
