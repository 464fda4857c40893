"""The outcome of a run, independent of times."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from xsim_py.explore.runs import RunSummary

KINDS: Final = ("result", "exception", "deadlock", "finding")
"""The kinds of outcomes. Results with different output or return values are different outcomes."""

_LENGTH: Final = r"[\d.,]+ ?[munp]?s\b"
_TIME: Final = re.compile(rf" \((?:rank \d+ )?at {_LENGTH}\)|,? at {_LENGTH}(?: to {_LENGTH})?")
"""A point in virtual time with its joining words, so that the remaining text is still a sentence."""


class SeenOutcome(NamedTuple):
    """The outcome of a run."""

    kind: str
    """One of `KINDS`."""
    detail: str
    """The text that distinguishes it from others of its kind."""


def outcome_of(accept: str | None = None) -> Callable[[RunSummary], SeenOutcome]:
    """Return a function that classifies runs.

    With a regular expression all results that match it are equal.
    """
    pattern = None if accept is None else re.compile(accept)

    def outcome(seen: RunSummary) -> SeenOutcome:
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


def _printed(seen: RunSummary) -> str:
    """Return the output of each rank, rank by rank, and the return values of a function."""
    lines = sorted(seen.lines, key=lambda line: line[0])
    return "\n".join([*(f"[{rank}] {text}" for rank, text in lines), *([seen.values] if seen.values else [])])
