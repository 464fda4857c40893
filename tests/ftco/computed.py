"""Makes the CSV of a study's figures that stands beside the published ones: `make ftco-figures`, or by hand

    xsim study ftco-fig8 --out build/ftco-fig8
    python -m tests.ftco.computed build/ftco-fig8/results.json > models/studies/ftco-fig8-computed.csv

The study goes on where it was interrupted, and gives the same whoever runs it.

    python -m tests.ftco.computed --far-apart       # the table in docs/reference/papers.md
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from pathlib import Path

from tests.cases import ROOT
from xsim_py.ftco.ensemble import run_ensemble
from xsim_py.ftco.model import Configuration
from xsim_py.ftco.options import with_radix
from xsim_py.ftco.strata import strata

STUDIES = ROOT / "models" / "studies"
RESULT_FILES = 100
"""Runs of a point in the authors' result files."""
PROGRAM = {1024: 10_000, 2048: 3000, 4096: 3000, 8192: 1000, 16384: 400, 32768: 200, 65536: 200}
"""Runs of a point by the authors' program, or one that equals it run by run."""
COMBINED = {1024: 500, 8192: 100, 65536: 20}
"""The same for inactive nodes and failures at run time together."""
SHOWN = {
    ("fig8", "inactive", "penalty_steps_per_fault"): ("8, steps", 2),
    ("fig8", "inactive", "penalty_work_per_fault"): ("9, messages", 3),
    ("fig10", "faults", "latency_steps"): ("10, steps", 1),
}
"""What a computed figure shows, as the paper numbers it, and with how many digits."""
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


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file of figures."""
    lines = (line for line in (STUDIES / name).read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return list(csv.DictReader(lines))


def beside(
    figure: str, key: str, name: str, *, more: int | None = None
) -> list[tuple[tuple[str, str], float, str, float]]:
    """Return nodes and faults, ours, published, and the standard error of both with a sixth of the last digit.

    With `more`, published is the mean of more runs that a note tells, the first or the second figure in it.
    """
    published = {(row["nodes"], row[key]): row for row in rows(f"ftco-{figure}.csv")}
    found = []
    for row in rows(f"ftco-{figure}-computed.csv"):
        point = (row["nodes"], row[key])
        if point not in published:
            continue
        text, nodes = published[point][name], int(row["nodes"])
        runs = RESULT_FILES if key == "inactive" else (COMBINED if "+" in row[key] else PROGRAM)[nodes]
        if more is not None:
            text, runs = re.findall(r"[0-9.]+", published[point]["note"].partition(":")[2])[more], PROGRAM[nodes]
        digit = 10.0 ** -len(text.partition(".")[2])
        theirs = float(row[f"{name}_deviation"]) / math.sqrt(runs)
        error = math.hypot(float(row[f"{name}_stderr"]), theirs) + digit / 6
        found.append((point, float(row[name]), text, error))
    return found


def far_apart() -> str:
    """Return the table of what is more than 5 % from the published figures, in Markdown."""
    lines = [
        "| figure | nodes | faults | published | computed | difference | standard errors |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for (figure, key, name), (drawn, digits) in SHOWN.items():
        for (nodes, faults), ours, text, error in beside(figure, key, name):
            published = float(text)
            if abs(ours - published) > 0.05 * published:
                part = f"{ours / published - 1:+.0%}".replace("%", " %")
                cells = f"{int(nodes):,}", f"{faults} inactive" if key == "inactive" else faults, text
                lines.append(
                    f"| {' | '.join((drawn, *cells))} | {ours:.{digits}f} | {part} "
                    f"| {abs(ours - published) / error:.1f} |"
                )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{far_apart()}\n" if sys.argv[1:] == ["--far-apart"] else computed(Path(sys.argv[1])))
