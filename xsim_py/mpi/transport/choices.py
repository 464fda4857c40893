"""Nondeterministic choices of one rank, and their causal dependencies in watched runs.

Dependencies between choices are found as by vector clocks, with choices instead of events: each fiber knows the set
of all choices that its actions depend on, as the bits of one number, and each message carries that of its sender.

A choice takes effect when the program sees its result (a receive returns, a request is waited for), not when the
message matches its receive: until then another message might have matched it. Choices also depend on each other in
three more ways: the reply to a synchronous send or a rendezvous informs its sender of the receipt; a message that fits
two receives was not taken by the one posted first; and control messages depend on their senders.

Prior art: POE of ISP (Vakkalanka, Gopalakrishnan, Kirby 2008) and DAMPI (Vo et al. 2010), whose Lamport clocks miss
some alternatives; here none is missed, at the cost of one bit per choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xsim_py.mpi.constants import ANY_TAG
from xsim_py.process.ranks import current
from xsim_py.schedules import FREE, MadeChoice

from .call_sites import Place, here, line_of

if TYPE_CHECKING:
    from xsim_py.process.ranks.fiber import Fiber

    from .message import Message, Operation


class OpenChoice:
    """A choice that has begun, and may have been made."""

    __slots__ = (
        "begun_ps",
        "bit",
        "cid",
        "count",
        "forced",
        "kind",
        "number",
        "operations",
        "past",
        "place",
        "rank",
        "serial",
        "tag",
        "taken",
    )

    def __init__(self, rank: int, number: int, kind: str, forced: int, begun_ps: int, place: Place) -> None:
        self.rank = rank
        self.number = number
        self.kind = kind
        self.forced = forced  # the scheduled choice; `FREE` if there is none
        self.taken = FREE  # the actual choice
        self.begun_ps = begun_ps
        self.place = place
        # `cid` and `tag` are the arguments of a receive or a probe. `serial` is its number among the rank's receives,
        # probes and waits, and `bit` its bit in a set of choices. `past` has the choices that it depends on, and
        # `count` the number of alternative ranks or requests, as far as known.
        self.cid = self.tag = self.serial = self.bit = self.past = self.count = 0
        # For a wait: its active requests, as index in the list and operation.
        self.operations: Sequence[tuple[int, Any]] = ()


class Chooser:
    """The choices of one rank, in the order in which they begin."""

    __slots__ = ("causes", "made", "rank", "serial", "wanted")

    def __init__(self, rank: int, wanted: Sequence[int], causes: Causes | None) -> None:
        self.rank = rank
        self.wanted = wanted
        self.causes = causes
        self.made: list[OpenChoice] = []
        self.serial = 0

    def next_forced(self) -> int:
        """Return the scheduled value of the next choice."""
        return self.wanted[len(self.made)] if len(self.made) < len(self.wanted) else FREE

    def begin(self, kind: str, cid: int = 0, tag: int = 0, count: int = 0, *, takes: bool = False) -> OpenChoice:
        """Begin the next choice, in the running fiber, among `count` ranks or requests.

        `count` is 0 if unknown. `takes` is True for a receive, and for a probe that takes its message away from other
        receives.
        """
        fiber = current.running()
        choice = OpenChoice(self.rank, len(self.made), kind, self.next_forced(), fiber.clock_ps, here())
        choice.cid, choice.tag, choice.count = cid, tag, count
        self.made.append(choice)
        self.serial += 1
        choice.serial = self.serial
        if self.causes is not None:
            self.causes.record_begin(choice, fiber, takes=takes)
        return choice

    def among(self, places: Sequence[int], wanted: int, *, several: bool) -> list[int]:
        """Return the scheduled indices in a list of requests.

        Return all indices if none of them is scheduled.
        """
        if wanted == FREE:
            return list(places)
        return [place for place in places if (wanted >> place & 1 if several else wanted == place)] or list(places)

    def probed(self, choice: OpenChoice, message: Message, *, taken: bool) -> None:
        """Record the message that a probe of the running fiber has found, and possibly taken."""
        choice.taken = message.source
        if self.causes is not None:
            self.causes.record_match(self.rank, message, choice, choice.serial, choice.past, stays=not taken)
            self.causes.record_result(choice)

    def waited(self, choice: OpenChoice, taken: int, operations: Sequence[tuple[int, Any]]) -> None:
        """Record the requests that a wait of the running fiber has chosen among the active ones."""
        choice.taken, choice.operations = taken, operations
        if self.causes is not None:
            for place, operation in operations:
                if taken == place if choice.kind == "any" else taken >> place & 1:
                    choice.past |= self.causes.past_of(operation)
            self.causes.record_result(choice)


class Sent:
    """A program's message in flight to a rank: the past of its sender, and the matching receive."""

    __slots__ = ("message", "past", "seen_past", "taker")

    def __init__(self, message: Message, past: int) -> None:
        self.message = message
        self.past = past
        self.taker = 0  # the serial of the receive
        self.seen_past = past  # the past of an action after its receive


