"""Makes the CSV of what a study has computed that is kept in models/studies: `make xsim-figures`, or by hand

    xsim study xsim-fig2 --out build/xsim-fig2
    python -m tests.study.kept build/xsim-fig2/results.json > models/studies/xsim-fig2-computed.csv

The study goes on where it was interrupted, and gives the same whoever runs it: a test compares some of it for equality.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

from tests.cases import ROOT
from xsim_py.study import load_study

STUDIES = ROOT / "models" / "studies"


def computed(path: Path) -> str:
    """Return the swept values of each finished run, its virtual time, the captured values and the table's columns."""
    told = json.loads(path.read_text(encoding="utf-8"))
    shown = [name for name in load_study(told["study"]).table or () if name in told["runs"][0]["outcome"]]
    dropped = ["seed"] if any(run["columns"]["repetition"] for run in told["runs"]) else ["seed", "repetition"]
    rows = []
    for run in told["runs"]:
        outcome = run["outcome"]
        if outcome is not None and outcome["ended"] == "finished":
            varied = {name: value for name, value in run["columns"].items() if name not in dropped}
            values = {name: outcome[name] for name in ("virtual_time_s", *shown)}
            rows.append(varied | values | outcome["captured"])
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return f"# Computed by xsim_py {told['version']}, study {told['study']}.\n{out.getvalue()}"


def rows_file(study: str) -> Path:
    """Return where the rows of a study are, if they are kept."""
    return STUDIES / f"{study}-computed.csv"


def rows_of(study: str) -> list[dict[str, str]]:
    """Return the rows that are kept of a study."""
    return rows_in(rows_file(study).read_text(encoding="utf-8"))


def rows_in(text: str) -> list[dict[str, str]]:
    """Return the rows of such a CSV."""
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


if __name__ == "__main__":
    sys.stdout.write(computed(Path(sys.argv[1])))
