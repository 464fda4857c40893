"""What a study can run beside programs: commands of ``xsim`` whose every run gives means of its own.

A command takes its options as text and numbers, by the names that they have on its command line. It checks them when
the study is planned, and does the work in a worker process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from xsim_py.study import ftco, recovering
from xsim_py.study.template import Value

__all__ = ["COMMANDS", "Command", "Figure"]


class Figure(NamedTuple):
    """What came out for one column: a mean, and its standard error, smallest and largest value where there are such."""

    mean: float | None
    stderr: float | None = None
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True)
class Command:
    """A command that studies can run.

    Attributes
    ----------
    options : tuple of str
        The names of its options.
    metrics : mapping of str to str
        The columns that it measures, with their units.
    table : tuple of str
        Those that are printed, unless a study says otherwise.
    check : callable
        ``check(given)`` turns the options that are given, and ``seed``, into plain data for `do`; ConfigError with a
        line ``option: what is wrong`` for each problem.
    do : callable
        ``do(settings)`` gives a tuple of up to four numbers, those of `Figure`, for each metric.
    """

    options: tuple[str, ...]
    metrics: Mapping[str, str]
    table: tuple[str, ...]
    check: Callable[[Mapping[str, Value]], dict[str, Any]]
    do: Callable[[Mapping[str, Any]], Mapping[str, tuple[float | None, ...]]]


COMMANDS: Final[dict[str, Command]] = {
    "ftco": Command(ftco.OPTIONS, ftco.METRICS, ftco.TABLE, ftco.check, ftco.do),
    "compare-recovery": Command(
        recovering.OPTIONS, recovering.METRICS, recovering.TABLE, recovering.check, recovering.do
    ),
}
"""By the name that a study gives in ``command``."""
