"""The monitor of a checked run, which collects findings."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sized
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import is_installed, shown
from xsim_py.findings import PARAMETER_MATCHING, Finding, by_place
from xsim_py.mpi.transport.call_sites import line_of
from xsim_py.mpi4py.door import BoundCall
from xsim_py.process.ranks import current

from . import signatures
from .in_use import BuffersInUse
from .records import MessageSide, Place
from .steps import Steps
from .touches import LineWatch

if TYPE_CHECKING:
    from types import CodeType

    from xsim_py.mpi.transport.message import Message
    from xsim_py.process.ranks.fiber import Fiber

    from .requests import RequestRecord
    from .signatures import Signature

After = Callable[[Any], bool | None]
"""Takes the result of a checked call, and returns True if it has handled the result completely."""

MANY_STEPS = 500
_blank = object.__new__
_NOWHERE: Place = compile("", "", "exec"), 0, ""

_MOST_DETAILS = 8
_OF_MPI4PY = f"{os.sep}mpi4py{os.sep}"


def is_of_mpi4py(file: str) -> bool:
    """Return True if a file belongs to mpi4py's own library, such as its futures."""
    return _OF_MPI4PY in file and is_installed(file)


class MpiCall(BoundCall):
    """A call, with what the checks note about it."""

    __slots__ = ("after", "matching", "place", "rank", "sending", "waits_for")

    def __init__(self, fiber: Fiber, rank: RankState, outer: MpiCall | None = None) -> None:
        super().__init__(fiber, outer)
        self.rank = rank
        self.place: Place = _NOWHERE  # the calling line of the program
        self.sending: MessageSide | None = None  # the message it is about to send
        self.waits_for: MessageSide | None = None  # the messages it waits for, the received one first
        self.matching = ""  # the arguments, in words, that must agree with the matching calls of other ranks
        self.after: After | None = None  # the rest of its check

    def abandon(self) -> None:
        """Drop what keeps objects of the program alive, since the call never ends."""
        super().abandon()
        self.after = None

    def side(self, comm: object, peer: int, tag: int, signature: Signature | None, sends: bool) -> MessageSide:
        """Return a side of a message that the call begins."""
        # Hot path, twice for nearly every message: three times as fast as an `__init__`.
        side = _blank(MessageSide)
        side.posted = False
        side.clock = side.partner = side.next_side = None
        side.rank = self.rank.number
        side.name = self.title
        side.place = self.place
        side.comm = comm
        side.peer = peer
        side.tag = tag
        side.signature = signature
        side.sends = sends
        return side


class RankState:
    """The state that the monitor keeps for one rank."""

    __slots__ = (
        "buffers",
        "collectives",
        "exposed",
        "moment",
        "number",
        "objects",
        "replay_limit",
        "requests",
        "steps",
        "threads",
        "windows",
    )

    def __init__(self, number: int, accesses: Sized) -> None:
        self.number = number  # the world rank
        self.steps = Steps(keeps=accesses)  # the rank's actions, in order
        # A `RequestRecord` for each one not completed and freed, by the address of its task; see `requests`.
        self.requests: dict[int, Any] = {}
        self.objects: dict[int, Any] = {}  # those it has created and not freed, by address; see `resources`
        self.collectives: dict[Any, int] = {}  # the number of collectives it has begun on each communicator
        self.buffers = BuffersInUse()  # in use by requests; see `buffers`
        self.windows: dict[int, Any] = {}  # each `OpenWindow`, by address; see `rma`
        self.exposed: list[Any] = []  # the memory it exposes in windows, each an `Exposed`
        # The number of its threads that make calls (they share its steps), and of its actions on window memory.
        self.threads = self.moment = 0
        self.replay_limit = MANY_STEPS  # the number of steps above which replaying them before the end is worthwhile

    def raise_replay_limit(self) -> None:
        """Replay the steps again only after they have more than doubled."""
        self.replay_limit = 2 * len(self.steps.pending) + MANY_STEPS

    def next_moment(self) -> int:
        """Count one more action on window memory."""
        self.moment += 1
        return self.moment


