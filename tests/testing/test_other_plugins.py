"""Plugins that have nothing to do with MPI, and the ranks."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.testing.running import run

WAITS = """
def add(comm):
    comm.barrier()
    total = 1
    total += 1
    return total
"""
TEST_WAITS = """
import pytest
import waits
from mpi4py import MPI

@pytest.mark.ranks(2)
def test_add():
    assert waits.add(MPI.COMM_WORLD) == 2
"""


def test_coverage_counts_what_any_rank_has_run_also_in_processes_of_xdist(tmp_path: Path):
    words = ("-p", "xdist", "-n", "2", "-p", "pytest_cov", "--cov=library", "--cov-report=term-missing")
    session = run(tmp_path, *words, "-k", "numbers", suites=("ranks", "library"))
    assert Counter(session.outcomes.values()) == {"PASSED": 4}, session.text
    assert re.search(r"^library.py +10 +1 +90% +11$", session.text, re.M), session.text


def test_coverage_counts_what_any_rank_of_a_session_has_run(tmp_path: Path):
    words = ("--xsim-session", "3", "-p", "pytest_cov", "--cov=library", "--cov-report=term-missing")
    session = run(tmp_path, *words, suites=("together", "library"))
    assert re.search(r"^library.py +10 +2 +80% +11, 15$", session.text, re.M), session.text


CORES = ["ctrace", "pytrace", *(["sysmon"] if sys.version_info >= (3, 12) else [])]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("words", "core"),
    [
        *(((), core) for core in CORES),
        *((("--xsim-session", "2"), core) for core in CORES),
        (("-p", "xdist", "-n", "1"), ""),
    ],
)
def test_coverage_counts_what_comes_after_a_wait(tmp_path: Path, words: tuple[str, ...], core: str):
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "test_waits.py").write_text(TEST_WAITS)
    variables = {"COVERAGE_CORE": core} if core else {}
    session = run(tmp_path, *words, "-p", "pytest_cov", "--cov=waits", "--cov-report=term-missing", **variables)
    assert re.search(r"^waits.py +5 +0 +100%$", session.text, re.M), session.text


@pytest.mark.sampled
@pytest.mark.parametrize("words", [(), ("--xsim-session", "2")])
def test_the_time_that_pytest_timeout_grants_holds_for_ranks(tmp_path: Path, words: tuple[str, ...]):
    session = run(tmp_path, *words, "-p", "pytest_timeout", suites=("late",))
    late = {"test_computes_for_ever": "FAILED", "test_polls_for_ever": "FAILED"}
    assert session.outcomes == {**late, "test_in_time": "PASSED"}, session.text
    assert "the wall limit was reached" in session.of("test_polls_for_ever")
    assert "test_late.py:10 in test_computes_for_ever: while comm:" in session.text


def test_all_ranks_draw_the_same_examples(tmp_path: Path):
    session = run(tmp_path, "-p", "_hypothesis_pytestplugin", suites=("drawing",))
    ends = {"test_one_rank_fails": "FAILED", "test_one_rank_fails_and_the_others_go_on": "FAILED"}
    assert session.outcomes == {"test_alike": "PASSED", "test_falsified": "FAILED", **ends}, session.text
    assert "number=42" in session.of("test_falsified")
    assert "raised on ranks 0-2 of 3" in session.of("test_falsified")
    assert "HypothesisWarning" not in session.text
    for name, ranks in zip(ends, ("rank 1", "ranks 1-2"), strict=True):
        said = session.of(name)
        assert re.search(rf"ValueError: (\d+)\nE +Example: number=\1\nE +raised on {ranks} of 3", said), said
        assert "mismatch" not in said
