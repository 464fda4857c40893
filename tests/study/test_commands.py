"""Studies of a command: the formal model of FTCO."""

import json
from pathlib import Path
from typing import Any

import pytest

from xsim_py.errors import ConfigError
from xsim_py.ftco.summary import UNITS
from xsim_py.study import load_study, plan_runs, run_study
from xsim_py.study.commands import COMMANDS

pytestmark = pytest.mark.usefixtures("in_this_process")

STUDY: dict[str, Any] = {
    "name": "small",
    "command": "ftco",
    "options": {"tree": "knomial:{radix}", "runs": 20, "failures": 1},
    "sweep": {"radix": [2, 4], "nodes": [16, 32]},
    "table": ["latency_steps", "hung"],
    "plots": [{"file": "small.png", "x": "nodes", "y": "latency_steps"}],
}


def said(**keys: Any) -> list[str]:
    with pytest.raises(ConfigError) as error:
        plan_runs(load_study({**STUDY, **keys}))
    return [line.removeprefix("study: ") for line in str(error.value).splitlines()]


def test_the_metrics_are_those_of_the_summary():
    assert list(COMMANDS["ftco"].metrics)[: len(UNITS)] == list(UNITS)
    assert {name: COMMANDS["ftco"].metrics[name] for name in UNITS} == UNITS


def test_options_are_fixed_swept_over_and_templates():
    runs = plan_runs(load_study(STUDY))
    assert [(run.arguments["options"]["tree"], run.arguments["options"]["nodes"]) for run in runs] == [
        (f"knomial:{radix}", str(nodes)) for radix in (2, 4) for nodes in (16, 32)
    ]
    assert {run.arguments["runs"] for run in runs} == {20}
    assert len({run.key for run in runs}) == 4


def test_options_can_be_changed_for_one_call():
    runs = plan_runs(load_study(STUDY), overrides={"runs": "7"})
    assert {run.arguments["runs"] for run in runs} == {7}
    with pytest.raises(ConfigError, match="--set nodes: the study sweeps over it"):
        plan_runs(load_study(STUDY), overrides={"nodes": 5})
    with pytest.raises(ConfigError, match="--set rans: unknown option of ftco; did you mean runs"):
        plan_runs(load_study(STUDY), overrides={"rans": 5})


def test_means_and_standard_errors_are_those_of_the_ensemble(tmp_path: Path):
    from xsim_py.ftco.ensemble import run_ensemble
    from xsim_py.ftco.model import Configuration

    results = run_study({**STUDY, "seed": 5}, out=tmp_path, jobs=2)
    made = [Configuration(nodes=nodes, radix=radix, failures=1) for radix in (2, 4) for nodes in (16, 32)]
    expected = [summary["latency_steps"] for summary in run_ensemble(made, runs=20, seed=5, jobs=1)]
    assert results.summary["latency_steps"] == [each.mean for each in expected]
    assert results.summary["latency_steps_stderr"] == [each.stderr for each in expected]
    assert results.summary["latency_steps_max"] == [each.max for each in expected]
    assert results.shown().headings() == ["radix", "nodes", "latency_steps", "+- latency_steps", "hung"]
    assert (tmp_path / "small.png").exists()
    told = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert told["runs"][0]["settings"]["command"] == "ftco"


def test_repetitions_have_seeds_of_their_own(tmp_path: Path):
    results = run_study({**STUDY, "repetitions": 3, "sweep": {"radix": [2], "nodes": [32]}}, out=tmp_path, jobs=1)
    assert results.runs["seed"] == [0, 1, 2]
    assert results.summary["runs"] == [3]
    means = results.runs["latency_steps"]
    assert results.summary["latency_steps"] == [pytest.approx(sum(means) / 3)]


def test_what_is_wrong_is_found_before_anything_runs():
    first, second = said(options={"trees": "knomial:2", "runs": 0})
    assert first == "options.trees: unknown option of ftco; did you mean tree?"
    assert second.startswith("sweep.radix: neither an option of ftco nor used in a template")
    assert said(ranks=4, capture={"x": "(.)"}) == [
        "capture: cannot be combined with command ftco: it needs a program on a machine",
        "ranks: cannot be combined with command ftco: it needs a program on a machine",
    ]
    assert said(options={"nodes": 8, "tree": "knomial:{radix}"}) == [
        "sweep.nodes: cannot be combined with options.nodes; drop one"
    ]
    assert said(sweep={"radix": [1, 99], "nodes": [16]}) == [
        "options.tree: 1 is out of range (at least 2)",
        "options.tree: a tree with 99 roots does not fit 16 nodes",
    ]
    problems = said(options={"tree": "knomial:{radix}", "runs": "many", "overhead_time": "soon"})
    assert [line.partition(": ")[0] for line in problems] == ["options.overhead_time", "options.runs"]
    assert said(sweep={"radix": [2], "nodes": ["16,32"]}) == ["sweep.nodes: a list; sweep over its values"]


def test_options_of_no_command_are_refused():
    with pytest.raises(ConfigError, match="options: missing key: command, one of ftco, compare-recovery"):
        load_study({"program": "apps/ring.py", "ranks": 2, "options": {"nodes": 3}})
