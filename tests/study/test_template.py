from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.study.template import Template, text_of

VALUES = {
    "ranks": 64,
    "steps": 10,
    "share": 0.5,
    "name": "gige",
    "on": True,
    "words": ["a", "b"],
    "network.latency": 5,
    "long": "x" * 60_000,
}


def fill(text: str):
    return Template(text).fill(VALUES.__getitem__)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("", ""),
        ("--steps={steps}", "--steps=10"),
        ("{ranks}x{ steps }", "64x10"),
        ("{on}", True),
        ("is {on}", "is true"),
        ("{words}", ["a", "b"]),
        ("{network.latency}us", "5us"),
        ("{{{name}}}", "{gige}"),
        ("{{}}", "{}"),
        ("rank={ranks // 2}@1ms", "rank=32@1ms"),
        ("{ranks / 2}", 32),
        ("{ranks / 3 * 3}", 64),
        ("{steps / 4}", 2.5),
        ("{-ranks + steps % 4 - 1}", -63),
        ("{share * 2}", 1.0),
        ("{ranks * share}", 32.0),
    ],
)
def test_expressions_give_way_to_their_values(text, filled):
    result = fill(text)
    assert (result, type(result)) == (filled, type(filled))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "a { without its }"),
        ("a } b", "a } without its {; write }}"),
        ("{}", "empty braces"),
        ("{ranks +}", "neither a variable nor arithmetic"),
        ("{open('x')}", "neither a variable nor arithmetic"),
        ("{ranks ** 9}", "neither a variable nor arithmetic"),
        ("{[1][0]}", "neither a variable nor arithmetic"),
        ("{'text'}", "neither a variable nor arithmetic"),
        ("{True}", "neither a variable nor arithmetic"),
        ("{().a}", "neither a variable nor arithmetic"),
        ("{name * 2}", "counts with name, which is 'gige' and no number"),
        ("{on + 1}", "counts with on, which is True and no number"),
        ("{ranks // (steps - 10)}", "divides by zero"),
        ("{" + "9" * 400 + "}", "is beyond all numbers"),
        ("{" + "9" * 5000 + "}", "neither a variable nor arithmetic"),
        ("{" + "*".join(["9" * 200] * 4) + "}", "is beyond all numbers"),
        ("{1e300 * 1e300}", "is beyond all numbers"),
        ("{" + "-" * 60 + "1}", "neither a variable nor arithmetic"),
        ("{" + "+".join(["1"] * 60) + "}", "neither a variable nor arithmetic"),
        ("{long} {long}", "is too long when filled in (at most 100,000 characters)"),
        ("a {words}", "is a list, which cannot be part of"),
    ],
)
def test_what_cannot_be_filled_in_is_refused_with_a_reason(text, complaint):
    with pytest.raises(ValueError, match=r".") as caught:
        fill(text)
    assert complaint in str(caught.value)


def test_names_are_those_of_all_expressions():
    assert Template("{a}-{b.c + 2 * a}-{{d}}").names == {"a", "b.c"}


@given(st.text(max_size=20))
def test_any_text_with_its_braces_doubled_stays_as_it_is(text):
    assert Template(text.replace("{", "{{").replace("}", "}}")).fill(VALUES.__getitem__) == text


@given(st.text(alphabet="{}ab+-*/%. 012()", max_size=12))
def test_any_text_is_filled_in_or_refused(text):
    with suppress(ValueError):
        template = Template(text)
        if template.names <= {"a", "b", "ab"}:
            assert isinstance(template.fill({"a": 3, "b": 2, "ab": 1}.__getitem__), int | float | str)


def test_truth_is_written_as_in_yaml():
    assert [text_of(value) for value in (True, False, 1, 2.5, "x")] == ["true", "false", "1", "2.5", "x"]
