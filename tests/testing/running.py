"""Runs a suite of ``suites/`` in a pytest of its own: real mpi4py can be imported only once in a process."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.warm import client

ROOT = Path(__file__).resolve().parents[2]
SUITES = Path(__file__).parent / "suites"


class Session:
    """What a session of pytest has said.

    Attributes
    ----------
    outcomes : dict
        What has become of each test.
    """

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.text = done.stdout + done.stderr
        self.status = done.returncode
        words = "PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS"
        found = re.findall(rf"^({words}) (?:\[\d+\] )?(?:\S+::)?(\S+)", done.stdout, re.M)
        self.outcomes = {name.removesuffix(":"): outcome for outcome, name in found}

    def of(self, test: str) -> str:
        """Return the part of the report that is about a test that has failed."""
        return re.split(r"\n_{3,} |\n={3,} ", self.text.partition(f"_ {test} _")[2])[0]


def run(folder: Path, *arguments: str, suites: tuple[str, ...] = (), typed: str = "", **variables: str) -> Session:
    """Run pytest in a folder with these files of ``suites/``, the first of them as a test."""
    for number, name in enumerate(suites):
        shutil.copy(SUITES / f"{name}.py", folder / (f"{name}.py" if number else f"test_{name}.py"))
    (folder / "pytest.ini").touch()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "COLUMNS": "120",
        **variables,
    }
    command = [sys.executable, "-IS", "-c", client("pytest"), "-p", "xsim_py.testing.plugin", "-p", "no:cacheprovider"]
    command += ["-rA", *arguments]
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 3000, "input": typed}
    return Session(subprocess.run(command, cwd=folder, env=environment, **options))
