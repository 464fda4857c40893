"""Tables, means and pictures, of outcomes that no run made."""

import csv
import json
import math
from typing import Any

import pytest

from xsim_py.errors import ConfigError
from xsim_py.report.scaling import scaling_table
from xsim_py.report.style import Look
from xsim_py.study import StudyResults, load_study, plan_runs
from xsim_py.study.columns import MEASURED

BASE: dict[str, Any] = {"program": "apps/ring.py", "args": ["{size}"], "repetitions": 3, "name": "test"}


def outcome(time_s: float, **changes: Any) -> dict[str, Any]:
    figures = dict.fromkeys(MEASURED, 1) | {"ended": "finished", "exit_status": 0, "virtual_time_s": time_s}
    return {**figures, "said": "", "last_lines": [], "captured": {"speed": 10 * time_s}, **changes}


def results(times_s: list[Any], **keys: Any) -> StudyResults:
    """Return results whose runs take these times; one that is None is missing, a mapping is an outcome."""
    study = load_study({**BASE, "sweep": {"ranks": [2, 4], "size": [1, 8]}, "capture": {"speed": "(x)"}, **keys})
    runs = plan_runs(study)
    outcomes = {
        run.key: time_s if isinstance(time_s, dict) else outcome(time_s)
        for run, time_s in zip(runs, times_s, strict=True)
        if time_s is not None
    }
    return StudyResults(study, runs, outcomes)


TIMES_S = [1e-3, 2e-3, 3e-3, *[5e-3] * 3, *[4e-3] * 3, *[8e-3] * 3]


def test_one_row_a_run_and_units_in_the_headings(tmp_path):
    done = results(TIMES_S, capture={"speed": {"pattern": "(x)", "unit": "m/s"}, "all_us": "(x)"})
    done.write(tmp_path)
    head, *rows = csv.reader((tmp_path / "runs.csv").read_text().splitlines())
    assert head[:5] == ["ranks", "size", "machine", "repetition", "seed"]
    assert {"virtual_time_s", "bytes [B]", "speed [m/s]", "all_us"} < set(head)
    assert len(rows) == 12
    assert [row[head.index("virtual_time_s")] for row in rows[:3]] == ["0.001", "0.002", "0.003"]


def test_means_and_standard_errors_are_over_repetitions():
    summary = results(TIMES_S).summary
    assert summary["runs"] == [3, 3, 3, 3]
    assert summary["virtual_time_s"][:2] == [pytest.approx(2e-3), 5e-3]
    assert summary["virtual_time_s_stderr"][:2] == [pytest.approx(1e-3 / math.sqrt(3)), 0.0]
    assert (summary["virtual_time_s_min"][0], summary["virtual_time_s_max"][0]) == (1e-3, 3e-3)
    assert summary["speed"][1] == 5e-2
    assert summary.units["virtual_time_s_stderr"] == "s"


def test_runs_that_are_not_good_are_counted_and_in_no_mean():
    bad = outcome(9.0, ended="aborted", exit_status=1, said="rank 1 ended the job\nmore\nand more")
    done = results([*TIMES_S[:2], bad, *TIMES_S[3:]])
    assert (done.summary["runs"][0], done.summary["failed"][0]) == (2, 1)
    assert done.summary["virtual_time_s"][0] == 1.5e-3
    assert len(done.failed) == 1
    assert list(done.problems()) == [
        ("failed: ranks=2, size=1, repetition=2: aborted, exit status 1", ["    rank 1 ended the job", "    more"])
    ]


@pytest.mark.parametrize(
    ("accept", "ended", "status", "good"),
    [
        ({}, "finished", 0, True),
        ({}, "finished", 1, False),
        ({}, "aborted", 1, False),
        ({"ended": ["finished", "aborted"]}, "aborted", 1, True),
        ({"exit_status": [0, 1]}, "finished", 1, True),
        ({"ended": "aborted"}, "finished", 0, False),
    ],
)
def test_a_study_says_which_runs_are_good(accept, ended: str, status: int, good: bool):
    done = results([outcome(1.0, ended=ended, exit_status=status)] * 12, accept=accept)
    assert len(done.failed) == (0 if good else 12)


