"""The studies that come with xsim_py, on few ranks: the shapes that the papers describe."""

import dataclasses
import math
from pathlib import Path

import pytest

from tests.campaign import CAMPAIGN
from tests.study.kept import computed, rows_file, rows_in, rows_of
from xsim_py.study import StudyResults, load_study, plan_runs, run_study
from xsim_py.study.loader import presets
from xsim_py.study.published import read_published
from xsim_py.study.template import text_of

pytestmark = pytest.mark.usefixtures("in_this_process")


def results_of(
    name: str, folder: Path, *, only: list[str], repetitions: int = 1, draw: bool = CAMPAIGN
) -> StudyResults:
    spec = dataclasses.replace(load_study(name), repetitions=repetitions)
    if not draw:
        spec = dataclasses.replace(spec, plots=())
    results = run_study(spec, out=folder, only=only, jobs=1)
    assert not results.failed
    assert not results.missing
    return results


def by(results: StudyResults, column: str, **where: object) -> list[float]:
    """Return the means of a column in rows with these labels, in order."""
    table = results.summary
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows()]
    return [row[column] for row in rows if all(row[name] == value for name, value in where.items())]


def check_kept(study: str, results: StudyResults) -> None:
    """Compare what has been computed with the rows that are kept of the study: equal, and some."""
    table, same = results.summary, 0
    kept = rows_of(study)
    for values in table.rows():
        row = {name: "" if value is None else str(value) for name, value in zip(table.columns, values, strict=True)}
        same += {name: row[name] for name in kept[0]} in kept
    assert same == len(table) > 0


# The rows of FTCO's studies have a form of their own: tests/ftco/test_computed.py.
KEPT = [name for name in presets() if rows_file(name).exists() and not name.startswith("ftco-")]
# Others are compared below with the rows that are kept, or one run of theirs takes seconds.
QUICK = ["lattice-boltzmann", "propagation"]


@pytest.mark.parametrize("name", KEPT if CAMPAIGN else QUICK)
def test_the_first_of_the_rows_that_are_kept_is_computed_again(name: str, tmp_path: Path):
    first = rows_of(name)[0]
    varied = [each for each in plan_runs(load_study(name))[0].columns if each in first and each != "repetition"]
    results_of(name, tmp_path, only=[f"{column}={first[column]}" for column in varied])
    (again,) = rows_in(computed(tmp_path / "results.json"))
    assert again == {column: first[column] for column in again}


@pytest.mark.sampled
@pytest.mark.parametrize("name", presets())
def test_a_preset_is_good(name: str):
    spec = load_study(name)
    assert spec.name == name
    assert spec.description
    assert spec.source
    assert plan_runs(spec if CAMPAIGN else dataclasses.replace(spec, repetitions=1))


@pytest.mark.parametrize("name", [*presets()][:: 1 if CAMPAIGN else 13])
def test_a_preset_can_be_named_in_several_ways(name: str):
    spec = load_study(name)
    for written in (f"studies/{name}", f"{name}.yaml", f"studies/{name}.yaml", presets()[name]):
        assert load_study(written) == spec


def test_the_figures_of_the_xsim_paper_have_its_numbers_of_ranks():
    names = [name for name in presets() if name.startswith("xsim-")]
    ranks = {name: sorted({run.columns["ranks"] for run in plan_runs(load_study(name))}) for name in names}
    powers = [2**exponent for exponent in range(2, 16)]
    assert (ranks["xsim-fig1"], ranks["xsim-fig2"], ranks["xsim-fig3"]) == (powers, powers, powers[:9])


