"""The programs that must do the same under a real MPI and under xsim, and what a real MPI made of them.

A program of tests/programs says in its first line on how many ranks it runs, and in its second if it needs a launch of
its own because it ends the job, or the real MPI may hang in it.  Its lines begin with who prints them, so that the
sorted lines of a run do not depend on time.  tests/programs/expected holds what the real MPI gave; see
tests/real_mpi.py.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "tests" / "programs"
EXPECTED = PROGRAMS / "expected"

# The programs that users see first, with arguments that keep them short.
APPS = {
    "pingpong": ["--sizes", "0", "1024", "200000", "--repetitions", "2"],
    "ring": ["--bytes", "3000", "--rounds", "4"],
    "heat2d": ["--nx", "13", "--ny", "17", "--steps", "12"],
    "samplesort": ["--keys", "60"],
    "cg": ["--n", "12"],
    "pi": ["--samples", "5000"],
    "allreduce_loop": ["--scheme", "ftco", "--integers", "5"],
}
APP_RANKS = (1, 2, 4, 5)


class Case(NamedTuple):
    """One program on a number of ranks."""

    path: Path
    ranks: int
    args: tuple[str, ...] = ()
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.path.stem}.n{self.ranks}"

    @property
    def record(self) -> Path:
        """Where the real MPI's outcome is kept."""
        return EXPECTED / f"{self}.txt"


class Outcome(NamedTuple):
    """What a run printed, in an order that does not depend on time, and its exit status."""

    lines: list[str]
    status: int

    @classmethod
    def of(cls, case: Case, text: str, status: int) -> "Outcome":
        """Take the text of a run, and drop its times: the only thing in which machines differ."""
        lines = [line for line in text.split("\n") if line and not line.startswith("time: ")]
        if case.path.stem == "pingpong":
            lines = [line.split()[0] for line in lines]
        return cls(sorted(lines), status)

    def as_text(self) -> str:
        """Return the text of a record."""
        return "".join(f"{line}\n" for line in [*self.lines, f"exit status {self.status}"])

    @classmethod
    def recorded(cls, case: Case) -> "Outcome":
        """Read the record of a case."""
        *lines, last = case.record.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        return cls(lines, int(last.removeprefix("exit status ")))


def all_cases() -> list[Case]:
    """Return every program on each of its numbers of ranks."""
    cases = []
    for path in sorted(PROGRAMS.glob("*.py")):
        first, second = path.read_text(encoding="utf-8").split("\n")[:2]
        if first.startswith("# ranks: "):  # the others are imported by programs
            cases += [
                Case(path, int(ranks), alone=second == "# alone") for ranks in first.removeprefix("# ranks: ").split()
            ]
    for name, args in APPS.items():
        cases += [Case(ROOT / "apps" / f"{name}.py", ranks, tuple(args)) for ranks in APP_RANKS]
    return cases


def largest_cases(cases: Iterable[Case]) -> list[Case]:
    """Return each program on the largest of its numbers of ranks."""
    return list({case.path: case for case in sorted(cases, key=lambda case: case.ranks)}.values())
