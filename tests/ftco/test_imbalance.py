"""Table 2 of the FTCO paper beside what has been computed, and a piece of that computed again."""

from __future__ import annotations

import math

import pytest

from tests.campaign import CAMPAIGN
from tests.cases import ROOT
from tests.ftco.computed import RESULT_FILES, STUDIES, rows
from tests.ftco.imbalance import FIGURES, FILE, markdown, published, table
from xsim_py.ftco.ensemble import run_ensemble
from xsim_py.ftco.model import Configuration

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.mark.parametrize("name", FIGURES[:3])
def test_means_are_the_published_ones_within_their_errors(name: str):
    for key, row in table().items():
        text, ours = published()[key][name], row.statistics[name]
        theirs = ours.stderr * math.sqrt(row.runs / RESULT_FILES)
        error = math.hypot(ours.stderr, theirs) + 10.0 ** -len(text.partition(".")[2]) / 6
        assert abs(ours.mean - float(text)) <= max(3 * error, 0.05 * float(text)), key


def test_the_longest_queue_is_the_maximum_of_as_many_runs_as_the_authors_files_have():
    for key, row in table().items():
        expected, deviation = row.longest_of(RESULT_FILES)
        assert abs(float(published()[key]["longest_queue"]) - expected) <= 3 * deviation, key


def test_verification_has_what_has_been_computed():
    page = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8")
    assert page.split("<!-- table 2 -->\n")[1].split("<!-- end of table 2 -->")[0] == markdown() + "\n"


@pytest.mark.parametrize("spread", ["0", "256"] if CAMPAIGN else ["0"])
def test_a_piece_is_the_same_again(spread: str):
    (piece,) = (
        row
        for row in rows(FILE)
        if [row[name] for name in ("starts", "spread", "repetition")] == ["uniform", spread, "0"]
    )
    made = Configuration(nodes=65536, tree="knomial", radix=9, imbalance=f"uniform:{spread}")
    (found,) = run_ensemble([made], runs=int(piece["runs"]), seed=0, jobs=1)
    for name in FIGURES:
        assert f"{found[name].mean:.7g}" == piece[name]


def test_the_version_that_computed_them_is_said():
    assert (STUDIES / FILE).read_text(encoding="utf-8").startswith("# Computed by xsim_py 0.")
