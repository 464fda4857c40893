"""Runs simplemd.py under the simulator, and reads what it prints."""

import io
import re
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

from tests.cases import ROOT
from xsim_py import simulate

APPS = ROOT / "apps"
PARAMETERS = APPS / "simplemd.in"
NUMBER = r"(-?\d+\.\d+)"


class Run(NamedTuple):
    """What a run printed, its exit status, and what its failures came of."""

    out: str
    err: str
    status: int
    causes: list[str]

    @property
    def final(self) -> str:
        """The digest of the last positions and velocities."""
        found = re.search(r"^final state: (\w{16})$", self.out, re.MULTILINE)
        return found[1] if found else "none"

    @property
    def energies(self) -> list[float]:
        """The total energy at each evaluation."""
        return [float(energy) for energy in re.findall(rf"^step \d+: .* Etot {NUMBER}$", self.out, re.MULTILINE)]


def simulated(app: str | Path, *args: object, ranks: int = 1, **told: Any) -> Run:
    """Simulate a program of apps/, with options such as `failures`."""
    stdout, stderr = io.StringIO(), io.StringIO()
    words = [str(arg) for arg in args]
    result = simulate(APPS / app, ranks=ranks, args=words, stdout=stdout, stderr=stderr, **told)
    causes = [failure["cause"] for failure in result.failures]
    return Run(stdout.getvalue(), stderr.getvalue(), result.exit_status, causes)


def spoilt(folder: Path, app: str, old: str, new: str, *, within: str = "") -> Path:
    """Write a copy of the programs of apps/ with a mistake, in one of them or in a module that they share."""
    for path in APPS.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name == (within or app):
            assert text.count(old) == 1
            text = text.replace(old, new)
        (folder / path.name).write_text(text, encoding="utf-8")
    return folder / app


def md(folder: Path, *args: object, parameters: Path = PARAMETERS, **told: Any) -> Run:
    """Simulate simplemd.py with its files in `folder`."""
    return simulated("simplemd.py", parameters, "--checkpoint", folder / "md", *args, **told)


def within(app: str, function: Callable[[Any], Any]) -> Any:
    """Call `function` with a program of apps/ as a module, on one simulated rank, and return what it returns."""

    def rank() -> Any:
        sys.path.insert(0, str(APPS))  # for what it imports from there
        spec = spec_from_file_location(app, APPS / f"{app}.py")
        module = sys.modules[app] = module_from_spec(spec)  # where a dataclass looks for its types
        spec.loader.exec_module(module)
        return function(module)

    return simulate(rank, ranks=1).values[0]