def test_recovery_is_shrink_and_starting_again_and_revoke_costs_nothing(tmp_path):
    results = results_of("xsim-fig1", tmp_path, only=["ranks=4,16", "machine=GigE,SHMEM"])
    check_kept("xsim-fig1", results)
    for machine in ("GigE", "SHMEM"):
        without = by(results, "total_us", machine=machine, fail="no failure")
        with_one = by(results, "total_us", machine=machine, fail="one failure")
        shrink, again, revoke = (
            by(results, f"{part}_us", machine=machine, fail="one failure")
            for part in ("shrink", "reduce_again", "revoke")
        )
        assert without == sorted(without)
        assert with_one == sorted(with_one)
        for index in range(2):
            assert with_one[index] > without[index] + shrink[index]
            assert shrink[index] > again[index] > 100 * revoke[index]
    assert by(results, "total_us", machine="SHMEM") < by(results, "total_us", machine="GigE")
    drawn = {"xsim-fig1.png", "xsim-fig1-parts.png"} if CAMPAIGN else set()
    assert {path.name for path in tmp_path.glob("*.png")} == drawn


def test_replacing_a_process_takes_what_the_closed_form_says_and_with_a_slow_launcher_what_was_measured(tmp_path):
    """Ali and others measured 1.5 s on 64 cores."""
    results = results_of("respawn-phases", tmp_path, only=["ranks=8,64"])
    timeout_us, launcher_us, latency_us = 200, 240_000, 20
    constant = by(results, "iteration_us", **{"spawn.startup": "constant"})
    assert constant == [timeout_us + launcher_us + (7 * levels - 2) * latency_us for levels in (3, 6)]
    assert by(results, "iteration_us", **{"spawn.startup": "measured"})[1] == pytest.approx(1.5e6, rel=1e-3)
    drawn = {"respawn-phases.png", "respawn-iteration.png"} if CAMPAIGN else set()
    assert {path.name for path in tmp_path.glob("*.png")} == drawn


def test_a_monte_carlo_method_goes_on_and_takes_as_long_as_its_work(tmp_path):
    results = results_of("mlmc-fig6", tmp_path, only=["mtbf=200"])
    assert by(results, "has_samples") == [1, 1]
    assert by(results, "virtual_time_s") == pytest.approx([6, 6], rel=2e-3)
    assert [0 < error < 0.02 for error in by(results, "error")] == [True, True]


def test_windows_repair_themselves_in_the_time_of_one(tmp_path):
    rows = [row for row in rows_of("wang-landau") if row["ranks"] == "128"]
    none, one, two = (float(row["virtual_time_s"]) for row in rows)
    start_s, round_s = 0.24, 0.1
    assert none == pytest.approx(8 * round_s, rel=0.02)
    assert (one - none, two - one) == pytest.approx((start_s + round_s, start_s + round_s), rel=0.02)
    assert len({row["state"] for row in rows}) == 1
    if CAMPAIGN:
        check_kept("wang-landau", results_of("wang-landau", tmp_path, only=["ranks=128"]))


def test_networks_separate_as_agreements_grow(tmp_path):
    results = results_of("xsim-fig2", tmp_path, only=["ranks=4,64"])
    check_kept("xsim-fig2", results)
    gige, shmem, torus = (by(results, "maximum_us", machine=machine) for machine in ("GigE", "SHMEM", "3D torus"))
    assert gige[1] - torus[1] > gige[0] - torus[0]
    assert torus[1] - shmem[1] > torus[0] - shmem[0]
    assert [times == sorted(times) for times in (gige, shmem, torus)] == [True] * 3


def test_molecular_dynamics_gains_by_ranks_at_first_and_loses_by_a_failure(tmp_path):
    results = results_of("xsim-fig3", tmp_path, only=["ranks=4,16", "machine=SHMEM"])
    check_kept("xsim-fig3", results)
    without, with_one = (by(results, "virtual_time_s", failure=failure) for failure in ("no failure", "one failure"))
    assert without[0] > without[1]
    assert with_one[0] > with_one[1]
    assert [late > early for early, late in zip(without, with_one, strict=True)] == [True, True]


