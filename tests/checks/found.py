"""Runs a program in a check, and returns what was found."""

import io
from typing import Any

from xsim_py import simulate
from xsim_py.findings import Finding


def found(program: str, ranks: int = 2, **asked: Any) -> tuple[Finding, ...]:
    """Run the text of a program silently, and return the findings."""
    streams: Any = {"stdout": io.StringIO(), "stderr": io.StringIO()}
    text = f"import numpy as np\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n{program}"
    result: Any = simulate(text, kind="code", ranks=ranks, **{"check": True, **asked}, **streams)
    findings: tuple[Finding, ...] = result.findings
    return findings
