"""What `--check` costs, beside the plain run: ``python -m tests.bench.checked``, in ``make bench``.

Programs run by turns without and with checks, each in this process, after a run that loads what is loaded on first use.
First the answers are compared: what was printed, virtual time and digest are the same, and nothing is found. Then the
least CPU times are printed, also with the start of the command, and judged by their ratios.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.bench.__main__ import start_up_s
from xsim_py import simulate
from xsim_py.report import Result

HERE = Path(__file__).parent
LOOPS = HERE / "programs" / "loops.py"
APPS = HERE.parents[1] / "apps"
TURNS = 5
FURTHER_RUNS_S = 0.7
"""A program with wildcards may take so much more: the budget, and the run in which it ends."""


class Case(NamedTuple):
    """A program, and how many times the CPU time it may take when it is checked."""

    name: str
    ranks: int
    program: Path
    args: tuple[str, ...] = ()
    at_most: float = 2.5  # twice is the aim; the rest is what a busy machine adds
    further_s: float = 0.0


CASES = [
    Case("a ring of Sendrecv", 64, HERE / "programs" / "ring.py", ("100",)),
    *(
        Case(name, 32, LOOPS, (name, rounds))
        for name, rounds in {"halo": "200", "nonblocking": "200", "objects": "200", "polls": "20"}.items()
    ),
    Case("collectives", 32, LOOPS, ("collectives", "100"), 2.0),
    *(Case(name, 16, LOOPS, (name, "100")) for name in ("fences", "gets", "accumulates")),
    *(Case(name, 16, LOOPS, (name, "100"), 3.5) for name in ("locks", "posts")),
    Case("tasks", 16, LOOPS, ("tasks", "30"), further_s=FURTHER_RUNS_S),
    Case("heat2d", 16, APPS / "heat2d.py", (), 2.5),
    Case("cg", 8, APPS / "cg.py", (), 2.0),
    Case("lattice_boltzmann", 8, APPS / "lattice_boltzmann.py", (), 2.0),
    Case("bag_of_tasks", 8, APPS / "bag_of_tasks.py", (), further_s=FURTHER_RUNS_S),
]


def run(case: Case, *, check: bool) -> tuple[float, Result, str]:
    """Return the CPU time of one run in seconds, the result, and what was printed."""
    out = io.StringIO()
    began_s = time.process_time()
    result = simulate(case.program, ranks=case.ranks, args=case.args, check=check, stdout=out, stderr=out)
    return time.process_time() - began_s, result, out.getvalue()


def compare(case: Case, start_s: float) -> list[str]:
    """Print what one program costs both ways, and return what is not as it must be."""
    cpu_s = dict.fromkeys((False, True), float("inf"))
    answers = set()
    for _ in range(TURNS):
        for check in cpu_s:
            taken_s, result, printed = run(case, check=check)
            cpu_s[check] = min(cpu_s[check], taken_s)
            answers.add((result.digest, result.virtual_time_ps, result.exit_status, printed, result.findings))
    plain_s, checked_s = cpu_s.values()
    whole = (start_s + checked_s) / (start_s + plain_s)
    times = checked_s / plain_s
    cells = f"{plain_s:8.3f} s {checked_s:8.3f} s {times:6.2f}x {whole:6.2f}x"
    print(f"{case.name:20} {case.ranks:3} ranks {cells}", flush=True)
    failures = [] if len(answers) == 1 else [f"{case.name}: a checked run is another one, or has found something"]
    if checked_s > case.at_most * plain_s + case.further_s:
        failures.append(f"{case.name}: more than {case.at_most} times what the plain run takes")
    return failures


def main() -> int:
    """Run all cases; the exit status says whether all is as it must be."""
    start_s, _ = start_up_s()
    print(f"CPU time without and with checks, the ratio, and that with {start_s:.2f} s for the start of the command")
    for check in (False, True):
        run(Case("", 2, LOOPS, ("tasks", "1")), check=check)
    failures = [failure for case in CASES for failure in compare(case, start_s)]
    for failure in failures:
        print(f"checked: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
