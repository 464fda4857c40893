"""Studies can run other things than programs: commands of ``xsim`` whose every run gives means of its own.

A command takes its options as text and numbers, by the names that they have on its command line. It checks them when
the study is planned, and does the work in a worker process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from xsim_py.study import ftco_command, recovery_command
from xsim_py.study.template import Value


@dataclass(frozen=True)
class StudyCommand:
    """A command that studies can run."""

    options: tuple[str, ...]
    """The names of its options."""
    metrics: Mapping[str, str]
    """The columns that it measures, with their units."""
    table: tuple[str, ...]
    """Those that are printed, unless a study says otherwise."""
    check: Callable[[Mapping[str, Value]], dict[str, Any]]
    """``check(given)`` turns the options that are given, and ``seed``, into plain data for `do`; ConfigError with a
    line ``option: what is wrong`` for each problem."""
    do: Callable[[Mapping[str, Any]], Mapping[str, tuple[float | None, ...]]]
    """``do(settings)`` gives for each metric its mean, and where there are such, standard error, minimum and maximum.
    """


COMMANDS: Final[dict[str, StudyCommand]] = {
    name: StudyCommand(module.OPTIONS, module.METRICS, module.TABLE, module.check, module.do)
    for name, module in (("ftco", ftco_command), ("compare-recovery", recovery_command))
}
"""By the name that a study gives in ``command``."""
