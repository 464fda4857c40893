"""Fault-tolerant tree collectives (FTCO): queries for programs, and the formal model.

Programs do not need this module: ``xsim run --collectives ftco`` gives them collectives that tolerate failures. A
program may query the outcome::

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

# Imported on first use: a program that only calls `missing` does not need the formal model.
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
