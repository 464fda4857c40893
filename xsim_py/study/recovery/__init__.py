"""Comparison of recovery schemes of one program under the same failures: ``xsim compare-recovery``.

`victims` names the failures, `experiment` plans, executes and measures the runs (with `xsim_py.report.phases`), and
`comparison` and `page` show them; `command` makes it a command of studies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xsim_py.study.recovery.experiment import Experiment, compare_recovery

__all__ = ["Experiment", "compare_recovery"]


def __getattr__(name: str) -> object:
    """Import the names of `__all__` on first use: every study imports this package."""
    if name in __all__:
        from xsim_py.study.recovery import experiment

        return getattr(experiment, name)
    raise AttributeError(f"module 'xsim_py.study.recovery' has no attribute {name!r}")
