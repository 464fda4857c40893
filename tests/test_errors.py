"""Messages that quote what somebody wrote stay readable, however much that was."""

from __future__ import annotations

import pickle

from tests.report.helpers import make_result
from xsim_py.errors import ConfigError, OptionProblem, advice, close_match, shortened, visible
from xsim_py.findings import Finding
from xsim_py.report import Table


def test_a_long_line_keeps_its_beginning_and_its_end() -> None:
    said = str(ConfigError(f"m.yaml:1:7: name: {'x ' * 100_000} is not text; put it in quotes"))
    assert len(said) < 1000
    assert said.startswith("m.yaml:1:7: name: x x x")
    assert f"... ({200_000 + 48 - 900:,} characters) ..." in said
    assert said.endswith("x  is not text; put it in quotes")


def test_all_words_around_a_long_value_stay() -> None:
    value = "9" * 200_000
    said = str(ConfigError(f"max={value}: max: expected an integer, got '{value}'; write max=3"))
    assert len(said) < 500
    assert "99: max: expected an integer, got '999" in said
    assert said.endswith("999'; write max=3")


def test_of_many_lines_the_last_are_counted() -> None:
    said = str(ConfigError("\n".join(map(str, range(5000))))).split("\n")
    assert said == [*map(str, range(100)), "... and 4,900 more"]


def test_what_is_short_stays_as_it_is_and_so_does_what_was_shortened() -> None:
    assert shortened("a\nb") == "a\nb"
    once = shortened("\n".join(["x" * 3000] * 3000))
    assert shortened(once) == once
    error = ConfigError(once)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_config_error_keeps_its_problems_and_says_one_a_line():
    error = ConfigError(OptionProblem("ranks", "0 is less than 1"), "what else is wrong")
    assert str(error) == "ranks: 0 is less than 1\nwhat else is wrong"
    assert [getattr(problem, "option", None) for problem in error.problems] == ["ranks", None]


def test_advice_is_the_word_that_is_near_or_all_there_are():
    assert advice("latncy", ["gap", "latency"]) == "did you mean latency?"
    assert advice("xyz", ["gap", "latency"]) == "known: gap, latency"
    assert close_match("l" * 101, ["l" * 100]) is None


def test_what_a_terminal_would_obey_is_written_as_an_escape() -> None:
    """Names come from programs and machine files of others."""
    sent = "\x1b]0;title\x07\x1b[31mred \x9b31m ü\ttab\nline\r\x00\x7f"
    shown = r"\x1b]0;title\x07\x1b[31mred \x9b31m ü" "\ttab\nline" r"\x0d\x00\x7f"
    assert visible(sent) == shown
    assert str(ConfigError(sent)) == shown
    assert str(Finding("ResourceLeak", "a.py", 1, sent)) == f"a.py:1: ResourceLeak: {shown}"
    result = make_result(report=sent, warnings=[sent])
    assert (result.report, result.warnings) == (shown, [shown])
    assert shown in Table("t", {"name": [sent]}).to_text()
