"""A fabric that records the departure, arrival and match of every message.

It behaves like `Fabric`, through the same methods, and adds records; the fabric of an untraced run is unaffected. Every
message takes the slow path here (through `launch`, and finally through `Mailbox.match`), as the shortcuts for the most
common message have no hook for recording.

A message's number is the event key of its departure: its sender's own count, the same for every number of shards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xsim_py.process.python.threads import is_program
from xsim_py.process.ranks import current
from xsim_py.trace import Recorder
from xsim_py.trace.recorder import (
    ALL,
    FOR_ANSWER,
    FOR_COLLECTIVE,
    FOR_MESSAGE,
    FOR_OTHERS,
    FROM_BELOW,
    FROM_ROOT,
    NEVER,
    TO_ROOT,
)

from .fabric import Fabric
from .mailbox import ClosedMailbox, Mailbox
from .message import CONTROL, RENDEZVOUS, SYNCHRONOUS, Message, Receive, Send

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank

_PATTERNS = {
    **dict.fromkeys(("bcast", "scatter", "scatterv"), FROM_ROOT),
    **dict.fromkeys(("gather", "gatherv", "reduce"), TO_ROOT),
    **dict.fromkeys(("scan", "exscan"), FROM_BELOW),
}
_KINDS = ("eager", "synchronous", "rendezvous", "notice")


def _is_whole(message: Message) -> bool:
    """Return True if this is a separate message, not the data of a rendezvous begun by an envelope."""
    return message.cid != 0 or message.kind == CONTROL


class TracingMailbox(Mailbox):
    """A mailbox that records matches of messages and receives."""

    __slots__ = ()

    fabric: TracingFabric

    def post(self, operation: Receive) -> None:
        """Post a receive, so that `match` finds it."""
        super().post(operation)
        # The shortcut of `Fabric._deliver` for a lone receive would bypass `match`, which records it.
        self._demote_lone()

    def match(self, message: Message) -> Receive | None:
        """Return the receive for an arriving message, and record the match."""
        operation = super().match(message)
        if operation is not None:
            self.fabric.record_match(message, max(message.arrival_ps, operation.post_ps), operation.post_ps)
        return operation

    def take(self, cid: int, source: int, tag: int) -> Message | None:
        """Take the earliest kept message that fits, and record that."""
        message = super().take(cid, source, tag)
        if message is not None:
            self._taken(message)
        return message

    def remove(self, message: Message) -> None:
        """Remove a kept message from the mailbox, and record that."""
        super().remove(message)
        self._taken(message)

    def _taken(self, message: Message) -> None:
        fiber = current.fiber
        if fiber is not None:
            self.fabric.record_match(message, max(message.arrival_ps, fiber.clock_ps))


class TracingFabric(Fabric):
    """A fabric that records its messages in `trace`; see `Fabric`."""

    trace: Recorder
    mailbox_class: type[Mailbox] = TracingMailbox

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.match_times: dict[tuple[int, int, int], Callable[[Message], int]] = {}  # match times; see `batched.undo`
        self.trace = Recorder()
        self.inline_end = -1
        self.shortcuts = False
        self._numbers: dict[Message, int] = {}  # of messages in flight
        self._arrivals: dict[Message, int] = {}  # of messages that have arrived and were not taken
        self._awaited: dict[tuple[int, int], int] = {}  # of envelopes whose data are pending, by sender and ticket
        self._early: dict[int, deque[tuple[int, int]]] = {}  # matches ahead of the kernel: time and arrival, by rank

    def events(self) -> dict[str, Callable[[Any], None]]:
        """Return the handlers of message events, including messages with their numbers."""
        return {**super().events(), "traced": self._from_other_shard}

    def transmit(self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int) -> None:
        """Send an envelope, and record that."""
        if not _is_whole(message):
            super().transmit(rank, message, start_ps, wire_ps, latency_ps)
            return
        shared = self.links is not None and self.links.between(rank.number, message.to)
        if shared or self.shard.local(message.to):
            super().transmit(rank, message, start_ps, wire_ps, latency_ps)
            if not shared:
                self._numbers[message] = rank.key
        else:
            rank.key += 1
            message.arrival_ps = arrival_ps = start_ps + wire_ps + latency_ps
            self.shard.post_to(message.to, arrival_ps, rank.key, "traced", (rank.key, message))
        self.trace.departed(
            rank.key,
            source=rank.number,
            dest=message.to,
            tag=message.tag,
            size_bytes=message.size_bytes,
            communicator=message.cid & ~1,
            collective=bool(message.cid & 1),
            call=self._part_of(message),
            kind=_KINDS[message.kind],
            sent_ps=start_ps,
            ticket=message.ticket if message.kind in (SYNCHRONOUS, RENDEZVOUS) else NEVER,
        )

    def _part_of(self, message: Message) -> str:
        """Return the origin of a message: a collective, or the part of the library for a control message."""
        if message.kind == CONTROL:
            return self.control[message.tag].name
        name: str = getattr(message.note, "name", "")
        return name

    def _from_other_shard(self, parcel: tuple[int, Message]) -> None:
        number, message = parcel
        self._numbers[message] = number
        self.deliver(message)

    def _enter(self, entry: tuple[int, int, tuple[int, int, int], Message | None]) -> None:
        _, key, _, message = entry
        if message is not None and _is_whole(message):
            self._numbers[message] = key
        super()._enter(entry)

    def _deliver(self, message: Message) -> None:
        number = self._numbers.pop(message, None)
        if number is not None:
            arrival = self.trace.arrived(number, None if message.kind == RENDEZVOUS else message.arrival_ps)
            had = self.match_times.get((message.cid, message.tag, message.to))
            if had is not None:
                self._record_match(message, arrival, had(message))
            elif type(self.shard.rank(message.to).mpi) is not ClosedMailbox:
                self._arrivals[message] = arrival
                if message.kind == CONTROL:
                    self.record_match(message, message.arrival_ps)
        super()._deliver(message)

    def record_match(self, message: Message, time_ps: int, posted_ps: int | None = None) -> None:
        """Record the match of a message with a receive posted at `posted_ps`; None: just now."""
        arrival = self._arrivals.pop(message, None)
        if arrival is not None:
            self._record_match(message, arrival, time_ps, posted_ps)

    def _record_match(self, message: Message, arrival: int, time_ps: int, posted_ps: int | None = None) -> None:
        self.trace.matched(arrival, time_ps, posted_ps)
        now_ps = self.kernel.now_ps
        if time_ps > now_ps:
            early = self._early.setdefault(message.to, deque())
            while early and early[0][0] <= now_ps:
                early.popleft()
            early.append((time_ps, arrival))
        if message.kind == RENDEZVOUS:
            self._awaited[message.origin, message.ticket] = arrival

    def close(self, rank: Rank) -> None:
        """Discard later messages to a rank that has failed, and matches that it did not live to see."""
        self._discard_early(rank)
        super().close(rank)

    def withdraw(self, rank: Rank) -> None:
        """Give up the operations of a rank whose end ends the job, and matches that it did not live to see."""
        self._discard_early(rank)
        super().withdraw(rank)

    def _discard_early(self, rank: Rank) -> None:
        for time_ps, arrival in self._early.pop(rank.number, ()):
            if time_ps > self.kernel.now_ps:
                self.trace.matched(arrival, NEVER)

    def _rendezvous_data(self, box: Mailbox, message: Message) -> None:
        arrival = self._awaited.pop((message.origin, message.ticket), None)
        if arrival is not None:
            self.trace.data_arrived(arrival, message.arrival_ps)
        super()._rendezvous_data(box, message)

    # ------------------------------------------------------------------------------------------------------- waits

    def waited(self, what: Any, start_ps: int, end_ps: int) -> None:
        """Record a wait of the running fiber for an operation or a message.

        `what` is None for a vectorised collective.
        """
        fiber = current.fiber
        if fiber is None or not is_program(fiber):  # background work does not make the program wait by itself
            return
        number = fiber.rank.number
        message = what.message if isinstance(what, Receive) else what
        if isinstance(message, Message):
            self.trace.waited(number, start_ps, end_ps, FOR_MESSAGE, peer=message.origin)
        elif isinstance(what, Send):
            self.trace.waited(number, start_ps, end_ps, FOR_ANSWER, peer=what.to, ticket=what.ticket)
        elif getattr(what, "entrance", None) is not None:
            self.trace.waited(number, start_ps, end_ps, FOR_COLLECTIVE, ticket=what.entrance)
        else:
            self.trace.waited(number, start_ps, end_ps, FOR_OTHERS)

    def entered(self, comm: Any, number: int, note: Any) -> None:
        """Record that the running fiber enters a collective.

        Waits in neighbourhood ones are for single messages.
        """
        fiber = current.fiber
        name = note.name.rpartition(".")[2].lower()
        if fiber is None or not is_program(fiber) or "neighbor" in name:
            return
        pattern = _PATTERNS.get(name, _PATTERNS.get(name.removeprefix("i"), ALL)) if comm.local is None else ALL
        root = NEVER if note.root is None else note.root
        self.trace.entered(fiber.rank.number, fiber.clock_ps, comm.cid, number, pattern, root, comm.me)
