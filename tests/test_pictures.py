"""The pictures of the documentation show what their commands draw today."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from tests import pictures
from tests.campaign import CAMPAIGN
from tests.doc_blocks import PAGES
from tests.pictures import COMMANDS, DRAWN_BY_A_BROWSER, PICTURES, Made, is_cheap, names, stale, together
from xsim_py.report.figure import save
from xsim_py.report.shown import digest_in, digest_of


def test_every_picture_is_in_a_page_and_is_known_how_to_be_made():
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in names() if f"pictures/{name}.png" not in pages] == []
    assert names() == sorted((*COMMANDS, *DRAWN_BY_A_BROWSER))


@pytest.mark.parametrize("wanted", together(name for name in names() if name not in DRAWN_BY_A_BROWSER), ids="+".join)
def test_a_picture_shows_what_is_drawn_today(wanted: list[str]):
    if CAMPAIGN or is_cheap(wanted[0]):
        assert stale(wanted) == []


@pytest.fixture
def documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of pictures of which one command makes two, old and without a digest, and a file with a line a run."""
    drawn().savefig(tmp_path / "a.png")
    drawn().savefig(tmp_path / "b.png")
    save(drawn(), tmp_path / "today.png")
    command = f"echo made >> {tmp_path}/runs; for name in a b; do cp {tmp_path}/today.png $name.png; done"
    monkeypatch.setattr(pictures, "PICTURES", tmp_path)
    monkeypatch.setattr(pictures, "COMMANDS", {name: Made(command, f"{name}.png") for name in ("a", "b")})
    (tmp_path / "runs").touch()
    return tmp_path


def test_a_picture_without_a_digest_is_said_to_have_none_and_is_not_made(documented: Path):
    said = "docs/pictures/{0}.png was never drawn with a digest of what it shows: python -m tests.pictures --write {0}"
    assert stale(["a", "b"]) == [said.format("a"), said.format("b")]
    assert (documented / "runs").read_text() == ""


def test_one_run_of_a_command_makes_all_its_pictures(documented: Path):
    assert together(["a", "b"]) == [["a", "b"]]
    stale(["a", "b"], write=True)
    assert (documented / "runs").read_text() == "made\n"
    assert stale(["a", "b"]) == []
    save(drawn(y=[1, 2, 4]), documented / "b.png")
    assert stale(["a", "b"]) == ["docs/pictures/b.png shows something else today: python -m tests.pictures --write b"]


# ------------------------------------------------------------------------------------------------ what a picture shows


def drawn(**other: Any) -> Figure:
    told: dict[str, Any] = {
        "y": [1, 2, 3],
        "label": "GigE",
        "color": "red",
        "title": "time",
        "x_label": "ranks",
        "bar": 4,
    }
    told |= other
    figure = Figure(dpi=told.get("dpi", 100))
    axes = figure.add_subplot()
    axes.plot([1, 2, 3], told["y"], label=told["label"], color=told["color"])
    axes.bar([1, 2], [told["bar"], 3])
    axes.scatter([1, 2], [3, told.get("point", 4)])
    axes.imshow([[0, 1], [told.get("pixel", 2), 3]])
    axes.set_title(told["title"])
    axes.set_xlabel(told["x_label"])
    axes.set_xscale(told.get("scale", "linear"))
    axes.text(1, 1, told.get("text", "here"))
    axes.legend()
    return figure


def test_two_pictures_of_the_same_data_have_one_digest():
    assert digest_of(drawn()) == digest_of(drawn(dpi=50)) == digest_of(drawn(y=[1, 2, 3 + 1e-9]))


@pytest.mark.parametrize(
    "other",
    [
        *({"y": [1, 2, 3.001]}, {"label": "SHMEM"}, {"color": "blue"}, {"title": "times"}, {"x_label": "processes"}),
        *({"bar": 5}, {"point": 5}, {"pixel": 4}, {"scale": "log"}, {"text": "there"}),
    ],
)
def test_a_picture_that_shows_something_else_has_another_digest(other: dict[str, Any]):
    assert digest_of(drawn(**other)) != digest_of(drawn())


def test_a_png_file_carries_the_digest_of_what_it_shows(tmp_path: Path):
    save(drawn(), tmp_path / "a.png")
    assert digest_in(tmp_path / "a.png") == digest_of(drawn())
    drawn().savefig(tmp_path / "b.png")
    assert digest_in(tmp_path / "b.png") is None
    save(drawn(), tmp_path / "c.svg")
    assert PICTURES.is_dir()
