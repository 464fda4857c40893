"""What the outcomes of mpi4py's own tests mean."""

from tests.conformance.judgement import CUT, KNOWN, Known, broken, counts, known_failures, outcomes_of
from tests.conformance.page import PAGE, Row, cell, known_table

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


def test_every_known_failure_has_a_reason():
    entries = known_failures(KNOWN)
    assert entries
    assert all(entry.test.startswith("test_") and len(entry.reason) > 20 for entry in entries)
    assert len({entry.test for entry in entries}) == len(entries)
