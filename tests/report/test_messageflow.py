"""Message-flow diagrams, in words and as pictures."""

from pathlib import Path

import pytest

from xsim_py.errors import ConfigError
from xsim_py.report.messageflow import Arrow, MessageFlow

FLOW = MessageFlow(
    nodes=3,
    title="Reduce",
    arrows=[
        Arrow("DATA", 2, 0, 0, 11, 11),
        Arrow("ACK", 0, 12, 2, 13, 13),
        Arrow("KEEPALIVE", 0, 13, 1, 14, None),
    ],
    deaths={1: 0},
    starts={0: 3},
    finishes={2: 1, 0: 37},
    learned=[(37, 0, 1)],
    end=37,
)


def test_a_line_for_each_step_in_which_something_happens():
    assert FLOW.text().splitlines() == [
        "Reduce",
        " 0  1 is dead; 2 sends DATA to 0",
        " 1  2 is finished",
        " 3  0 begins",
        "11  0 takes DATA from 2",
        "12  0 sends ACK to 2",
        "13  0 sends KEEPALIVE to 1; 2 takes ACK from 0",
        "37  0 learns that 1 is dead; 0 is finished",
    ]


def test_long_lines_go_on_in_the_next():
    lines = MessageFlow(nodes=9, arrows=[Arrow("DATA", node, 0, 0, 11, None) for node in range(1, 9)]).text(width=50)
    assert all(len(line) <= 50 for line in lines.splitlines())
    assert all(line.startswith("    ") for line in lines.splitlines()[1:]) or lines.splitlines()[1].startswith("   ")
    assert lines.count("sends") == 8


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_is_drawn(tmp_path: Path, ending: str):
    FLOW.draw(tmp_path / f"flow.{ending}")
    assert (tmp_path / f"flow.{ending}").stat().st_size > 2000


def test_the_picture_explains_what_is_in_it(tmp_path: Path):
    FLOW.draw(tmp_path / "flow.svg")
    drawn = (tmp_path / "flow.svg").read_text(encoding="utf-8")
    for word in ("DATA", "KEEPALIVE", "ACK", "dead", "lost", "learns of a death", "1 is dead"):
        assert f">{word}</text>" in drawn
    MessageFlow(nodes=2, arrows=[Arrow("DATA", 1, 0, 0, 11, 11)], end=11).draw(tmp_path / "flow.svg")
    assert "KEEPALIVE" not in (tmp_path / "flow.svg").read_text(encoding="utf-8")


def test_a_picture_has_a_name_that_says_its_format(tmp_path: Path):
    with pytest.raises(ConfigError, match="ends with"):
        FLOW.draw(tmp_path / "flow.txt")
