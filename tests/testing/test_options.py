import re
from pathlib import Path

import pytest

from tests.testing.running import run


def test_each_option_reaches_the_run(tmp_path: Path):
    words = ("--xsim-machine", "shmem", "--xsim-seed", "7", "--xsim-shards", "2")
    deaths = ("--xsim-fail", "rank=1 before its 3rd Barrier", "--xsim-fail", "rank=2 before its 3rd Barrier")
    session = run(tmp_path, *words, *deaths, suites=("options",))
    assert set(session.outcomes.values()) == {"PASSED"}, session.text
    assert len(session.outcomes) == 7


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--xsim-machine nope", "--xsim-machine: unknown preset machine 'nope': known: azure-hdr, "),
        ("--xsim-machine gigee", "--xsim-machine: unknown preset machine 'gigee': did you mean gige?"),
        ("--xsim-machine no.yaml", "--xsim-machine: cannot read the machine description no.yaml: No such file"),
        ("--xsim-fail foo", "--xsim-fail foo: expected a failure, got 'foo'; write rank=5@1.2ms, "),
        (
            "--xsim-check --xsim-shards 2",
            "--xsim-check: cannot be combined with --xsim-shards; drop one",
        ),
        ("--xsim-shards 0", "--xsim-shards: 0 is out of range (at least 1)"),
        ("--xsim-seed x", "--xsim-seed: expected an integer, got 'x'"),
        ("--xsim-session 2 --xsim-machine nope", "--xsim-machine: unknown preset machine 'nope': known: "),
    ],
)
def test_an_option_that_is_wrong_for_each_test_ends_the_session_before_it_begins(tmp_path: Path, words: str, said: str):
    session = run(tmp_path, *words.split(), suites=("checked",))
    assert session.text.startswith(f"ERROR: {said}"), session.text
    assert len(session.text.strip().splitlines()) == 1
    assert session.status == pytest.ExitCode.USAGE_ERROR


def test_an_option_that_is_wrong_for_some_numbers_of_ranks_fails_those_tests(tmp_path: Path):
    lines = ("import pytest", "@pytest.mark.ranks(2, 4)", "def test_it(comm): pass")
    (tmp_path / "test_it.py").write_text("\n".join(lines))
    session = run(tmp_path, "--xsim-fail", "rank=3@1us", "--xsim-shards", "1", "--xsim-check")
    assert session.outcomes == {"test_it[ranks2]": "FAILED", "test_it[ranks4]": "PASSED"}, session.text


def test_findings_of_the_checks_are_failures(tmp_path: Path):
    session = run(tmp_path, "--xsim-check", suites=("checked",))
    and_fail = ["test_mistakes_and_fails", "test_fails_midway", "test_races_and_fails"]
    failed = dict.fromkeys(["test_leaks", *and_fail, "test_stalls"], "FAILED")
    assert session.outcomes == {"test_right": "PASSED", **failed}, session.text
    assert "test_checked.py:12: ResourceLeak" in session.of("test_leaks")
    for test in and_fail:
        assert "assert 0 == 2" in session.of(test)
    assert "test_checked.py:19: ParameterMatching" in session.of("test_mistakes_and_fails")
    race = session.of("test_races_and_fails").partition("test_checked.py:46: GlobalConcurrency: two Win.Put")[2]
    assert re.search(r"\n.* ranks 0-1\n.* test_checked.py:46: Win.Put of rank", race), session.text
    midway = session.of("test_fails_midway") + session.of("test_races_and_fails")
    assert not any(word in midway for word in ("ResourceLeak", "RequestLifecycle", "CallOrdering"))
    assert "test_checked.py:37: ParameterMatching: Comm.recv waits for tag 4" in session.of("test_stalls")


def test_classes_of_findings_can_be_chosen(tmp_path: Path):
    session = run(tmp_path, "--xsim-check=-ResourceLeak", "-k", "leaks or mistakes", suites=("checked",))
    assert session.outcomes == {"test_leaks": "PASSED", "test_mistakes_and_fails": "FAILED"}, session.text
    assert "test_checked.py:19: ParameterMatching" in session.text
    session = run(tmp_path, "--xsim-check=Leak", suites=("checked",))
    assert "--xsim-check: unknown class 'Leak'; the classes are CallOrdering" in session.text


def test_a_mark_without_ranks_is_an_error_of_its_file_alone(tmp_path: Path):
    (tmp_path / "test_zero.py").write_text("import pytest\n\n@pytest.mark.ranks(0)\ndef test_zero(): pass\n")
    session = run(tmp_path, "--continue-on-collection-errors", suites=("checked",))
    assert "During handling" not in session.text
    assert "test_zero.py:3: test_zero: the mark ranks takes numbers of ranks, not 0" in session.text
    assert session.outcomes["test_right"] == "PASSED"
