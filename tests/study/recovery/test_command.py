"""``compare-recovery`` as a command of studies."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.cases import ROOT
from xsim_py.errors import ConfigError, XsimError
from xsim_py.study import load_study, plan_runs, run_study
from xsim_py.study.recovery.command import METRICS, check, do

pytestmark = pytest.mark.usefixtures("in_this_process")

STUDY: dict[str, Any] = {
    "name": "both",
    "command": "compare-recovery",
    "options": {"ranks": 8, "failures": "{who}", "timeout": "1ms"},
    "sweep": {"scheme": ["ftco", "ulfm"], "who": {"nobody": "none", "parent and child": "2s"}},
}


def test_a_study_has_a_row_for_each_scheme_and_failure_whose_phases_add_up(tmp_path: Path):
    results = run_study(STUDY, out=tmp_path, jobs=1)
    assert not results.failed
    rows = [dict(zip(results.runs.columns, row, strict=True)) for row in results.runs.rows()]
    assert [(row["scheme"], row["who"]) for row in rows] == [
        (scheme, who) for scheme in ("ftco", "ulfm") for who in ("nobody", "parent and child")
    ]
    sums = ("total_s", "recovery_s", "active_s", "lost_s")
    for row in rows:
        parts = [row[name] for name in METRICS if name.endswith("_s") and name not in sums]
        assert sum(parts) == pytest.approx(row["total_s"], abs=1e-12)
        assert row["active_s"] == pytest.approx(row["total_s"] - row["detection_s"])
    assert [row["detection_s"] > 1.9e-3 for row in rows] == [False, True, False, True]
    assert results.runs.units["repair_s"] == "s"


def test_a_program_s_own_scheme_is_measured_as_a_whole_job(tmp_path: Path):
    options = {"program": str(ROOT / "apps" / "sparse_grid.py"), "args": "--level 3", "ranks": 8, "failures": "1@half"}
    study = {**STUDY, "options": {**options, "timeout": "1ms"}, "sweep": {"scheme": ["rc", "cr"]}}
    results = run_study(study, out=tmp_path, jobs=1)
    assert not results.failed
    for row in (dict(zip(results.runs.columns, row, strict=True)) for row in results.runs.rows()):
        assert row["collective_s"] == 0
        assert 0.2 < row["repair_s"] < row["lost_s"] < row["total_s"]
    with pytest.raises(ConfigError, match="scheme: expected rc, ac or cr, got 'ulfm'"):
        check({"seed": 0, **options, "scheme": "ulfm"})
    assert check({"seed": 0, **options})["scheme"] == "rc"


def test_any_program_may_be_measured_as_a_whole_job():
    settings = check({"seed": 0, "ranks": 8, "failures": "1", "scheme": "ulfm", "timeout": "1ms", "whole": True})
    found = do(settings)
    assert found["collective_s"] == (0,)
    assert found["communication_s"][0] > 0


def test_every_option_is_part_of_the_fingerprint():
    first = plan_runs(load_study(STUDY))[0].key
    for change in ({"timeout": "2ms"}, {"after": "1us"}, {"args": "--steps 4"}, {"set": "network.gap=1us"}):
        other = plan_runs(load_study({**STUDY, "options": {**STUDY["options"], **change}}))[0].key
        assert other != first


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ranks": "0"}, "ranks: 0 is out of range (at least 1)"),
        ({"scheme": "prayer"}, "scheme: expected ftco, ulfm, legio or restart, got 'prayer'"),
        ({"scheme": ["ftco", "ulfm"]}, "scheme: a list; sweep over its values"),
        ({"timeout": "soon"}, "timeout: "),
        ({"call": "Allreduce"}, "call: expected a call, got 'Allreduce'"),
        ({"set": "network.latency"}, "set: expected path=value, got 'network.latency'"),
        ({"program": "nowhere.py"}, "program: cannot find the file nowhere.py"),
        ({"failures": "64@before"}, "failures: '64@before': rank 64 is out of range (0 to 63) (with 64 ranks)"),
        ({"machine": "gigee"}, "gigee"),
    ],
)
def test_what_cannot_be_is_said_before_anything_runs(given: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=re.escape(said)):
        check({"seed": 0, **given})


def test_a_program_that_does_not_survive_is_an_error_of_its_run(tmp_path: Path):
    program = tmp_path / "barrier.py"
    program.write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    settings = check({"seed": 0, "program": str(program), "ranks": 4, "failures": "1", "scheme": "ulfm"})
    with pytest.raises(XsimError, match="gige, 4 ranks, 1, ulfm: aborted"):
        do(settings)
