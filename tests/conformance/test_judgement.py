"""What the outcomes of mpi4py's own tests mean."""

import pytest

from tests.conformance.judgement import COMPILED_KNOWN, CUT, KNOWN, Known, broken, counts, known_failures, outcomes_of
from tests.conformance.page import PAGE, Row, cell, differences, known_table, totals

OUTPUT = """\
[0] outcome passed test_a.A.one
[1] outcome passed test_a.A.one
[0] outcome passed test_a.A.two
[1] outcome failed test_a.A.two
[0] something else
outcome skipped test_a.A.three
"""


def test_a_test_is_as_good_as_at_its_worst_rank():
    found = outcomes_of(OUTPUT)
    assert found == {"test_a.A.one": "passed", "test_a.A.two": "failed", "test_a.A.three": "skipped"}
    assert counts(found) == "3/1/1/1"


def test_what_passes_under_any_real_mpi_has_to_pass():
    ours = outcomes_of(OUTPUT)
    real = [
        {"test_a.A.two": "passed", "test_a.A.three": "skipped"},
        {"test_a.A.three": "passed", "test_a.A.four": "passed"},
    ]
    assert broken(ours, real, []) == ["test_a.A.four", "test_a.A.three", "test_a.A.two"]
    assert broken(ours, real, [Known("test_a.A.t*", "")]) == ["test_a.A.four"]


def test_what_no_real_mpi_has_run_is_broken_if_it_fails():
    assert broken(outcomes_of(OUTPUT), [], []) == ["test_a.A.two"]
    assert broken(outcomes_of(OUTPUT), [{"test_a.A.one": "passed"}], []) == ["test_a.A.two"]
    assert broken(outcomes_of(OUTPUT), [{"test_a.A.two": "failed"}], []) == []


def test_a_module_that_is_cut_off_is_broken_and_no_test_more():
    found = {"test_a.A.one": "passed", "test_a.*": CUT}
    assert broken(found, [], []) == ["test_a.*"]
    assert counts(found) == "1/1/0/0"
    assert str(cell(Row("test_a", 64, [found], []))) == "1…"


def test_the_page_says_what_cannot_pass():
    assert known_table() in PAGE.read_text(encoding="utf-8"), "run python -m tests.conformance --write"


def test_totals_count_the_tests_of_all_sides_and_differences_name_those_that_ours_misses():
    ours, real = outcomes_of(OUTPUT), {"test_a.A.two": "passed", "test_a.A.four": "passed"}
    rows = [Row("test_a", 2, [ours, real, {}], []), Row("test_a", 3, [{**ours, "test_a.*": CUT}, real, {}], [])]
    assert "| 2 | xsim | 1 | 1 | 1 | 1 |" in totals(rows)
    assert "| 2 | MPICH | 2 | 0 | 0 | 2 |" in totals(rows)
    said = differences(rows)
    assert "| `test_a.A.two` | failed | 2, 3 | open |" in said
    assert "| `test_a.A.four` | unfinished | 2 | open |" in said
    assert "| `test_a.*` | time limit | 3 | slower than" in said


@pytest.mark.parametrize("path", [KNOWN, COMPILED_KNOWN])
def test_every_known_failure_has_a_reason(path):
    entries = known_failures(path)
    assert entries
    assert all(entry.test.startswith("test_") and len(entry.reason) > 20 for entry in entries)
    assert len({entry.test for entry in entries}) == len(entries)
