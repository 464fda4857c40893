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
    failed = dict.fromkeys(["test_leaks", "test_leaks_and_fails", "test_stalls"], "FAILED")
    assert session.outcomes == {"test_right": "PASSED", **failed}, session.text
    assert "test_checked.py:11: ResourceLeak" in session.of("test_leaks")
    said = session.of("test_leaks_and_fails")
    assert "assert 0 == 2" in said
    assert "test_checked.py:15: ResourceLeak" in said
    assert "test_checked.py:23: ParameterMatching: Comm.recv waits for tag 4" in session.of("test_stalls")
