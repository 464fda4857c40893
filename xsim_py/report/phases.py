"""The phases in which a call recovers from failures, measured from a trace.

Prior art: figure 5 of Margolin and Barak (EuroMPI 2018; ``docs/why/ftco.md``) draws, not to scale, the behaviour of
fault-tolerant collective operations, ULFM and the usual restart after a failure. Here the same blocks are measured: the
time of the slowest rank is divided at instants recorded in the trace, and each piece gets a name. Nothing is computed
from parameters of the run, and the pieces cover the time without gaps: their sum is the total, to the picosecond.

================  ====================================================================================================
phase             the time of that rank
================  ====================================================================================================
collective        in the call, while no rank waits for a failed process in order to detect it
detection         while some rank does: from the failure, the call in which it waits, or its last message to the failed
                  process, whichever is last, until it detects the failure; after that, until the job is aborted
resume            in a call that succeeds, after a failure was detected in it
propagation       in a call that fails, from the detection until the communicator is revoked or the call fails; under a
                  layer that repairs (`xsim_py.mpi4py.resilience`), until all agree that it failed
revoke            in a call that fails because the communicator was revoked, since the revocation; and in Revoke
repair            in every other call until the next attempt, such as Shrink; or a layer's repair within the call
retry             in the next attempt of the failed call
restart delay     from an abort of the job to its restart
recomputation     from the restart until the failed call has completed
own work          between calls
================  ====================================================================================================

A whole job (`measure_job`) has many calls, and the trace does not tell which of them compensate for a failure. So
phases are named by call: communication is any call that does not fail, agreement is Agree, and repair is any call made
only because of a failure (Shrink, Spawn, Merge, ...). A rank is in detection only in a call that ends at the detection
of the failure or later: a rank that works meanwhile loses no time. Work repeated after a repair is communication and
own work again; it is the difference from the job without failures.
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
"""All names, in the order of tables and legends."""

RECOVERY: Final = ("resume", "propagation", "revoke", "repair", "retry", "restart delay", "recomputation", "own work")
"""The phases caused by a failure that do not depend on how it is detected."""

_COLLECTIVE: Final = re.compile(
    "(all)?gatherv?|(all)?reduce|alltoall[vw]?|barrier|bcast|reduce_scatter(_block)?|(ex)?scan|scatterv?", re.IGNORECASE
)
_AGREEMENTS: Final = ("Agree", "Iagree")
_REPAIRS: Final = (
    *("Shrink", "Ishrink", "Ack_failed", "Get_failed"),
    *("Spawn", "Spawn_multiple", "Merge", "Connect", "Accept", "Get_parent"),
)
_FEW: Final = 10  # calls of a collective operation: with fewer, no middle one represents the job
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
        """The duration."""
        return self.end_ps - self.start_ps


class Phases(NamedTuple):
    """The time of the slowest rank for a call and the recovery from the failures in it."""

    rank: int
    """The rank."""
    phases: tuple[Phase, ...]
    """In order, without gaps."""
    whole: bool = False
    """True for a whole job, false for one call."""

    @property
    def start_ps(self) -> int:
        """When the rank entered the call."""
        return self.phases[0].start_ps

    @property
    def end_ps(self) -> int:
        """When it had the result."""
        return self.phases[-1].end_ps

    @property
    def total_ps(self) -> int:
        """The total time."""
        return self.end_ps - self.start_ps

    @property
    def recovery_ps(self) -> int:
        """The time that belongs neither to the failure-free call nor to detection; see `RECOVERY`.

        In a whole job own work is part of the program.
        """
        return sum(
            phase.time_ps
            for phase in self.phases
            if phase.name in RECOVERY and not (self.whole and phase.name == "own work")
        )

    def times_ps(self) -> dict[str, int]:
        """Return the total time of each phase that occurred, in the order of `PHASES`."""
        return {
            name: sum(phase.time_ps for phase in self.phases if phase.name == name)
            for name in PHASES
            if any(phase.name == name for phase in self.phases)
        }

    def summed(self) -> Phases:
        """Return one phase per name, in order: those of a job alternate thousands of times."""
        at_ps = self.start_ps
        phases = []
        for name, time_ps in self.times_ps().items():
            phases.append(Phase(name, at_ps, at_ps + time_ps))
            at_ps += time_ps
        return self._replace(phases=tuple(phases))


def find_call(trace: Trace, wanted: tuple[str, int] | None = None) -> tuple[tuple[str, int], int]:
    """Return the name and number of the call hit by failures, and the number of such calls.

    The trace is that of a failure-free run. The call is the `wanted` one, given by its mpi4py name and its number from
    1; by default the blocking collective operation that the first rank calls most often, and the middle one of these
    calls. Raise ConfigError if there is no such call.
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
    """Select the call hit by failures of a whole job, as `find_call` does.

    Returns None if a program makes few collective calls, or some of its ranks make fewer than others.
    """
    try:
        (name, number), usual = find_call(trace)
    except ConfigError:
        return None
    counts = Counter(span.rank for span in trace.spans if span.name == name)
    same_at_all = all(counts[rank] == usual for rank in range(ranks))
    return ((name, number), usual) if usual >= _FEW and same_at_all else None


