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

    def outcome(summary: RunSummary) -> SeenOutcome:
        if summary.findings:
            return SeenOutcome("finding", "\n".join(sorted(summary.findings)))
        if summary.ended in ("stalled", "wall limit"):
            return SeenOutcome("deadlock", _timeless(summary.report))
        if summary.ended != "finished" or summary.exit_status:
            return SeenOutcome("exception", _timeless(summary.report) or f"exit status {summary.exit_status}")
        if pattern is not None:
            return SeenOutcome("result", "accepted" if any(map(pattern.search, summary.texts)) else "not accepted")
        return SeenOutcome("result", _printed(summary))

    return outcome


def _timeless(text: str) -> str:
    return _TIME.sub("", text)


def _printed(summary: RunSummary) -> str:
    """Return the output of each rank, rank by rank, and the return values of a function."""
    lines = sorted(summary.lines, key=lambda line: line[0])
    return "\n".join([*(f"[{rank}] {text}" for rank, text in lines), *([summary.values] if summary.values else [])])
