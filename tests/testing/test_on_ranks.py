import re
from collections import Counter
from pathlib import Path

import pytest

from tests.testing.running import Session, run


def test_all_that_pytest_has_works_on_ranks(tmp_path: Path):
    session = run(tmp_path, suites=("ranks", "library"))
    assert Counter(session.outcomes.values()) == {"PASSED": 22, "SKIPPED": 2, "XFAIL": 2}, session.text
    assert "test_numbers[ranks64]" in session.outcomes


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return run(tmp_path_factory.mktemp("failing"), suites=("failing",))


def test_each_failure_is_that_of_its_test(failing: Session):
    outcomes = {**failing.outcomes}
    assert outcomes.pop("test_passes") == "PASSED"
    assert {name for name, outcome in outcomes.items() if outcome == "ERROR"} == {
        "test_set_up", "test_teardown", "test_torn_down"
    }  # fmt: skip
    assert Counter(outcomes.values()) == {"ERROR": 3, "FAILED": 14}, failing.text


def test_what_fixtures_raise_in_ranks_is_an_error_at_setup_or_teardown(failing: Session):
    assert re.findall(r"^_+ (ERROR at \w+) of (\w+) _+$", failing.text, re.M) == [
        ("ERROR at teardown", "test_teardown"),
        ("ERROR at setup", "test_set_up"),
        ("ERROR at teardown", "test_torn_down"),
        ("ERROR at teardown", "test_raises_and_is_torn_down"),
    ]
    assert "PASSED test_failing.py::test_torn_down" in failing.text
    said = failing.text.partition("ERROR at teardown of test_torn_down")[2].partition("ERROR at")[0]
    assert "LookupError: left\nE           raised on rank 1 of 2" in said
    assert "rank 0, test_failing.py:106 in left: comm.barrier()" in said
    assert "contextlib" not in failing.text
    assert "assert 2 == 5" in failing.of("test_raises_and_is_torn_down")


def test_a_rank_raises_while_others_wait_and_the_deadlock_report_says_where(failing: Session):
    said = failing.of("test_one_raises")
    assert ">           assert number == 5\nE           assert 1 == 5" in said
    assert "raised on rank 1 of 4" in said
    assert "ranks 0, 2-3, test_failing.py:13 in test_one_raises: comm.barrier()" in said
    assert "[2] said by 2" in said


def test_equal_exceptions_of_ranks_are_said_once(failing: Session):
    said = failing.of("test_all_raise")
    assert "raised on ranks 0-3 of 4" in said
    assert said.count("assert comm.size == 5") == 1


def test_different_exceptions_are_all_said(failing: Session):
    said = failing.of("test_different")
    assert "assert 0 == 5" in said
    assert "Raised on rank 1" in said
    assert "assert 2 == 5" in said


def test_a_deadlock_is_a_failure_with_a_deadlock_report(failing: Session):
    assert "cycle: rank 0 waits for rank 1 waits for rank 2 waits for rank 0" in failing.of("test_deadlock")
    assert "collective mismatch on MPI_COMM_WORLD" in failing.of("test_mismatch")


def test_who_polls_does_not_do_so_for_ever(failing: Session):
    said = failing.of("test_polling")
    assert "KeyError: 'first'" in said
    assert "test_failing.py:40 in test_polling: while not comm.Iprobe()" in said


def test_other_ends_of_the_job(failing: Session):
    assert "rank 1 ended the job at 0 s: MPI.Comm.Abort(3)" in failing.of("test_abort")
    assert "SystemExit: 3" in failing.of("test_exit")
    assert "the wall limit was reached" in failing.of("test_late")
    assert "MPI_ERR_RANK" in failing.of("test_error_of_mpi")
    assert "ZeroDivisionError" in failing.text
    assert "async functions are not tests that run on ranks" in failing.of("test_async")
    assert "rank 7 does not exist; expected 0 to 1" in failing.of("test_a_rank_that_is_not_there")


DEATHS = """
import pytest

@pytest.mark.ranks(2, fail="rank=1 before its 1st {call}")
def test_dies(comm):
    try:
        comm.barrier()
    except Exception:
        pass
"""


@pytest.mark.parametrize("call", ["barrier", "Barrier"])
def test_a_failure_that_never_comes_is_told(tmp_path: Path, call: str):
    (tmp_path / "test_deaths.py").write_text(DEATHS.format(call=call))
    session = run(tmp_path, "-W", "error")
    warned = "PytestWarning: never injected, because the ranks had ended or made no such call: "
    warned += "rank=1 before its 1st Barrier (rank 1 called barrier 1 time; did you mean barrier?)"
    assert (warned in session.text) == (call == "Barrier"), session.text
