"""A pytest plugin that writes what becomes of each test on each rank, as soon as that is known: a rank may be ended."""

import json
import os
from pathlib import Path
from typing import TextIO

import pytest

from xsim_py.testing.single_rank import is_in_rank


class Outcomes:
    """Writes a line for each test of one session: its name and what has become of it."""

    def __init__(self, file: TextIO):
        self._file = file
        self._outcomes: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be read is an outcome, too."""
        if report.failed:
            self._write(f"collect {report.nodeid}", "error")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has an outcome for each of its phases: the first that is not "passed" is the test's."""
        if self._outcomes.get(report.nodeid, "passed") == "passed":
            self._outcomes[report.nodeid] = _outcome(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test that was ended has no last phase, so this is where it is over."""
        if nodeid in self._outcomes:
            self._write(nodeid, self._outcomes.pop(nodeid))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """A session that came to its end says so."""
        self._write("the session's end", str(int(exitstatus)))

    def _write(self, name: str, outcome: str) -> None:
        # Of what is installed, where it is installed is no part of the name.
        self._file.write(json.dumps([name.rpartition("site-packages/")[2], outcome]) + "\n")
        self._file.flush()


def pytest_configure(config: pytest.Config) -> None:
    """Write into a file of this rank's own; in a session that reports what all ranks do, into one for all."""
    name: object = "any"
    if not config.getoption("xsim_session", None):
        from mpi4py import MPI

        name = MPI.COMM_WORLD.rank
    elif is_in_rank():
        return
    path = Path(os.environ["CLIENTS_OUTCOMES"], f"{name}.jsonl")
    config.pluginmanager.register(Outcomes(path.open("w", encoding="utf-8")))


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed and report.when != "call":
        return "error"
    return report.outcome
