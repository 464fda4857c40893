"""Who does the runs: compiled code where there is numba and it knows the rules, else the step model itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
from numpy.typing import NDArray

from xsim_py.ftco.model import Configuration, run_seed
from xsim_py.ftco.steps import run_steps

__all__ = ["about", "measure"]


def measure(configuration: Configuration, seed: int, runs: Sequence[int]) -> NDArray[np.int64]:
    """Do some runs of an ensemble, one after the other.

    Returns
    -------
    numpy.ndarray of int64, shape (runs, columns)
        The fields of `Outcome`, in order.
    """
    rows = [astuple(run_steps(configuration, run_seed(seed, run))) for run in runs]
    return np.array(rows, np.int64)


def about(configurations: Sequence[Configuration]) -> list[str]:
    """What a user should know about how these are run, a line each."""
    return []
