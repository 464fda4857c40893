"""Runs simplemd.py under the simulator, and reads what it prints."""

import io
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.cases import ROOT
from xsim_py import simulate

APPS = ROOT / "apps"
PARAMETERS = APPS / "simplemd.in"
NUMBER = r"(-?\d+\.\d+)"


class Run(NamedTuple):
    """What a run printed, and its exit status."""

    out: str
    err: str
    status: int

    @property
    def final(self) -> str:
        """The digest of the last positions and velocities."""
        return re.search(r"^final state: (\w{16})$", self.out, re.MULTILINE)[1]

    @property
    def energies(self) -> list[float]:
        """The total energy at each evaluation."""
        return [float(energy) for energy in re.findall(rf"^step \d+: .* Etot {NUMBER}$", self.out, re.MULTILINE)]


def simulated(app: str, *args: object, ranks: int = 1) -> Run:
    """Simulate a program of apps/."""
    stdout, stderr = io.StringIO(), io.StringIO()
    result = simulate(APPS / app, ranks=ranks, args=[str(arg) for arg in args], stdout=stdout, stderr=stderr)
    return Run(stdout.getvalue(), stderr.getvalue(), result.exit_status)


def md(folder: Path, *args: object, ranks: int = 1, parameters: Path = PARAMETERS) -> Run:
    """Simulate simplemd.py with its files in `folder`."""
    return simulated("simplemd.py", parameters, "--checkpoint", folder / "md", *args, ranks=ranks)


def xsim(*options: str, program: Sequence[object]) -> Run:
    """Run a program of apps/ by the command line, with options such as --fail."""
    app, *args = program
    line = [sys.executable, "-m", "xsim_py", "run", "--quiet", *options, APPS / str(app), *map(str, args)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    return Run(done.stdout, done.stderr, done.returncode)
