"""A checked run, and further runs that decide what one run leaves open.

One run shows that a program may depend on buffered sends, or that a wildcard receive could match a different message. A
further run, with synchronous sends or with the other match, shows whether that matters. Further runs take place only if
there is such a question, print nothing, and take little time compared with the first run or with human perception.
Races of long runs are left to `xsim explore`. A function is run only once: a second run would repeat its effects on
objects of its caller.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from xsim_py.code_origin import shown
from xsim_py.findings import BUFFERING_HAZARD, MESSAGE_RACE, Checks, Finding, by_place
from xsim_py.schedules import MadeChoice, MatchSchedule, Shake, otherwise, pairs_of

from .ignored import is_ignored
from .monitor import Monitor
from .ordering import would_wait

if TYPE_CHECKING:
    from xsim_py.parameters import RunParameters
    from xsim_py.report import Result

_MOST_SHOWN = 80
_OUT_OF_TIME = "wall limit"  # the ending of a run that has taken too long
_MOST_S = 0.3
"""The estimated CPU time limit of all further runs: an estimate, so that reports do not depend on the load."""
_RUN_S, _RANK_S, _EVENT_S = 0.025, 0.0002, 0.00006
"""The time of a checked run, with shares per rank and per event, if the program computes little."""
_LOAD_FACTOR = 2
"""A loaded machine may exceed the estimate by this factor."""
_MOST_COMPUTED_S = 0.2
"""A program whose first run takes longer than this computes much, and so would further runs."""
_MOST_ALIKE = 3
"""The number of matches of one line tried that replace one sender by the same other."""

_ENDS = {"finished": "finishes", "aborted": "aborts", "stalled": "deadlocks"}

RunOnce = Callable[..., "Result"]
"""Runs the program; takes its output streams and a monitor."""


class _Outcome(NamedTuple):
    """The parts of an outcome that a different match may change."""

    ended: str
    exit_status: int
    printed: tuple[tuple[str, ...], ...]
    """The words of each line; the lines of each rank are in order."""
    found: tuple[tuple[str, str, int], ...]

    def known(self, other: _Outcome) -> list[tuple[str, ...]] | None:
        """Return the lines with differing words blanked.

        The result is None if their numbers of lines or words differ.
        """
        if list(map(len, self.printed)) != list(map(len, other.printed)):
            return None
        pairs = zip(self.printed, other.printed, strict=True)
        return [tuple(a if a == b else "" for a, b in zip(*pair, strict=True)) for pair in pairs]


def checked(
    once: RunOnce,
    streams: tuple[TextIO, TextIO],  # of the first run
    parameters: RunParameters,
    *,
    repeats: bool,  # whether the program may be run again
    progress: object,
    started: object,
) -> Result:
    """Run a program under a monitor, and again if that leaves something open."""
    monitor, selection = Monitor(), parameters.check or Checks()
    began_s = time.process_time()
    result = once(streams, monitor=monitor, progress=progress, started=started)
    spent_s = time.process_time() - began_s
    found = list(monitor.findings())
    if (
        repeats
        and parameters.schedule is None
        and not parameters.restart
        and result.ended in ("finished", "aborted", "stalled")
    ):
        further = _FurtherRuns(once, result, spent_s, list_all=selection.races)
        if monitor.is_doubtful and BUFFERING_HAZARD in selection.classes:
            found += _without_buffers(further)
        # A run may fail only because of its matches.
        looks = monitor.wildcards and MESSAGE_RACE in selection.classes
        if looks and (result.ended == "finished" or found or result.exit_status == 1):
            found += _races(further)
    kept = [
        each
        for each in dict.fromkeys(found)
        if each.category in selection.classes and not is_ignored(each, monitor.start)
    ]
    result.set_findings(sorted(kept, key=by_place))
    return result


class _FurtherRuns:
    """Silent reruns of a program within a time limit.

    `first` is the run that has left something open, and `spent_s` its CPU time. `list_all` says whether to list races
    that change nothing; a user who asks for them accepts the time of some runs.
    """

    def __init__(self, once: RunOnce, first: Result, spent_s: float, *, list_all: bool) -> None:
        self._once = once
        self._each_s = _RUN_S + first.ranks * _RANK_S + first.events * _EVENT_S
        self._remaining_s = max(_MOST_S, list_all * 4 * self._each_s)
        self._deadline_s = time.process_time() + _LOAD_FACTOR * max(_MOST_S, list_all * 4 * spent_s)
        self._computes = spent_s > _MOST_COMPUTED_S and not list_all
        self.list_all = list_all

    def has_time(self, runs: int = 0) -> bool:
        """Return True if there is time left for at least this number of runs."""
        enough = self._remaining_s > runs * self._each_s and not self._computes
        return enough and time.process_time() < self._deadline_s

    def run(self, **options: object) -> tuple[Result, str]:
        """Run the program within the time limit; return the result and its output."""
        stdout, stderr = io.StringIO(), io.StringIO()
        limit_s = max(self._deadline_s - time.process_time(), _MOST_S)
        self._remaining_s -= self._each_s
        return self._once((stdout, stderr), label=True, cpu_limit_s=limit_s, **options), stdout.getvalue()


_LABEL = re.compile(r"\[(\d+)\] ")


def _outcome(result: Result, printed: str, found: Iterable[Finding]) -> _Outcome:
    """Return an outcome with each rank's output in order, independent of interleaving."""
    lines = sorted(printed.splitlines(), key=lambda line: int(match[1]) if (match := _LABEL.match(line)) else -1)
    places = tuple(sorted({(each.category, each.file, each.line) for each in found}))
    return _Outcome(result.ended, result.exit_status, tuple(tuple(line.split()) for line in lines), places)


