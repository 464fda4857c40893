"""Summaries of an ensemble: means with their standard errors, and the penalty of a fault."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xsim_py import __version__
from xsim_py.ftco.model import Configuration, Outcome
from xsim_py.ftco.options import rules_text

COLUMNS = tuple(each.name for each in fields(Outcome))
"""The values of a run, in the order of the columns of an ensemble."""

Runs = NDArray[np.int64]
"""One row per run, one column for each of `COLUMNS`."""

_AS_MEASURED = {
    "input_spread": "input_spread",
    "output_spread": "output_spread",
    "max_queue": "longest_queue",
    "messages": "messages",
    "data": "data",
    "keepalives": "keepalives",
    "acks": "acks",
    "dead": "dead",
}

UNITS = {
    "latency_steps": "steps",
    "latency_s": "s",
    "work": "",
    "work_truncated": "",
    "penalty_steps_per_fault": "steps",
    "penalty_work_per_fault": "",
    "input_spread": "steps",
    "output_spread": "steps",
    "max_queue": "",
    "messages": "",
    "data": "",
    "keepalives": "",
    "acks": "",
    "dead": "",
}
"""The statistics of an ensemble, with their units."""


class Statistic(NamedTuple):
    """Mean, its standard error (None for a single value), smallest and largest value."""

    mean: float
    stderr: float | None
    min: float
    max: float


def statistic(values: Sequence[float] | NDArray[Any], *, exhaustive: bool = False) -> Statistic | None:
    """Return the statistic of some values; None if there are none.

    If they are of one node after the other (`exhaustive`), and of every node, the choice of the failing node is not
    random: the error is that of the other draws, from the differences of neighbours (Wolter, "Introduction to Variance
    Estimation", 8.2).
    """
    numbers = [float(value) for value in values]
    if not numbers:
        return None
    low, high, count = min(numbers), max(numbers), len(numbers)
    # Summing and dividing would add a rounding error to an exact value.
    mean = low if low == high else math.fsum(numbers) / count
    if count == 1:
        return Statistic(mean, None, low, high)
    if exhaustive:
        squares = math.fsum((one - other) ** 2 for one, other in pairwise(numbers)) / 2
    else:
        squares = math.fsum((number - mean) ** 2 for number in numbers)
    error = math.sqrt(squares / (count - 1) / count)
    return Statistic(mean, error, low, high)


def expected_largest(found: Statistic, runs: int, of: int) -> tuple[float, float]:
    """Estimate the maximum of many runs from a few, because a maximum grows with their number.

    The largest value in a run, such as its longest queue, is a maximum itself, so runs are assumed to have Gumbel's
    distribution, whose scale b is sqrt(6) / pi standard deviations. The maximum of `of` of them has that distribution,
    too, shifted by b ln(of), with the same standard deviation (Gumbel, "Statistics of Extremes", 5.2).

    Return its expectation, and the standard deviation of one such maximum: its own scatter, and the error of `found`
    from `runs` runs, at least two.
    """
    assert found.stderr is not None
    deviation = found.stderr * math.sqrt(runs)
    shift = math.sqrt(6) / math.pi * math.log(of)
    # The standard deviation of Gumbel's distribution has a relative error of sqrt(1.1 / n) (kurtosis 5.4).
    uncertainty = deviation * math.hypot(1 / math.sqrt(runs), shift * math.sqrt(1.1 / runs))
    return found.mean + shift * deviation, math.hypot(deviation, uncertainty)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The statistics of the runs of one configuration.

    Attributes
    ----------
    configuration : Configuration
        The configuration, with a number for its radix.
    seed : int
        The seed of the ensemble.
    runs : int
        Number of runs, including those that hung.
    hung : int
        Number of runs that never ended; no statistic includes them.
    sampling : str
        ``plain``, or ``strata``: means are weighted means of the strata, and smallest and largest values are of more
        rare runs than in plain ones; see `xsim_py.ftco.strata`.
    fault_free_steps : int or None
        The latency of the same tree without faults and with simultaneous starts; None if the penalty is taken run by
        run, from the same starts without faults.
    statistics : mapping of str to Statistic or None
        By the names of `UNITS`. ``work`` is messages sent per node, exactly; ``work_truncated`` is rounded down in each
        run, as in the paper's table. ``max_queue`` is each run's longest queue. The penalties are the costs of the
        faults in latency, and in messages per node, divided by the number of faults drawn; None without faults.
    """

    configuration: Configuration
    seed: int
    runs: int
    hung: int
    fault_free_steps: int | None
    statistics: Mapping[str, Statistic | None]
    sampling: str = "plain"

    def __getitem__(self, name: str) -> Statistic | None:
        """Return one statistic."""
        return self.statistics[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain data, as in JSON."""
        configuration = self.configuration
        plain = {
            "nodes": configuration.nodes,
            **(
                {"tree": configuration.tree, "radix": configuration.radix, "roots": configuration.roots}
                if configuration.has_tree
                else {}
            ),
            "L": configuration.L,
            "o": configuration.o,
            "inactive": configuration.inactive,
            "failures": configuration.failures,
            "window": None if configuration.window is None else list(configuration.window),
            "imbalance": configuration.imbalance,
            "operation": configuration.operation,
            "algorithm": configuration.algorithm,
            "group": configuration.group,
            "timeout": configuration.timeout,
            "rules": rules_text(configuration.rules),
            "seed": self.seed,
            "sampling": self.sampling,
            "runs": self.runs,
            "hung": self.hung,
            "fault_free_steps": self.fault_free_steps,
            "version": __version__,
        }
        return plain | {name: None if found is None else found._asdict() for name, found in self.statistics.items()}


def summarise(
    configuration: Configuration,
    seed: int,
    runs: Runs,
    fault_free: Runs,
    overhead_s: float | None,
    *,
    exhaustive: bool = False,
) -> Summary:
    """Compute the statistics of one configuration.

    `runs` and `fault_free` have shape (runs, len(COLUMNS)): outcomes of the runs, and of the same without faults, one
    for all or one for each. `overhead_s` is the duration of a step, the overhead of a message; None for no latency in
    seconds. In an `exhaustive` ensemble, each run hit a different node, and all together every node.
    """
    ended = runs[:, COLUMNS.index("hung")] == 0
    if len(fault_free) == len(runs) > 1:
        ended &= fault_free[:, COLUMNS.index("hung")] == 0
        fault_free = fault_free[ended]
    columns = {name: runs[ended, index] for index, name in enumerate(COLUMNS)}
    baseline = {name: fault_free[:, index] for index, name in enumerate(COLUMNS)}
    faults, nodes = configuration.inactive + configuration.failures, configuration.nodes
    steps = columns["latency_steps"]
    values: dict[str, NDArray[Any] | tuple[()]] = {
        "latency_steps": steps,
        "latency_s": () if overhead_s is None else steps * overhead_s,
        "work": columns["messages"] / nodes,
        "work_truncated": columns["messages"] // nodes,
        "penalty_steps_per_fault": (steps - baseline["latency_steps"]) / faults if faults else (),
        "penalty_work_per_fault": (columns["messages"] - baseline["messages"]) / nodes / faults if faults else (),
        **{name: columns[column] for name, column in _AS_MEASURED.items()},
    }
    return Summary(
        configuration=configuration,
        seed=seed,
        runs=len(runs),
        hung=int((~ended).sum()),
        fault_free_steps=int(baseline["latency_steps"][0]) if len(fault_free) == 1 else None,
        statistics={name: statistic(values[name], exhaustive=exhaustive) for name in UNITS},
    )
