"""`xsim check` reports mistakes in the use of MPI; or runs a program both ways and says where they part."""

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.helpers import FakeSimulator
from tests.report.helpers import make_result
from xsim_py.cli import check, main
from xsim_py.errors import FOUND
from xsim_py.findings import CALL_ORDERING, MESSAGE_RACE, Finding
from xsim_py.process.output.simulator_descriptors import apart
from xsim_py.trace import Trace

CHECK = ["check", "--against-isolation", "-n", "4"]


MISTAKE = Finding(CALL_ORDERING, "a.py", 3, "Comm.Recv never completes", (0, 2), ("b.py:4: another call",))
RACE = Finding(MESSAGE_RACE, "a.py", 5, "a race", (1,), is_mistake=False)


def test_prints_the_findings_and_nothing_else(simulator: FakeSimulator, capsys):
    simulator.result.set_findings([MISTAKE, RACE])
    assert main(["check", "-n", "2", "prog.py"]) == FOUND
    out, err = capsys.readouterr()
    assert out == "from the program\n"
    assert err.splitlines() == [
        "a.py:3: CallOrdering: Comm.Recv never completes",
        "    ranks 0, 2",
        "    b.py:4: another call",
        "a.py:5: MessageRace: a race",
        "    rank 1",
    ]


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["check"], True),
        (["check", "--races"], "races"),
        (["run", "--check"], True),
        (["run", "--check=races"], "races"),
        (["run", "--check=-ResourceLeak,races"], "-ResourceLeak,races"),
        (["check", "--check=MessageRace"], "MessageRace"),
        (["run"], False),
    ],
)
def test_asks_for_checks_and_a_race_alone_is_no_mistake(simulator: FakeSimulator, words: list[str], asked: bool | str):
    simulator.result.set_findings([RACE])
    assert main([*words, "-n", "2", "prog.py", "--check"]) == 0
    (call,) = simulator.calls
    assert (call.check, call.args) == (asked, ["--check"])


@pytest.mark.parametrize(("ended", "status"), [("stalled", 5), ("aborted", 5), ("wall limit", 4), ("interrupted", 130)])
def test_findings_come_before_a_stall_and_after_what_cut_the_run_short(
    simulator: FakeSimulator, ended: str, status: int
):
    simulator.result = make_result(ended=ended, exit_status={"stalled": 3, "aborted": 1}.get(ended, status))
    simulator.result.set_findings([MISTAKE])
    assert main(["check", "-n", "2", "prog.py"]) == status


@pytest.fixture
def by_way(simulator: FakeSimulator, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """What the result of each way of isolation differs in."""
    changes: dict[str, dict[str, Any]] = {}
    simulate = simulator.simulate

    def one_way(program: str, **told: Any) -> Any:
        changed = dict(changes.get(told["isolation"], {}))
        printed = changed.pop("printed", "[0] the same\n")
        simulator.result = make_result(**changed)
        simulator.result.trace = Trace([], [], [])
        told["stdout"].write(printed)
        return simulate(program, **told)

    monkeypatch.setattr(simulator, "simulate", one_way)
    return changes


def test_runs_both_ways_with_the_same_options(by_way, simulator: FakeSimulator, capsys):
    assert main([*CHECK, "--machine", "shmem", "--seed", "3", "prog.py", "-n", "3"]) == 0
    told = [(call.isolation, call.machine, call.ranks, call.seed, call.args) for call in simulator.calls]
    assert told == [(way, "shmem", 4, 3, ["-n", "3"]) for way in ("spawn", "greenlets")]
    assert capsys.readouterr().out == "no difference: 1,024 ranks, 4,096 messages, digest feedface\n"


def test_a_difference_is_status_1_and_told_with_warnings(by_way, simulator: FakeSimulator, capsys):
    by_way["spawn"] = {"printed": "[0] another\n"}
    by_way["greenlets"] = {"warnings": ["shared by ranks: pkg.NAME"]}
    assert main([*CHECK, "prog.py"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "the program depends on state that its ranks share; first difference:",
        "rank 0, line 1 of what it prints",
        "    with greenlets: the same",
        "    with processes: another",
    ]
    assert "xsim: warning: shared by ranks: pkg.NAME" in err


def test_what_children_print_is_not_shown(capfd, monkeypatch: pytest.MonkeyPatch):
    with apart(os.fdopen(1, "w", closefd=False), closes=True) as ours:
        monkeypatch.setattr(sys, "stdout", ours)
        with check._children_silent():
            subprocess.run(["echo", "of a child"], check=True)
            print("ours", flush=True)
        subprocess.run(["echo", "of a child"], check=True)
    assert capfd.readouterr().out == "ours\nof a child\n"


def test_a_run_that_only_one_way_comes_to_an_end_is_a_difference(by_way, simulator: FakeSimulator, capsys):
    by_way["greenlets"] = {"ended": "wall limit", "exit_status": 4}
    assert main([*CHECK, "prog.py"]) == 1
    by_way["spawn"] = by_way["greenlets"]
    assert main([*CHECK, "prog.py"]) == 4


def test_interrupt_ends_it(by_way, simulator: FakeSimulator):
    by_way["spawn"] = {"ended": "interrupted", "exit_status": 130}
    assert main([*CHECK, "prog.py"]) == 130
    assert len(simulator.calls) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "-n", "2"], "check: no program"),
        ([*CHECK], "check: no program"),
        ([*CHECK, "--compute", "measured", "prog.py"], "--compute measured"),
    ],
)
def test_bad_input_is_status_2(simulator: FakeSimulator, capsys, words: list[str], said: str):
    assert main(words) == 2
    assert said in capsys.readouterr().err
    assert not simulator.calls


def test_the_processes_may_hold_several_ranks(by_way, simulator: FakeSimulator):
    assert main([*CHECK, "--isolation", "process:2", "--shards", "2", "prog.py"]) == 0
    assert [(call.isolation, call.shards) for call in simulator.calls] == [("process:2", 1), ("greenlets", 2)]


def test_a_job_that_is_started_again_has_forked_processes(by_way, simulator: FakeSimulator):
    assert main([*CHECK, "--restart", "on-abort", "prog.py"]) == 0
    assert [call.isolation for call in simulator.calls] == ["process", "greenlets"]


def test_an_unknown_class_is_answered_with_those_that_there_are(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog.py").touch()
    assert main(["run", "-n", "2", "--check=ResourceLeak,Leak", "prog.py"]) == 2
    assert "check: unknown class 'Leak'; the classes are CallOrdering, InvalidParameter" in capsys.readouterr().err