def _without_buffers(further: _FurtherRuns) -> list[Finding]:
    """Return the sends in which ranks deadlock if no send is buffered."""
    monitor = Monitor(synchronous=True)
    result, _ = further.run(monitor=monitor)
    if result.ended != "stalled":
        return []
    would_wait(monitor)
    return [finding for finding in monitor.findings() if finding.category == BUFFERING_HAZARD]


def _races(further: _FurtherRuns) -> list[Finding]:
    """Return the wildcard receives for which a different match changes the outcome."""
    if not further.has_time(runs=2):
        return []
    monitor = Monitor()
    watched, printed = further.run(schedule=MatchSchedule({}, watch=True), monitor=monitor)
    others = _alternatives(watched.choices)
    if not others or watched.ended == _OUT_OF_TIME:
        return []
    comparison = _Comparison(further, watched, _outcome(watched, printed, monitor.findings()))
    found: dict[str, Finding] = {}
    for choice, taken in others:
        if choice.place in found and found[choice.place].is_mistake:
            continue
        if not further.has_time():
            break
        difference = comparison.difference(choice, taken)
        race = _race(choice, taken, difference, monitor.start)
        if difference:
            found[choice.place] = race
        elif further.list_all:
            found.setdefault(choice.place, race)
    return list(found.values())


def _alternatives(choices: Iterable[MadeChoice]) -> list[tuple[MadeChoice, int]]:
    """Return the alternative matches to try, with one of each kind early.

    Matches are alike if they replace one sender by the same other at one line of a rank.
    """
    alike: dict[Any, list[tuple[MadeChoice, int]]] = {}
    for choice in choices:
        for taken in choice.alternatives if choice.kind in ("receive", "probe") else ():
            alike.setdefault((choice.place, choice.rank, choice.taken, taken), []).append((choice, taken))
    tried = []
    for group in alike.values():
        some = {0, len(group) - 1, len(group) // 2} if len(group) > _MOST_ALIKE else range(len(group))
        tried += [(turn, group[i]) for turn, i in enumerate(some)]
    return [other for _, other in sorted(tried, key=lambda each: each[0])]


class _Comparison:
    """Compares the outcomes of alternative matches with the usual one.

    Output may also depend on times, or on things that differ in every run (an address, the name of a temporary file).
    So there is a control: a run with the same matches and different times. Words that differ there are ignored.
    """

    def __init__(self, further: _FurtherRuns, watched: Result, usual: _Outcome) -> None:
        self._further = further
        self._choices = watched.choices
        self._usual = usual
        shake = Shake(seed=1, span_ps=watched.virtual_time_ps // 4 + 1, changes=0, messages=max(watched.messages, 1))
        same = MatchSchedule.of(pairs_of(watched.choices), watch=True, shake=shake)
        result, printed = further.run(schedule=same)
        self._known = usual.known(_outcome(result, printed, ()))

    def difference(self, choice: MadeChoice, taken: int) -> str:
        """Describe the difference made by another match; empty if there is none."""
        monitor = Monitor()
        result, printed = self._further.run(schedule=otherwise(self._choices, choice, taken), monitor=monitor)
        if result.ended == _OUT_OF_TIME:
            return ""
        other, usual = _outcome(result, printed, monitor.findings()), self._usual
        if other.ended != usual.ended:
            return f"with that match the run {_ENDS[other.ended]}"
        if other.exit_status != usual.exit_status:
            return f"with that match the exit status is {other.exit_status} instead of {usual.exit_status}"
        if self._known is not None and (words := self._other_words(other)):
            return f"with that match {words}"
        new = [each for each in other.found if each not in usual.found]
        return f"with that match there is a {new[0][0]} at {new[0][1]}:{new[0][2]}" if new else ""

    def _other_words(self, other: _Outcome) -> str:
        """Return the first line that differs, if any."""
        assert self._known is not None
        if len(other.printed) != len(self._known):
            return f"{len(other.printed)} lines are printed instead of {len(self._known)}"
        for known, words in zip(self._known, other.printed, strict=True):
            if len(known) != len(words) or any(word and word != mine for word, mine in zip(known, words, strict=True)):
                line = " ".join(words)
                label = _LABEL.match(line)
                who = f"rank {label[1]} prints" if label else "is printed"
                return f"{who}: {line[label.end() if label else 0 :][:_MOST_SHOWN]}"
        return ""


def _race(choice: MadeChoice, taken: int, difference: str, start: str) -> Finding:
    file, _, line = choice.place.rpartition(":")
    what = "receive got" if choice.kind == "receive" else "probe found"
    text = f"this wildcard {what} rank {choice.taken}'s message; rank {taken}'s matches as well"
    details = (difference or "with that match nothing changes",)
    place = shown(file, start), int(line or 0)
    return Finding(MESSAGE_RACE, *place, text, (choice.rank,), details, is_mistake=bool(difference))
