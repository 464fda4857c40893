"""Makes the CSV of a study's figures that stands beside the published ones: `make ftco-figures`, or by hand

    xsim study ftco-fig8 --out build/ftco-fig8
    python -m tests.ftco.computed build/ftco-fig8/results.json > models/studies/ftco-fig8-computed.csv

The study goes on where it was interrupted, and gives the same whoever runs it.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path

from xsim_py.ftco.ensemble import run_ensemble
from xsim_py.ftco.model import Configuration
from xsim_py.ftco.options import with_radix
from xsim_py.ftco.strata import strata

FIGURES = ("latency_steps", "penalty_steps_per_fault", "penalty_work_per_fault")


def deviations(nodes: int, inactive: int, failures: int) -> dict[str, float]:
    """Return by how much single plain runs scatter: within the strata, 64 runs of which are made, and between them."""
    made = with_radix(Configuration(nodes=nodes, inactive=inactive, failures=failures))
    parts = strata(made, 64)
    found = [run_ensemble([part.configuration], runs=part.runs, jobs=1)[0] for part in parts]
    told = {}
    for name in FIGURES:
        good = [
            (part.weight, each.mean, each.stderr * math.sqrt(part.runs))
            for part, summary in zip(parts, found, strict=True)
            if (each := summary[name]) is not None and each.stderr is not None
        ]
        total = math.fsum(weight for weight, _, _ in good)
        mean = math.fsum(weight * of for weight, of, _ in good) / total
        told[name] = math.sqrt(math.fsum(w * (s**2 + (of - mean) ** 2) for w, of, s in good) / total)
    return told


def computed(path: Path) -> str:
    """Return means and standard errors of each point that is done, with the version and the number of runs."""
    told = json.loads(path.read_text(encoding="utf-8"))
    lines = [
        f"# Computed by xsim_py {told['version']}, study {told['study']}: means over conditional means by level of the",
        "# tree (sampling: strata), their standard errors, how many runs they are of, and the standard deviation of",
        "# single plain runs.",
    ]
    rows = []
    for run in told["runs"]:
        outcome, columns = run["outcome"], run["columns"]
        if outcome is None or outcome["ended"] != "finished":
            continue
        key = "faults" if "faults" in columns else "inactive"
        row = {"nodes": columns["nodes"], key: columns[key], "runs": columns["runs"]}
        for name in FIGURES:
            row[name] = f"{outcome['captured'][name]:.5g}"
            row[f"{name}_stderr"] = f"{outcome['spread'][name][0]:.2g}"
        options = run["settings"]["options"]
        faults = {name: int(options.get(name, 0)) for name in ("inactive", "failures")}
        for name, deviation in deviations(int(options["nodes"]), **faults).items():
            row[f"{name}_deviation"] = f"{deviation:.2g}"
        rows.append({**row, "hung": outcome["captured"]["hung"]})
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return "\n".join(lines) + "\n" + out.getvalue()


if __name__ == "__main__":
    sys.stdout.write(computed(Path(sys.argv[1])))
