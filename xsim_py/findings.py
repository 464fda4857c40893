"""Findings: mistakes in the use of MPI that a checked run has seen, and the names of their classes."""

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
"""The classes of the MPI Bugs Initiative (Laurent, Saillard, Quinson, Correctness 2021) that a finding can be of."""


RACES: Final = "races"
"""Asks for the races of messages that change nothing, too."""


class Checks(NamedTuple):
    """The classes of mistakes that a checked run reports.

    Attributes
    ----------
    classes : frozenset of str
        The classes of `CATEGORIES` that are reported.
    races : bool
        Whether races of messages that change nothing are listed, too.
    """

    classes: frozenset[str] = frozenset(CATEGORIES)
    races: bool = False


def chosen(text: str) -> Checks:
    """Return what ``ResourceLeak,MessageRace`` (only these), ``-ResourceLeak`` (all others) or ``races`` asks for.

    Raises
    ------
    ValueError
        There is no such class.
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
    """One mistake, at one line of the program.

    Attributes
    ----------
    category : str
        One of `CATEGORIES`.
    file, line : str, int
        Where; the file is named from the folder in which the program was started.
    text : str
        One sentence that says what is wrong.
    ranks : tuple of int
        The ranks that did it, in the whole run.
    details : tuple of str
        More lines: the other call, what was expected.
    is_mistake : bool
        False of a race that changes nothing, which is listed where that is asked for.
    doing : str
        What the ranks were doing there, where the program says so: the test of a session of pytest.
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
        """Return the finding in one line, as compilers write theirs."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return visible(f"{place}: {self.category}: {self.text}")

    def report(self) -> str:
        """Return all that is known of the finding; every line after the first is indented."""
        ranks = [f"rank{'s' * (len(self.ranks) > 1)} {spans(self.ranks)}"] if self.ranks else []
        return "\n    ".join([str(self), *ranks, *map(visible, self.details)])


def by_place(finding: Finding) -> tuple[str, int, str, str]:
    """Return what findings are sorted by: file and line, then the class and the text."""
    return finding.file, finding.line, finding.category, finding.text
