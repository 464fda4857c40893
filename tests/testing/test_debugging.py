from pathlib import Path

from tests.testing.running import run


def test_the_debugger_is_one_of_the_rank_that_stops(tmp_path: Path):
    typed = "p 'number', number\np 'rank', comm.rank\nc\np 'first', comm.rank\nc\np 'second', comm.rank\nq\n"
    session = run(tmp_path, "--pdb", suites=("debugged",), typed=typed)
    assert "-> assert number < 20\n(Pdb) ('number', 20)\n(Pdb) ('rank', 2)" in session.text
    assert "(Pdb) ('first', 0)" in session.text
    assert "(Pdb) ('second', 1)" in session.text
    assert session.outcomes["test_post_mortem"] == "FAILED"
    assert "Exit: Quitting debugger" in session.text


def test_the_debugger_starts_in_one_rank_of_a_session(tmp_path: Path):
    typed = "p 'rank', rank\np 'size', comm.size\nc\n"
    words = ("--xsim-session", "3", "--pdb", "-k", "one_fails")
    session = run(tmp_path, *words, suites=("together_failing",), typed=typed)
    assert "('rank', 1)" in session.text
    assert "('size', 3)" in session.text
    assert session.outcomes == {"test_one_fails": "FAILED"}
