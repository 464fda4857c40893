"""Repetitions with network jitter, each with its own seed."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from statistics import fmean
from typing import Any, Final, NamedTuple

from xsim_py.errors import ConfigError
from xsim_py.explore.outcomes import SeenOutcome, outcome_of
from xsim_py.explore.runs import Progress, Runner, RunSummary, RunTask, simulate_arguments, with_limit
from xsim_py.report.table import Table
from xsim_py.units import PS_PER_S

RUNS: Final = 100
LATENCY: Final = 0.1
"""The default jitter: the median of the added delay, relative to the latency."""

_QUANTILES: Final = {"median_s": 0.5, "q90_s": 0.9, "q99_s": 0.99}


class NoisyOutcome(NamedTuple):
    """The runs with one outcome."""

    outcome: SeenOutcome
    seeds: tuple[int, ...]
    summary: RunSummary
    """The first of these runs."""


class NoisyRuns(NamedTuple):
    """The repetitions of a program."""

    noise: Mapping[str, float]
    """The values set in ``network.noise``; empty if the machine defines jitter itself."""
    quiet_ps: int
    """The virtual time without jitter; if the machine defines jitter, with the first seed."""
    times_ps: tuple[int, ...]
    """The virtual time of each run, in the order of seeds."""
    classes: tuple[NoisyOutcome, ...]
    """The outcome of the jitter-free run first, if it occurs, then the others by decreasing frequency."""

    def quantile_ps(self, part: float) -> int:
        """Return the time within which this fraction of the runs has ended."""
        ordered = sorted(self.times_ps)
        return ordered[min(int(part * len(ordered)), len(ordered) - 1)]

    def table(self) -> Table:
        """Return the distribution of virtual times."""
        columns: dict[str, list[Any]] = {
            "runs": [len(self.times_ps)],
            "quiet_s": [self.quiet_ps / PS_PER_S],
            "least_s": [min(self.times_ps) / PS_PER_S],
            "mean_s": [fmean(self.times_ps) / PS_PER_S],
        }
        columns |= {name: [self.quantile_ps(part) / PS_PER_S] for name, part in _QUANTILES.items()}
        columns["most_s"] = [max(self.times_ps) / PS_PER_S]
        return Table("noise", columns, dict.fromkeys((name for name in columns if name.endswith("_s")), "s"))


def noise(
    program: object,
    *,
    ranks: int,
    runs: int = RUNS,
    latency: float | None = None,
    bandwidth: float | None = None,
    nodes: float | None = None,
    sigma: float | None = None,
    accept: str | None = None,
    jobs: int | None = None,
    folder: str | None = None,
    progress: Progress | None = None,
    kind: str | None = None,
    **options: object,
) -> NoisyRuns:
    """Run a program repeatedly, each time with different network jitter.

    Parameters
    ----------
    program, ranks, kind, options
        As for `xsim_py.simulate`; ``seed`` is the seed of the first run.
    runs : int
        The number of runs.
    latency, bandwidth, nodes, sigma : float, optional
        Values of the machine's ``network.noise``; default: those of the machine, or a latency of 0.1.
    accept : str, optional
        A regular expression: all results with a matching line are equal.
    jobs, folder, progress
        As for `wildcards`.
    """
    from xsim_py.config import load_machine

    try:
        outcome = outcome_of(accept)
    except re.error as error:
        raise ConfigError(f"accept: invalid regular expression {accept!r}: {error}") from None
    values = {"latency": latency, "bandwidth": bandwidth, "nodes": nodes, "sigma": sigma}
    settings = {name: value for name, value in values.items() if value is not None}
    arguments = simulate_arguments(program, kind, {**options, "ranks": ranks})
    plain, first = arguments.pop("set"), int(arguments.pop("seed", 0) or 0)
    spec = load_machine(arguments.get("machine", "gige"), overrides=plain)
    if not settings and (spec.network is None or spec.network.noise is None):
        settings = {"latency": LATENCY}
    noisy = plain | {f"network.noise.{name}": value for name, value in settings.items()}
    found: dict[SeenOutcome, tuple[list[int], RunSummary]] = {}
    with Runner(program, jobs) as runner:
        began_s = time.perf_counter()
        quiet = runner.one(RunTask({**arguments, "set": plain, "seed": first}, folder=folder))
        arguments = dict(with_limit(arguments, time.perf_counter() - began_s))
        start = runner.submit(RunTask({**arguments, "set": noisy, "seed": first}, folder=folder))
        for number in range(1, runs):
            runner.submit(RunTask({**arguments, "set": noisy, "seed": first + number}, folder=folder))
        summaries: dict[int, RunSummary] = {}
        usual = outcome(quiet)
        others = 0
        for number, summary in runner.results():
            summaries[number - start] = summary
            others += outcome(summary) != usual
            if progress is not None:
                progress(len(summaries), runs, others)
    for number in range(runs):
        found.setdefault(outcome(summaries[number]), ([], summaries[number]))[0].append(first + number)
    classes = [NoisyOutcome(which, tuple(seeds), summary) for which, (seeds, summary) in found.items()]
    classes.sort(key=lambda each: (each.outcome != usual, -len(each.seeds)))
    times = tuple(summaries[number].virtual_time_ps for number in range(runs))
    return NoisyRuns(settings, quiet.virtual_time_ps, times, tuple(classes))
