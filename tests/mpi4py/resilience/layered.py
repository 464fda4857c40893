"""Programs run over the layer, and what they print."""

import io
from typing import Any

from xsim_py import simulate
from xsim_py.report import Result


def layered(code: str, *, ranks: int = 4, options: dict[str, Any] | None = None, **more: Any) -> tuple[str, Result]:
    """Run a program's text over the layer with options of `mpi.resilience`; what it printed, and the result."""
    out = io.StringIO()
    entries = {f"mpi.resilience.{name}": value for name, value in (options or {}).items()} | more.pop("set", {})
    head = "import os, time\nimport numpy as np\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
    told = {"kind": "code", "ranks": ranks, "resilience": "legio", "set": entries, "stdout": out, "stderr": out} | more
    result = simulate(head + code, **told)
    return out.getvalue(), result


DIE = "if comm.rank == 1: os.kill(os.getpid(), 9)\n"
"""What rank 1 of a program does."""