def test_the_best_checkpoint_interval_is_dalys(tmp_path):
    mtbf_s, checkpoint_s, restart_s, work_s = 200.0, 5.0, 10.0, 1000.0
    intervals_s = (15, 40, 120)
    results = results_of("daly", tmp_path, only=["interval=15,40,120"], repetitions=20 if CAMPAIGN else 4)
    means, errors = by(results, "virtual_time_s"), by(results, "virtual_time_s_stderr")
    for interval_s, mean, error in zip(intervals_s, means, errors, strict=True):
        segment = math.exp((interval_s + checkpoint_s) / mtbf_s) - 1
        expected_s = mtbf_s * math.exp(restart_s / mtbf_s) * segment * work_s / interval_s
        assert abs(mean - expected_s) < 3 * error
    ratio = math.sqrt(checkpoint_s / (2 * mtbf_s))
    daly_s = math.sqrt(2 * checkpoint_s * mtbf_s) * (1 + ratio / 3 + ratio**2 / 9) - checkpoint_s
    assert daly_s == pytest.approx(41.45, abs=0.01)
    assert min(zip(means, intervals_s, strict=True))[1] == 40


def test_ulfm_takes_longer_than_ftco_to_get_over_a_failure_and_both_grow_with_the_ranks(tmp_path):
    """Figure 6 of the FTCO paper, without the time limit, which is the same for both."""
    results = results_of("ftco-fig6", tmp_path, only=[f"ranks=64,{256 if CAMPAIGN else 128}", "machine=SHMEM"])
    ftco, ulfm = (by(results, "active_s", scheme=scheme) for scheme in ("FTCO", "ULFM"))
    assert ftco[0] < ftco[1]
    assert ulfm[0] < ulfm[1]
    assert [late > 2 * early for early, late in zip(ftco, ulfm, strict=True)] == [True, True]


def test_table_1_has_a_time_limit_for_each_serial_fault_and_what_was_measured_stands_beside(tmp_path):
    ranks = [64, 128] if CAMPAIGN else [64]
    results = results_of("ftco-table1", tmp_path, only=[f"ranks={','.join(map(str, ranks))}"])
    limits = {"no fault": 0, "one fault": 1, "two parallel": 1, "two serial": 2, "three mixed": 2}
    for faults, count in limits.items():
        total_s, active_s = (by(results, name, faults=faults) for name in ("total_s", "active_s"))
        assert [round(time_s - 2 * count, 2) for time_s in total_s] == [0] * len(ranks)
        assert active_s == sorted(active_s)
        assert 0 < active_s[0] <= active_s[-1] < 1e-3
    shown = results.shown()
    measured = dict(zip(shown["faults"], shown["published total_s"], strict=True))
    for faults, published_s in measured.items():
        assert abs(published_s - 2 * limits[faults]) < 0.05


def test_the_best_tree_without_faults_has_several_roots_and_no_tree_beats_the_bound(tmp_path):
    sizes = 2 if CAMPAIGN else 1
    results = results_of("ftco-fig7", tmp_path, only=[f"nodes<={1024 * sizes}"], draw=True)
    latency = {
        (shape, roots): by(results, "latency_steps", shape=shape, roots=roots)
        for shape in ("k-nomial", "k-ary")
        for roots in ("one root", "several roots")
    }
    assert latency == {
        ("k-ary", "one root"): [124, 138][:sizes],
        ("k-nomial", "one root"): [120, 132][:sizes],
        ("k-ary", "several roots"): [101, 116][:sizes],
        ("k-nomial", "several roots"): [99, 114][:sizes],
    }
    assert by(results, "bound_steps", shape="k-nomial", roots="several roots") == [90, 100][:sizes]
    shown = results.shown()
    assert shown["latency_steps"] == shown["published latency_steps"]
    assert shown["bound_steps"] == shown["published bound_steps"]
    assert {path.name for path in tmp_path.glob("*.png")} == {"ftco-fig7.png", "ftco-fig7-bound.png"}


@pytest.mark.parametrize("name", [name for name in presets() if load_study(name).published is not None])
def test_every_published_figure_belongs_to_a_run(name: str):
    spec = load_study(name)
    published = read_published(spec)
    runs = [run.columns for run in plan_runs(dataclasses.replace(spec, only=(), repetitions=1))]
    for line in published.rows:
        assert [run for run in runs if all(text_of(run[key]) == line[key] for key in published.keys)]
