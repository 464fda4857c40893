"""How a call got over failures, phase by phase, as it is seen in a trace.

Prior art: figure 5 of Margolin and Barak (EuroMPI 2018; ``docs/why/ftco.md``) draws, not to scale, what fault-tolerant
collective operations, ULFM and the usual restart do after a failure. Here the same blocks are measured: the time of the
rank that needed longest is cut at instants that stand in the trace, and each piece gets a name. Nothing is computed
from parameters of the run, and the pieces cover the time without a gap: their sum is the whole, to the picosecond.

================  ====================================================================================================
phase             the time of that rank
================  ====================================================================================================
collective        in the call, as long as nobody waits for a dead process in order to find out
detection         while somebody does: from the failure, the call in which it waits, or its last message to the dead
                  one, whichever comes last, until it learns of the failure; after that, until the job is aborted
resume            in a call that succeeds, after a failure was detected in it
propagation       in a call that fails, from the detection until the communicator is revoked or the call fails; under a
                  layer that repairs (`xsim_py.mpi4py.resilience`), until all agree that it failed
revoke            in a call that fails because somebody has revoked the communicator, since then; and in Revoke
repair            in every other call until the next attempt, such as Shrink; or where a layer does that in the call
retry             in the next attempt: the call that failed, once more
restart delay     from an abort of the job to its new start
recomputation     from there until what failed is done
own work          between calls
================  ====================================================================================================

A whole job (`measure_job`) is many calls, and which of them makes up for a failure does not stand in the trace. So the
names go by the calls: communication is any call that does not fail, agreement is Agree, and repair is what is called
because of a failure only (Shrink, Spawn, Merge, ...). A rank is in detection only in a call that ends when the
failure is known, or later: who goes on working meanwhile loses nothing by it. What is done once more after a repair
is communication and own work again; it is the difference to the job without failures.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from xsim_py.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xsim_py.trace import Span, Trace

PHASES: Final = (
    "collective",
    "communication",
    "agreement",
    "detection",
    "resume",
    "propagation",
    "revoke",
    "repair",
    "retry",
    "restart delay",
    "recomputation",
    "own work",
)
"""All names, in the order in which tables and legends have them."""

RECOVERY: Final = ("resume", "propagation", "revoke", "repair", "retry", "restart delay", "recomputation", "own work")
"""The phases that are there because of a failure and do not depend on how it is detected."""

_COLLECTIVE: Final = re.compile(
    "(all)?gatherv?|(all)?reduce|alltoall[vw]?|barrier|bcast|reduce_scatter(_block)?|(ex)?scan|scatterv?", re.IGNORECASE
)
_AGREEMENTS: Final = ("Agree", "Iagree")
_REPAIRS: Final = (
    *("Shrink", "Ishrink", "Ack_failed", "Get_failed"),
    *("Spawn", "Spawn_multiple", "Merge", "Connect", "Accept", "Get_parent"),
)
_FEW: Final = 10  # calls of a collective operation: fewer have no middle one that stands for the job
_BY_ITSELF: Final = "ftco"
_REVOKED: Final = "ERR_REVOKED"
_FAILED: Final = ("ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", _REVOKED)


class Phase(NamedTuple):
    """A piece of a rank's time."""

    name: str
    """One of `PHASES`."""
    start_ps: int
    end_ps: int

    @property
    def time_ps(self) -> int:
        """How long it is."""
        return self.end_ps - self.start_ps


class Phases(NamedTuple):
    """The time that the slowest rank needed for a call and for getting over the failures in it."""

    rank: int
    """Which rank that is."""
    phases: tuple[Phase, ...]
    """One after the other, without a gap."""
    whole: bool = False
    """True if a whole job is measured, false if one call is."""

    @property
    def start_ps(self) -> int:
        """When the rank made the call."""
        return self.phases[0].start_ps

    @property
    def end_ps(self) -> int:
        """When it had the result."""
        return self.phases[-1].end_ps

    @property
    def total_ps(self) -> int:
        """All of it."""
        return self.end_ps - self.start_ps

    @property
    def recovery_ps(self) -> int:
        """The time that is neither the call as it would be without a failure nor its detection; see `RECOVERY`.

        In a whole job own work is part of the program.
        """
        return sum(
            phase.time_ps
            for phase in self.phases
            if phase.name in RECOVERY and not (self.whole and phase.name == "own work")
        )

    def times_ps(self) -> dict[str, int]:
        """Return how long each phase took altogether, in the order of `PHASES`, without those that did not occur."""
        return {
            name: sum(phase.time_ps for phase in self.phases if phase.name == name)
            for name in PHASES
            if any(phase.name == name for phase in self.phases)
        }

    def summed(self) -> Phases:
        """Return them with one phase a name, in the order of `PHASES`: those of a job alternate thousands of times."""
        at_ps = self.start_ps
        phases = []
        for name, time_ps in self.times_ps().items():
            phases.append(Phase(name, at_ps, at_ps + time_ps))
            at_ps += time_ps
        return self._replace(phases=tuple(phases))


