"""One run in this process: what is heard of its output, and what comes of it."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from xsim_py.study.task import Outcome, StudyTask, _Listener, do


def outcome_of(code: str, captures: dict[str, tuple[str, str]] | None = None, **arguments: Any) -> Outcome:
    told = {"program": code, "kind": "code", "ranks": 2, **arguments}
    return do(StudyTask(told, captures or {}, None))


LINES = "import mpi4py.MPI as m; m.COMM_WORLD.rank or print('a 1\\nb\\na 3.5\\na 2', end='')"


@pytest.mark.parametrize(
    ("take", "value"),
    [("last", 2), ("first", 1), ("min", 1), ("max", 3.5), ("sum", 6.5), ("mean", 6.5 / 3), ("count", 3)],
)
def test_of_several_values_the_one_that_is_wanted_is_taken(take: str, value: float):
    assert outcome_of(LINES, {"v": ("a ([0-9.]+)", take)})["captured"] == {"v": value}


@pytest.mark.parametrize(("take", "value"), [("last", None), ("mean", None), ("count", 0)])
def test_where_no_line_matches_there_is_no_value(take: str, value: Any):
    assert outcome_of("print('b')", {"v": ("a (.)", take)})["captured"] == {"v": value}


def test_a_value_that_is_no_finite_number_is_text():
    code = "import mpi4py.MPI as m; m.COMM_WORLD.rank or print('x=fast y=nan z=1e3')"
    captures = {name: (f"{name}=(\\S+)", "last") for name in "xyz"}
    assert outcome_of(code, captures)["captured"] == {"x": "fast", "y": "nan", "z": 1000.0}


def test_standard_error_is_heard_too_and_the_last_lines_are_kept():
    code = "import sys\nfor i in range(30): print(f'line {i}', file=sys.stderr)"
    outcome = outcome_of(code, {"v": ("line (.*)", "max")}, ranks=1)
    assert outcome["captured"] == {"v": 29}
    assert outcome["last_lines"] == [f"line {number}" for number in range(10, 30)]


@pytest.mark.parametrize(
    ("code", "ended", "status", "said"),
    [
        ("import sys; sys.exit(3)", "finished", 3, ""),
        ("1/0", "aborted", 1, "ZeroDivisionError"),
        ("import mpi4py.MPI as m; m.COMM_WORLD.recv()", "stalled", 3, "a message from any source"),
        ("1 +", "refused", 2, "not a Python program"),
    ],
)
def test_whatever_comes_of_a_run_is_an_outcome(code: str, ended: str, status: int, said: str):
    outcome = outcome_of(code)
    assert (outcome["ended"], outcome["exit_status"]) == (ended, status)
    assert said in outcome["said"]


def test_a_fault_of_the_simulator_is_an_outcome_with_its_traceback(monkeypatch):
    def simulate(**_: Any) -> None:
        raise KeyError("so")

    monkeypatch.setattr("xsim_py.run.simulate", simulate)
    outcome = outcome_of("pass")
    assert outcome["ended"] == "error"
    assert outcome["said"].startswith("KeyError: 'so'\nTraceback")


def test_failures_are_counted():
    outcome = outcome_of("import time; time.sleep(1)", fail=["rank=1@1ms"])
    assert (outcome["ended"], outcome["failures"], outcome["restarts"]) == ("finished", 1, 0)


def test_a_run_has_an_empty_folder_of_its_own_that_goes_when_it_ends():
    before = Path.cwd()
    code = "import os; print('in', os.getcwd(), len(os.listdir()))"
    captured = outcome_of(code, {"f": ("in (.*) ", "last"), "n": ("in .* (.*)", "last")}, ranks=1)["captured"]
    assert captured["n"] == 0
    assert not os.path.exists(captured["f"])
    assert Path.cwd() == before


def test_a_run_can_take_place_in_a_folder(tmp_path):
    (tmp_path / "here").write_text("")
    task = StudyTask({"program": "import os; print(os.listdir())", "kind": "code", "ranks": 1}, {}, str(tmp_path))
    assert do(task)["last_lines"] == ["['here']"]


def test_the_most_memory_is_that_of_the_run_and_not_of_those_before():
    # Some kernels reclaim the pages of idle processes: what else this process has in memory varies by 100 MB.
    large = outcome_of("b'x' * 400_000_000", ranks=1)["peak_rss_bytes"]
    small = outcome_of("pass", ranks=1)["peak_rss_bytes"]
    assert large - small > 50_000_000


CATASTROPHE = "((?:a+)+)$"


def test_a_search_that_takes_too_long_is_given_up_and_the_rest_of_the_run_is_kept(monkeypatch):
    monkeypatch.setattr("xsim_py.study.capture.MOST_SEARCHED_S", 0.02)
    before = signal.getsignal(signal.SIGVTALRM)
    code = "print('a' * 40 + 'b'); print('n=3', end='')"
    outcome = outcome_of(code, {"v": (CATASTROPHE, "last"), "n": ("n=(.)", "last")}, ranks=1)
    assert (outcome["ended"], outcome["captured"]) == ("finished", {"v": None, "n": 3})
    assert outcome["given_up"] == {"v": "a" * 40 + "b"}
    assert signal.getsignal(signal.SIGVTALRM) == before


def test_outside_of_the_main_thread_captures_work_too():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(outcome_of, "print('n=3')", {"n": ("n=(.)", "last")}, ranks=1).result()["captured"] == {
            "n": 3
        }


@pytest.mark.parametrize(("text", "value"), [("9" * 400, "9" * 400), ("9" * 5000, "9" * 5000), ("9" * 30, 10**30 - 1)])
def test_a_whole_number_too_large_for_means_is_text(text: str, value: Any):
    assert outcome_of(f"print('n={text}')", {"n": ("n=(.*)", "max")}, ranks=1)["captured"] == {"n": value}


def test_a_sum_beyond_all_numbers_is_text():
    assert outcome_of("print('n=1e308')", {"n": ("n=(.*)", "sum")}, ranks=2)["captured"] == {"n": "inf"}


def test_a_line_without_an_end_is_heard_in_parts(monkeypatch):
    monkeypatch.setattr("xsim_py.study.task._LONGEST_HEARD", 10)
    listener = _Listener({"n": ("(aa+)", "count")})
    for _ in range(4):
        listener.write("a" * 8)
    assert listener.captured() == {"n": 2}
