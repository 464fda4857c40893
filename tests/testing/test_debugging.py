from pathlib import Path

from tests.testing.running import run


def test_the_debugger_starts_in_the_rank_that_raises_while_it_can_still_talk(tmp_path: Path):
    commands = "p 'number', number\np 'rank', comm.rank\nc\n"
    session = run(tmp_path, "--pdb", "-k", "post_mortem", suites=("debugged",), typed=commands)
    assert "-> assert number < 20\n(Pdb) ('number', 20)\n(Pdb) ('rank', 2)" in session.text
    assert session.outcomes == {"test_post_mortem": "FAILED"}


def test_who_quits_the_debugger_ends_the_session(tmp_path: Path):
    session = run(tmp_path, "--pdb", suites=("debugged",), typed="q\n")
    assert "Interrupted: Quitting debugger" in session.text
    assert session.outcomes == {"test_post_mortem": "FAILED"}


def test_a_breakpoint_is_one_of_each_rank(tmp_path: Path):
    session = run(tmp_path, "-k", "breakpoint", suites=("debugged",), typed="p 'rank', comm.rank\nc\n" * 2)
    assert "(Pdb) ('rank', 0)" in session.text
    assert "(Pdb) ('rank', 1)" in session.text
    assert session.outcomes == {"test_breakpoint": "PASSED"}


def test_the_debugger_starts_in_one_rank_of_a_session(tmp_path: Path):
    typed = "p 'rank', rank\np 'size', comm.size\nc\n"
    words = ("--xsim-session", "3", "--pdb", "-k", "one_fails")
    session = run(tmp_path, *words, suites=("together_failing",), typed=typed)
    assert "('rank', 1)" in session.text
    assert "('size', 3)" in session.text
    assert session.outcomes == {"test_one_fails": "FAILED"}
