"""The computed figures of the FTCO paper beside the published ones, and a part of them computed again."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest

from tests.cases import ROOT
from xsim_py.ftco.ensemble import run_ensemble
from xsim_py.ftco.model import Configuration
from xsim_py.ftco.options import with_radix

pytestmark = pytest.mark.usefixtures("in_this_process")

STUDIES = ROOT / "models" / "studies"
RESULT_FILES = 100
"""Runs of a point in the authors' result files."""
PROGRAM = {1024: 10_000, 2048: 3000, 4096: 3000, 8192: 1000, 16384: 400, 32768: 200, 65536: 200}
"""Runs of a point by the authors' program, or one that equals it run by run."""
COMBINED = {1024: 500, 8192: 100, 65536: 20}
"""The same for inactive nodes and failures at run time together."""


def rows(name: str) -> list[dict[str, str]]:
    lines = (line for line in (STUDIES / name).read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return list(csv.DictReader(lines))


def beside(figure: str, key: str, name: str, *, more: int | None = None) -> list[tuple[object, float, float, float]]:
    """Return key, ours, published, and three standard errors of both together with half of the last digit.

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
        error = 3 * math.hypot(float(row[f"{name}_stderr"]), theirs) + digit / 2
        found.append((point, float(row[name]), float(text), error))
    return found


@pytest.mark.parametrize(
    ("figure", "key", "name", "more"),
    [
        ("fig8", "inactive", "penalty_steps_per_fault", None),
        ("fig8", "inactive", "penalty_work_per_fault", None),
        ("fig8", "inactive", "penalty_steps_per_fault", 0),
        ("fig8", "inactive", "penalty_work_per_fault", 1),
        ("fig10", "faults", "latency_steps", None),
    ],
)
def test_computed_figures_are_the_published_ones_within_their_errors(
    figure: str, key: str, name: str, more: int | None
):
    points = beside(figure, key, name, more=more)
    assert len(points) >= 21
    for point, ours, published, error in points:
        assert abs(ours - published) <= max(error, 0.05 * published), (point, ours, published, error)


def test_every_point_says_how_many_runs_it_is_of_and_none_hung_too_often():
    for figure in ("fig8", "fig10"):
        for row in rows(f"ftco-{figure}-computed.csv"):
            assert int(row["runs"]) >= 50
            assert int(row["hung"]) <= 0.002 * int(row["runs"]) + 1


def test_a_finite_sum_is_computed_again():
    """1,024 nodes, each of them dead once: what the file has from another seed, but for the service distances."""
    (row,) = [each for each in rows("ftco-fig8-computed.csv") if (each["nodes"], each["inactive"]) == ("1024", "1")]
    made = with_radix(Configuration(nodes=1024, inactive=1))
    (found,) = run_ensemble([made], runs=1023, seed=9, jobs=1, sampling="strata")
    for name in ("penalty_steps_per_fault", "penalty_work_per_fault"):
        error = math.hypot(found[name].stderr, float(row[f"{name}_stderr"]))
        assert found[name].mean == pytest.approx(float(row[name]), abs=3 * error)


def test_the_version_that_computed_them_is_said():
    for figure in ("fig8", "fig10"):
        first = (Path(STUDIES) / f"ftco-{figure}-computed.csv").read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith("# Computed by xsim_py 0.")
