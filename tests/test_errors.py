"""Messages that quote what somebody wrote stay readable, however much that was."""

from __future__ import annotations

import pickle

from xsim_py.errors import ConfigError, shortened


def test_a_long_line_keeps_its_beginning_and_its_end() -> None:
    said = str(ConfigError(f"m.yaml:1:7: name: {'x' * 200_000} is not text; put it in quotes"))
    assert len(said) < 1000
    assert said.startswith("m.yaml:1:7: name: xxx")
    assert f"... ({200_000 + 48 - 900:,} characters) ..." in said
    assert said.endswith("x is not text; put it in quotes")


def test_of_many_lines_the_last_are_counted() -> None:
    said = str(ConfigError("\n".join(map(str, range(5000))))).split("\n")
    assert said == [*map(str, range(100)), "... and 4,900 more"]


def test_what_is_short_stays_as_it_is_and_so_does_what_was_shortened() -> None:
    assert shortened("a\nb") == "a\nb"
    once = shortened("\n".join(["x" * 3000] * 3000))
    assert shortened(once) == once
    error = ConfigError(once)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
