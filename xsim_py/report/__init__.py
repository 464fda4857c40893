"""The report of a run: results, tables, comparisons and figures.

This package reads results, from memory or from a file written elsewhere, and never a live run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.report.result import Result
from xsim_py.report.table import Table

if TYPE_CHECKING:
    from xsim_py.report.compare import Comparison

__all__ = ["Comparison", "Result", "Table"]


def __getattr__(name: str) -> object:
    """Import `Comparison` on first use: every run imports this package, and must start quickly."""
    if name == "Comparison":
        from xsim_py.report.compare import Comparison

        return Comparison
    raise AttributeError(f"module 'xsim_py.report' has no attribute {name!r}")
