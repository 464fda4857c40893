"""The report of a run: results, tables, comparisons and pictures.

This tower stands on floor 2: it reads results, from memory or from a file made elsewhere, and never a live run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xsim_py.report.result import Result
from xsim_py.report.table import Table

if TYPE_CHECKING:
    from xsim_py.report.compare import Comparison

__all__ = ["Comparison", "Result", "Table"]


def __getattr__(name: str) -> object:
    """Import `Comparison` when first asked for: every run passes here, and should start quickly."""
    if name == "Comparison":
        from xsim_py.report.compare import Comparison

        return Comparison
    raise AttributeError(f"module 'xsim_py.report' has no attribute {name!r}")
