"""Tables and pictures of comparisons of ways to recover, from phases that no run had."""

import csv
import io
import json
from pathlib import Path

import pytest
from matplotlib import image

from xsim_py.errors import ConfigError
from xsim_py.report.phases import Phase, Phases
from xsim_py.study.recovery.comparison import Case, RecoveryComparison, RecoveryRun, phase_bars

S, MS, US = 10**12, 10**9, 10**6
TIMES_PS = {
    ("none", "ftco"): {"collective": 300 * US},
    ("none", "ulfm"): {"collective": 280 * US},
    ("1", "ftco"): {"collective": 60 * US, "detection": 2 * S, "resume": 150 * US},
    ("1", "ulfm"): {"detection": 2 * S, "propagation": US, "repair": 400 * US, "retry": 200 * US},
}


def phases(times_ps: dict[str, int], start_ps: int = 5 * MS) -> Phases:
    found = []
    for name, time_ps in times_ps.items():
        found.append(Phase(name, start_ps, start_ps + time_ps))
        start_ps += time_ps
    return Phases(3, tuple(found))


def run(failures: str, scheme: str, ranks: int = 64, machine: str = "gige", **changes: object) -> RecoveryRun:
    made = RecoveryRun(
        Case(machine, ranks, failures, scheme),
        () if failures == "none" else ("1",),
        phases(TIMES_PS[failures, scheme]),
        "2nd Allreduce",
        ended="finished",
        exit_status=0,
        said="",
        virtual_time_ps=2_500_000_000_000,
        messages=100,
        digest="feed",
    )
    return made._replace(**changes)


def comparison(**changes: object) -> RecoveryComparison:
    return RecoveryComparison([run(*key, **changes) for key in TIMES_PS], title="loop.py")


def test_each_scheme_has_a_table_of_its_own_phases_and_all_have_one_together():
    ftco, ulfm, both = str(comparison()).split("\n\n")
    assert ftco.splitlines()[0] == "ftco"
    assert ftco.splitlines()[1].split() == ["ranks", "failures", "dead", "total", "collective", "detection", "resume"]
    assert ftco.splitlines()[-1].split("  ")[-1] == "150 us"
    assert ulfm.splitlines()[1].split() == [
        *("ranks", "failures", "dead", "total", "collective", "detection", "propagation", "repair", "retry")
    ]
    assert both.splitlines()[0] == "recovery, without detection"
    assert both.splitlines()[-1].split() == ["64", "1", "150", "us", "601", "us"]


def test_machines_are_named_where_they_differ():
    assert "machine" not in str(comparison())
    several = RecoveryComparison([run("1", "ulfm", machine=machine) for machine in ("gige", "shmem")])
    assert [line.split()[0] for line in str(several).splitlines()[3:]] == ["gige", "shmem"]


def test_a_run_that_did_not_finish_is_a_row_without_phases():
    runs = [run("none", "ulfm"), run("1", "ulfm", phases=None, ended="aborted", exit_status=1, said="oh dear")]
    shown = RecoveryComparison(runs).shown("ulfm")
    assert shown["total"] == ["280 us", "aborted"]
    assert [each.is_good for each in runs] == [True, False]
    assert not run("1", "ulfm", exit_status=3).is_good
    assert RecoveryComparison(runs).to_dict()["runs"][1]["total_s"] is None


def test_csv_and_json_hold_every_phase_in_seconds(tmp_path: Path):
    comparison().table().to_csv(tmp_path / "r.csv")
    with open(tmp_path / "r.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["retry_s"] or 0) for row in rows] == [0, 0, 0, 200e-6]
    assert [float(row["recovery_s"]) for row in rows] == [0, 0, 150e-6, 601e-6]
    text = io.StringIO()
    comparison().to_json(text)
    whole = json.loads(text.getvalue())
    assert whole["title"] == "loop.py"
    last = whole["runs"][-1]
    assert [phase["name"] for phase in last["phases"]] == ["detection", "propagation", "repair", "retry"]
    assert last["phases"][2] == {"name": "repair", "start_s": 2.005001, "time_s": 400e-6}
    assert (last["slowest_rank"], last["victims"], last["call"]) == (3, ["1"], "2nd Allreduce")


def test_draws_a_picture_of_timelines_for_each_machine_and_size(tmp_path: Path):
    runs = [run(*key, ranks=ranks) for ranks in (64, 128) for key in TIMES_PS]
    written = RecoveryComparison(runs, title="loop.py").draw(tmp_path)
    timelines = ["timelines-gige-64.png", "timelines-gige-128.png"]
    assert [path.name for path in written] == [*timelines, "none-over-ranks.png", "1-over-ranks.png"]
    for name in timelines:
        height, width, _ = image.imread(tmp_path / name).shape
        assert width == 1500
        assert height > 300


def test_a_wait_of_seconds_leaves_room_for_microseconds():
    """Its width does not depend on how long it is beside the rest, and twice as long a one is twice as wide."""
    bars = phase_bars(comparison().runs)
    wait, longer = Phase("detection", 0, 2 * S), Phase("detection", 0, 4 * S)
    repair = Phase("repair", 0, 400 * US)
    assert bars._width_of(repair) == 400 * US
    assert bars._width_of(wait) < bars._width_of(repair)
    assert bars._width_of(longer) == 2 * bars._width_of(wait)
    to_scale = phase_bars([run("1", "ulfm", phases=phases({"detection": 500 * US, "repair": 400 * US}))])
    assert to_scale._width_of(Phase("detection", 0, 500 * US)) == 500 * US


def test_lines_over_ranks_leave_out_the_waits():
    runs = [run("1", scheme, ranks=ranks) for ranks in (64, 128) for scheme in ("ftco", "ulfm")]
    chart = RecoveryComparison(runs).chart("1")
    assert [(line.label, list(line.x), list(line.y)) for line in chart.lines] == [
        ("ftco", [64, 128], [210, 210]),
        ("ulfm", [64, 128], [601, 601]),
    ]


def test_nothing_to_compare():
    with pytest.raises(ConfigError, match="nothing to compare"):
        RecoveryComparison([])


def test_a_case_has_a_name_that_files_can_have():
    assert Case("gige", 64, "5@before+7@2ms", "ulfm").name == "gige-64-5_before_7_2ms-ulfm"
    assert str(Case("gige", 1024, "2s", "ftco")) == "gige, 1,024 ranks, 2s, ftco"


def test_the_heading_of_a_failure_stands_right_of_the_axis():
    figure = phase_bars([run("1", "ulfm")]).draw()
    figure.draw_without_rendering()
    axes = figure.axes[0]
    heading = next(text for text in axes.texts if "dead" in text.get_text())
    assert heading.get_window_extent().x0 > axes.get_window_extent().x0 + 3