def first_start_ps(trace: Trace, call: str, ordinal: int) -> int:
    """Return the time at which the first rank makes its `ordinal`-th call of a name."""
    counts: Counter[int] = Counter()
    starts = []
    for span in trace.spans:
        if span.name == call:
            counts[span.rank] += 1
            if counts[span.rank] == ordinal:
                starts.append(span.start_ps)
    return min(starts)


def measure_phases(trace: Trace, *, call: str, ordinal: int, usual: int | None = None) -> Phases:
    """Measure the phases of a call on the slowest surviving rank.

    If failures were detected, the call is the one that each rank was in at that time, and the measured time ends when
    the call, or its last necessary retry, has succeeded.

    In a failure-free run, the measured call is a rank's call number `ordinal`, from 1, of the mpi4py name `call`; after
    a restart, it is recomputed. A restarted job has caught up once it has repeated the calls beyond `usual`, the number
    of such calls per rank in a failure-free run. By default, everything that it does is recomputation. Raise
    ConfigError if no surviving rank has made such a call.
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
    """Measure the phases of a whole job on its slowest initial rank that survived.

    `ranks` is the initial number of ranks. The job ended at `end_ps`, by default the end of the last call. The count of
    a `call` shows the progress of a restarted job; `usual` as for `measure_phases`. Raise ConfigError if no initial
    rank survived.
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
    """A detection: failed and detecting rank, both times, and whether it was the first."""

    dead: int
    died_ps: int
    rank: int
    time_ps: int
    is_first: bool


