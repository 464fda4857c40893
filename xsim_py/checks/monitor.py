"""The monitor of a checked run: it is told of every call and every match, and keeps what it finds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from xsim_py.code_origin import is_installed, of_program, program_frame, shown
from xsim_py.findings import PARAMETER_MATCHING, Finding, by_place
from xsim_py.mpi.transport.call_sites import line_of
from xsim_py.process.python.threads import is_program
from xsim_py.process.ranks import current

from . import signatures
from .in_use import BuffersInUse
from .records import MessageSide, Place
from .steps import Steps
from .touches import LineWatch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sized
    from types import CodeType, FrameType

    from xsim_py.mpi.transport.message import Message
    from xsim_py.process.ranks.fiber import Fiber

    from .requests import RequestRecord
    from .signatures import Signature

MANY_STEPS = 500
_blank = object.__new__
_NOWHERE: Place = compile("", "", "exec"), 0, ""

_MOST_DETAILS = 8
_OF_MPI4PY = f"{os.sep}mpi4py{os.sep}"


def is_of_mpi4py(file: str) -> bool:
    """Return whether a file belongs to mpi4py's own library, such as its futures."""
    return _OF_MPI4PY in file and is_installed(file)


class MpiCall:
    """The MPI call that a thread of a rank is in, or was in last: one object for all of its calls, one after the other.

    Attributes
    ----------
    rank : RankState
        Who makes it.
    is_open : bool
        Whether it has not returned.
    name, title : str
        The method, alone and as the program has written it: ``Comm.Send``.
    place : Place
        The line of the program.
    sending : MessageSide or None
        What it is about to send.
    waits_for : MessageSide or None
        The messages that it waits for, of which the first is what it receives.
    said : str
        Those of its arguments, in words, that are the same in the calls of other ranks with which it ends.
    outer : MpiCall or None
        The call that has called back the function of the program which makes this one.
    """

    __slots__ = ("is_open", "name", "outer", "place", "rank", "said", "sending", "title", "waits_for")

    def __init__(self, rank: RankState, outer: MpiCall | None = None) -> None:
        self.rank = rank
        self.outer = outer
        self.is_open = False
        self.name = self.title = ""
        self.place: Place = _NOWHERE
        self.sending: MessageSide | None = None
        self.waits_for: MessageSide | None = None
        self.said = ""

    def side(self, comm: Any, peer: int, tag: int, signature: Signature | None, sends: bool) -> MessageSide:
        """Return a side of a message that the call begins now."""
        # Hot path, twice for nearly every message: in a third of the time that an `__init__` takes.
        side = _blank(MessageSide)
        side.posted = False
        side.clock = side.partner = side.also = None
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
    """The monitor keeps this for one rank.

    Attributes
    ----------
    number : int
        In the whole run.
    steps : Steps
        What the rank has done, in order.
    requests : dict of int to RequestRecord
        Those that are not completed and freed, by the address of their tasks; see `requests`.
    objects : dict of int to list
        What it has made and not freed, by address; see `resources`.
    collectives : dict
        How many collectives it has begun on each communicator.
    buffers : BuffersInUse
        The buffers that requests use now; see `buffers`.
    windows : dict of int to OpenWindow
        Its windows, by address; see `rma`.
    exposed : list of Exposed
        The memory that it shows in windows.
    many : int
        More steps than these are worth going through before the end.
    threads : int
        How many of its threads make calls; its steps are those of all of them.
    moment : int
        How much it has done with the memory of windows.
    """

    __slots__ = (
        "buffers",
        "collectives",
        "exposed",
        "many",
        "moment",
        "number",
        "objects",
        "requests",
        "steps",
        "threads",
        "windows",
    )

    def __init__(self, number: int, accesses: Sized) -> None:
        self.number = number
        self.steps = Steps(keeps=accesses)
        self.requests: dict[int, Any] = {}
        self.objects: dict[int, Any] = {}
        self.collectives: dict[Any, int] = {}
        self.buffers = BuffersInUse()
        self.windows: dict[int, Any] = {}
        self.exposed: list[Any] = []
        self.threads = self.moment = 0
        self.many = MANY_STEPS

    def keep_more(self) -> None:
        """Have the steps gone through again once they are twice as many as now, and some more."""
        self.many = 2 * len(self.steps.ahead) + MANY_STEPS

    def next_moment(self) -> int:
        """Count one more thing that the rank does with the memory of windows."""
        self.moment += 1
        return self.moment


