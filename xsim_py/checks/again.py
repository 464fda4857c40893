"""A checked run, and the further runs that answer what one run leaves open.

One run tells that a program may depend on buffered sends, or that a wildcard receive could have taken another message.
Whether that makes a difference is seen in another run, with synchronous sends or with the other match. They are made
only where there is such a question, and print nothing. A function is run once: what it does to objects of its caller
would be done again.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from xsim_py.code_origin import shown
from xsim_py.findings import BUFFERING_HAZARD, MESSAGE_RACE, Finding, by_place
from xsim_py.parameters import RACES
from xsim_py.schedules import MatchSchedule, Shake, otherwise, pairs_of

from .monitor import Monitor
from .ordering import would_wait

if TYPE_CHECKING:
    from xsim_py.parameters import RunParameters
    from xsim_py.report import Result
    from xsim_py.schedules import MadeChoice

_MOST_SHOWN = 80
_LEAST_S = 0.3
"""For so long other matches are tried at least; and else as long as the first run has taken."""

Once = Callable[..., "Result"]


class _Seen(NamedTuple):
    """An outcome, as far as another match may change it."""

    ended: str
    exit_status: int
    printed: tuple[tuple[str, ...], ...]
    """The words of each line; what each rank has printed is in order."""
    found: tuple[tuple[str, str, int], ...]

    def known(self, other: _Seen) -> list[tuple[str, ...]] | None:
        """Return the lines without the words in which another outcome differs; None where it has other lines."""
        if list(map(len, self.printed)) != list(map(len, other.printed)):
            return None
        pairs = zip(self.printed, other.printed, strict=True)
        return [tuple(a if a == b else "" for a, b in zip(*pair, strict=True)) for pair in pairs]


def checked(
    once: Once,
    outside: tuple[TextIO, TextIO],
    asked: RunParameters,
    *,
    repeats: bool,
    progress: Any,
    started: Any,
) -> Result:
    """Run a program under a monitor, and again where that leaves something open.

    Parameters
    ----------
    once : callable
        Runs the program; takes where its output goes, and a monitor.
    outside : pair of text files
        Where the output of the first run goes.
    repeats : bool
        Whether the program may be run again.
    """
    monitor = Monitor()
    began_s = time.process_time()
    result = once(outside, monitor=monitor, progress=progress, started=started)
    spent_s = time.process_time() - began_s
    found = list(monitor.findings())
    if repeats and asked.schedule is None and not asked.restart and result.ended in ("finished", "aborted", "stalled"):
        if monitor.is_doubtful:
            found += _without_buffers(once)
        if monitor.wildcards and result.ended == "finished":
            found += _races(once, max(spent_s, _LEAST_S), list_all=asked.check == RACES)
    result.take_findings(sorted(dict.fromkeys(found), key=by_place))
    return result


_LABEL = re.compile(r"\[(\d+)\] ")


def _seen(result: Result, printed: str, found: Iterable[Finding]) -> _Seen:
    """Return an outcome; what each rank has printed is in order, and what different ranks have printed is not."""
    lines = sorted(printed.splitlines(), key=lambda line: int(match[1]) if (match := _LABEL.match(line)) else -1)
    places = tuple(sorted({(each.category, each.file, each.line) for each in found}))
    return _Seen(result.ended, result.exit_status, tuple(tuple(line.split()) for line in lines), places)


def _silently(once: Once, **told: Any) -> tuple[Result, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    return once((stdout, stderr), label=True, **told), stdout.getvalue()


def _without_buffers(once: Once) -> list[Finding]:
    """Return the sends in which ranks wait for ever when no send is buffered."""
    monitor = Monitor(synchronous=True)
    result, _ = _silently(once, monitor=monitor)
    if result.ended != "stalled":
        return []
    would_wait(monitor)
    return [finding for finding in monitor.findings() if finding.category == BUFFERING_HAZARD]


def _races(once: Once, budget_s: float, *, list_all: bool) -> list[Finding]:
    """Return the wildcard receives for which another match leads to another outcome."""
    began_s = time.process_time()
    monitor = Monitor()
    watched, printed = _silently(once, schedule=MatchSchedule({}, watch=True), monitor=monitor)
    if not any(choice.alternatives for choice in watched.choices):
        return []
    comparison = _Comparison(once, watched, _seen(watched, printed, monitor.findings()))
    found: dict[str, Finding] = {}
    for choice in watched.choices:
        for taken in choice.alternatives:
            if choice.kind not in ("receive", "probe") or choice.place in found:
                break
            if time.process_time() - began_s > budget_s:
                return list(found.values())
            difference = comparison.difference(choice, taken)
            if difference or list_all:
                found[choice.place] = _race(choice, taken, difference, monitor.start)
    return list(found.values())


class _Comparison:
    """Compares the outcomes of other matches with the usual one.

    What is printed may also depend on times, or on things that no run repeats (an address, the name of a temporary
    file). So there is a control: a run with the same matches and other times. Words that differ there say nothing.
    """

    def __init__(self, once: Once, watched: Result, usual: _Seen) -> None:
        self._once = once
        self._choices = watched.choices
        self._usual = usual
        shake = Shake(seed=1, span_ps=watched.virtual_time_ps // 4 + 1, changes=0, messages=max(watched.messages, 1))
        same = MatchSchedule.of(pairs_of(watched.choices), watch=True, shake=shake)
        result, printed = _silently(once, schedule=same)
        self._known = usual.known(_seen(result, printed, ()))

    def difference(self, choice: MadeChoice, taken: int) -> str:
        """Return what is different with another match, in words; nothing where nothing is."""
        monitor = Monitor()
        result, printed = _silently(self._once, schedule=otherwise(self._choices, choice, taken), monitor=monitor)
        other, usual = _seen(result, printed, monitor.findings()), self._usual
        if other.ended != usual.ended:
            return f"the run ends {other.ended}, and not {usual.ended}"
        if other.exit_status != usual.exit_status:
            return f"the exit status is {other.exit_status}, and not {usual.exit_status}"
        if self._known is not None and (words := self._other_words(other)):
            return f"the result is another one: {words}"
        new = [each for each in other.found if each not in usual.found]
        return f"there is a mistake of the class {new[0][0]} then, at {new[0][1]}:{new[0][2]}" if new else ""

    def _other_words(self, other: _Seen) -> str:
        """Return a line that is different, if one is."""
        assert self._known is not None
        if len(other.printed) != len(self._known):
            return f"{len(other.printed)} lines, and not {len(self._known)}"
        for known, words in zip(self._known, other.printed, strict=True):
            if len(known) != len(words) or any(word and word != mine for word, mine in zip(known, words, strict=True)):
                return " ".join(words)[:_MOST_SHOWN]
        return ""


def _race(choice: MadeChoice, taken: int, difference: str, start: str) -> Finding:
    file, _, line = choice.place.rpartition(":")
    what = "receives" if choice.kind == "receive" else "finds"
    text = f"the wildcard {what} a message of rank {choice.taken}, and might as well of rank {taken}"
    details = (difference or "nothing is different then",)
    place = shown(file, start), int(line or 0)
    return Finding(MESSAGE_RACE, *place, text, (choice.rank,), details, is_mistake=bool(difference))
