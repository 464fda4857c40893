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

from xsim_py.findings import BUFFERING_HAZARD, MESSAGE_RACE, Finding
from xsim_py.parameters import RACES
from xsim_py.schedules import MatchSchedule, otherwise

from .monitor import Monitor
from .ordering import would_wait

if TYPE_CHECKING:
    from xsim_py.parameters import RunParameters
    from xsim_py.report import Result
    from xsim_py.schedules import MadeChoice

_MOST_SHOWN = 80
_LEAST_S = 1.0
"""For so long other matches are tried at least; and else as long as the first run has taken."""

Once = Callable[..., "Result"]


class _Seen(NamedTuple):
    """An outcome, as far as another match may change it."""

    ended: str
    exit_status: int
    printed: tuple[str, ...]
    values: str
    found: tuple[tuple[str, str, int], ...]


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
    result.take_findings(sorted(dict.fromkeys(found)))
    return result


_LABEL = re.compile(r"\[(\d+)\] ")


def _seen(result: Result, printed: str, found: Iterable[Finding]) -> _Seen:
    """Return an outcome; what each rank has printed is in order, and what different ranks have printed is not."""
    lines = sorted(printed.splitlines(), key=lambda line: int(match[1]) if (match := _LABEL.match(line)) else -1)
    places = tuple(sorted({(each.category, each.file, each.line) for each in found}))
    return _Seen(result.ended, result.exit_status, tuple(lines), repr(result.values), places)


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
    usual = _seen(watched, printed, monitor.findings())
    found: dict[str, Finding] = {}
    for choice in watched.choices:
        for taken in choice.alternatives:
            if choice.kind not in ("receive", "probe") or choice.place in found:
                break
            if time.process_time() - began_s > budget_s:
                return list(found.values())
            difference = _difference(once, usual, watched.choices, choice, taken)
            if difference or list_all:
                found[choice.place] = _race(choice, taken, difference)
    return list(found.values())


def _difference(once: Once, usual: _Seen, choices: Any, choice: MadeChoice, taken: int) -> str:
    """Return what is different with another match, in words; nothing where nothing is."""
    monitor = Monitor()
    result, printed = _silently(once, schedule=otherwise(choices, choice, taken), monitor=monitor)
    other = _seen(result, printed, monitor.findings())
    if other.ended != usual.ended:
        return f"the run ends {other.ended}, and not {usual.ended}"
    if (other.exit_status, other.values, other.printed) != (usual.exit_status, usual.values, usual.printed):
        line = next((line for line in other.printed if line not in usual.printed), "")
        return f"the result is another one{line and ': '}{line[:_MOST_SHOWN]}"
    new = [each for each in other.found if each not in usual.found]
    return f"there is a mistake of the class {new[0][0]} then, at {new[0][1]}:{new[0][2]}" if new else ""


def _race(choice: MadeChoice, taken: int, difference: str) -> Finding:
    file, _, line = choice.place.rpartition(":")
    what = "receives" if choice.kind == "receive" else "finds"
    text = f"the wildcard {what} a message of rank {choice.taken}, and might as well of rank {taken}"
    details = (difference or "nothing is different then",)
    return Finding(MESSAGE_RACE, file, int(line or 0), text, (choice.rank,), details, is_mistake=bool(difference))
