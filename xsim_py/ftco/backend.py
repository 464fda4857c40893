"""Who does the runs: compiled code where there is numba and it knows the rules, else the step model itself.

Both give the same to the bit, so the choice is one of speed alone: loading what was compiled takes longer than a few
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

_FEW_NODES: Final = 20_000  # of all runs together; these take the step model about a second


def is_compiled(configuration: Configuration) -> bool:
    """Return whether compiled code can do the runs of a configuration."""
    return compiled.COMPILED and compiled.supports(configuration)


def is_worth_it(configurations: Sequence[Configuration], runs: int) -> bool:
    """Return whether there is so much to do that compiled code is faster, with the time to load it."""
    return sum(each.nodes for each in configurations) * runs > _FEW_NODES


def measure(configuration: Configuration, seed: int, runs: range, *, plain: bool = False) -> NDArray[np.int64]:
    """Do some runs of an ensemble, one after the other.

    Parameters
    ----------
    configuration, seed
        What is run, and the ensemble's seed.
    runs : range
        The numbers of the runs, one after the other.
    plain : bool, optional
        By the step model, also where compiled code could do it.

    Returns
    -------
    numpy.ndarray of int64, shape (runs, columns)
        The fields of `Outcome`, in order.
    """
    if not plain and is_compiled(configuration):
        return compiled.run_many(configuration, seed, runs)
    rows = [astuple(run_steps(configuration, run_seed(seed, run))) for run in runs]
    return np.array(rows, np.int64)


def prepare() -> None:
    """Compile now what is not compiled yet, so that many processes need not do so at the same time."""
    measure(Configuration(nodes=2, radix=2), 0, range(1))


def about(configurations: Sequence[Configuration], runs: int) -> list[str]:
    """Return what a user should know about how these are run, a line each."""
    if not is_worth_it(configurations, runs):
        return []
    if not compiled.COMPILED and any(map(compiled.supports, configurations)):
        return ["runs are not compiled and take fifty times as long: pip install 'xsim-py[fast]'"]
    if not all(map(is_compiled, configurations)):
        which = "runs with the paper's traversal, or of another algorithm, are not compiled"
        return [f"{which}, and take much longer than the others"]
    return []