def test_a_run_that_says_nothing_of_itself_has_empty_cells():
    crashed = {"ended": "crashed", "exit_status": 139, "said": "killed", "last_lines": []}
    done = results([crashed] * 3 + TIMES_S[3:])
    assert done.runs["virtual_time_s"][:3] == [None] * 3
    assert done.summary["virtual_time_s"][0] is None


def test_what_is_not_done_is_missing():
    done = results([None, *TIMES_S[1:]])
    assert (done.missing, len(done.runs), done.summary["runs"][0]) == (1, 11, 2)
    assert list(done.problems()) == [("missing: 1 of 12 runs", [])]


def test_a_value_that_is_no_number_is_shown_and_in_no_mean():
    done = results([outcome(1.0, captured={"speed": "fast"}), *TIMES_S[1:]])
    assert done.runs["speed"][0] == "fast"
    assert done.summary["speed"][0] == pytest.approx(2.5e-2)


@pytest.mark.parametrize(("second", "shown"), [("abc", "abc"), ("x", "(2 different)"), (None, "abc")])
def test_captured_text_stands_in_the_tables_as_far_as_the_repetitions_agree(tmp_path, second, shown: str):
    texts = ["abc", second, "abc"]
    done = results([*(outcome(1.0, captured={"speed": text}) for text in texts), *TIMES_S[3:]])
    assert (done.shown()["speed"][0], done.summary["speed"][0], done.summary["speed_stderr"][0]) == (shown, shown, None)
    done.write(tmp_path)
    assert f",{shown}," in (tmp_path / "summary.csv").read_text()


def test_means_of_numbers_whose_sum_is_none():
    done = results([*(outcome(1.0, captured={"speed": speed}) for speed in (1e308, 1e308, 1.7e308)), *TIMES_S[3:]])
    assert done.summary["speed"][0] == pytest.approx(3.7e307 / 3 * 10)


def test_a_capture_that_was_given_up_is_told_and_not_the_end_of_a_run():
    done = results([outcome(1.0, captured={"speed": None}, given_up={"speed": "aaa"}), *TIMES_S[1:]])
    assert not done.failed
    ((said, details),) = done.problems()
    assert not details
    assert said.startswith("capture.speed: abandoned in 1 of 12 runs, which have no value: its regular expression")
    assert said.endswith("takes more than 5 s, or all memory, such as on the line 'aaa'")


def test_the_terminal_has_what_varies_in_one_unit():
    head, _, first, *_ = str(results(TIMES_S)).splitlines()
    assert head.split("  ")[0] == "ranks"
    assert "machine" not in head
    assert "virtual time [ms]  +- virtual time [ms]" in head
    assert first.split() == ["2", "1", "3", "2", "0.57735", "0.02", "0.0057735"]


def test_everything_is_in_one_json_file(tmp_path):
    results([None, *TIMES_S[1:]]).write(tmp_path)
    whole = json.loads((tmp_path / "results.json").read_text())
    assert (whole["study"], whole["missing"], len(whole["runs"])) == ("test", 1, 12)
    assert whole["runs"][1]["settings"]["args"] == ["1"]
    assert whole["tables"]["runs"]["units"]["virtual_time_s"] == "s"


# ---------------------------------------------------------------------------------------------------- pictures

PLOT = {"file": "a.png", "x": "ranks", "y": "virtual_time_s"}


def test_a_line_for_each_value_of_what_is_not_on_the_x_axis():
    done = results(TIMES_S, plots=[PLOT])
    chart = done.chart(done.spec.plots[0])
    assert [(line.label, line.x, line.y) for line in chart.lines] == [
        ("1", [2, 4], [pytest.approx(2.0), 4.0]),
        ("8", [2, 4], [5.0, 8.0]),
    ]
    assert chart.legend == "size"
    assert chart.lines[0].errors == [pytest.approx(1 / math.sqrt(3)), 0.0]
    assert (chart.title, chart.x_label, chart.y_label) == ("test", "ranks", "virtual time [ms]")


