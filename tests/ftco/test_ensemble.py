"""Many runs: the same whoever does them."""

import signal
import subprocess
import sys
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

from xsim_py.errors import ConfigError
from xsim_py.ftco import ensemble
from xsim_py.ftco.ensemble import run_ensemble
from xsim_py.ftco.model import Configuration, run_seed
from xsim_py.ftco.steps import run_steps
from xsim_py.ftco.summary import COLUMNS, summarise

ROOT = Path(__file__).parents[2]
SMALL = Configuration(nodes=32, radix=4, inactive=1, failures=1)


def test_an_ensemble_is_the_runs_of_the_step_model_one_by_one():
    (found,) = run_ensemble([SMALL], runs=12, seed=3, jobs=1)
    rows = [astuple(run_steps(SMALL, run_seed(3, run))) for run in range(12)]
    bare = astuple(run_steps(replace(SMALL, inactive=0, failures=0), run_seed(3, 0)))
    assert found == summarise(SMALL, 3, np.array(rows, np.int64), np.array([bare], np.int64), None)
    assert found.fault_free_steps == bare[COLUMNS.index("latency_steps")]


def test_neither_processes_nor_pieces_show(monkeypatch: pytest.MonkeyPatch):
    made = [SMALL, replace(SMALL, nodes=64, imbalance="uniform:20")]
    expected = run_ensemble(made, runs=8, seed=1, jobs=1)
    assert run_ensemble(made, runs=8, seed=2, jobs=1) != expected
    monkeypatch.setattr(ensemble, "_NODES_PER_PLAIN_CHUNK", 32 * 3)
    assert run_ensemble(made, runs=8, seed=1, jobs=1) == expected
    assert run_ensemble(made, runs=8, seed=1, jobs=2) == expected


def test_progress_moves_and_ends_at_all_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ensemble, "_NODES_PER_PLAIN_CHUNK", 32 * 5)
    told: list[tuple[int, int]] = []
    run_ensemble([SMALL], runs=12, jobs=1, progress=lambda *so: told.append(so))
    assert told == [(0, 13), (5, 13), (10, 13), (12, 13), (13, 13)]


def test_where_nothing_is_drawn_one_run_is_done_and_all_are_equal():
    told: list[tuple[int, int]] = []
    (found,) = run_ensemble([replace(SMALL, inactive=0, failures=0)], runs=1000, progress=lambda *so: told.append(so))
    assert told[-1] == (1, 1)
    assert found.runs == 1000
    assert found["latency_steps"].stderr == 0.0
    assert found["penalty_steps_per_fault"] is None


def test_the_radix_auto_is_a_number_in_the_summary():
    (found,) = run_ensemble([Configuration(nodes=16, radix="auto")], runs=1)
    assert found.configuration.radix == 16


@pytest.mark.parametrize("wrong", [{"runs": 0}, {"runs": 1, "jobs": 0}])
def test_too_few_are_refused(wrong: dict[str, int]):
    with pytest.raises(ConfigError, match=r"0 is out of range \(at least 1\)"):
        run_ensemble([SMALL], **wrong)


def test_an_interrupt_ends_all_processes():
    code = (
        "import os; from xsim_py.ftco import ensemble; from xsim_py.ftco.model import Configuration\n"
        "ensemble._NODES_PER_PLAIN_CHUNK = ensemble._NODES_A_CHUNK = 64\n"
        "def tell(done, total):\n"
        "    if done: print(done, *open(f'/proc/self/task/{os.getpid()}/children').read().split(), flush=True)\n"
        "many = Configuration(nodes=64, radix=4, algorithm='recursive_doubling', failures=2)\n"  # starts at once
        "ensemble.run_ensemble([many], runs=10**5, jobs=2, progress=tell)\n"
    )
    caller = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert caller.stdout is not None
    _, *workers = caller.stdout.readline().split()
    assert len(workers) == 2
    caller.send_signal(signal.SIGINT)
    _, said = caller.communicate(timeout=60)
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
