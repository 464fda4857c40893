"""Comparisons of ways to recover: what is planned, what is measured, and what the FTCO paper expects."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.campaign import CAMPAIGN
from tests.cases import ROOT
from xsim_py.errors import ConfigError
from xsim_py.report.phases import Phases
from xsim_py.study.recovery.comparison import Case, RecoveryComparison
from xsim_py.study.recovery.experiment import Experiment, compare_recovery, own_schemes, parse_call, plan_recovery

pytestmark = pytest.mark.usefixtures("module_in_this_process")

MACHINES = {"gige": "gige", "shmem": "shmem", "torus3d": "torus3d"}
TIMEOUT_PS = 2 * 10**12
RANKS = 64 if CAMPAIGN else 32


def compared(**told: Any) -> RecoveryComparison:
    comparison = compare_recovery(Experiment(**told), jobs=1)
    assert all(run.is_good for run in comparison.runs), [run.said for run in comparison.runs]
    return comparison


def test_every_combination_is_planned_in_order_with_its_victims():
    planned = plan_recovery(Experiment(ranks=(8, 16), failures=("2s", "none"), schemes=("ulfm", "restart")))
    assert [case[1:] for case in planned] == [
        (ranks, failures, scheme) for ranks in (8, 16) for failures in ("2s", "none") for scheme in ("ulfm", "restart")
    ]
    assert [victim.rank for victim in planned[Case("gige", 8, "2s", "ulfm")]] == [1, 3]


def test_everything_that_is_wrong_is_said_before_anything_runs():
    wrong = Experiment(ranks=(2, 8), failures=("2s", "4x", "9@1ms"), overrides={"network.latncy": "1us"})
    with pytest.raises(ConfigError, match=r"network.latncy"):
        plan_recovery(wrong)
    with pytest.raises(ConfigError) as refused:
        plan_recovery(Experiment(ranks=(2, 8), failures=("2s", "4x", "9@1ms")))
    lines = str(refused.value).splitlines()
    assert len(lines) == 5
    assert lines[0] == "failures: '2s': the tree has no two levels below its root (with 2 ranks)"
    assert lines[-1] == "failures: '9@1ms': rank 9 is out of range (0 to 7) (with 8 ranks)"


def test_the_same_failures_hit_the_same_call_of_every_scheme():
    schemes = ("ulfm", "restart")
    comparison = compared(ranks=(8,), failures=("none", "1"), schemes=schemes)
    runs = {scheme: comparison[Case("gige", 8, "1", scheme)] for scheme in schemes}
    without = comparison[Case("gige", 8, "none", "ulfm")]
    assert {run.call for run in runs.values()} == {"2nd Allreduce"}
    assert [phase.name for phase in without.phases.phases] == ["collective"]
    for run in runs.values():
        assert run.victims == ("1",)
        assert run.phases.times_ps()["detection"] == TIMEOUT_PS
        assert sum(run.phases.times_ps().values()) == run.phases.total_ps


def test_a_program_that_exits_with_an_error_is_reported_with_its_last_line(tmp_path: Path):
    program = tmp_path / "reads.py"
    program.write_text("import sys\nfrom mpi4py import MPI\nMPI.COMM_WORLD.rank or sys.exit('cannot read input.txt')\n")
    (run,) = compare_recovery(
        Experiment(program=program, ranks=(2,), failures=("none",), schemes=("ulfm",)), jobs=1
    ).runs
    assert (run.exit_status, run.said.splitlines()[-1]) == (1, "cannot read input.txt")


LAYERED: dict[str, Any] = {"ranks": (8,), "failures": ("1",), "schemes": ("ftco", "ulfm", "legio", "restart")}


@pytest.fixture(scope="module")
def without_layer(module_in_this_process: None) -> RecoveryComparison:
    """Compare all schemes without options of the resilience layer."""
    return compared(**LAYERED)


@pytest.mark.parametrize("options", [{"mpi.resilience.group": 4}, {"mpi.resilience": {"type": "legio"}}])
def test_the_layer_and_its_options_are_those_of_the_scheme_legio_alone(
    without_layer: RecoveryComparison, options: dict[str, Any], tmp_path: Path
):
    found = [compared(**LAYERED, overrides=options)]
    if "mpi.resilience" in options:
        file = tmp_path / "m.yaml"
        file.write_text((ROOT / "models" / "gige.yaml").read_text() + "mpi: {resilience: {type: legio}}\n")
        found.append(compared(**LAYERED, machines={"gige": str(file)}))
    for comparison in found:
        same = {run.case.scheme for run, other in zip(comparison.runs, without_layer.runs, strict=True) if run == other}
        assert same == ({*LAYERED["schemes"]} if "mpi.resilience" in options else {"ftco", "ulfm", "restart"})


def test_an_option_of_the_layer_that_there_is_not_is_refused_also_where_the_layer_is_not_compared():
    with pytest.raises(ConfigError, match=r"mpi\.resilience\.grp"):
        plan_recovery(Experiment(schemes=("ulfm",), overrides={"mpi.resilience.grp": 4}))


def test_a_program_of_ones_own_is_told_the_scheme_and_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    text = "import os, sys; from mpi4py import MPI; MPI.COMM_WORLD.barrier(); print(sys.argv[1:], os.listdir())"
    Path("own.py").write_text(text)
    out = tmp_path / "out"
    out.mkdir()
    args = ("--how={scheme}", "{folder}/x")
    told = {"program": "own.py", "args": args, "ranks": (1,), "failures": ("none",), "schemes": ("restart",)}
    comparison = compare_recovery(Experiment(**told), jobs=1, out=out)
    assert comparison.title == "own.py --how={scheme} {folder}/x"
    assert comparison.runs[0].call == "1st barrier"
    assert (out / "gige-1-none-restart.txt").read_text() == f"['--how=restart', '{tmp_path}/x'] []\n"


@pytest.mark.parametrize("scheme", ["ftco", "ulfm", "legio", "restart"])
def test_the_root_may_die_too(scheme: str):
    run = compared(ranks=(8,), failures=("0@before+1@2.02ms",), schemes=(scheme,)).runs[0]
    assert run.victims == ("0", "1 at 2.02 ms")
    assert run.phases.times_ps()["detection"] >= TIMEOUT_PS


def test_a_death_may_come_in_the_middle_of_the_call():
    run = compared(ranks=(16,), failures=("1",), schemes=("ulfm",), after_ps=10_000_000).runs[0]
    assert run.phases.phases[0].name == "collective"
    assert run.phases.phases[0].time_ps >= 10_000_000


def test_a_program_that_does_not_survive_is_shown_as_such():
    told = {"program": "from mpi4py import MPI; MPI.COMM_WORLD.barrier()", "kind": "code", "ranks": (4,)}
    comparison = compare_recovery(Experiment(**told, failures=("none", "1"), schemes=("ulfm",)), jobs=1)
    good, bad = comparison.runs
    assert good.is_good
    assert (bad.is_good, bad.phases) == (False, None)
    assert "ERR_PROC_FAILED" in bad.said
    assert "aborted" in str(comparison)


def test_a_program_without_a_collective_call_is_bad_input():
    told = {"program": "from mpi4py import MPI", "kind": "code", "ranks": (4,), "schemes": ("ulfm",)}
    with pytest.raises(ConfigError, match="no collective call that a failure could hit"):
        compare_recovery(Experiment(**told), jobs=1)
    with pytest.raises(ConfigError, match="rank 0 makes no Bcast number 1; its collective calls: 3 x Allreduce"):
        compare_recovery(Experiment(ranks=(4,), schemes=("ulfm",), call=("Bcast", 1)), jobs=1)


def test_calls_are_read_as_people_write_them():
    assert parse_call("2nd Allreduce") == ("Allreduce", 2)
    assert parse_call("first bcast") == ("bcast", 1)
    for text, said in (("Allreduce", "expected a call"), ("2nd Alreduce", "did you mean"), ("0th Bcast", "expected")):
        with pytest.raises(ValueError, match=said):
            parse_call(text)


def test_tables_and_json_hold_every_phase(tmp_path: Path):
    comparison = compared(ranks=(8,), failures=("none", "1"), schemes=("ulfm", "restart"))
    table = comparison.table()
    names = ["collective_s", "detection_s", "revoke_s", "repair_s", "retry_s", "restart_delay_s", "recomputation_s"]
    assert set(names) < set(table.columns)
    for row in table.rows():
        values = dict(zip(table.columns, row, strict=True))
        phases = [values[name] or 0 for name in values if name.endswith("_s") and name not in _SUMS]
        assert sum(phases) == pytest.approx(values["total_s"], abs=1e-12)
    comparison.to_json(tmp_path / "r.json")
    runs = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert [(run["failures"], run["scheme"]) for run in runs] == [
        (failures, scheme) for failures in ("none", "1") for scheme in ("ulfm", "restart")
    ]
    for run in runs:
        assert sum(phase["time_s"] for phase in run["phases"]) == pytest.approx(run["total_s"])
    text = str(comparison)
    assert text.splitlines()[0] == "ulfm"
    assert "restart delay" in text
    assert "recovery, without detection" in text


# ----------------------------------------------------------------------------- programs with schemes of their own


SPARSE = str(ROOT / "apps" / "sparse_grid.py")
MD = {"program": str(ROOT / "apps" / "simplemd.py"), "args": (str(ROOT / "apps" / "simplemd.in"), "--steps", "10")}
MS_PS = 10**9


def test_the_schemes_of_a_program_stand_in_its_source_and_are_not_asked_for_by_running_it(tmp_path: Path):
    assert own_schemes(SPARSE) == ("rc", "ac", "cr")
    assert own_schemes(ROOT / "apps" / "simplemd.py") == ("none", "ulfm", "buddy", "restart")
    assert own_schemes(ROOT / "apps" / "allreduce_loop.py") == ()
    for text in ("raise SystemExit(", "parser.add_argument('--recovery')", "p.add_argument('--recovery', choices=[1])"):
        (tmp_path / "p.py").write_text(text)
        assert own_schemes(tmp_path / "p.py") == ()
    assert own_schemes(tmp_path / "nowhere.py") == ()


def test_a_program_is_compared_under_its_own_schemes_unless_it_is_told_which_to_use():
    assert Experiment(program=SPARSE).wanted == ("rc", "ac", "cr")
    assert Experiment(**MD).wanted == ("ulfm", "buddy", "restart")
    for args in (("--recovery", "ac"), ("--recovery=ac",)):
        assert Experiment(program=SPARSE, args=args).wanted == ("ftco", "ulfm", "legio", "restart")
    with pytest.raises(ConfigError, match=r"schemes: unknown scheme 'ulfm'; known: rc, ac, cr"):
        plan_recovery(Experiment(program=SPARSE, ranks=(8,), schemes=("ulfm", "rc")))


def test_whole_jobs_are_measured_with_the_time_lost_and_the_verdict():
    told = {"program": SPARSE, "args": ("--level", "3"), "ranks": (8,), "failures": ("none", "1", "1@half+2@half")}
    comparison = compared(**told, schemes=("rc", "cr"), timeout_ps=MS_PS)
    for scheme in ("rc", "cr"):
        none, one, two = (comparison[Case("gige", 8, code, scheme)] for code in told["failures"])
        assert set(none.phases.times_ps()) <= {"communication", "agreement", "own work"}
        assert (none.lost_ps, none.right, none.call) == (0, True, "half time")
        assert one.victims == ("1",)
        assert two.victims == ("1 at half", "2 at half")
        for run in (none, one, two):
            assert run.phases.total_ps == sum(run.phases.times_ps().values()) == run.virtual_time_ps
            assert run.phases.start_ps == 0
        for run in (one, two):
            times = run.phases.times_ps()
            assert run.right is True
            assert run.lost_ps == run.virtual_time_ps - none.virtual_time_ps
            assert 0.9 * MS_PS < times["detection"] <= 2 * MS_PS
            assert times["repair"] > 200 * MS_PS  # new processes
            assert run.phases.recovery_ps + times["detection"] < run.lost_ps
        assert two.phases.times_ps()["repair"] > one.phases.times_ps()["repair"]
    assert comparison.is_all_communication
    text = str(comparison)
    assert "time lost" in text
    rows = [line.split() for line in text.splitlines() if "1@half+2@half" in line]
    assert [row[-1] for row in rows[:2]] == ["True", "True"]


def test_a_restart_of_a_job_recomputes_and_goes_on():
    told = {**MD, "ranks": (8,), "failures": ("1",), "schemes": ("restart", "buddy"), "timeout_ps": MS_PS}
    restart, buddy = compared(**told, restart_delay_ps=5 * MS_PS).runs
    assert restart.call == buddy.call == "6th Gather"
    times = restart.phases.times_ps()
    assert 0 <= times["restart delay"] - 5 * MS_PS < 0.1 * MS_PS
    assert times["recomputation"] < 5 * times["communication"]
    assert restart.phases.phases[-1].name == "communication"
    assert buddy.phases.times_ps().keys() >= {"communication", "agreement", "detection", "repair"}
    assert (restart.right, buddy.right, buddy.data_lost) == (True, True, "")


def test_nodes_fail_and_failures_are_drawn_as_for_a_run():
    told = {"ranks": (8,), "schemes": ("ulfm",), "timeout_ps": MS_PS, "overrides": {"machine.cores_per_node": 2}}
    codes = ("node=1@half", "2@half+3@half", "exponential:node,mtbf=4ms")
    node, ranks, drawn = compare_recovery(Experiment(**MD, **told, failures=codes), jobs=1).runs
    assert node.victims == ("node 1 at half",)
    assert (node.right, node.digest, node.lost_ps) == (True, ranks.digest, ranks.lost_ps)
    assert drawn.victims == ("exponential:node,mtbf=4ms",)
    assert (drawn.right, drawn.virtual_time_ps > 2 * MS_PS) == (True, True)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("node=4@half", "'node=4@half': node 4 has no ranks"),
        ("nod=1@half", "nod"),
        ("exponential:node,mtbf=-1s", "-1s is out of range"),
        ("exponential:node,mtbf", "write none, 1"),
    ],
)
def test_components_that_are_not_there_and_laws_without_sense_are_refused(code: str, said: str):
    told = {"ranks": (8,), "schemes": ("ulfm",), "overrides": {"machine.cores_per_node": 2}, "failures": (code,)}
    with pytest.raises(ConfigError, match=f"failures: .*{said}"):
        plan_recovery(Experiment(**told))


def test_what_a_program_has_lost_is_in_the_table(tmp_path: Path):
    (tmp_path / "loses.py").write_text(
        "import argparse, time; from mpi4py import MPI\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--recovery', choices=('forget', 'none'))\n"
        "assert parser.parse_args().recovery == 'forget'\n"
        "time.sleep(1); size = MPI.COMM_WORLD.Shrink().size; time.sleep(3)\n"
        "print('right: True' if size == 4 else 'lost: a rank'); raise SystemExit(size < 4)\n"
    )
    told = {"program": str(tmp_path / "loses.py"), "ranks": (4,), "failures": ("1@0.5s", "1"), "timeout_ps": MS_PS}
    early, late = compare_recovery(Experiment(**told), jobs=1).runs
    assert (early.case.scheme, early.right, early.data_lost, early.is_good) == ("forget", None, "a rank", False)
    assert early.is_clean_loss
    assert (late.right, late.is_good, late.is_clean_loss) == (True, True, False)
    for wrong in ({"ended": "aborted"}, {"exit_status": 0}, {"right": False}, {"data_lost": ""}, {"victims": ()}):
        assert not early._replace(**wrong).is_clean_loss
    assert not late._replace(right=False).is_good
    assert late.call == "half time"
    assert not RecoveryComparison([early, late]).is_all_communication
    assert early.phases.times_ps()["own work"] == late.phases.times_ps()["own work"] == 4 * 10**12
    assert "a rank" in str(RecoveryComparison([early]))
    side = RecoveryComparison([early, late._replace(right=False)]).side_by_side()
    assert [row[-1] for row in side.rows()] == ["data lost", "wrong"]


# ------------------------------------------------------------------------------- what the paper expects, table 1


@pytest.fixture(scope="module")
def table1(module_in_this_process: None) -> RecoveryComparison:
    """The ranks of table 1, or fewer, on three networks, FTCO and ULFM."""
    return compared(machines=MACHINES, ranks=(RANKS,), schemes=("ftco", "ulfm"))


def of(table1: RecoveryComparison, machine: str, failures: str, scheme: str) -> Phases:
    phases = table1[Case(machine, RANKS, failures, scheme)].phases
    assert phases is not None
    return phases


@pytest.mark.parametrize("machine", MACHINES)
def test_ulfm_s_recovery_takes_longer_than_ftco_s_in_every_row(table1: RecoveryComparison, machine: str):
    for failures in ("1", "2p", "2s", "3m"):
        ftco, ulfm = (of(table1, machine, failures, scheme) for scheme in ("ftco", "ulfm"))
        assert 0 < 2 * ftco.recovery_ps < ulfm.recovery_ps
        assert ftco.total_ps < ulfm.total_ps
        assert set(ulfm.times_ps()) - {"collective", "detection", "propagation", "revoke"} == {"repair", "retry"}
        assert set(ftco.times_ps()) == {"collective", "detection", "resume"}


@pytest.mark.parametrize("machine", MACHINES)
def test_ftco_takes_a_time_limit_for_each_serial_failure(table1: RecoveryComparison, machine: str):
    for failures, limits in {"none": 0, "1": 1, "2p": 1, "2s": 2, "3m": 2}.items():
        phases = of(table1, machine, failures, "ftco")
        assert 0 < phases.total_ps - limits * TIMEOUT_PS < 10**9
        # Waits on neighbouring levels begin one after the other, and end so.
        assert abs(phases.times_ps().get("detection", 0) - limits * TIMEOUT_PS) < 10**8


@pytest.mark.parametrize(("machine", "latency_us"), [("gige", 20), ("shmem", 6)])
def test_without_failures_ftco_costs_one_receipt_more_than_a_plain_tree(
    table1: RecoveryComparison, machine: str, latency_us: int
):
    ftco, plain = (of(table1, machine, "none", scheme).total_ps for scheme in ("ftco", "ulfm"))
    assert latency_us * 10**6 < ftco - plain < 1.3 * latency_us * 10**6


def test_the_program_s_own_clock_measures_the_same(tmp_path: Path):
    """The longest time of the second Allreduce, as the ranks measure it themselves, in nanoseconds."""
    told = {
        "program": str(ROOT / "apps" / "allreduce_loop.py"),
        "args": ("--scheme", "{scheme}", "--times"),
        "ranks": (8,),
    }
    out = tmp_path / "out"
    out.mkdir()
    schemes = ("ftco", "ulfm")
    comparison = compare_recovery(Experiment(**told, schemes=schemes, call=("Allreduce", 2)), jobs=1, out=out)
    for run in comparison.runs:
        printed = (out / f"{run.case.name}.txt").read_text().splitlines()[2]
        assert printed == f"time: step 2 {run.phases.total_ps / 10**6:.3f} us", run.case


_SUMS = ("total_s", "recovery_s", "lost_s", "virtual_time_s")
