"""A simulator that remembers what it was told and gives the result it was given, for tests of the command line."""

from types import SimpleNamespace
from typing import Any

from tests.report.helpers import SUMMARY, make_result
from xsim_py.report import Result

PROVENANCE = {
    **{name: SUMMARY[name] for name in ("version", "seed", "config_hash", "ranks", "shards")},
    "machine": "gige: 1,024 nodes",
}


class FakeSimulator:
    """Stands in for `xsim_py.run`: `simulate` prints a line, takes a step, and returns `result`."""

    def __init__(self) -> None:
        self.calls: list[SimpleNamespace] = []
        self.result: Result = make_result()
        self.raises: BaseException | None = None
        self.first_process = True

    def refuse_wrong_input(self, program: str, **told: Any) -> None:
        """Nothing is wrong here."""

    def simulate(self, program: str, **told: Any) -> Result:
        self.calls.append(SimpleNamespace(program=program, **told))
        if self.raises is not None:
            raise self.raises
        if self.first_process and "started" in told:
            told["started"](PROVENANCE)
        if told["progress"] is not None:
            told["progress"](34_914_000, 5000, 3, 1024)
        if self.first_process:
            told["stdout"].write("from the program\n")
        return self.result
