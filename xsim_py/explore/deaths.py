"""Exploration of failures: each rank killed before, during and after each of its MPI calls.

A failure-free run that records all calls lists the possible injection points. Each rank is then killed at each of its
points; every case is a separate run. A second death is injected at a point of the run with the first one, so that
recovery code is covered, too. The deaths of a case are a set: a case found in two orders is one case.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from xsim_py import rng
from xsim_py.errors import ConfigError
from xsim_py.explore.runs import Call, Progress, Runner, RunSummary, RunTask, simulate_arguments, with_limit
from xsim_py.failure.schedule import CallSite
from xsim_py.report.failure_space import FailureSpace, JudgedCase, Place

WHEN: Final = ("before", "in", "after")
_SHOWN: Final = 3

Judge = Callable[[RunSummary, RunSummary], str]
"""Takes the run without failures and the run with them, and returns one of `CLASSES`."""


class PlannedDeath(NamedTuple):
    """The death of a rank at one of its calls."""

    site: CallSite
    place: Place

    @property
    def key(self) -> tuple[Any, ...]:
        """Its identity, without the time into the call, which may differ between runs."""
        return self.site[:4], self.site.into_ps is None


class DeathCase(NamedTuple):
    """A set of deaths and the resulting run."""

    deaths: tuple[PlannedDeath, ...]
    summary: RunSummary | None = None

    @property
    def fail(self) -> list[str]:
        """The deaths as `fail` options of `xsim_py.simulate`."""
        return [str(death.site) for death in self.deaths]

    @property
    def happened(self) -> bool:
        """True if all of the deaths happened."""
        causes = Counter(cause for _, cause in self.summary.died) if self.summary is not None else Counter[str]()
        return all(causes[death.site.cause] for death in self.deaths)


def failures(
    program: object,
    *,
    ranks: int,
    deaths: int = 1,
    accept: str | None = None,
    when: Sequence[str] = WHEN,
    victims: Collection[int] | None = None,
    jobs: int | None = None,
    budget: int | None = None,
    folder: str | None = None,
    judge: Judge | None = None,
    done: Mapping[str, RunSummary] | None = None,
    keep: Callable[[str, RunSummary], object] | None = None,
    progress: Progress | None = None,
    kind: str | None = None,
    **options: Any,
) -> FailureSpace:
    """Kill each rank at each of its calls, one case per run, and return the outcomes.

    Parameters
    ----------
    program, ranks, kind, options
        As for `xsim_py.simulate`; failures in `fail` happen in all runs.
    deaths : int
        The maximum number of deaths per run; all smaller numbers are tried as well.
    accept : str, optional
        A regular expression: a result is correct if one of its lines matches. Without it, a result is correct if it has
        the lines of the failure-free run; lines printed only by failed ranks may be missing, but not all lines.
    when : sequence of str
        The moments of death: ``before``, ``in`` (halfway through its virtual duration) and ``after`` a call.
    victims : collection of int, optional
        The ranks to kill; default: all, including spawned ranks.
    jobs : int, optional
        Parallel runs; default: one per core.
    budget : int, optional
        The maximum number of cases for each number of deaths; if there are more, a sample drawn from the seed.
    folder : str, optional
        The directory of the runs; by default a separate temporary directory for each.
    judge : callable, optional
        Judges a run instead of `accept`: takes the runs without and with failures, and returns the class.
    done, keep : mapping, callable, optional
        Known results of cases, and a function called with each new result; both by the text of the case.
    progress : callable, optional
        Called with the numbers of completed runs, all runs, and runs that did not survive.

    Raises
    ------
    ConfigError
        The input is invalid, or the program does not finish without failures.
    """
    if unknown := set(when) - set(WHEN):
        raise ConfigError(f"when: unknown value {unknown.pop()!r}; known: {', '.join(WHEN)}")
    options = simulate_arguments(program, kind, {**options, "ranks": ranks})
    fixed = options.pop("fail")
    if options.get("ft") is None and options.get("restart") is None:
        options["ft"] = True
    verdict = judge or _judge(accept)
    with Runner(program, jobs) as runner:
        began_s = time.perf_counter()
        reference = runner.one(RunTask({**options, "fail": fixed}, True, folder))
        _check_reference(reference, verdict)
        limited = with_limit(options, time.perf_counter() - began_s)
        search = _Search(runner, limited, fixed, folder, verdict, reference, done or {}, keep)
        seed = int(options.get("seed") or 0)
        found = search.up_to(
            deaths, lambda last, n: _sampled(_extended(last, when, victims), budget, seed, n), progress
        )
    judged = [_judged(case, case.summary, reference, verdict) for case in found if case.summary is not None]
    calls = [Place(call.rank, call.name, call.ordinal, call.place) for call in reference.calls]
    recovers = any(_recovers(case.summary, reference, each.outcome) for case, each in zip(found, judged, strict=True))
    return FailureSpace(judged, calls, ranks=ranks, never_came=search.never_came, recovers=recovers)


def _recovers(summary: RunSummary | None, reference: RunSummary, outcome: str) -> bool:
    """Return True if a run continues after a failure that matters.

    One that ends no later did not depend on it.
    """
    is_later = summary is not None and summary.virtual_time_ps > reference.virtual_time_ps
    return is_later if outcome == "survived" else outcome != "aborted"


def _judged(case: DeathCase, summary: RunSummary, reference: RunSummary, verdict: Judge) -> JudgedCase:
    outcome, report = verdict(reference, summary), summary.report
    if outcome == "wrong result":
        printed, missing = _some(summary.texts - reference.texts), _some(reference.texts - summary.texts)
        report = f"printed: {printed}\nmissing: {missing}\n{report}".strip()
    return JudgedCase(outcome, tuple(case.fail), tuple(death.place for death in case.deaths), report)


def _some(lines: Iterable[str]) -> str:
    first = sorted(lines)
    more = f"; and {len(first) - _SHOWN:,} more lines" if len(first) > _SHOWN else ""
    return "; ".join(first[:_SHOWN]) + more if first else "nothing else"


def _check_reference(reference: RunSummary, verdict: Judge) -> None:
    if reference.ended != "finished" or reference.exit_status or verdict(reference, reference) != "survived":
        how = reference.ended if reference.ended != "finished" else f"finished with exit status {reference.exit_status}"
        how = how if reference.exit_status or reference.ended != "finished" else "printed no accepted line"
        raise ConfigError(f"the failure-free program {how}; nothing to compare with\n{reference.report}".strip())


def _judge(accept: str | None) -> Judge:
    """Return the default judge."""
    try:
        pattern = None if accept is None else re.compile(accept)
    except re.error as error:
        raise ConfigError(f"accept: invalid regular expression {accept!r}: {error}") from None

    def judge(reference: RunSummary, summary: RunSummary) -> str:
        if summary.ended in ("stalled", "wall limit"):
            return "stalled"
        if summary.ended != "finished" or summary.exit_status:
            return "aborted"
        if pattern is not None:
            return "survived" if any(pattern.search(text) for text in summary.texts) else "wrong result"
        dead = {rank for rank, _ in summary.died}
        expected = {text for rank, text in reference.lines if rank not in dead}
        same = expected <= summary.texts <= reference.texts and bool(summary.texts) == bool(reference.texts)
        return "survived" if same else "wrong result"

    return judge


def sites(calls: Iterable[Call], when: Sequence[str] = WHEN) -> Iterator[PlannedDeath]:
    """Yield the moments of these calls at which their rank can die.

    A call of zero duration has only ``before``.
    """
    for call in calls:
        for moment in when:
            if moment != "before" and not call.lasted_ps and (moment == "in" or call.lasted_ps is None):
                continue
            into_ps = call.lasted_ps // 2 if moment == "in" and call.lasted_ps is not None else None
            site = CallSite(call.rank, moment != "after", call.ordinal, call.name, into_ps)
            yield PlannedDeath(site, Place(call.rank, call.name, call.ordinal, call.place, moment))


def _extended(before: Iterable[DeathCase], when: Sequence[str], victims: Collection[int] | None) -> Iterator[DeathCase]:
    """Yield the cases with one more death than those before, each set of deaths once."""
    known = set()
    for case in before:
        assert case.summary is not None
        dead = {death.site.rank for death in case.deaths}
        remaining = [call for call in case.summary.calls if call.rank not in dead]
        for death in sites((call for call in remaining if victims is None or call.rank in victims), when):
            deaths = (*case.deaths, death)
            key = frozenset(each.key for each in deaths)
            if key not in known:
                known.add(key)
                yield DeathCase(deaths)


def _sampled(cases: Iterable[DeathCase], budget: int | None, seed: int, number: int) -> list[DeathCase]:
    """Return all cases, or a sample within the budget, in order."""
    every = list(cases)
    if budget is None or len(every) <= budget:
        return every
    chosen = rng.stream(seed, "explore", "failures", number).sample(range(len(every)), budget)
    return [every[place] for place in sorted(chosen)]


class _Search:
    """The runs of an exploration and their classification."""

    def __init__(
        self,
        runner: Runner,
        options: Mapping[str, Any],
        fixed: Sequence[str],
        folder: str | None,
        judge: Judge,
        reference: RunSummary,
        done: Mapping[str, RunSummary],
        keep: Callable[[str, RunSummary], object] | None,
    ) -> None:
        self._runner = runner
        self._options, self._fixed, self._folder = options, fixed, folder
        self._judge, self._reference = judge, reference
        self._done, self._keep = done, keep
        self._bad = 0
        self.never_came = 0

    def up_to(
        self,
        deaths: int,
        next_cases: Callable[[Sequence[DeathCase], int], Sequence[DeathCase]],
        progress: Progress | None,
    ) -> list[DeathCase]:
        """Return the cases of up to this many deaths.

        Each extends a case that happened with one death fewer.
        """
        found: list[DeathCase] = []
        last = [DeathCase((), self._reference)]
        for number in range(1, deaths + 1):
            cases = next_cases(last, number)
            last = list(self.run(cases, lists_calls=number < deaths, before=len(found), progress=progress))
            found += last
        return found

    def run(
        self, cases: Sequence[DeathCase], *, lists_calls: bool, before: int, progress: Progress | None
    ) -> Iterator[DeathCase]:
        """Yield these cases with their runs, in order, without those whose deaths did not happen."""
        summaries: dict[int, RunSummary] = {}
        numbers: dict[int, int] = {}
        for number, case in enumerate(cases):
            known = self._done.get(" and ".join(case.fail))
            if known is not None and (known.calls or not lists_calls):
                summaries[number] = known
            else:
                arguments = {**self._options, "fail": [*self._fixed, *case.fail]}
                numbers[self._runner.submit(RunTask(arguments, lists_calls, self._folder))] = number
        for submitted, result in self._runner.results():
            summaries[numbers[submitted]] = result
            if self._keep is not None:
                self._keep(" and ".join(cases[numbers[submitted]].fail), result)
            self._bad += self._judge(self._reference, result) != "survived"
            if progress is not None:
                progress(before + len(summaries), before + len(cases), self._bad)
        for number, case in enumerate(cases):
            case = case._replace(summary=summaries[number])
            if case.happened:
                yield case
            else:
                self.never_came += 1
