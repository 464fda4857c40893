"""Exploration of matchings: all choices of wildcard receives, probes and waits.

If there are more matchings than the budget has runs, the first half of the budget goes to the tree, whose runs differ
least from the usual one; the rest to two random methods that get far from it. A random walk delays each message
independently. PCT (Burckhardt et al., ASPLOS 2010) puts the ranks in a random order, in which each waits for all before
it, and lets one fall behind at a few random messages: an error that needs d events of k in a certain order is found in
a run with a probability of at least 1 / (n k^(d-1)).
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from xsim_py import rng
from xsim_py.errors import ConfigError
from xsim_py.explore.outcomes import KINDS, SeenOutcome, outcome_of
from xsim_py.explore.runs import Progress, Runner, RunSummary, RunTask, simulate_arguments, with_limit
from xsim_py.explore.search import Branch, Key, MatchingTree
from xsim_py.schedules import FREE, MadeChoice, MatchSchedule, Shake, otherwise, pairs_of, pairs_of_map

BUDGET: Final = 1000
_AHEAD: Final = 8  # runs in flight before the first one's outcome is known: the same for any number of cores
_MOST_DEPTH: Final = 3


class OutcomeClass(NamedTuple):
    """The runs with one outcome, and the minimal changes that lead to it."""

    outcome: SeenOutcome
    matchings: int
    summary: RunSummary
    """The first of its runs."""
    schedule: tuple[tuple[int, int], ...]
    """All choices of that run."""
    difference: tuple[tuple[MadeChoice, int], ...] = ()
    """The choices of the usual run that must change, with their alternatives; empty for the usual outcome."""
    least: tuple[tuple[int, int], ...] = ()
    """The shortest schedule that leads to the outcome: all other choices are free."""


class Matchings(NamedTuple):
    """The result of an exploration of matchings, within the budget."""

    found: int
    """The number of distinct matchings that were run."""
    is_complete: bool
    """True if these are all that MPI allows."""
    runs: int
    classes: tuple[OutcomeClass, ...]
    """The usual outcome first, then the others, by kind and order of discovery."""
    fail: str = ""
    """The failure injected in all of these runs, if one was drawn."""
    polls: bool = False
    """True if a rank polls: the timing of what it finds is not explored."""

    @property
    def is_deterministic(self) -> bool | None:
        """True if the program is communication-deterministic: there is only one matching.

        The value is None if that is undecided.
        """
        return False if self.found > 1 else True if self.is_complete and not self.polls else None

    @property
    def usual_is_bad(self) -> bool:
        """True if the usual run already ends without a result."""
        return self.classes[0].outcome.kind != "result"

    def kinds(self) -> dict[str, int]:
        """Return the number of matchings with an outcome other than the usual one, by kind."""
        counted = Counter(dict.fromkeys(KINDS, 0))
        for each in self.classes[1:]:
            counted[each.outcome.kind] += each.matchings
        return dict(counted)


def wildcards(
    program: object,
    *,
    ranks: int,
    budget: int = BUDGET,
    accept: str | None = None,
    jobs: int | None = None,
    folder: str | None = None,
    progress: Progress | None = None,
    kind: str | None = None,
    **options: Any,
) -> Matchings:
    """Run a program with each choice of messages that MPI allows, and report differences.

    Parameters
    ----------
    program, ranks, kind, options
        As for `xsim_py.simulate`.
    budget : int
        The maximum number of runs, without the few that minimise differences.
    accept : str, optional
        A regular expression: all results with a matching line are equal.
    jobs : int, optional
        Parallel runs; default: one per core.
    folder : str, optional
        The directory of the runs; by default a separate temporary directory for each.
    progress : callable, optional
        Called with the numbers of completed runs, known runs, and runs with a different outcome.

    Raises
    ------
    ConfigError
        The input is invalid.
    """
    try:
        outcome = outcome_of(accept)
    except re.error as error:
        raise ConfigError(f"accept: invalid regular expression {accept!r}: {error}") from None
    if int(options.get("shards") or 1) != 1:
        raise ConfigError("shards: cannot be combined with the exploration of matchings; drop shards")
    arguments = simulate_arguments(program, kind, {**options, "ranks": ranks})
    with Runner(program, jobs) as runner:
        exploration = _Exploration(runner, arguments, folder, outcome, progress)
        exploration.systematic(budget)
        if not exploration.tree.is_done:
            exploration.by_chance(budget, int(options.get("seed") or 0))
        return exploration.result()


def with_failures(program: object, *, failures: int = 0, **options: Any) -> list[Matchings]:
    """Explore as `wildcards` does, and again with each of some failures drawn from the seed.

    A drawn failure kills a rank before or after one of the calls of the usual run, as in `failures`. Each exploration
    has the full budget.
    """
    from xsim_py.explore.deaths import sites

    found = [wildcards(program, **options)]
    if failures:
        names = ("ranks", "kind", "jobs", "budget", "accept", "progress", "folder")
        arguments = simulate_arguments(
            program, options.get("kind"), {k: v for k, v in options.items() if k not in names[1:]}
        )
        with Runner(program, 1) as runner:
            usual = runner.one(RunTask(arguments, lists_calls=True, folder=options.get("folder")))
        places = [str(death.site) for death in sites(usual.calls, ("before", "after"))]
        draws = rng.stream(int(options.get("seed") or 0), "explore", "points")
        fixed = arguments["fail"]
        drawn = sorted(draws.sample(places, min(failures, len(places))), key=places.index)
        found += [wildcards(program, **{**options, "fail": [*fixed, fail]})._replace(fail=fail) for fail in drawn]
    return found


class _Exploration:
    """The state of one exploration."""

    def __init__(
        self,
        runner: Runner,
        arguments: Mapping[str, Any],
        folder: str | None,
        outcome: Callable[[RunSummary], SeenOutcome],
        progress: Progress | None,
    ) -> None:
        self._runner, self._arguments, self._folder = runner, arguments, folder
        self._outcome, self._progress = outcome, progress
        self.tree = MatchingTree()
        self._runs = 0
        self._found: dict[SeenOutcome, tuple[int, Branch, RunSummary]] = {}
        self._usual: RunSummary | None = None
        self._polls = False

    def _task(self, schedule: MatchSchedule) -> RunTask:
        return RunTask({**self._arguments, "schedule": schedule}, folder=self._folder)

    def _record(self, branch: Branch, summary: RunSummary) -> None:
        """Record the outcome of a run."""
        self._runs += 1
        self._usual = self._usual or summary
        self._polls |= summary.polls
        if self.tree.add(branch, summary.choices):
            outcome = self._outcome(summary)
            count, first, example = self._found.get(outcome, (0, branch, summary))
            self._found[outcome] = count + 1, first, example
        if self._progress is not None:
            others = self.tree.count - next(iter(self._found.values()))[0]
            self._progress(self._runs, self._runs + self.tree.remaining, others)

    def systematic(self, budget: int) -> None:
        """Run all branches of the tree; from half of the budget on, stop if it cannot be completed."""
        began_s = time.perf_counter()
        next_check, step = budget // 2, max(budget // 10, 1)
        in_flight: dict[int, Branch] = {}
        finished: dict[int, RunSummary] = {}
        while True:
            if self._runs >= next_check:
                next_check += step
                budget = self._runs if self.tree.has_more_than(budget - self._runs) else budget
            while len(in_flight) < _AHEAD and self._runs + len(in_flight) < budget:
                branch = self.tree.next()
                if branch is None:
                    break
                number = self._runner.submit(self._task(MatchSchedule.of(branch.pairs(), watch=True)))
                in_flight[number] = branch
            if not in_flight:
                return
            first = min(in_flight)
            results = self._runner.results()
            while first not in finished:
                number, summary = next(results)
                finished[number] = summary
            if not self._runs:
                self._arguments = with_limit(self._arguments, time.perf_counter() - began_s)
            self._record(in_flight.pop(first), finished.pop(first))

    def by_chance(self, budget: int, seed: int) -> None:
        """Spend the rest of the budget on random walks and PCT, alternately.

        The matchings they find are run again without delays, which are not part of a schedule and show in printed
        times.
        """
        assert self._usual is not None
        span_ps = 2 * self._usual.virtual_time_ps + 1
        for number in range((budget - self._runs) // 2):
            depth = 0 if number % 2 else 1 + number // 2 % _MOST_DEPTH
            drawn = rng.derive_seed(seed, "explore", number)
            shake = Shake(drawn, span_ps, depth, max(self._usual.messages, 1))
            self._runner.submit(self._task(MatchSchedule({}, watch=True, shake=shake)))
        repeated: dict[int, Branch] = {}
        for _, summary in sorted(self._runner.results(), key=lambda result: result[0]):
            self._runs += 1
            branch = Branch({choice.key: choice.taken for choice in summary.choices if choice.taken != FREE}, ())
            if not self.tree.covers(branch) and branch not in repeated.values():
                repeated[self._runner.submit(self._task(MatchSchedule.of(branch.pairs(), watch=True)))] = branch
        for number, summary in sorted(self._runner.results(), key=lambda result: result[0]):
            self._record(repeated[number], summary)

    # ----------------------------------------------------------------------------------------------------- result

    def result(self) -> Matchings:
        """Return the matchings found, with the minimal difference for each kind of outcome."""
        assert self._usual is not None
        usual, *others = self._found.items()
        classes = [self._class(*usual)]
        for kind in KINDS:
            alike = [item for item in others if item[0].kind == kind]
            for number, (outcome, found) in enumerate(sorted(alike, key=lambda item: len(item[1][1].changes))):
                classes.append(self._class(outcome, found, explain=not number))
        return Matchings(self.tree.count, self.tree.is_done, self._runs, tuple(classes), polls=self._polls)

    def _class(
        self, outcome: SeenOutcome, found: tuple[int, Branch, RunSummary], *, explain: bool = False
    ) -> OutcomeClass:
        count, branch, summary = found
        plain = OutcomeClass(outcome, count, summary, tuple(pairs_of(summary.choices)))
        if not explain:
            return plain
        assert self._usual is not None
        usual = {choice.key: choice for choice in self._usual.choices}
        made = {choice.key: choice.taken for choice in summary.choices if choice.taken != FREE}
        changed = {key: taken for key, taken in made.items() if key not in usual or usual[key].taken != taken}
        least = self._least(dict(branch.changes), changed, outcome.kind)
        difference = tuple((usual[key], taken) for key, taken in least.items() if key in usual)
        return plain._replace(difference=difference, least=tuple(pairs_of_map(least)))

    def _least(self, changes: Mapping[Key, int], every: Mapping[Key, int], kind: str) -> dict[Key, int]:
        """Return a minimal set of forced choices with an outcome of this kind.

        It is found by delta debugging of the schedule.
        """
        start = changes if changes and self._leads_to(changes, kind) else every
        items = list(start.items())
        parts = 2
        while len(items) > 1:
            size = -(-len(items) // parts)
            pieces = [items[place : place + size] for place in range(0, len(items), size)]
            rests = [[item for item in items if item not in piece] for piece in pieces] if parts > 2 else []
            smaller = next((some for some in [*pieces, *rests] if self._leads_to(dict(some), kind)), None)
            if smaller is not None:
                parts = 2 if smaller in pieces else max(parts - 1, 2)
                items = smaller
            elif parts >= len(items):
                break
            else:
                parts = min(2 * parts, len(items))
        return dict(items)

    def _leads_to(self, forced: Mapping[Key, int], kind: str) -> bool:
        """Return True if these choices are possible and lead to an unusual outcome of this kind."""
        summary = self._runner.one(self._task(MatchSchedule.of(pairs_of_map(forced), watch=True)))
        made = {choice.key: choice.taken for choice in summary.choices}
        outcome = self._outcome(summary)
        possible = all(made.get(key) == taken for key, taken in forced.items())
        return possible and outcome.kind == kind and outcome != next(iter(self._found))


def replay(program: Any, choices: Sequence[MadeChoice], changed: MadeChoice, taken: int, **options: Any) -> object:
    """Run a program again with one choice changed, and return the `Result`.

    Choices that do not depend on the changed one are kept; the others are free.

    Parameters
    ----------
    choices : sequence of MadeChoice
        The choices of a run with ``schedule=MatchSchedule({}, watch=True)``: its ``result.choices``.
    changed, taken : MadeChoice, int
        One of the choices, and one of its alternatives.
    options
        As for `xsim_py.simulate`.
    """
    from xsim_py.run import simulate

    return simulate(program, schedule=otherwise(choices, changed, taken), **options)


def explained(difference: Sequence[tuple[MadeChoice, int]]) -> list[str]:
    """Return one line for each choice that makes the difference."""
    return [_explained(choice, taken) for choice, taken in difference]


def _explained(choice: MadeChoice, taken: int) -> str:
    where = f"rank {choice.rank}, choice {choice.number} ({choice.place})"
    if choice.kind in ("receive", "probe"):
        verb = "receives from" if choice.kind == "receive" else "finds the message of"
        return f"{where}: {verb} rank {taken} instead of rank {choice.taken}"
    if choice.kind == "any":
        return f"{where}: gets request {taken} instead of request {choice.taken}"
    return f"{where}: gets requests {_places(taken)} instead of {_places(choice.taken)}"


def _places(bits: int) -> str:
    return ", ".join(str(place) for place in range(bits.bit_length()) if bits >> place & 1)
