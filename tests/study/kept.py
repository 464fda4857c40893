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

STUDIES = ROOT / "models" / "studies"


def computed(path: Path) -> str:
    """Return what varied, the virtual time, and the values captured of each run that is done, with the version."""
    told = json.loads(path.read_text(encoding="utf-8"))
    rows = []
    for run in told["runs"]:
        outcome = run["outcome"]
        if outcome is not None and outcome["ended"] == "finished":
            varied = {name: value for name, value in run["columns"].items() if name not in ("repetition", "seed")}
            rows.append({**varied, "virtual_time_s": outcome["virtual_time_s"], **outcome["captured"]})
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return f"# Computed by xsim_py {told['version']}, study {told['study']}.\n{out.getvalue()}"


def rows_of(study: str) -> list[dict[str, str]]:
    """Return the rows that are kept of a study."""
    lines = (STUDIES / f"{study}-computed.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


if __name__ == "__main__":
    sys.stdout.write(computed(Path(sys.argv[1])))
