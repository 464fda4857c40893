"""The pages with the outcomes of mpi4py's tests: conformance.md and compiled-mpi4py.md in docs/reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.conformance.findings import Place
from tests.conformance.judgement import COMPILED_KNOWN, CUT, Outcomes, broken, counts, known_failures, reason_for
from tests.conformance.records import MPIS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conformance.md"
MARK = "<!-- the table is written by `python -m tests.conformance --write` -->\n"
COMPILED_PAGE = PAGE.with_name("compiled-mpi4py.md")
COMPILED_MARK = MARK.replace("--write", "--compiled --write")


class Row(NamedTuple):
    """One module on so many ranks: outcomes under the simulation first, what is broken here, and what checks find."""

    module: str
    ranks: int
    outcomes: list[Outcomes]
    missed: list[str]
    found: frozenset[Place] = frozenset()

    def __str__(self) -> str:
        cells = [counts(found) for found in self.outcomes] + [""] * (3 - len(self.outcomes))
        return f"| {self.module} | {self.ranks} | {' | '.join(cells)} | {', '.join(self.missed)} |"


def cell(row: Row) -> str:
    """Passed tests under each MPI; skipped and failed ones after a plus, dots where a module was cut off."""
    return " · ".join(map(_count, row.outcomes))


def _count(outcomes: Outcomes) -> str:
    count = Counter(outcomes.values())
    others = [f"+{count[what]}{what[0]}" for what in ("skipped", "failed") if count[what]]
    others += ["…"] if count[CUT] else []
    return f"{count['passed']}{''.join(others)}"


def table(rows: Sequence[Row]) -> str:
    """A line for each module, a column for each number of ranks."""
    sizes = sorted({row.ranks for row in rows})
    lines = [f"| module | {' | '.join(map(str, sizes))} |", f"| --- |{' ---: |' * len(sizes)}"]
    for module in sorted({row.module for row in rows}):
        cells = {row.ranks: cell(row) for row in rows if row.module == module}
        lines.append(f"| `{module}` | {' | '.join(cells.get(size, '') for size in sizes)} |")
    return "\n".join(lines) + "\n"


def known_table() -> str:
    """Return the table of tests that cannot pass, with reasons."""
    lines = ["| test | reason |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| `{entry.test}` | {entry.reason} |" for entry in known_failures())]) + "\n"


def totals(rows: Sequence[Row]) -> str:
    """Return the numbers of tests by outcome, number of ranks and MPI."""
    outcomes = ("passed", "skipped", "failed")
    lines = [f"| ranks | library | {' | '.join(outcomes)} | unfinished |", f"| ---: | --- |{' ---: |' * 4}"]
    for ranks in sorted({row.ranks for row in rows}):
        here = [row.outcomes for row in rows if row.ranks == ranks]
        sides = [dict(item for found in side for item in found.items()) for side in zip(*here, strict=True)]
        every = {test for side in sides for test in side if not test.endswith(".*")}
        for name, side in zip(("xsim", *MPIS), sides, strict=False):
            numbers = [sum(side.get(test) == outcome for test in every) for outcome in outcomes]
            lines.append(f"| {ranks} | {name} | {' | '.join(map(str, [*numbers, len(every) - sum(numbers)]))} |")
    return "\n".join(lines) + "\n"


def differences(rows: Sequence[Row]) -> str:
    """Return the tests that pass under a real MPI and not under ours, with reasons."""
    known, found = known_failures(COMPILED_KNOWN), dict[tuple[str, str], set[int]]()
    for row in rows:
        ours, *real = row.outcomes
        others = "time limit" if CUT in ours.values() else "unfinished"
        for test in broken(ours, real, []):
            outcome = ours.get(test, CUT).replace(CUT, others)
            name = f"{row.module}.*" if outcome == "time limit" else test
            found.setdefault((name, outcome), set()).add(row.ranks)
    lines = ["| test | outcome | ranks | reason |", "| --- | --- | --- | --- |"]
    for (test, outcome), ranks in sorted(found.items()):
        where = ", ".join(map(str, sorted(ranks)))
        open_or_late = "slower than the limit on two busy cores" if outcome == "time limit" else "open"
        lines.append(f"| `{test}` | {outcome} | {where} | {reason_for(test, known) or open_or_late} |")
    return "\n".join(lines) + "\n"


def write_page(rows: Sequence[Row], *, compiled: bool = False) -> None:
    """Put the tables below the text of the page."""
    page, mark = (COMPILED_PAGE, COMPILED_MARK) if compiled else (PAGE, MARK)
    tables = [totals(rows), differences(rows)] if compiled else [known_table(), table(rows)]
    text = page.read_text(encoding="utf-8").partition(mark)[0]
    page.write_text("\n".join([text + mark, *tables]), encoding="utf-8")
