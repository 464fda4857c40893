"""The computed figures of the FTCO paper beside the published ones, and a part of them computed again."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.cases import ROOT
from tests.ftco.computed import STUDIES, beside, far_apart, rows
from xsim_py.ftco.ensemble import run_ensemble
from xsim_py.ftco.model import Configuration
from xsim_py.ftco.options import with_radix

pytestmark = pytest.mark.usefixtures("in_this_process")


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
    for point, ours, text, error in points:
        published = float(text)
        assert abs(ours - published) <= max(3 * error, 0.05 * published), (point, ours, published, error)


def test_the_page_about_the_papers_has_all_that_is_far_apart():
    page = (ROOT / "docs" / "reference" / "papers.md").read_text(encoding="utf-8")
    assert page.split("<!-- table -->\n")[1].split("<!-- end of table -->")[0] == far_apart() + "\n"


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
