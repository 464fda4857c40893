"""The backend of runs: compiled code if possible (numba), else the step model.

Their results are bit-identical, so the choice is one of speed alone: loading compiled code takes longer than a few
small runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Final

import numpy as np
from numpy.typing import NDArray

from xsim_py.ftco import compiled
from xsim_py.ftco.model import Configuration, run_seed
from xsim_py.ftco.steps import run_steps

_FEW_NODES: Final = 20_000  # of all runs together, which take the step model about a second


def is_compiled(configuration: Configuration) -> bool:
    """Return True if compiled code can do the runs of a configuration."""
    return compiled.COMPILED and compiled.supports(configuration)


def is_worth_it(configurations: Sequence[Configuration], runs: int) -> bool:
    """Return True if compiled code is faster, including the time to load it."""
    return sum(each.nodes for each in configurations) * runs > _FEW_NODES


def measure(configuration: Configuration, seed: int, runs: range, *, plain: bool = False) -> NDArray[np.int64]:
    """Do some runs of an ensemble, one after the other.

    The numbers of the runs are consecutive. `plain` uses the step model, even if compiled code could do it. Return the
    fields of `Outcome`, in order, as an array of int64 of shape (runs, columns).
    """
    if not plain and is_compiled(configuration):
        return compiled.run_many(configuration, seed, runs)
    rows = [astuple(run_steps(configuration, run_seed(seed, run))) for run in runs]
    return np.array(rows, np.int64)


def prepare() -> None:
    """Compile all uncompiled code now, so that many processes need not do so simultaneously."""
    measure(Configuration(nodes=2, radix=2), 0, range(1))


def about(configurations: Sequence[Configuration], runs: int) -> list[str]:
    """Return notes for the user on how these are run, one per line."""
    if not is_worth_it(configurations, runs):
        return []
    if not compiled.COMPILED and any(map(compiled.supports, configurations)):
        return ["runs are not compiled and take fifty times as long; to compile them: pip install 'xsim-py[fast]'"]
    if not all(map(is_compiled, configurations)):
        which = "runs with the paper's traversal, or of another algorithm, are not compiled"
        return [f"{which} and take much longer"]
    return []