class _Story:
    """The failures in a trace, and the ranks' reactions.

    `disturbances` are the times at which each failure was first detected, or the job was aborted because of it. In
    `waits`, ranks waited for a failed process in order to detect it; `pauses` are between an abort and the restart.
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
        """Return the times at which each rank was repairing a communicator within a call."""
        found: dict[int, list[Phase]] = defaultdict(list)
        begun: dict[int, int] = {}
        for mark in trace.marks:
            if mark.kind == "begin" and mark.text == "repair":
                begun[mark.rank] = mark.time_ps
            elif mark.kind == "end" and mark.text == "repair":
                found[mark.rank].append(Phase("repair", begun.pop(mark.rank), mark.time_ps))
        return found

    def _waits(self, trace: Trace) -> Iterator[tuple[int, int]]:
        """Yield the wait that ended with the detection of each failure, or else with the abort.

        If collective operations themselves tolerate failures, every rank detects the failures of its peers itself, and
        has a separate wait for each.
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
        """Return the surviving ranks, in order."""
        return sorted(rank for rank in self.spans if rank not in self.dead)

    # ------------------------------------------------------------------------------------------------ the measured time

    def window(self, rank: int, ordinal: int) -> tuple[int, int, int] | None:
        """Return the rank, and when it entered the call and had recovered; None if never."""
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
        """Return the time at which a restarted job has completed the work of its first start."""
        calls = [span for span in spans if span.name == self.call and not span.detail]
        last = [span for span in calls if span.start_ps >= self.starts_ps[-1]]
        before = sum(span.start_ps < self.starts_ps[0] for span in calls)
        place = len(last) - 1 if self.usual is None else before + len(last) - self.usual
        if 0 <= place < len(last):
            return self._end_of(last[place])
        return self._end_of(spans[-1])

    def _walk(self, rank: int) -> Iterator[tuple[Span, str]]:
        """Yield each call of a rank and its state: normal, failed, resumed, repair, or retry."""
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

    # ------------------------------------------------------------------------------------------------ the phases

    def label(self, rank: int, start_ps: int, end_ps: int) -> Iterator[Phase]:
        """Divide a rank's time into named phases; adjacent pieces of one name are one phase."""
        pieces = [
            piece
            for span, state in self._walk(rank)
            if span.start_ps <= end_ps and self._end_of(span) >= start_ps
            for piece in self._pieces(span, state)
        ]
        cuts = {start_ps, end_ps, *self.starts_ps}
        cuts.update(time_ps for interval in (*self.waits, *self.pauses) for time_ps in interval)
        cuts.update(time_ps for piece in pieces for time_ps in piece[1:])
        intervals = pairwise(sorted(cut for cut in cuts if start_ps <= cut <= end_ps))
        phases = (Phase(self._name(since_ps, pieces), since_ps, until_ps) for since_ps, until_ps in intervals)
        yield from _joined(phases, Phase("collective", start_ps, end_ps))

    def _name(self, time_ps: int, pieces: Sequence[Phase]) -> str:
        """Return the phase of the piece that begins at a time."""
        if any(since <= time_ps < until for since, until in self.pauses):
            return "restart delay"
        if any(since <= time_ps < until for since, until in self.waits):
            return "detection"
        if self.starts_ps and time_ps >= self.starts_ps[0]:
            return "recomputation"
        if self.pauses and time_ps >= self.disturbances[0]:
            return "detection"  # a rank has already detected it, and this rank is about to be ended
        return next((piece.name for piece in pieces if piece.start_ps <= time_ps < piece.end_ps), "own work")

    def _pieces(self, span: Span, state: str) -> Iterator[Phase]:
        """Yield the parts of one call, ignoring waits, aborts and restarts."""
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
        """Yield the parts of a call that recovers from a failure, from the detection on."""
        name, since_ps = "propagation", known_ps
        for repair in self.repairs[rank]:
            if known_ps <= repair.start_ps <= end_ps:
                yield Phase(name, since_ps, repair.start_ps)
                yield repair
                name, since_ps = "retry", repair.end_ps
        yield Phase("resume" if name == "propagation" else name, since_ps, end_ps)


class _JobStory(_Story):
    """The failures of a whole job; the methods are linear in the number of calls."""

    def last_ps(self, rank: int) -> int:
        """Return the time at which a rank's last call ended."""
        return max(self._end_of(span) for span in self.spans[rank])

    def job(self, rank: int) -> Iterator[Phase]:
        """Name all of a rank's time in the job; adjacent pieces of one name are one phase."""
        phases = self._in_order(rank)
        if self.starts_ps:
            phases = _overlaid(phases, "recomputation", self.starts_ps[0], self._regained(self.spans[rank]))
            phases = _overlaid(phases, "detection", self.disturbances[0], self.pauses[0][0])
        for since_ps, until_ps in self.pauses:
            phases = _overlaid(phases, "restart delay", since_ps, until_ps)
        yield from _joined(phases, Phase("own work", 0, self.end_ps))

    def _in_order(self, rank: int) -> Iterator[Phase]:
        """Yield the parts of all calls and the time between them, ignoring restarts."""
        at_ps = 0
        spans = self.spans[rank]
        ends = [span.start_ps for span in spans[1:]] + [self.end_ps]
        for span, before_ps in zip(spans, ends, strict=True):  # a call cut off by a restart has no recorded end
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
        """Yield the parts of one call, ignoring waits."""
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


def _joined(phases: Iterable[Phase], default: Phase) -> Iterator[Phase]:
    """Yield phases, adjacent ones of the same name as one; if there are none, yield the default."""
    current: Phase | None = None
    for phase in phases:
        if current is not None and phase.name == current.name:
            current = current._replace(end_ps=phase.end_ps)
            continue
        if current is not None:
            yield current
        current = phase
    yield current or default


def _overlaid(phases: Iterable[Phase], name: str, since_ps: int, until_ps: int) -> Iterator[Phase]:
    """Yield phases in order, replaced by another name between two times."""
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
    """Return the time of the last message from each detecting rank to the failed one."""
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