def test_labels_of_cases_and_machines_stand_in_the_table_and_in_the_legend():
    done = results(
        [1e-3, 2e-3, 3e-3, 4e-3],
        repetitions=1,
        sweep={"machine": ["gige", {"machine": "gige", "set": {"network.latency": "5us"}, "label": "slow"}]},
        cases=[{"size": 1, "ranks": 2, "label": "small"}, {"size": 8, "ranks": 2, "label": "large"}],
        plots=[{"file": "a.png", "x": "case", "y": "virtual_time_s"}],
    )
    assert done.shown()["case"] == ["small", "small", "large", "large"]
    assert done.shown()["machine"] == ["gige", "slow"] * 2
    assert [line.label for line in done.chart(done.spec.plots[0]).lines] == ["gige", "slow"]


def test_the_first_series_is_the_colour_and_the_second_the_dashes():
    keys = {"repetitions": 1, "sweep": {"ranks": [2, 4], "machine": ["gige", "shmem"], "size": [1, 8]}}
    done = results([1.0] * 8, plots=[PLOT], **keys)
    chart = done.chart(done.spec.plots[0])
    assert [(line.label, line.colour, line.dashes) for line in chart.lines] == [
        ("gige, 1", 0, 0),
        ("gige, 8", 0, 1),
        ("shmem, 1", 1, 0),
        ("shmem, 8", 1, 1),
    ]
    assert chart.legend == "machine,\nsize"


def test_a_column_that_goes_with_the_x_axis_tells_no_lines_apart():
    keys = {"repetitions": 1, "ranks": "{n * 2}", "args": [], "sweep": {"n": [1, 2, 3]}}
    done = results([1.0, 2.0, 3.0], plots=[PLOT, {**PLOT, "x": "n", "file": "b.png"}], **keys)
    charts = [done.chart(plot) for plot in done.spec.plots]
    assert [[(line.x, line.y) for line in chart.lines] for chart in charts] == [
        [([2, 4, 6], [1.0, 2.0, 3.0])],
        [([1, 2, 3], [1.0, 2.0, 3.0])],
    ]


@pytest.mark.parametrize(
    ("sizes", "legend"),
    [(["1us", "3D torus"], "size"), (["4", "none"], "size"), (["1e-6", "none"], "size"), (["3D torus", "none"], "")],
)
def test_a_legend_with_figures_says_of_what_and_words_stand_alone(sizes: list[str], legend: str):
    sweep = {"ranks": [2], "size": {size: number for number, size in enumerate(sizes)}}
    done = results([1.0] * len(sizes), plots=[PLOT], repetitions=1, sweep=sweep)
    chart = done.chart(done.spec.plots[0])
    assert [line.label for line in chart.lines] == sizes
    assert chart.legend == legend


@pytest.mark.parametrize(
    ("values", "x", "ticks"),
    [
        (["2us", "0.5us", "1e-6"], [0.5, 1, 2], ["0.5 us", "1 us", "2 us"]),
        ([5e-7, 1e-6, 2e-6], [0.5, 1, 2], ["500 ns", "1 us", "2 us"]),
        ({"fast": "1us", "slow": "2us", "1ms": "3us"}, ["fast", "slow", "1ms"], []),
        ({1: "1us", 2: "2us", 3: "3us"}, [1, 2, 3], ["1", "2", "3"]),
    ],
)
def test_values_with_units_have_a_true_axis(values: Any, x: list[Any], ticks: list[str]):
    plot = {"file": "a.png", "x": "network.latency", "y": "virtual_time_s"}
    done = results([1.0] * 3, plots=[plot], repetitions=1, args=[], ranks=2, sweep={"network.latency": values})
    chart = done.chart(done.spec.plots[0])
    assert list(chart.lines[0].x) == x
    assert [chart.ruler.label(place) for place in x if ticks] == ticks


def test_a_variable_has_a_panel_for_each_value_with_the_same_colours():
    sweep = {"ranks": [2, 4], "size": [1, 8]}
    done = results(TIMES_S, plots=[{**PLOT, "panels": "size", "show": "speedup"}], sweep=sweep)
    chart = done.chart(done.spec.plots[0])
    names = ["size 1", "size 8"]
    assert [name for name, _ in chart.panels()] == names
    assert [(line.label, line.reference, line.colour) for _, lines in chart.panels() for line in lines] == [
        ("virtual time", False, 0),
        ("ideal", True, 0),
    ] * 2
    assert scaling_table(chart.lines, "speedup")["line"][::2] == [f"{name}, virtual time" for name in names]
    figure = done.draw()
    assert [axes.get_title() for axes in figure.axes] == names
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["virtual time", "ideal"]