class _Noted:
    """A finding in the making: which ranks it concerns grows."""

    __slots__ = ("details", "ranks")

    def __init__(self) -> None:
        self.ranks: set[int] = set()
        self.details: dict[str, None] = {}


class Monitor:
    """Follows every MPI call of every rank of a run, and keeps what is wrong with them.

    Parameters
    ----------
    synchronous : bool
        Have each standard send wait for its receive, as if nothing were buffered.

    Attributes
    ----------
    start : str
        The folder in which the program starts, from which its files are named.
    is_doubtful : bool
        Whether the program may depend on buffered sends, which only another run can tell.
    wildcards : bool
        Whether a receive or a probe has left open whose message it takes.
    polls : bool
        Whether a rank has asked if something is there, and done something else where it was not, perhaps.
    doing : mapping of int to str
        What each rank is doing, where its program says so: the name of a test.
    excused : collection of str
        Of what ranks were doing, what they have broken off: from now on nothing is found there.
    lost : list of (RankState, RequestRecord)
        The active requests of earlier tests that no handle named when the run ended.
    """

    def __init__(self, *, synchronous: bool = False) -> None:
        self.synchronous = synchronous
        self.start = ""
        self.is_doubtful = False
        self.wildcards = False
        self.polls = False
        self.ranks: dict[int, RankState] = {}
        self.calls: dict[Fiber | None, MpiCall] = {}
        self.under_way: dict[Message, MessageSide] = {}  # what no rank has seen to be received
        self.freed: list[RequestRecord] = []  # in progress
        self.freed_sends: dict[MessageSide, RequestRecord] = {}  # until their messages are received
        self.members: dict[Any, Any] = {}  # collectives that some members have begun; see `collectives`
        self.accesses: dict[Any, list[Any]] = {}  # to the memory of each member of each window; see `rma`
        self.twins: dict[Any, list[Any]] = {}  # windows over one memory; see `conflicts`
        self.signals: dict[Any, Any] = {}
        self.copies: dict[tuple[int, int], Any] = {}  # arguments that may be copies, by call; see `copies`
        # By rank: where a message was too long for its receive, what is to be said of that, and the details.
        self.truncated: dict[int, dict[tuple[Place, str, str], None]] = {}
        # What calls have raised, by rank and instruction: the place, the class of the mistake, the text, and details.
        self.raised: dict[tuple[int, CodeType | str, int], tuple[Place, str, str, tuple[str, ...]]] = {}
        self.refused: set[MpiCall] = set()  # those that have not returned, whose errors have gone to a handler
        self.doing: Mapping[int, str] = {}
        self.excused: Collection[str] = ()
        self.lost: list[tuple[RankState, Any]] = []
        self._noted: dict[tuple[str, str, int, str, str], _Noted] = {}
        # Code of the program, and other code, by its address: to hash a code object takes microseconds.
        self.frames: dict[int, CodeType] = {}
        self._others: dict[int, CodeType] = {}
        self.lines = LineWatch(self)

    # ------------------------------------------------------------------------------------------------ findings

    def note(self, category: str, place: Place, text: str, rank: int, *details: str) -> None:
        """Take down that a rank has made a mistake at a place."""
        file, line = line_of(place[:2])
        doing = place[2]
        if doing in self.excused or is_of_mpi4py(file):
            return  # the library's own business, as in its futures
        noted = self._noted.setdefault((category, file, line, text, doing), _Noted())
        noted.ranks.add(rank)
        noted.details.update(dict.fromkeys(details))

    def has_noted(self, place: Place, rank: int) -> bool:
        """Return whether something has been found in the line of a place, by this rank."""
        return bool(self._noted) and any(
            rank in noted.ranks for key, noted in self._noted.items() if key[1:3] == line_of(place[:2])
        )

    def has(self, *categories: str) -> bool:
        """Return whether something of one of these classes has been found in what the ranks are doing now."""
        doing = {self.doing.get(rank, "") for rank in self.ranks}
        return any(key[0] in categories and key[4] in doing for key in self._noted)

    def is_over(self, place: Place) -> bool:
        """Return whether a place belongs to something that ranks have done, as a test, and that none does any more."""
        return bool(place[2]) and place[2] not in self.doing.values()

    def findings(self, doing: str | None = None) -> tuple[Finding, ...]:
        """Return what was found, by file and line: all, or what was found in something that ranks were doing."""
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
        """Return a place as reports name it."""
        file, line = line_of(place[:2])
        return f"{shown(file, self.start)}:{line}"

    def place_of(self, frame: FrameType, rank: int) -> Place:
        """Return the place of the program where a rank has made a call, which came from this frame."""
        outer = program_frame(frame)
        if outer is frame:
            self.frames[id(frame.f_code)] = frame.f_code
        return outer.f_code, outer.f_lasti, self.doing.get(rank, "")

    def rank(self, number: int) -> RankState:
        """Return what is kept for a rank."""
        state = self.ranks.get(number)
        if state is None:
            state = self.ranks[number] = RankState(number, self.accesses)
        return state

    def outermost(self, fiber: Fiber | None, inside: MpiCall | None, frame: FrameType) -> MpiCall | None:
        """Return what follows a call that a frame makes: of a thread in its first one, or inside of another call.

        Returns
        -------
        MpiCall or None
            None where it is not the program that calls.
        """
        if inside is None:
            if fiber is None or not is_program(fiber):
                return None
            state = self.rank(fiber.rank.number)
            state.threads += 1
            made = MpiCall(state)
        else:
            code = frame.f_code
            if id(code) in self._others:
                return None
            if not of_program(code.co_filename):
                self._others[id(code)] = code
                return None
            made = MpiCall(inside.rank, inside)  # the outer one has called back a function of the program
        self.calls[fiber] = made
        return made

    def open_calls(self) -> list[MpiCall]:
        """Return the calls that have not returned."""
        return [call for call in self.calls.values() if call.is_open]

    # --------------------------------------------------------------------------------------- what the transport tells

    def departed(self, message: Message) -> None:
        """Take note of a message that the running fiber sends."""
        call = self.calls.get(current.fiber)
        if call is not None and (side := call.sending) is not None:
            self.under_way[message] = side
            call.sending, side.also = side.also, None

    def seen(self, what: Any) -> None:
        """Take note of a message that the running fiber has received; those of requests come by `received`."""
        send = self.under_way.pop(what, None)
        if send is not None:
            call = self.calls.get(current.fiber)
            receive = None if call is None else call.waits_for
            if receive is not None and not receive.sends and receive.partner is None:
                self._matched(send, receive)

    def received(self, message: Message | None, receive: MessageSide) -> None:
        """Take note that a message is received, which this side has waited for."""
        send = self.under_way.pop(message, None) if message is not None else None
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
        """Find a message whose elements are not those that its receive expects."""
        sent, wanted = send.signature, receive.signature
        if sent == wanted or sent is None or wanted is None or signatures.match(sent, wanted):
            return
        expected, came = signatures.described(wanted), signatures.described(sent)
        text = f"{receive.name} expects {expected}, but the message has {came}"
        details = f"{self.where(send.place)}: {send.name} of rank {send.rank} sends it, tag {send.tag}"
        if signatures.match(wanted, sent):  # too long: the receive raises ERR_TRUNCATE, which the program may catch
            self.truncated.setdefault(receive.rank, {})[receive.place, text, details] = None
        else:
            self.note(PARAMETER_MATCHING, receive.place, text, receive.rank, details)

    def note_error(self, category: str, place: Place, text: str, rank: int, *details: str) -> None:
        """Note an error that the program has not caught: if a message was too long, its receive and its send."""
        truncated = self.truncated.pop(rank, {}) if category == PARAMETER_MATCHING else {}
        for at, said, sender in [each for each in truncated if each[0] == place] or truncated:
            self.note(category, at, said, rank, sender)
        if not truncated:
            self.note(category, place, text, rank, *details)
