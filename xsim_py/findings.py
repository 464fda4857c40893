"""Findings: MPI usage errors detected in a checked run, and the names of their classes."""

from __future__ import annotations

from typing import Final, NamedTuple

from xsim_py.errors import visible
from xsim_py.units import spans

__all__ = ["CATEGORIES", "RACES", "Checks", "Finding", "by_place", "chosen"]

CALL_ORDERING: Final = "CallOrdering"
INVALID_PARAMETER: Final = "InvalidParameter"
PARAMETER_MATCHING: Final = "ParameterMatching"
REQUEST_LIFECYCLE: Final = "RequestLifecycle"
RESOURCE_LEAK: Final = "ResourceLeak"
LOCAL_CONCURRENCY: Final = "LocalConcurrency"
BUFFERING_HAZARD: Final = "BufferingHazard"
MESSAGE_RACE: Final = "MessageRace"
GLOBAL_CONCURRENCY: Final = "GlobalConcurrency"
EPOCH_LIFECYCLE: Final = "EpochLifecycle"
INPUT_HAZARD: Final = "InputHazard"

CATEGORIES: Final = (
    CALL_ORDERING,
    INVALID_PARAMETER,
    PARAMETER_MATCHING,
    REQUEST_LIFECYCLE,
    RESOURCE_LEAK,
    LOCAL_CONCURRENCY,
    BUFFERING_HAZARD,
    MESSAGE_RACE,
    GLOBAL_CONCURRENCY,
    EPOCH_LIFECYCLE,
    INPUT_HAZARD,
)
"""The classes of findings, from the MPI Bugs Initiative (Laurent, Saillard, Quinson, Correctness 2021)."""


RACES: Final = "races"
"""Requests message races without effect, too."""


class Checks(NamedTuple):
    """The classes of MPI usage errors that a checked run reports.

    With `races`, message races without effect are listed, too.
    """

    classes: frozenset[str] = frozenset(CATEGORIES)
    races: bool = False


def chosen(text: str) -> Checks:
    """Parse ``ResourceLeak,MessageRace`` (only), ``-ResourceLeak`` (all others) or ``races``.

    Raise ValueError for an unknown class.
    """
    words = [word.strip() for word in text.split(",")]
    names = {word.removeprefix("-") for word in words if word != RACES}
    unknown = sorted(names.difference(CATEGORIES))
    if unknown:
        raise ValueError(f"unknown class {unknown[0]!r}; the classes are {', '.join(CATEGORIES)}, and {RACES}")
    only = names.intersection(words)
    without = {word[1:] for word in words if word.startswith("-")}
    return Checks(frozenset(only or CATEGORIES) - without, RACES in words)


class Finding(NamedTuple):
    """One MPI usage error, at one line of the program.

    Attributes
    ----------
    category : str
        One of `CATEGORIES`.
    file, line : str, int
        The location; file names are relative to the program's start directory.
    text : str
        One sentence that describes the error.
    ranks : tuple of int
        The ranks that made it, as world ranks.
    details : tuple of str
        Further lines: the other call, the expected value.
    is_mistake : bool
        False for a race without effect, which is listed on request.
    doing : str
        The ranks' activity, if the program reports one: the name of the pytest test.
    """

    category: str
    file: str
    line: int
    text: str
    ranks: tuple[int, ...] = ()
    details: tuple[str, ...] = ()
    is_mistake: bool = True
    doing: str = ""

    def __str__(self) -> str:
        """Return the finding in one line, in the format of compilers."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return visible(f"{place}: {self.category}: {self.text}")

    def report(self) -> str:
        """Return the full finding; every line after the first is indented."""
        ranks = [f"rank{'s' * (len(self.ranks) > 1)} {spans(self.ranks)}"] if self.ranks else []
        return "\n    ".join([str(self), *ranks, *map(visible, self.details)])


def by_place(finding: Finding) -> tuple[str, int, str, str]:
    """Return the sort key of findings: file and line, then class and text."""
    return finding.file, finding.line, finding.category, finding.text
