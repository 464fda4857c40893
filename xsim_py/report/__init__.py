"""The report of a run: results, tables, comparisons and pictures.

This tower stands on floor 2: it reads results, from memory or from a file made elsewhere, and never a live run.
"""

from xsim_py.report.compare import Comparison
from xsim_py.report.result import Result
from xsim_py.report.table import Table

__all__ = ["Comparison", "Result", "Table"]
