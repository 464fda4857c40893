"""Commands of ``xsim`` that studies can run instead of programs; each run yields means.

A command takes its options as text and numbers, by their names on the command line. It validates them when the study
is planned, and runs in a worker process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from xsim_py.study import ftco_command
from xsim_py.study.recovery import command as recovery_command
from xsim_py.study.template import Value


@dataclass(frozen=True)
class StudyCommand:
    """A command that studies can run."""

    options: tuple[str, ...]
    """The names of its options."""
    metrics: Mapping[str, str]
    """The measured columns, with their units."""
    table: tuple[str, ...]
    """The printed columns, by default."""
    check: Callable[[Mapping[str, Value]], dict[str, Any]]
    """``check(given)`` converts the given options and ``seed`` to plain data for `do`, or raises a ConfigError with a
    line ``option: problem`` for each problem."""
    do: Callable[[Mapping[str, Any]], Mapping[str, tuple[float | None, ...]]]
    """``do(settings)`` returns for each metric its mean and, if available, standard error, minimum and maximum."""


COMMANDS: Final[dict[str, StudyCommand]] = {
    name: StudyCommand(module.OPTIONS, module.METRICS, module.TABLE, module.check, module.do)
    for name, module in (("ftco", ftco_command), ("compare-recovery", recovery_command))
}
"""Commands by the value of the key ``command``."""
