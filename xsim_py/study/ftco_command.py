"""The formal model of FTCO as a command of studies; see `xsim_py.ftco`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from xsim_py.errors import ConfigError, OptionProblem
from xsim_py.ftco.options import DEFAULTS, configurations
from xsim_py.ftco.summary import UNITS, expected_largest
from xsim_py.study.template import Value, text_of
from xsim_py.units import PS_PER_S, parse_time_ps, parse_whole

OPTIONS: Final = ("nodes", *DEFAULTS, "runs", "sampling", "overhead_time")
"""As on the command line of ``xsim ftco``, with underscores for dashes."""

METRICS: Final[dict[str, str]] = {
    **UNITS,
    "longest_queue": "",
    "longest_queue_of_10000": "",
    "hung": "",
    "bound_steps": "steps",
    "tree_radix": "",
}
"""Statistics over the runs of a combination; ``longest_queue`` is the maximum over all runs, ``longest_queue_of_10000``
the expected maximum over 10,000 runs (with its standard deviation), ``bound_steps`` a lower bound of the latency for
any tree.
"""

TABLE: Final = ("latency_steps", "work")

_PAPER: Final = 10_000
_RUNS: Final = "100"
_OVERHEAD: Final = "0.13us"
_LIST: Final = "a list; sweep over its values"


def check(given: Mapping[str, Value]) -> dict[str, Any]:
    """Return the options of one combination as plain data.

    Raise ConfigError with a line ``option: problem`` for each problem.
    """
    from xsim_py.ftco.model import MAX_RUNS
    from xsim_py.ftco.strata import SAMPLINGS

    lists = [OptionProblem(name, _LIST) for name, value in given.items() if isinstance(value, list)]
    if lists:
        raise ConfigError(*lists)
    words = {name: text_of(value) for name, value in given.items() if not isinstance(value, list)}
    settings: dict[str, Any] = {"seed": int(words.pop("seed"))}
    problems: list[OptionProblem] = []
    parse_runs = partial(parse_whole, least=1, most=MAX_RUNS)
    for name, key, parse, usual in (
        ("runs", "runs", parse_runs, _RUNS),
        ("overhead_time", "overhead_ps", parse_time_ps, _OVERHEAD),
    ):
        try:
            settings[key] = parse(words.pop(name, usual))
        except ValueError as error:
            problems.append(OptionProblem(name, str(error)))
    sampling = words.pop("sampling", None)
    if sampling is not None:
        settings["sampling"] = sampling
        if sampling not in SAMPLINGS:
            problems.append(OptionProblem("sampling", f"expected {' or '.join(SAMPLINGS)}, got {sampling!r}"))
    try:
        made = configurations(words)
        if len(made) > 1:
            problems += [OptionProblem(name, _LIST) for name in words if "," in words[name]]
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(*problems)
    return {**settings, "options": words}


def do(settings: Mapping[str, Any]) -> dict[str, tuple[float | None, ...]]:
    """Run one combination; return mean, standard error, minimum and maximum of each metric."""
    from xsim_py.ftco.bounds import lower_bound
    from xsim_py.ftco.ensemble import run_ensemble

    (made,) = configurations(settings["options"])
    overhead_s = settings["overhead_ps"] / PS_PER_S
    (summary,) = run_ensemble(
        [made],
        runs=settings["runs"],
        seed=settings["seed"],
        jobs=1,
        overhead_s=overhead_s,
        sampling=settings.get("sampling", "plain"),
    )
    figures: dict[str, tuple[float | None, ...]] = {
        name: (None,) if found is None else tuple(found) for name, found in summary.statistics.items()
    }
    queue = summary["max_queue"]
    figures["longest_queue"] = (None if queue is None else queue.max,)
    figures["longest_queue_of_10000"] = (None,)
    if queue is not None and queue.stderr is not None:
        figures["longest_queue_of_10000"] = (*expected_largest(queue, summary.runs - summary.hung, _PAPER), None, None)
    figures["hung"] = (summary.hung,)
    figures["bound_steps"] = (lower_bound(made.nodes, made.latency, roots=made.roots, operation=made.operation),)
    figures["tree_radix"] = (float(summary.configuration.radix) if made.has_tree else None,)
    return figures
