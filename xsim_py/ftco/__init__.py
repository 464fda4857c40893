"""Fault-tolerant tree collectives (FTCO): what a program may ask about them, and the paper's formal model, in steps.

A program needs nothing of this: ``xsim run --collectives ftco`` gives it collectives that outlive failures. One that
wants to know more may ask::

    from xsim_py import ftco

    comm.Allreduce(mine, total)
    if ftco.missing(comm):
        ...

The formal model (``xsim ftco``) from Python::

    from xsim_py.ftco import Configuration, run_ensemble

    (summary,) = run_ensemble([Configuration(nodes=1024, inactive=1)], runs=1000, seed=1)
    print(summary["latency_steps"])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .program import failed, missing, replace

if TYPE_CHECKING:
    from .ensemble import run_ensemble
    from .model import RULES, Configuration, Outcome, Rules, parse_rules
    from .summary import Statistic, Summary
    from .trace import trace_run

__all__ = [
    "RULES",
    "Configuration",
    "Outcome",
    "Rules",
    "Statistic",
    "Summary",
    "failed",
    "missing",
    "parse_rules",
    "replace",
    "run_ensemble",
    "trace_run",
]

# A program that asks who is missing does not want to wait for all that the formal model needs.
_MODULES = {
    "ensemble": ("run_ensemble",),
    "model": ("RULES", "Configuration", "Outcome", "Rules", "parse_rules"),
    "summary": ("Statistic", "Summary"),
    "trace": ("trace_run",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
