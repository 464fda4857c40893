"""The outcome of a run, as far as it says something of the program: equal outcomes differ in nothing but times."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from xsim_py.explore.runs import Seen

KINDS: Final = ("result", "exception", "deadlock", "finding")
"""How a run can end. Two results are different outcomes where something else was printed or returned."""

_LENGTH: Final = r"[\d.,]+ ?[munp]?s\b"
_TIME: Final = re.compile(rf" \((?:rank \d+ )?at {_LENGTH}\)|,? at {_LENGTH}(?: to {_LENGTH})?")
"""When something was, with what joins it to a sentence, so that the rest is one."""


class SeenOutcome(NamedTuple):
    """The end that a run has come to."""

    kind: str
    """One of `KINDS`."""
    detail: str
    """What tells it from others of its kind."""


def outcome_of(accept: str | None = None) -> Callable[[Seen], SeenOutcome]:
    """Return what tells the outcome of a run; with a regular expression all results are equal in which it is found."""
    pattern = None if accept is None else re.compile(accept)

    def outcome(seen: Seen) -> SeenOutcome:
        if seen.findings:
            return SeenOutcome("finding", "\n".join(sorted(seen.findings)))
        if seen.ended in ("stalled", "wall limit"):
            return SeenOutcome("deadlock", _timeless(seen.said))
        if seen.ended != "finished" or seen.exit_status:
            return SeenOutcome("exception", _timeless(seen.said) or f"exit status {seen.exit_status}")
        if pattern is not None:
            return SeenOutcome("result", "accepted" if any(map(pattern.search, seen.texts)) else "not accepted")
        return SeenOutcome("result", _printed(seen))

    return outcome


def _timeless(said: str) -> str:
    return _TIME.sub("", said)


def _printed(seen: Seen) -> str:
    """Return what each rank has printed, rank by rank, and what a function has returned."""
    lines = sorted(seen.lines, key=lambda line: line[0])
    return "\n".join([*(f"[{rank}] {text}" for rank, text in lines), *([seen.values] if seen.values else [])])
