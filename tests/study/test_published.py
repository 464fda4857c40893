"""Published figures beside those of a study."""

from pathlib import Path
from typing import Any

import pytest

from xsim_py.errors import ConfigError
from xsim_py.study import StudyResults, load_study, plan_runs

STUDY = """
program: "print('t', {size})"
kind: code
ranks: 1
sweep: {machine: {first: gige, second: shmem}, size: [1, 2, 3]}
capture: {t_us: "t ([0-9]+)"}
table: [t_us]
published: {file: known.csv, label: theirs}
plots: [{file: t.png, x: size, y: t_us}]
"""


def results(folder: Path, csv: str) -> StudyResults:
    (folder / "known.csv").write_text(csv)
    (folder / "study.yaml").write_text(STUDY)
    spec = load_study(folder / "study.yaml")
    runs = plan_runs(spec)
    outcome: dict[str, Any] = {"ended": "finished", "exit_status": 0}
    return StudyResults(
        spec, runs, {run.key: {**outcome, "captured": {"t_us": 10 * index}} for index, run in enumerate(runs)}
    )


def test_they_stand_in_the_table_where_there_are_some(tmp_path: Path):
    table = results(
        tmp_path, "# by hand\nmachine,size,t_us,source\nfirst,1,0.5,page 3\nsecond,3,50,\nsecond,2,,\n"
    ).shown()
    assert table.headings() == ["machine", "size", "t_us", "published t_us"]
    assert table["published t_us"] == [0.5, None, None, None, None, 50.0]


def test_a_column_that_is_not_there_is_the_same_for_all(tmp_path: Path):
    assert results(tmp_path, "size,t_us\n2,7\n").shown()["published t_us"] == [None, 7.0, None] * 2


def test_they_are_points_around_the_line_that_they_belong_to(tmp_path: Path):
    found = results(tmp_path, "machine,size,t_us\nsecond,3,50\nsecond,1,30\n")
    lines = found.chart(found.spec.plots[0]).lines
    assert [(line.label, line.points) for line in lines] == [
        ("first", False),
        ("second", False),
        ("theirs", True),
    ]
    assert (list(lines[2].x), list(lines[2].y), lines[2].colour) == ([1, 3], [30.0, 50.0], lines[1].colour)
    found.draw_all(tmp_path)
    assert (tmp_path / "t.png").exists()


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        ("sizes,t_us\n1,2\n", "unknown column 'sizes'; did you mean size?"),
        ("size,t_us\n1,much\n", "row 1: t_us: expected a number, got 'much'"),
        ("size,t_us\n1\n", "row 1: t_us is missing"),
    ],
)
def test_a_file_that_does_not_fit(tmp_path: Path, csv: str, message: str):
    with pytest.raises(ConfigError) as error:
        results(tmp_path, csv)
    assert str(error.value).startswith(f"{tmp_path}/study.yaml:8:19: published.file: ")
    assert str(error.value).endswith(message)


def test_a_file_that_is_not_there(tmp_path: Path):
    (tmp_path / "study.yaml").write_text(STUDY)
    with pytest.raises(ConfigError, match="No such file"):
        load_study(tmp_path / "study.yaml")