class Causes:
    """The dependencies on choices, in one shard that has all ranks."""

    def __init__(self) -> None:
        self.pasts: dict[Fiber, int] = {}
        self.sent: dict[int, list[Sent]] = {}
        self.known: dict[Message, Sent] = {}
        self.answers: dict[tuple[int, int], int] = {}
        self.pending: dict[int, list[OpenChoice]] = {}
        self.choices: list[OpenChoice] = []
        self.messages = 0

    def past(self, fiber: Fiber | None, rank: Any = None) -> int:
        """Return the choices that a fiber's next action depends on.

        Without a fiber, it is the rank's program.
        """
        if fiber is None or (rank is not None and fiber.rank is not rank):
            fiber = rank.fiber
            assert fiber is not None
        found = self.pasts.get(fiber)
        return self.pasts.get(fiber.rank.fiber, 0) if found is None else found

    def add(self, fiber: Fiber, past: int) -> None:
        """Make later actions of a fiber depend on these choices, too."""
        self.pasts[fiber] = self.past(fiber) | past

    def record_begin(self, choice: OpenChoice, fiber: Fiber, *, takes: bool) -> None:
        """Record the begin of a choice."""
        choice.bit = 1 << len(self.choices)
        choice.past = self.past(fiber)
        self.choices.append(choice)
        if takes:
            self.pending.setdefault(choice.rank, []).append(choice)

    def record_send(self, message: Message, rank: object, *, of_program: bool) -> None:
        """Record the send of a message."""
        sent = self.known[message] = Sent(message, self.past(current.fiber, rank))
        self.messages += 1
        if of_program:
            self.sent.setdefault(message.to, []).append(sent)

    def record_match(
        self, rank: int, message: Message, choice: OpenChoice | None, serial: int, past: int, *, stays: bool = False
    ) -> None:
        """Record the match of a message with a receive or its wildcard choice; or a probe, if it `stays`."""
        sent = self.known.get(message)
        if sent is None:
            return
        # The next receive depends on the past of this one, too: these choices need no further comparison.
        pending = self.pending[rank] = [each for each in self.pending.get(rank, ()) if not past & each.bit]
        past |= sent.past
        for earlier in pending:
            fits = earlier.cid == message.cid and earlier.tag in (message.tag, ANY_TAG)
            if earlier is not choice and earlier.serial < serial and fits:
                past |= earlier.bit | earlier.past
        if choice is not None:
            choice.past |= past
            past |= choice.bit
        if not stays:
            sent.taker = serial
            sent.seen_past = past

    def record_reply(self, message: Message) -> None:
        """Record that the sender of a message learns of its receipt."""
        sent = self.known.get(message)
        if sent is not None:
            self.answers[message.origin, message.ticket] = sent.seen_past

    def past_of(self, what: Any) -> int:
        """Return the choices that observing a message or a completed operation makes an action depend on."""
        message = getattr(what, "message", what)
        if message in self.known:
            return self.known[message].seen_past
        if hasattr(what, "ticket"):
            return self.answers.get((what.comm.box.rank.number, what.ticket), 0)
        fiber = getattr(what, "fiber", None)
        return 0 if fiber is None else self.past(fiber)

    def observe(self, what: object) -> None:
        """Record that the running fiber has observed a message or a completed operation."""
        fiber = current.running()
        self.add(fiber, self.past_of(what))

    def record_result(self, choice: OpenChoice) -> None:
        """Record the result of a wait or a probe of the running fiber."""
        fiber = current.running()
        self.add(fiber, choice.past | choice.bit)

    # ------------------------------------------------------------------------------------------ after the run

    def alternatives(self, choice: OpenChoice) -> tuple[int, ...]:
        """Return the possible alternatives of a choice."""
        if choice.taken == FREE:
            return ()
        if choice.kind in ("receive", "probe"):
            return tuple(sorted(self._other_sources(choice)))
        ready = [place for place, operation in choice.operations if self._could_be_ready(operation, choice)]
        if choice.kind == "any":
            return tuple(place for place in ready if place != choice.taken)
        sums = [0]
        for place in ready:
            sums += [1 << place | other for other in sums]
        return tuple(sorted({*sums} - {0, choice.taken}))

    def _other_sources(self, choice: OpenChoice) -> set[int]:
        """Return the other senders whose first remaining message is independent of the choice."""
        first: dict[int, Sent] = {}
        for sent in self.sent.get(choice.rank, ()):
            message = sent.message
            fits = message.cid == choice.cid and choice.tag in (message.tag, ANY_TAG)
            if fits and message.source not in first and not 0 < sent.taker < choice.serial:
                first[message.source] = sent
        return {source for source, sent in first.items() if source != choice.taken and not sent.past & choice.bit}

    def _could_be_ready(self, operation: Operation | None, choice: OpenChoice) -> bool:
        return operation is None or (operation.done and not self.past_of(operation) & choice.bit)


def results(choosers: Sequence[Chooser], causes: Causes | None) -> list[MadeChoice]:
    """Return the choices of some ranks as plain data."""
    found = []
    for chooser in choosers:
        for choice in chooser.made:
            file, line = line_of(choice.place)
            found.append(
                MadeChoice(
                    choice.rank,
                    choice.number,
                    choice.kind,
                    choice.taken,
                    f"{file}:{line}",
                    choice.begun_ps,
                    () if causes is None else causes.alternatives(choice),
                    choice.bit,
                    choice.past,
                    choice.count,
                )
            )
    return found
