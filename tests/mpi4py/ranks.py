"""Running a function on every rank of a simulated machine, and taking what each rank returns."""

from collections.abc import Callable
from typing import Any

import numpy as np

from xsim_py import simulate


def values_of(program: Callable[..., Any], *args: Any, ranks: int, **options: Any) -> list[Any]:
    """Return what each rank's call of `program` returned."""
    result = simulate(program, ranks=ranks, args=args, **options)
    assert (result.ended, result.exit_status) == ("finished", 0), result.report
    return result.values


def report_of(program: Callable[..., Any], *args: Any, ranks: int) -> str:
    """Return the report of a program that must not come to its end."""
    result = simulate(program, ranks=ranks, args=args)
    assert (result.ended, result.exit_status) == ("stalled", 3)
    return result.report


def numbers(rank: int, count: int, dtype: Any = np.int64) -> Any:
    """Small random numbers, other ones for each rank; exact in every type."""
    return np.random.default_rng(1000 + rank).integers(1, 9, count).astype(dtype)
