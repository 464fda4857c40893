"""A fabric whose ranks follow a schedule of nondeterministic choices, and record their choices.

It behaves like `Fabric`, through the same methods. A wildcard receive with a scheduled sender remains a wildcard, for
reports and for failures; it only skips the messages of all others, as if those had arrived later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xsim_py import rng
from xsim_py.mpi.constants import ANY_SOURCE, ANY_TAG
from xsim_py.process.ranks import current
from xsim_py.schedules import FREE, MadeChoice, MatchSchedule

from . import message as envelopes
from .choices import Causes, Chooser, OpenChoice, results
from .fabric import Fabric
from .mailbox import Mailbox, entries_of
from .message import CONTROL, Message, Receive
from .tracing import TracingFabric, TracingMailbox

if TYPE_CHECKING:
    from xsim_py.process.ranks.rank import Rank


def _of_program(cid: int) -> bool:
    """Return True if a context is that of sends of the program, not of collectives or the library."""
    return cid != 0 and cid & 1 == 0


class ChoosingMailbox(Mailbox):
    """A mailbox whose wildcard receives follow the schedule."""

    __slots__ = ("begun", "chooser", "open")

    fabric: ChoosingFabric

    def __init__(self, rank: Rank, fabric: ChoosingFabric) -> None:
        super().__init__(rank, fabric)
        self.chooser: Chooser = fabric.chooser_of(rank.number)
        self.begun: OpenChoice | None = None  # of a receive that has found no message, and is about to be posted
        # The choice, the serial and the past of each posted receive.
        self.open: dict[Receive, tuple[OpenChoice | None, int, int]] = {}

    def take(self, cid: int, source: int, tag: int) -> Message | None:
        """Take the earliest kept message that fits, from the scheduled sender if there is one."""
        if not _of_program(cid):
            return super().take(cid, source, tag)
        choice, serial, past = self._begin(cid, source, tag)
        forced = FREE if choice is None else choice.forced
        message = super().take(cid, source if forced == FREE else forced, tag)
        if message is None:
            self.begun = choice
        else:
            self._record_match(message, choice, serial, past)
        return message

    def _begin(self, cid: int, source: int, tag: int) -> tuple[OpenChoice | None, int, int]:
        """Return the choice, serial and past of a receive that the running fiber begins."""
        chooser = self.chooser
        choice = chooser.begin("receive", cid, tag, takes=True) if source == ANY_SOURCE else None
        if choice is None:
            chooser.serial += 1
        past = 0 if chooser.causes is None else chooser.causes.past(current.fiber)
        return choice, chooser.serial, past

    def _record_match(self, message: Message, choice: OpenChoice | None, serial: int, past: int) -> None:
        if choice is not None:
            choice.taken = message.source
        causes = self.chooser.causes
        if causes is not None:
            causes.record_match(self.rank.number, message, choice, serial, past)

    def post(self, operation: Receive) -> None:
        """Post a receive, so that `match` finds it."""
        if _of_program(operation.cid):
            choice, self.begun = self.begun, None
            if choice is None:
                choice, serial, past = self._begin(operation.cid, operation.source, operation.tag)
            else:
                serial, past = choice.serial, choice.past
            if choice is not None:
                choice.count = len(operation.comm.remote)
            self.open[operation] = choice, serial, past
        super().post(operation)
        self._demote_lone()  # the shortcut of `Fabric._deliver` for a lone receive would bypass `match`

    def match(self, message: Message) -> Receive | None:
        """Return the receive for an arriving message: the first that fits and is not scheduled otherwise."""
        operation = super().match(message)
        if operation is not None and _of_program(message.cid):
            self._record_match(message, *self.open.pop(operation))
        return operation

    def _match_with_wildcards(self, message: Message, key: tuple[int, int]) -> Receive | None:
        assert self.posted_any is not None
        fitting = [
            operation
            for operation in (*entries_of(self.posted.get(key)), *self.posted_any[message.cid])
            if operation.tag in (message.tag, ANY_TAG) and self._wants(operation, message)
        ]
        first: Receive | None = min(fitting, key=lambda operation: operation.serial, default=None)
        if first is not None:
            self.unpost(first)
        return first

    def _wants(self, operation: Receive, message: Message) -> bool:
        choice = self.open[operation][0] if operation in self.open else None
        return choice is None or choice.forced in (FREE, message.source)


class ChoosingFabric(Fabric):
    """A fabric whose ranks follow a schedule of choices; see `Fabric`."""

    mailbox_class: type[Mailbox] = ChoosingMailbox

    def __init__(self, *args: Any, schedule: MatchSchedule) -> None:
        super().__init__(*args)
        self.schedule = schedule
        self.causes = Causes() if schedule.watch else None  # the dependencies between choices, in a watched run
        self.choosers: dict[int, Chooser] = {}
        self.inline_end = -1
        self.shortcuts = False
        self._due: dict[tuple[int, int], int] = {}  # the last arrival of each pair, if messages are delayed
        self._behind: dict[int, int] = {}  # the delay of each rank
        self._launched = 0

    def connect(self) -> None:
        """Register with the shard, and observe which messages and operations programs see."""
        super().connect()
        if self.causes is not None:
            envelopes.observed = self.causes.observe

    def chooser_of(self, number: int) -> Chooser:
        """Return the choices of a rank, made on first use."""
        if number not in self.choosers:
            self.choosers[number] = Chooser(number, self.schedule.wanted.get(number, ()), self.causes)
        return self.choosers[number]

    def transmit(self, rank: Rank, message: Message, start_ps: int, wire_ps: int, latency_ps: int) -> None:
        """Send an envelope, and record the past of its sender."""
        whole = message.cid != 0 or message.kind == CONTROL
        if self.causes is not None and whole:
            self.causes.record_send(message, rank, of_program=_of_program(message.cid))
        if self.schedule.shake is not None and whole and message.kind != CONTROL:
            latency_ps += self._delay_ps(rank.number, message.to, start_ps + wire_ps + latency_ps)
        super().transmit(rank, message, start_ps, wire_ps, latency_ps)

    def _delay_ps(self, origin: int, to: int, arrival_ps: int) -> int:
        """Return the delay of a message; messages between two ranks stay in order."""
        shake = self.schedule.shake
        assert shake is not None
        self._launched += 1
        if not shake.changes:
            delay_ps = int(rng.stream(shake.seed, "walk", self._launched).random() * shake.span_ps)
        else:
            delay_ps = self._place_of(origin) * shake.span_ps
        due_ps = self._due[origin, to] = max(arrival_ps + delay_ps, self._due.get((origin, to), 0))
        return due_ps - arrival_ps

    def _place_of(self, origin: int) -> int:
        """Return how far behind a rank is: randomly at first, and last from each change on."""
        shake = self.schedule.shake
        assert shake is not None
        if not self._behind:
            ranks = list(range(self.first, self.end))
            rng.stream(shake.seed, "priorities").shuffle(ranks)
            self._behind = {number: place for place, number in enumerate(ranks)}
            draws = rng.stream(shake.seed, "changes")
            self._changes = {draws.randint(1, max(shake.messages, 1)) for _ in range(shake.changes - 1)}
        if self._launched in self._changes:
            self._behind[origin] = max(self._behind.values()) + 1
        return self._behind.get(origin, 0)

    def choices(self) -> list[MadeChoice]:
        """Return the choices of the ranks, ordered by rank and begin."""
        choosers = [self.choosers[number] for number in sorted(self.choosers)]
        return results(choosers, self.causes)

    def answer(self, rank: Rank, message: Message, handler: str, when_ps: int) -> None:
        """Send a reply without data to the sender of a message, which depends on its receive from then on."""
        if self.causes is not None:
            self.causes.record_reply(message)
        super().answer(rank, message, handler, when_ps)

    def take_control(self, message: Message) -> None:
        """Pass a control message to its handler; later actions of the rank depend on its sender."""
        if self.causes is not None:
            rank = self.ranks[message.to - self.first]
            self.causes.add(rank.fiber, self.causes.past_of(message))
        super().take_control(message)


class _Both(ChoosingMailbox, TracingMailbox):
    """A mailbox that follows a schedule, and records matches."""

    __slots__ = ()

    fabric: TracedChoosingFabric


class TracedChoosingFabric(ChoosingFabric, TracingFabric):
    """A fabric whose ranks follow a schedule of choices, and that records its messages."""

    mailbox_class = _Both
