"""What differs between a run and the same run under the real MPI, and whether that is known."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from tests.clients.description import Expected
from tests.clients.running import ALL, ANY, END, OUTPUT, STATUS, TRACEBACK, Result

NONE = "no outcome"  # it has not been reached
PASSED, FAILED, SKIPPED = (
    ("passed", "xfailed", "zero"),
    ("failed", "error", "xpassed", "not zero", "late"),
    ("skipped",),
)


# What counts for a test is the first of these that it is on any rank.
_COUNTS = ("error", "failed", NONE, "xfailed", "passed", "xpassed", "skipped")


@dataclass(frozen=True)
class Difference:
    """A test that does otherwise than under the real MPI, on some ranks."""

    test: str
    ranks: str
    real: str
    here: str

    def __str__(self) -> str:
        on = "" if self.ranks in (ALL, ANY) else f" on rank {self.ranks}"
        real = f", by mpiexec {self.real}" if self.real else ""
        return f"{self.test}{on}: {self.here}{real}"


def differences(real: Result, here: Result) -> list[Difference]:
    """What differs, test by test; a real run that was ended says nothing of what it had not reached."""
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for rank, tests in real.outcomes.items():
        ours = here.outcomes.get(rank, {})
        for test in dict.fromkeys([*tests, *ours]):
            pair = tests.get(test, NONE), ours.get(test, NONE)
            if pair[0] != pair[1] and _says(test, pair, _whole(real, rank), _whole(here, rank)):
                found[test, *pair].append(rank)
    return [Difference(test, ", ".join(ranks), *_shown(test, a, b)) for (test, a, b), ranks in found.items()]


def failures(result: Result) -> list[Difference]:
    """What is not as it should be in a session, where nobody knows what a real run does."""
    outcomes = {END: NONE, **result.outcomes[ANY]}
    return [Difference(test, ANY, "", each) for test, each in outcomes.items() if each in (*FAILED, NONE)]


def merged(result: Result) -> Result:
    """What one report of all ranks would say of a real run.

    A rank goes on from a test in which another still waits. Then they are no longer in one test, and what becomes of
    those that follow says nothing.
    """
    ranks = [tests for rank, tests in result.outcomes.items() if rank != ALL]
    found, together = dict[str, str](), True
    for test in dict.fromkeys(test for tests in ranks for test in tests if test != END):
        # A rank that came to the end of its session does not have the tests that it does not tell of.
        each = {tests.get(test, NONE) for tests in ranks if test in tests or END not in tests}
        outcome = min(each, key=_COUNTS.index)
        if outcome != NONE and (together or NONE not in each):
            found[test] = outcome
        together = together and NONE not in each
    ends = [tests.get(END) for tests in ranks]
    if ends and all(ends):
        found[END] = max(map(str, ends))
    return Result({ALL: result.outcomes[ALL], ANY: found}, result.seconds, result.late, result.said)


def _whole(result: Result, rank: str) -> bool:
    """Whether it came to its end on this rank."""
    return not result.late if rank == ALL else END in result.outcomes.get(rank, {})


def _says(test: str, pair: tuple[str, str], real_whole: bool, here_whole: bool) -> bool:
    if not real_whole and (pair[0] == NONE or test in (STATUS, TRACEBACK, OUTPUT)):
        return False
    # That it was ended is one difference, and not one for each test that it has not reached.
    return here_whole or test in (STATUS, END) or (pair[1] != NONE and test not in (TRACEBACK, OUTPUT))


def _shown(test: str, real: str, here: str) -> tuple[str, str]:
    if test != OUTPUT:
        return real, here
    lines = zip_longest(real.splitlines(), here.splitlines(), fillvalue="nothing")
    a, b = next((a, b) for a, b in lines if a != b)
    return repr(a), repr(b)


def unexpected(
    found: list[Difference], expected: tuple[Expected, ...], way: str, run: str, ranks: int
) -> Iterator[Difference]:
    """Those that the description does not know."""
    for difference in found:
        if not any(known.fits(way, run, ranks, difference.test) for known in expected):
            yield difference


def counts(result: Result) -> tuple[int, int, int]:
    """Passed, failed and skipped, over all ranks; a script counts once, by its exit status."""
    each = Counter[str]()
    for rank, tests in result.outcomes.items():
        if rank != ALL:
            each.update(outcome for test, outcome in tests.items() if test != END)
    if not each and not any(END in tests for tests in result.outcomes.values()):
        each[result.outcomes[ALL][STATUS]] += 1
    return tuple(sum(each[outcome] for outcome in kind) for kind in (PASSED, FAILED, SKIPPED))  # type: ignore[return-value]
