"""The page of the documentation that says how mpi4py's tests do: docs/reference/conformance.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.conformance.findings import Place
from tests.conformance.judgement import CUT, Outcomes, counts, known_failures

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conformance.md"
MARK = "<!-- the table is written by `python -m tests.conformance --write` -->\n"


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


def write_page(rows: Sequence[Row]) -> None:
    """Put both tables below the text of the page."""
    text = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(f"{text}{MARK}\n{known_table()}\n{table(rows)}", encoding="utf-8")
