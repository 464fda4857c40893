"""Stratified ensembles: rare and expensive faults, such as that of a root, are oversampled.

The cost of a fault increases with the level of its node in the tree, and nodes of one level and one distance from a
root cost nearly the same. So the stratum of a run is the level and distance of the first failing node, in the order of
`model.ranking` (`Configuration.topmost`). Each stratum has a share of the runs, and its mean is weighted by its
probability, which has a closed form. The sum of these conditional means is the mean of plain runs, without bias, and
its error is that within the strata alone (Cochran, "Sampling Techniques", chapter 5). With one fault, a stratum with at
most as many nodes as runs is done node by node: a finite sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from xsim_py.ftco.model import Configuration, ranking
from xsim_py.ftco.summary import UNITS, Statistic, Summary

SAMPLINGS: Final = ("plain", "strata")
"""Sampling of an ensemble: each run from all possibilities, or from its stratum."""

_MIN_WEIGHT: Final = 1e-3


class Stratum(NamedTuple):
    """A part of an ensemble."""

    configuration: Configuration
    """The configuration, with its ``topmost``."""
    weight: float
    """The probability that a plain run belongs to it."""
    runs: int
    """Number of runs."""
    stream: int
    """Number that sets the seeds of its runs, separate for each stratum; 0 for plain ones."""
    exhaustive: bool
    """True if run i hits the i-th node of ``topmost``, and the failing node is not drawn."""


def levels(configuration: Configuration) -> list[tuple[int, int]]:
    """Return the positions ``[first, end)`` in the `ranking` of each level and distance.

    Only levels whose nodes can fail are included. The configuration has a number for its radix.
    """
    made = configuration
    bounds = ranking(made.nodes, made.tree, made.k, made.roots)[1].tolist()
    kept = [made.first_mortal, *(bound for bound in bounds if bound > made.first_mortal)]
    return list(pairwise(kept))


def strata(configuration: Configuration, runs: int) -> list[Stratum]:
    """Divide an ensemble by level and distance of the topmost failing node.

    The configuration has at least one fault and a number for its radix. Of approximately `runs` runs, half are
    distributed evenly, half by weight, and at least two per stratum. The last strata are joined if it is rare (under 1
    in 1,000) that they contain all faults.
    """
    reach = [(first, end, _probability_from(configuration, first)) for first, end in levels(configuration)]
    while len(reach) > 1 and reach[-1][2] < _MIN_WEIGHT:
        (_, last, _), (first, _, above) = reach.pop(), reach.pop()
        reach.append((first, last, above))
    after = [*(above for _, _, above in reach[1:]), 0.0]
    single = configuration.inactive + configuration.failures == 1
    made = []
    for stream, ((first, end, above), below) in enumerate(zip(reach, after, strict=True), 1):
        weight = above - below
        share = max(2, round(runs * (1 / len(reach) + weight) / 2))
        exhaustive = single and end - first <= max(share, runs * (end - first) // (configuration.nodes - 1))
        count = end - first if exhaustive else share
        made.append(Stratum(replace(configuration, topmost=(first, end)), weight, count, stream, exhaustive))
    return made


def _probability_from(configuration: Configuration, first: int) -> float:
    """Return the probability that all faults hit nodes from position `first` on."""
    nodes, safe = configuration.nodes, configuration.first_mortal
    faults = configuration.inactive + configuration.failures
    if configuration.rules.draw == "replacement":
        return ((nodes - first) / (nodes - safe)) ** faults
    return math.prod(max(0, nodes - first - place) / (nodes - safe - place) for place in range(faults))


def combine(configuration: Configuration, parts: Sequence[Stratum], found: Sequence[Summary]) -> Summary:
    """Combine the summaries of the strata to that of the whole.

    A stratum whose runs have all hung is omitted, and the others count for it.
    """
    statistics = {}
    for name in UNITS:
        both = zip(parts, found, strict=True)
        known = [(part.weight, each) for part, summary in both if (each := summary[name]) is not None]
        total = math.fsum(weight for weight, _ in known)
        statistics[name] = _weighted([(weight / total, each) for weight, each in known]) if known else None
    return Summary(
        configuration=configuration,
        seed=found[0].seed,
        runs=sum(each.runs for each in found),
        hung=sum(each.hung for each in found),
        fault_free_steps=found[0].fault_free_steps,
        statistics=statistics,
        sampling="strata",
    )


def _weighted(known: Sequence[tuple[float, Statistic]]) -> Statistic:
    return Statistic(
        math.fsum(weight * each.mean for weight, each in known),
        math.sqrt(math.fsum((weight * (each.stderr or 0.0)) ** 2 for weight, each in known)),
        min(each.min for _, each in known),
        max(each.max for _, each in known),
    )