def find_call(trace: Trace, wanted: tuple[str, int] | None = None) -> tuple[tuple[str, int], int]:
    """Find the call that failures are to hit, in a run without any; return its name and number, and how many there are.

    That is the one `wanted`, by its name as mpi4py spells it and its number from 1; or of the blocking collective
    operations the one that the first rank calls most often, and of these calls the middle one.

    Raises
    ------
    ConfigError
        There is no such call.
    """
    first = min((span.rank for span in trace.spans), default=0)
    counts = Counter(span.name for span in trace.spans if span.rank == first)
    collective = {name: count for name, count in counts.items() if _COLLECTIVE.fullmatch(name)}
    said = ", ".join(f"{count} x {name}" for name, count in collective.items()) or "none"
    if wanted is None:
        if not collective:
            raise ConfigError("the program makes no collective call that a failure could hit")
        name = max(collective, key=lambda name: collective[name])
        return (name, counts[name] // 2 + 1), counts[name]
    if counts[wanted[0]] < wanted[1]:
        raise ConfigError(f"rank {first} makes no {wanted[0]} number {wanted[1]}; its collective calls: {said}")
    return wanted, counts[wanted[0]]


def find_middle(trace: Trace, ranks: int) -> tuple[tuple[str, int], int] | None:
    """Find the call that failures of a whole job are to hit, as `find_call` does.

    Where a program makes few collective calls, or some of its ranks make fewer than others, there is no such call.
    """
    try:
        (name, number), usual = find_call(trace)
    except ConfigError:
        return None
    counts = Counter(span.rank for span in trace.spans if span.name == name)
    same_at_all = all(counts[rank] == usual for rank in range(ranks))
    return ((name, number), usual) if usual >= _FEW and same_at_all else None


def first_start_ps(trace: Trace, call: str, ordinal: int) -> int:
    """Return when the first rank makes its so many-th call of a name."""
    counts: Counter[int] = Counter()
    starts = []
    for span in trace.spans:
        if span.name == call:
            counts[span.rank] += 1
            if counts[span.rank] == ordinal:
                starts.append(span.start_ps)
    return min(starts)


def measure_phases(trace: Trace, *, call: str, ordinal: int, usual: int | None = None) -> Phases:
    """Find out how long the slowest of the surviving ranks took for a call, and for what.

    Where failures were learned of, the call is the one in which each rank was then, and the time ends when it has
    succeeded, or has been repeated with success, for the last time that it had to be.

    Parameters
    ----------
    trace : Trace
        Of the whole run.
    call : str
        As mpi4py spells it: what is measured in a run without failures, and what is recomputed after a restart.
    ordinal : int
        Which of a rank's calls of that name, from 1, in a run without failures.
    usual : int, optional
        How many of them a rank makes in a run without failures. A job that was started again is where it was once it
        has repeated what is beyond that number. Without it, all that a restarted job does is recomputation.

    Raises
    ------
    ConfigError
        No surviving rank has made such a call.
    """
    story = _Story(trace, call, usual)
    found = [window for rank in story.survivors() if (window := story.window(rank, ordinal)) is not None]
    if not found:
        raise ConfigError(f"no surviving rank makes {ordinal} calls of {call}")
    rank, start_ps, end_ps = max(found, key=lambda window: (window[2] - window[1], -window[0]))
    return Phases(rank, tuple(story.label(rank, start_ps, end_ps)))


def measure_job(
    trace: Trace, *, ranks: int, end_ps: int | None = None, call: str = "", usual: int | None = None
) -> Phases:
    """Find out what the time of a whole job went into at the slowest of the ranks that began it and survived.

    Parameters
    ----------
    trace : Trace
        Of the whole run.
    ranks : int
        With how many the job began.
    end_ps : int, optional
        The virtual time of the job; default: the end of the last call in the trace.
    call : str, optional
        A call by whose number a job that was started again shows where it is.
    usual : int, optional
        How many of them a rank makes in a run without failures. Without it, all that a restarted job does is
        recomputation.

    Raises
    ------
    ConfigError
        None of the ranks that began survived.
    """
    story = _JobStory(trace, call, usual)
    if end_ps is not None:
        story.end_ps = end_ps
    alive = [rank for rank in story.survivors() if rank < ranks]
    if not trace.spans:
        raise ConfigError("the program makes no MPI call")
    if not alive:
        raise ConfigError("no rank that began the job survived")
    slowest = max(alive, key=lambda rank: (story.last_ps(rank), -rank))
    return Phases(slowest, tuple(story.job(slowest)), whole=True)


class _Found(NamedTuple):
    """A discovery: who died and when, who found out and when, and whether nobody had before."""

    dead: int
    died_ps: int
    rank: int
    time_ps: int
    is_first: bool


class _Story:
    """The story of failures that a trace tells, and of who did what about them.

    Attributes
    ----------
    spans : dict of int to list of Span
        The calls of each rank, in order.
    disturbances : list of int
        When each failure was learned of by anybody, or the job was aborted for it.
    waits : list of (int, int)
        From when until when somebody waited for a dead process in order to find out.
    pauses : list of (int, int)
        Between an abort and the new start.
    """

    def __init__(self, trace: Trace, call: str, usual: int | None) -> None:
        self.call = call
        self.usual = usual
        self.spans: dict[int, list[Span]] = defaultdict(list)
        for span in trace.spans:
            self.spans[span.rank].append(span)
        self.end_ps = trace.end_ps()
        times: dict[str, list[int]] = defaultdict(list)
        for mark in trace.marks:
            times[mark.kind].append(mark.time_ps)
        self.dead = {mark.rank for mark in trace.marks if mark.kind == "failed"}
        self.repairs = self._repairs(trace)
        self.revoked_ps = sorted(times["revoked"])
        self.starts_ps = sorted(times["restart"])
        self.pauses = [(max((t for t in times["aborted"] if t <= s), default=s), s) for s in self.starts_ps]
        self.waits = list(self._waits(trace))
        self.disturbances = sorted({end_ps for _, end_ps in self.waits} | {since_ps for since_ps, _ in self.pauses})

    @staticmethod
    def _repairs(trace: Trace) -> dict[int, list[Phase]]:
        """Return when each rank was repairing a communicator within a call."""
        found: dict[int, list[Phase]] = defaultdict(list)
        begun: dict[int, int] = {}
        for mark in trace.marks:
            if mark.kind == "begin" and mark.text == "repair":
                begun[mark.rank] = mark.time_ps
            elif mark.kind == "end" and mark.text == "repair":
                found[mark.rank].append(Phase("repair", begun.pop(mark.rank), mark.time_ps))
        return found

    def _waits(self, trace: Trace) -> Iterator[tuple[int, int]]:
        """Yield the wait that ended with the discovery of each failure; without one, with the abort of the job.

        Where collective operations get over failures by themselves, everybody finds out for himself about those he has
        sent something to, and has a wait of his own.
        """
        died: dict[int, int] = {}
        known: set[int] = set()
        found: list[_Found] = []
        for mark in trace.marks:
            if mark.kind == "failed":
                died[mark.rank] = mark.time_ps
            elif mark.dead is not None:
                if mark.dead in died and (mark.dead not in known or mark.how == _BY_ITSELF):
                    found.append(_Found(mark.dead, died[mark.dead], mark.rank, mark.time_ps, mark.dead not in known))
                    known.add(mark.dead)
            elif mark.kind in ("aborted", "restart"):
                if mark.kind == "aborted" and mark.rank in died and mark.rank not in known:
                    yield died[mark.rank], mark.time_ps
                died.clear()
                known.clear()
        sent = _last_sent(trace, found)
        for one in found:
            sent_ps = sent.get(one)
            if sent_ps is not None or one.is_first:
                began = (span.start_ps for span in self.spans[one.rank] if _covers(span, one.time_ps))
                yield min(max(one.died_ps, next(began, 0), sent_ps or 0), one.time_ps), one.time_ps

    def survivors(self) -> list[int]:
        """Return who never died, in order."""
        return sorted(rank for rank in self.spans if rank not in self.dead)

    # ------------------------------------------------------------------------------------------------ the window

    def window(self, rank: int, ordinal: int) -> tuple[int, int, int] | None:
        """Return the rank, when it made the call, and when it was over with it and all failures; None if never."""
        spans = self.spans[rank]
        if not self.disturbances:
            calls = [span for span in spans if span.name == self.call]
            if len(calls) < ordinal:
                return None
            return rank, calls[ordinal - 1].start_ps, self._end_of(calls[ordinal - 1])
        first = next((span for span in spans if self._end_of(span) >= self.disturbances[0]), None)
        if first is None:
            return None
        if self.starts_ps:
            return rank, first.start_ps, max(first.start_ps, self._regained(spans))
        over = [span for span, state in self._walk(rank) if state in ("resume", "retry")]
        return rank, first.start_ps, max(first.start_ps, self._end_of((over or spans)[-1]))

    def _regained(self, spans: Sequence[Span]) -> int:
        """Return when a job that was started again has done what its first start could not."""
        calls = [span for span in spans if span.name == self.call and not span.detail]
        last = [span for span in calls if span.start_ps >= self.starts_ps[-1]]
        before = sum(span.start_ps < self.starts_ps[0] for span in calls)
        place = len(last) - 1 if self.usual is None else before + len(last) - self.usual
        if 0 <= place < len(last):
            return self._end_of(last[place])
        return self._end_of(spans[-1])

    def _walk(self, rank: int) -> Iterator[tuple[Span, str]]:
        """Yield each call of a rank and its state: as usual, failed, resumed, part of the repair, or the retry."""
        wanted = ""
        for span in self.spans[rank]:
            if span.detail in _FAILED:
                yield span, "failed again" if wanted else "failed"
                wanted = wanted or span.name
            elif span.name == wanted:
                yield span, "retry"
                wanted = ""
            elif wanted:
                yield span, "revoke" if span.name == "Revoke" else "repair"
            else:
                later = bisect_right(self.disturbances, span.start_ps)
                disturbed = self.disturbances[later : later + 1]
                yield span, "resume" if disturbed and disturbed[0] <= self._end_of(span) else "collective"

    def _end_of(self, span: Span) -> int:
        return self.end_ps if span.end_ps is None else span.end_ps

    # ------------------------------------------------------------------------------------------------ the labels

    def label(self, rank: int, start_ps: int, end_ps: int) -> Iterator[Phase]:
        """Cut a rank's time at all that happened, and name the pieces; neighbours of one name are one phase."""
        pieces = [
            piece
            for span, state in self._walk(rank)
            if span.start_ps <= end_ps and self._end_of(span) >= start_ps
            for piece in self._pieces(span, state)
        ]
        cuts = {start_ps, end_ps, *self.starts_ps}
        cuts.update(time_ps for interval in (*self.waits, *self.pauses) for time_ps in interval)
        cuts.update(time_ps for piece in pieces for time_ps in piece[1:])
        current = Phase("", start_ps, start_ps)
        for since_ps, until_ps in pairwise(sorted(cut for cut in cuts if start_ps <= cut <= end_ps)):
            name = self._name(since_ps, pieces)
            if name == current.name:
                current = current._replace(end_ps=until_ps)
                continue
            if current.name:
                yield current
            current = Phase(name, since_ps, until_ps)
        yield current if current.name else Phase("collective", start_ps, end_ps)

    def _name(self, time_ps: int, pieces: Sequence[Phase]) -> str:
        """Return what the piece that begins at a time is part of."""
        if any(since <= time_ps < until for since, until in self.pauses):
            return "restart delay"
        if any(since <= time_ps < until for since, until in self.waits):
            return "detection"
        if self.starts_ps and time_ps >= self.starts_ps[0]:
            return "recomputation"
        if self.pauses and time_ps >= self.disturbances[0]:
            return "detection"  # somebody knows already, and this rank is about to be ended
        return next((piece.name for piece in pieces if piece.start_ps <= time_ps < piece.end_ps), "own work")

    def _pieces(self, span: Span, state: str) -> Iterator[Phase]:
        """Yield the parts of one call, without regard to waits, aborts and restarts."""
        start_ps, end_ps = span.start_ps, self._end_of(span)
        if state in ("collective", "revoke", "repair", "retry"):
            yield Phase(state, start_ps, end_ps)
            return
        known_ps = next((time_ps for time_ps in self.disturbances if start_ps <= time_ps <= end_ps), start_ps)
        yield Phase("retry" if state == "failed again" else "collective", start_ps, known_ps)
        if state == "resume":
            yield from self._resumed(span.rank, known_ps, end_ps)
            return
        revoked_ps = end_ps
        if span.detail == _REVOKED:
            revoked_ps = next((time_ps for time_ps in self.revoked_ps if known_ps <= time_ps <= end_ps), known_ps)
        yield Phase("propagation", known_ps, revoked_ps)
        yield Phase("revoke", revoked_ps, end_ps)

    def _resumed(self, rank: int, known_ps: int, end_ps: int) -> Iterator[Phase]:
        """Yield the parts of a call that gets over a failure, from the detection on."""
        name, since_ps = "propagation", known_ps
        for repair in self.repairs[rank]:
            if known_ps <= repair.start_ps <= end_ps:
                yield Phase(name, since_ps, repair.start_ps)
                yield repair
                name, since_ps = "retry", repair.end_ps
        yield Phase("resume" if name == "propagation" else name, since_ps, end_ps)


class _JobStory(_Story):
    """The story of a whole job; its methods are linear in the number of calls."""

    def last_ps(self, rank: int) -> int:
        """Return when a rank's last call ended."""
        return max(self._end_of(span) for span in self.spans[rank])

    def job(self, rank: int) -> Iterator[Phase]:
        """Name all of a rank's time until the end of the job; neighbours of one name are one phase."""
        phases = self._in_order(rank)
        if self.starts_ps:
            phases = _overlaid(phases, "recomputation", self.starts_ps[0], self._regained(self.spans[rank]))
            phases = _overlaid(phases, "detection", self.disturbances[0], self.pauses[0][0])
        for since_ps, until_ps in self.pauses:
            phases = _overlaid(phases, "restart delay", since_ps, until_ps)
        current = Phase("", 0, 0)
        for phase in phases:
            if phase.name == current.name:
                current = current._replace(end_ps=phase.end_ps)
                continue
            if current.name:
                yield current
            current = phase
        yield current if current.name else Phase("own work", 0, self.end_ps)

    def _in_order(self, rank: int) -> Iterator[Phase]:
        """Yield the parts of all calls, and what is between them, without regard to restarts."""
        at_ps = 0
        spans = self.spans[rank]
        ends = [span.start_ps for span in spans[1:]] + [self.end_ps]
        for span, before_ps in zip(spans, ends, strict=True):  # a call that a restart cut off has no end of its own
            end_ps = min(self._end_of(span), before_ps)
            if at_ps < span.start_ps:
                yield Phase("own work", at_ps, span.start_ps)
            parts = self._parts(span, end_ps)
            for since_ps, until_ps in self.waits:
                if since_ps < end_ps and span.start_ps < until_ps <= end_ps:
                    parts = _overlaid(parts, "detection", since_ps, until_ps)
            yield from parts
            at_ps = max(at_ps, end_ps)
        if at_ps < self.end_ps:
            yield Phase("own work", at_ps, self.end_ps)

    def _parts(self, span: Span, end_ps: int) -> Iterator[Phase]:
        """Yield the parts of one call, without regard to waits."""
        disturbed = bool(self.disturbances) and span.start_ps >= self.disturbances[0]
        if span.name in _AGREEMENTS:
            parts = [Phase("agreement", span.start_ps, end_ps)]
        elif span.name == "Revoke":
            parts = [Phase("revoke", span.start_ps, end_ps)]
        elif disturbed and span.name in _REPAIRS:
            parts = [Phase("repair", span.start_ps, end_ps)]
        elif span.detail in _FAILED:
            found = self._pieces(span, "failed")
            parts = [part._replace(name=part.name.replace("collective", "communication")) for part in found]
        else:
            parts = [Phase("communication", span.start_ps, end_ps)]
        yield from (part for part in parts if part.time_ps)


def _overlaid(phases: Iterable[Phase], name: str, since_ps: int, until_ps: int) -> Iterator[Phase]:
    """Yield phases in order, with another name for what is between two times."""
    for phase in phases:
        first_ps = min(max(phase.start_ps, since_ps), phase.end_ps)
        last_ps = max(min(phase.end_ps, until_ps), first_ps)
        cut = (
            phase._replace(end_ps=first_ps),
            Phase(name, first_ps, last_ps),
            phase._replace(start_ps=last_ps),
        )
        yield from (part for part in cut if part.time_ps)


def _last_sent(trace: Trace, found: Sequence[_Found]) -> dict[_Found, int]:
    """Return when those who found out had sent the dead ones a message for the last time."""
    asked: dict[tuple[int, int], list[_Found]] = defaultdict(list)
    for one in found:
        asked[one.rank, one.dead].append(one)
    sent: dict[_Found, int] = {}
    for message in trace.messages if asked else ():
        for one in asked.get((message.source, message.dest), ()):
            if message.sent_ps < one.time_ps:
                sent[one] = max(sent.get(one, 0), message.sent_ps)
    return sent


def _covers(span: Span, time_ps: int) -> bool:
    return span.start_ps <= time_ps and (span.end_ps is None or time_ps <= span.end_ps)
