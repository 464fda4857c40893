from pathlib import Path

from tests.testing.running import run


def test_each_option_reaches_the_run(tmp_path: Path):
    words = ("--xsim-machine", "shmem", "--xsim-seed", "7", "--xsim-shards", "2")
    deaths = ("--xsim-fail", "rank=1 before its 3rd Barrier", "--xsim-fail", "rank=2 before its 3rd Barrier")
    session = run(tmp_path, *words, *deaths, suites=("options",))
    assert set(session.outcomes.values()) == {"PASSED"}, session.text
    assert len(session.outcomes) == 7


def test_findings_of_the_checks_are_failures(tmp_path: Path):
    session = run(tmp_path, "--xsim-check", suites=("checked",))
    and_fail = ["test_mistakes_and_fails", "test_fails_midway"]
    failed = dict.fromkeys(["test_leaks", *and_fail, "test_stalls"], "FAILED")
    assert session.outcomes == {"test_right": "PASSED", **failed}, session.text
    assert "test_checked.py:12: ResourceLeak" in session.of("test_leaks")
    for test in and_fail:
        assert "assert 0 == 2" in session.of(test)
    assert "test_checked.py:19: ParameterMatching" in session.of("test_mistakes_and_fails")
    midway = session.of("test_fails_midway")
    assert not any(word in midway for word in ("ResourceLeak", "RequestLifecycle", "CallOrdering"))
    assert "test_checked.py:37: ParameterMatching: Comm.recv waits for tag 4" in session.of("test_stalls")


def test_a_mark_without_ranks_is_an_error_of_its_file_alone(tmp_path: Path):
    (tmp_path / "test_zero.py").write_text("import pytest\n\n@pytest.mark.ranks(0)\ndef test_zero(): pass\n")
    session = run(tmp_path, "--continue-on-collection-errors", suites=("checked",))
    assert "During handling" not in session.text
    assert "test_zero.py:3: test_zero: the mark ranks takes numbers of ranks, not 0" in session.text
    assert session.outcomes["test_right"] == "PASSED"