@pytest.mark.parametrize(
    ("panels", "said"), [("ranks", "is in x or series already"), ("colour", "the column 'colour' does not exist")]
)
def test_panels_of_another_column_are_refused(panels: str, said: str):
    with pytest.raises(ConfigError, match=said):
        results(TIMES_S, plots=[{**PLOT, "panels": panels}])


def test_a_study_says_how_its_figures_look_and_a_caller_has_precedence(tmp_path):
    done = results(TIMES_S, plots=[PLOT], figure={"columns": 1, "font": "serif", "legend": "below"})
    assert done.spec.figure.look() == Look(columns=1, font="serif", legend="below")
    assert done.draw().get_size_inches()[0] == 3.5
    assert tuple(done.draw("a", tmp_path / "b.png", look=Look(size=(5, 4))).get_size_inches()) == (5, 4)
    assert (tmp_path / "b.png").exists()
    with pytest.raises(ConfigError, match=r"7x3\.5"):
        results(TIMES_S, figure={"size": "wide"})


def test_any_plot_can_be_drawn_from_python():
    done = results(TIMES_S, plots=[PLOT])
    figure = done.draw(x="ranks", y="speed", series="size", x_scale="log2", title="Speed")
    assert figure.axes[0].get_title() == "Speed"
    for keys, said in (
        ({"x": "ranks", "y": "sped"}, "plot: y: the column 'sped' does not exist; did you mean speed"),
        ({"x": "ranks", "y": "speed", "series": []}, "points with different size coincide"),
        ({"x": "ranks", "z": "speed"}, "unknown key"),
    ):
        with pytest.raises(ConfigError, match=said):
            done.draw(**keys)
    with pytest.raises(ConfigError, match=r"the study has no plot 'b'; its plots: a\.png"):
        done.draw("b")


def test_what_a_logarithmic_axis_leaves_out_is_said(tmp_path):
    done = results([0.0] * 3 + TIMES_S[3:], plots=[{**PLOT, "y_scale": "log"}])
    done.draw_all(tmp_path)
    assert done.remarks == [
        "a.png: without a point that is not above zero: a logarithmic axis cannot show it; use a linear axis"
    ]


def test_several_columns_share_an_axis_and_its_unit():
    both = {**PLOT, "y": ["virtual_time_s", "total_s"], "only": ["size=1"]}
    times = [outcome(time_s, captured={"total_s": 1000 * time_s}) for time_s in TIMES_S]
    done = results(times, plots=[both], capture={"total_s": "(x)"})
    chart = done.chart(done.spec.plots[0])
    assert [line.label for line in chart.lines] == ["virtual time", "total"]
    assert chart.lines[0].y[1] == pytest.approx(4e-3)
    assert chart.lines[1].y[1] == pytest.approx(4.0)
    assert chart.y_label == "virtual time / total [s]"


def test_columns_of_different_units_share_an_axis_that_names_each_unit():
    done = results(TIMES_S, plots=[{**PLOT, "y": ["virtual_time_s", "events"], "only": ["size=1"]}])
    assert done.chart(done.spec.plots[0]).y_label == "virtual time [ms] / events"


def test_a_point_without_a_good_run_is_left_out_and_so_is_a_line_without_points():
    bad = outcome(1.0, ended="stalled")
    done = results([bad] * 3 + [bad] * 3 + TIMES_S[6:9] + [bad] * 3, plots=[PLOT])
    assert [(line.label, line.x) for line in done.chart(done.spec.plots[0]).lines] == [("1", [4])]


def test_pictures_are_drawn_and_listed(tmp_path):
    done = results(TIMES_S, plots=[{**PLOT, "x_scale": "log2", "y_scale": "log"}, {**PLOT, "file": "b.svg"}])
    done.draw_all(tmp_path)
    assert [path.name for path in done.written] == ["a.png", "b.svg"]
    assert all(path.stat().st_size > 5000 for path in done.written)
