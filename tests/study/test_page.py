import pytest

from tests.report.page.helpers import figures, own, shown
from tests.study.test_results import outcome, results
from xsim_py.report.page import document

PLOT = {"file": "a.png", "x": "ranks", "y": "virtual_time_s"}


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(document, "_plotly_js", lambda: "/** drawing */")


def page(tmp_path, times_s, **keys):
    keys = {"repetitions": 1, "sweep": {"ranks": [2, 4], "size": [1, 8]}, **keys}
    results(times_s, **keys).to_html(tmp_path / "page.html", command="xsim study s.yaml")
    return own(tmp_path / "page.html")


def test_has_pictures_and_speedup_also_where_the_study_asks_for_none(tmp_path):
    text = page(tmp_path, [8e-3, 4e-3, 4e-3, 1e-3], plots=[PLOT])
    times, speedup, efficiency = figures(text)
    assert [line["y"] for line in times["data"]] == [[8.0, 4.0], [4.0, 1.0]]
    assert [line["y"] for line in speedup["data"]] == [[2.0, 4.0], [2.0, 8.0], [2.0, 4.0]]
    assert [line["y"] for line in efficiency["data"]] == [[1.0, 1.0], [1.0, 2.0], [1.0, 1.0]]
    for words in ("xsim study s.yaml", "program: apps/ring.py", "per_hop: 10us", "every run: 4 rows"):
        assert words in shown(text)


def test_has_a_figure_for_each_panel_and_all_rows_of_the_summary(tmp_path):
    text = page(tmp_path, [8e-3, 4e-3, 4e-3, 1e-3], plots=[{**PLOT, "panels": "size"}])
    assert [line["y"] for figure in figures(text)[:2] for line in figure["data"]] == [[8.0, 4.0], [4.0, 1.0]]
    assert "<h3>a</h3>" in text  # the name of the file tells figures without a title apart
    assert '<div class="scroll whole">' in text


def test_draws_a_speedup_once(tmp_path):
    text = page(tmp_path, [8e-3, 4e-3, 4e-3, 1e-3], plots=[{**PLOT, "show": "speedup"}])
    assert [figure["layout"]["yaxis"]["title"]["text"] for figure in figures(text)] == [
        "speed-up",
        "parallel efficiency",
    ]


def test_what_the_runs_have_cost_here_changes_nothing(tmp_path):
    pages = []
    for cost in (1.0, 2.0):
        done = [outcome(1e-3, cpu_s=cost, wall_s=cost, peak_rss_bytes=int(cost))] * 4
        pages.append(page(tmp_path, done))
    assert pages[0] == pages[1]


def test_says_what_is_missing_and_what_is_not_good(tmp_path):
    bad = outcome(1e-3, ended="stalled", said="rank 0 waits <for> ever")
    text = shown(page(tmp_path, [8e-3, None, bad, 1e-3]))
    assert "missing: 1 of 4 runs" in text
    assert "rank 0 waits <for> ever" in text
    assert "Speed-up" not in text or "8" in text
