"""YAML is read within limits, and means what every reader of YAML takes it for."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.config.document import plain_values, read_yaml, yaml_text
from xsim_py.config.entries import Entry, Problem, from_python
from xsim_py.errors import ConfigError


def read(text: str) -> tuple[Entry, list[Problem]]:
    problems: list[Problem] = []
    return read_yaml(text, name="f", folder=Path(), problems=problems), problems


def plain(entry: Entry) -> object:
    if isinstance(entry.value, dict):
        return {key: plain(item) for key, item in entry.value.items()}
    return [plain(item) for item in entry.value] if isinstance(entry.value, list) else entry.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(text, int(text)) for text in ("0", "-7", "+7", "123")],
        *[(text, float(text)) for text in ("1.5", ".5", "1.", "-1.5e-3", "1.5e+300")],
        *[(text, text) for text in ("yes", "No", "on", "OFF", "y", "010", "0o10", "0x10", "0b1", "1_000", "1:30")],
        *[(text, text) for text in ("1:30.5", "1_0.5", "1e3", "2026-11-22", "=", "<<", "1__", "0x", "9" * 101)],
        *[(text, text.lower() == "true") for text in ("true", "False", "TRUE")],
        *[(text, None) for text in ("null", "~", "Null", "")],
        (".inf", float("inf")),
        ("-.INF", -float("inf")),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("!!int '5'", 5),
        ("!!int x", "x"),
        ("!!float '0x1'", "0x1"),
        ("!!bool x", "x"),
        ("!!python/name:os.system x", "x"),
    ],
)
def test_a_scalar_is_what_all_versions_of_yaml_say_and_else_text(text: str, value: object) -> None:
    entry, problems = read(f"key: {text}")
    assert not problems
    assert (plain(entry), type(entry.value["key"].value)) == ({"key": value}, type(value))


def test_aliases_repeat_what_has_been_said() -> None:
    entry, problems = read("a: &x [1, &y {b: 2}]\nc: *x\nd: *y\n? *z\n: 3")
    assert [str(problem) for problem in problems] == ["f:4:3: not YAML: found undefined alias"]
    entry, problems = read("a: &x [1, &y {b: 2}]\nc: *x\nd: *y\n")
    assert plain(entry) == {"a": [1, {"b": 2}], "c": [1, {"b": 2}], "d": {"b": 2}}
    assert not problems


LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))


@pytest.mark.sampled
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 20_000, ": nested more than 64 levels deep"),  # where depends on the version of libyaml
        ("network: " + "{a: " * 5_000 + "1" + "}" * 5_000, "f:1:262: nested more than 64 levels deep"),
        ("- " * 20_000, "f:1:129: nested more than 64 levels deep"),
        ("? " * 20_000, "f:1:129: nested more than 64 levels deep"),
        ("a0: &a0 []\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 5_000)), "64 levels deep"),
        ("? &a0 []\n: 1\n" + "".join(f"? &a{i} [*a{i - 1}]\n: 1\n" for i in range(1, 5_000)), "a key must be a name"),
        (LAUGHS, "f:15:6: too many values (more than 100,000, aliases included)"),
        ("[" + "1," * 110_000 + "]", "f:1:1: too many values (more than 100,000, aliases included)"),
        ("a: \udcff", "f:1:1: not YAML: invalid UTF-8"),
    ],
)
def test_what_no_description_needs_is_refused_at_once(text: str, said: str) -> None:
    gc.collect()
    gc.freeze()  # what other tests have left in memory would be looked through again and again
    began_s = time.process_time()
    _, problems = read(text)
    took_s = time.process_time() - began_s
    gc.unfreeze()
    assert took_s < 3
    assert said in str(problems[0])


def test_python_values_have_the_same_limits() -> None:
    inside_itself: dict[str, object] = {}
    inside_itself["a"] = inside_itself
    with pytest.raises(ConfigError, match="nested more than 64 levels deep"):
        from_python(inside_itself)
    with pytest.raises(ConfigError, match="machine description: number too large"):
        from_python({"a": [10**6000]})


SCALARS = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text()


@given(st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)))
def test_what_is_written_as_yaml_is_read_as_the_same(value):
    problems: list[Problem] = []
    written = yaml_text({"entry": plain_values(from_python(value))})
    again = read_yaml(written, name="", folder=Path(), problems=problems)
    assert not problems
    assert plain_values(again) == {"entry": value}
