"""The number of concurrent runs, limited if each may consist of many processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from xsim_py.engine import MOST_PROCESSES, processes_of
from xsim_py.errors import ConfigError
from xsim_py.parameters import isolation
from xsim_py.workers import cores


def runs_at_once(jobs: int | None, runs: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of concurrent runs, by default one per core, within process limits.

    `runs` are the arguments of `simulate`; each run may have many processes. Too many `jobs` are a ConfigError.
    """
    each = [processes_of(run["ranks"], isolation(run.get("isolation", "greenlets"))) for run in runs]
    largest = max(each, default=1)
    most = max(1, MOST_PROCESSES // largest)
    if jobs is not None and jobs > most and largest > 1:
        raise ConfigError(
            f"jobs: {jobs:,} runs at once, of up to {largest:,} processes each (isolation), are more than the "
            f"{MOST_PROCESSES:,} that can be looked after; give at most {most:,}"
        )
    return jobs or min(cores(), most)
