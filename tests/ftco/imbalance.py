"""Keeps what has been computed of table 2 of the FTCO paper, and puts it beside what is published.

    xsim study ftco-table2 --out build/ftco-table2      # goes on where it was interrupted, or with --only what is named
    python -m tests.ftco.imbalance build/ftco-table2/results.json

adds the pieces that are done, ten runs each, to models/studies/ftco-table2-computed.csv, so that hours can be spent on
several days and machines; a piece is the same whoever runs it.

    python -m tests.ftco.imbalance --table              # the table in docs/verification.md
"""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path
from typing import NamedTuple

from tests.ftco.computed import RESULT_FILES, STUDIES, rows
from xsim_py.ftco.summary import Statistic, expected_largest

FILE = "ftco-table2-computed.csv"
FIGURES = ("latency_steps", "work_truncated", "output_spread", "max_queue")
KEY = ("starts", "spread", "repetition")
CLAIMED = 10_000
"""Runs of a row, by the paper's text."""


class Row(NamedTuple):
    """A row of the table: of how many runs, their statistics, and the longest queue of all."""

    runs: int
    statistics: dict[str, Statistic]
    longest_queue: int

    def longest_of(self, runs: int) -> tuple[float, float]:
        """Return what is expected of the longest queue of so many runs, and its standard deviation."""
        return expected_largest(self.statistics["max_queue"], self.runs, runs)


def _merged(pieces: list[dict[str, str]], name: str) -> Statistic:
    """Return the statistic of all runs from those of the pieces that they were made in."""
    counts = [int(piece["runs"]) for piece in pieces]
    means = [float(piece[name]) for piece in pieces]
    total = sum(counts)
    mean = math.fsum(n * of for n, of in zip(counts, means, strict=True)) / total
    squares = math.fsum(
        (n - 1) * n * float(piece[f"{name}_stderr"]) ** 2 + n * (of - mean) ** 2
        for n, of, piece in zip(counts, means, pieces, strict=True)
    )
    return Statistic(mean, math.sqrt(squares / (total - 1) / total), min(means), max(means))


def table() -> dict[tuple[str, int], Row]:
    """Return the rows that have been computed, by how nodes start and by the spread in steps."""
    pieces: dict[tuple[str, int], list[dict[str, str]]] = {}
    for piece in rows(FILE):
        pieces.setdefault((piece["starts"], int(piece["spread"])), []).append(piece)
    return {
        key: Row(
            sum(int(piece["runs"]) for piece in group),
            {name: _merged(group, name) for name in FIGURES},
            max(int(piece["longest_queue"]) for piece in group),
        )
        for key, group in pieces.items()
    }


def published() -> dict[tuple[str, int], dict[str, str]]:
    """Return the paper's rows."""
    return {(row["starts"], int(row["spread"])): row for row in rows("ftco-table2.csv")}


def add(results: Path) -> None:
    """Put the pieces that are done into the file, in the place of those that it has of the same repetition."""
    told = json.loads(results.read_text(encoding="utf-8"))
    kept = {tuple(row[name] for name in KEY): row for row in rows(FILE)} if (STUDIES / FILE).exists() else {}
    for run in told["runs"]:
        outcome, columns = run["outcome"], run["columns"]
        if outcome is None or outcome["ended"] != "finished":
            continue
        piece = {name: str(columns[name]) for name in (*KEY, "runs")}
        for name in FIGURES:
            piece[name] = f"{outcome['captured'][name]:.7g}"
            piece[f"{name}_stderr"] = f"{outcome['spread'][name][0]:.4g}"
        piece["longest_queue"] = f"{outcome['captured']['longest_queue']:.0f}"
        kept[tuple(piece[name] for name in KEY)] = piece
    in_order = sorted(kept.values(), key=lambda row: (row["starts"] != "uniform", int(row["spread"]), int(row[KEY[2]])))
    with (STUDIES / FILE).open("w", encoding="utf-8", newline="") as file:
        file.write(f"# Computed by xsim_py {told['version']}, study {told['study']}: means of the runs of each piece\n")
        file.write("# (its seed is its repetition), their standard errors, and the longest queue of all of its runs.\n")
        writer = csv.DictWriter(file, list(in_order[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(in_order)


def markdown() -> str:
    """Return the table of the documentation."""
    longest = f"longest queue | xsim_py | of {RESULT_FILES} expected | of {CLAIMED:,} expected"
    lines = [
        f"| starts | spread | runs | latency | xsim_py | work | xsim_py | output spread | xsim_py | {longest} |",
        f"| --- |{' ---: |' * 12}",
    ]
    computed = table()
    for (starts, spread), theirs in published().items():
        row = computed.get((starts, spread))
        cells = [starts, f"{spread:,}", str(row.runs) if row else ""]
        for name in FIGURES[:3]:
            cells += [
                theirs[name],
                f"{row.statistics[name].mean:.1f} +- {row.statistics[name].stderr:.1f}" if row else "",
            ]
        cells += [theirs["longest_queue"], str(row.longest_queue) if row else ""]
        cells += (
            [f"{of:.0f} +- {off:.0f}" for of, off in map(row.longest_of, (RESULT_FILES, CLAIMED))] if row else ["", ""]
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        sys.stdout.write(f"{markdown()}\n")
    else:
        add(Path(sys.argv[1]))