def call_of(fiber: Fiber | None) -> MpiCall | None:
    """Return the current or last call of a thread."""
    return None if fiber is None else fiber.call


class _Noted:
    """A finding whose set of ranks may still grow."""

    __slots__ = ("details", "ranks")

    def __init__(self) -> None:
        self.ranks: set[int] = set()
        self.details: dict[str, None] = {}


class Monitor:
    """Follows every MPI call of every rank and collects findings."""

    def __init__(self, *, synchronous: bool = False) -> None:
        self.synchronous = synchronous  # whether each standard send waits for its receive, as without buffering
        self.start = ""  # the directory in which the program starts; file names are relative to it
        # Whether the program may depend on buffered sends, which only a further run can decide.
        self.is_doubtful = False
        self.wildcards = False  # whether a receive or probe has used a wildcard source
        self.polls = False  # whether a rank has tested for completion and may have acted on a negative result
        self.ranks: dict[int, RankState] = {}
        self.threads: list[Fiber] = []  # those that have made calls
        self.in_flight: dict[Message, MessageSide] = {}  # messages not known to be received
        self.freed: list[RequestRecord] = []  # in progress
        self.freed_sends: dict[MessageSide, RequestRecord] = {}  # until their messages are received
        self.members: dict[Any, Any] = {}  # collectives that some members have begun; see `collectives`
        self.accesses: dict[Any, list[Any]] = {}  # to the memory of each member of each window; see `rma`
        self.shared_memory: dict[Any, list[Any]] = {}  # windows that share memory; see `conflicts`
        self.signals: dict[Any, Any] = {}
        self.copies: dict[tuple[int, int], Any] = {}  # arguments that may be copies, by call; see `copies`
        # By rank: messages too long for their receives, with the place, text and details of the finding.
        self.truncated: dict[int, dict[tuple[Place, str, str], None]] = {}
        # Errors raised by calls, by rank and instruction: the place, class, text and details of the finding.
        self.raised: dict[tuple[int, CodeType | str, int], tuple[Place, str, str, tuple[str, ...]]] = {}
        self.refused: set[MpiCall] = set()  # open calls whose errors went to an error handler
        self.doing: Mapping[int, str] = {}  # the activity of each rank as named by its program, e.g. a test
        # Activities that ranks have aborted; findings there are suppressed from now on.
        self.excused: Collection[str] = ()
        # The active requests of earlier tests that no handle referred to at the end of the run, each a `RequestRecord`.
        self.lost: list[tuple[RankState, Any]] = []
        self._noted: dict[tuple[str, str, int, str, str], _Noted] = {}
        self.lines = LineWatch(self)

    # ------------------------------------------------------------------------------------------------ findings

    def note(self, category: str, place: Place, text: str, rank: int, *details: str) -> None:
        """Record a finding of a rank at a place."""
        file, line = line_of(place[:2])
        doing = place[2]
        if doing in self.excused or is_of_mpi4py(file):
            return  # internal to the library, e.g. its futures
        noted = self._noted.setdefault((category, file, line, text, doing), _Noted())
        noted.ranks.add(rank)
        noted.details.update(dict.fromkeys(details))

    def has_noted(self, place: Place, rank: int) -> bool:
        """Return True if this rank has a finding at the line of a place."""
        return bool(self._noted) and any(
            rank in noted.ranks for key, noted in self._noted.items() if key[1:3] == line_of(place[:2])
        )

    def has_finding(self, *categories: str) -> bool:
        """Return True if the current activities of the ranks have a finding of one of these classes."""
        doing = {self.doing.get(rank, "") for rank in self.ranks}
        return any(key[0] in categories and key[4] in doing for key in self._noted)

    def is_over(self, place: Place) -> bool:
        """Return True if a place belongs to an activity, such as a test, that all ranks have ended."""
        return bool(place[2]) and place[2] not in self.doing.values()

    def findings(self, doing: str | None = None) -> tuple[Finding, ...]:
        """Return all findings, or those of one activity, sorted by file and line."""
        found = []
        for (category, file, line, text, at), noted in self._noted.items():
            if doing not in (None, at):
                continue
            details = list(noted.details)
            if len(details) > _MOST_DETAILS:
                details = [*details[:_MOST_DETAILS], f"... and {len(details) - _MOST_DETAILS:,} more"]
            ranks = tuple(sorted(noted.ranks))
            found.append(Finding(category, shown(file, self.start), line, text, ranks, tuple(details), doing=at))
        return tuple(sorted(found, key=by_place))

    def where(self, place: Place) -> str:
        """Return a place as shown in reports."""
        file, line = line_of(place[:2])
        return f"{shown(file, self.start)}:{line}"

    def rank(self, number: int) -> RankState:
        """Return the state of a rank."""
        state = self.ranks.get(number)
        if state is None:
            state = self.ranks[number] = RankState(number, self.accesses)
        return state

    def new_call(self, fiber: Fiber, outer: MpiCall | None) -> MpiCall:
        """Return the `MpiCall` of a thread that makes its first call, or one nested in another call."""
        state = self.rank(fiber.rank.number)
        if outer is None:
            state.threads += 1
            self.threads.append(fiber)
        return MpiCall(fiber, state, outer)

    def open_calls(self) -> list[MpiCall]:
        """Return the calls that have not returned."""
        return [fiber.call for fiber in self.threads if fiber.call.is_open]

    # --------------------------------------------------------------------------------- notifications by the transport

    def departed(self, message: Message) -> None:
        """Record a message that the running fiber sends."""
        call = call_of(current.fiber)
        if call is not None and (side := call.sending) is not None:
            self.in_flight[message] = side
            call.sending, side.next_side = side.next_side, None

    def seen(self, what: Any) -> None:
        """Record a message that the running fiber has received.

        Requests report theirs by `received`.
        """
        send = self.in_flight.pop(what, None)
        if send is not None:
            call = call_of(current.fiber)
            receive = None if call is None else call.waits_for
            if receive is not None and not receive.sends and receive.partner is None:
                self._matched(send, receive)

    def received(self, message: Message | None, receive: MessageSide) -> None:
        """Record that the message this side was waiting for is received."""
        send = self.in_flight.pop(message, None) if message is not None else None
        if send is not None:
            self._matched(send, receive)

    def _matched(self, send: MessageSide, receive: MessageSide) -> None:
        send.partner = receive
        receive.partner = send
        if self.freed_sends and (record := self.freed_sends.pop(send, None)) is not None:
            for used in record.used:
                used.end()
        if send.signature is not receive.signature:
            self.compare_types(send, receive)

    def compare_types(self, send: MessageSide, receive: MessageSide) -> None:
        """Find a message whose elements differ from those its receive expects."""
        sent, wanted = send.signature, receive.signature
        if sent == wanted or sent is None or wanted is None or signatures.match(sent, wanted):
            return
        expected, actual = signatures.described(wanted), signatures.described(sent)
        text = f"{receive.name} expects {expected}, but the message has {actual}"
        details = f"{self.where(send.place)}: {send.name} of rank {send.rank} sends it, tag {send.tag}"
        if signatures.match(wanted, sent):  # too long: the receive raises ERR_TRUNCATE, which the program may catch
            self.truncated.setdefault(receive.rank, {})[receive.place, text, details] = None
        else:
            self.note(PARAMETER_MATCHING, receive.place, text, receive.rank, details)

    def note_error(self, category: str, place: Place, text: str, rank: int, *details: str) -> None:
        """Record an error that the program has not caught.

        A truncated message is recorded at its receive and send.
        """
        truncated = self.truncated.pop(rank, {}) if category == PARAMETER_MATCHING else {}
        for at, message, sender in [each for each in truncated if each[0] == place] or truncated:
            self.note(category, at, message, rank, sender)
        if not truncated:
            self.note(category, place, text, rank, *details)
