"""Every kind of figure fits one and two columns of a journal: nothing overlaps, nothing is cut off, the data are right.

Text is measured by matplotlib's renderer.
"""

from functools import cache
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from tests.campaign import CAMPAIGN
from tests.report.figures import KINDS, US, pairs_table, speedup_lines, waits_table
from xsim_py.errors import ConfigError
from xsim_py.report.figure import crowded, save, visible_ticks
from xsim_py.report.pairs import matrix
from xsim_py.report.style import Look, new_figure
from xsim_py.report.waits import PART_NAMES, PARTS

MARGIN = 1.0  # pixels


def laid_out(figure: Figure) -> Figure:
    figure.draw_without_rendering()
    return figure


@cache
def drawn(kind: str, columns: int = 1) -> Figure:
    """Return a figure that several tests look at, and none changes."""
    return laid_out(KINDS[kind](Look(columns=columns, font="serif" if columns == 1 else "sans-serif")))


def every_axes(figure: Figure) -> list:
    return [each for axes in figure.axes for each in (axes, *axes.child_axes)]


def texts(figure: Figure) -> list:
    """Return titles, labels, tick labels and legends in sight."""
    found = [*figure.texts, *figure.legends]
    for axes in every_axes(figure):
        found += (
            [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label] if axes.axison else [axes._left_title]
        )
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            found += [label for _, label in visible_ticks(axis)]
    return [text for text in found if text.get_visible() and text.get_window_extent().width > 0]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "columns"),
    [*product(KINDS, [1]), *[*product(KINDS, [2])][:: 1 if CAMPAIGN else 7]],
)
def test_nothing_overlaps_and_nothing_is_cut_off(kind: str, columns: int):
    figure = drawn(kind, columns)
    width, height = figure.bbox.size
    assert width / figure.dpi == pytest.approx({1: 3.5, 2: 7.2}[columns])
    for text in texts(figure):
        box = text.get_window_extent()
        inside = box.x0 > -MARGIN and box.y0 > -MARGIN and box.x1 < width + MARGIN and box.y1 < height + MARGIN
        assert inside, (getattr(text, "get_text", str)(), box.extents, (width, height))
    for axes in every_axes(figure):
        assert not axes.axison or not any(crowded(axis) for axis in (axes.xaxis, axes.yaxis)), axes
    _check_legends(figure)
    _check_titles(figure)
    if kind == "machine":
        names = [name.get_window_extent() for name in figure.axes[0].texts if name.get_visible()]
        assert len(names) > 12
        assert not any(one.overlaps(other) for at, one in enumerate(names) for other in names[at + 1 :])


def _check_legends(figure: Figure) -> None:
    for legend in figure.legends:
        box = legend.get_window_extent()
        assert not any(box.overlaps(axes.get_window_extent().shrunk(0.99, 0.99)) for axes in figure.axes)
        others = [text.get_window_extent() for text in texts(figure) if text is not legend]
        assert not any(box.overlaps(each) for each in others)
        assert box.width < 0.25 * figure.bbox.width or box.y1 < min(axes.bbox.y0 for axes in figure.axes)


def _check_titles(figure: Figure) -> None:
    """Titles and labels keep clear of tick labels, and of each other."""
    for axes in every_axes(figure):
        if axes.axison:
            own = [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
            boxes = [text.get_window_extent() for text in own if text.get_text()]
            ticks = [label.get_window_extent() for axis in (axes.xaxis, axes.yaxis) for _, label in visible_ticks(axis)]
            assert not any(box.overlaps(tick) for box in boxes for tick in ticks if tick.width)
            assert not any(one.overlaps(other) for at, one in enumerate(boxes) for other in boxes[at + 1 :])


def test_data_take_most_of_a_column():
    for kind in ("timeline", "waits", "few_lines", "speedup"):
        figure = drawn(kind)
        assert figure.axes[0].bbox.width > 0.7 * figure.bbox.width, kind
        assert figure.axes[0].bbox.height > 0.3 * figure.bbox.height, kind


# ------------------------------------------------------------------------------------------------------------- data


def test_bars_are_the_table():
    axes = drawn("waits").axes[0]
    table = waits_table()
    bars = {container.get_label(): [bar.get_height() for bar in container] for container in axes.containers}
    assert bars == {PART_NAMES[name]: pytest.approx([1e6 * s for s in table[f"{name}_s"]]) for name in PARTS}


def test_a_matrix_is_the_table():
    (image,) = drawn("pairs").axes[0].images
    assert (np.ma.filled(image.get_array(), 0) == matrix(pairs_table(), ranks=64)).all()


def test_lines_are_the_table_with_a_marker_each_and_an_ideal_without():
    axes = drawn("speedup").axes[0]
    wanted = {line.label: list(zip(line.x, line.y, strict=True)) for line in speedup_lines()}
    found = {container.get_label(): container.lines[0] for container in axes.containers}
    found |= {line.get_label(): line for line in axes.lines if line.get_label() == "ideal"}
    assert {label: [tuple(point) for point in line.get_xydata()] for label, line in found.items()} == wanted
    assert found.pop("ideal").get_marker() == "None"
    assert len({line.get_marker() for line in found.values()}) == len(found)


def test_a_timeline_is_the_trace():
    axes = drawn("timeline").axes[0]
    (image,) = axes.images
    array = np.asarray(image.get_array())
    colours = {entry.get_text(): to_hex(patch.get_facecolor()) for entry, patch in _patches(axes.figure)}
    at = {name: [to_hex(colour) for colour in image.cmap.colors].index(colours[name]) for name in ("Isend", "Waitall")}
    slice_ps = 240 * US / array.shape[1]
    row = array[8 * 2 + 4]  # rank 2, of eight lines per rank
    for name in at:
        assert (row == at[name]).sum() * slice_ps == pytest.approx(6 * 6 * US, rel=0.02)


def _patches(figure: Figure) -> list:
    (legend,) = figure.legends
    return [
        (entry, handle)
        for entry, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)
        if hasattr(handle, "get_facecolor")
    ]


# ------------------------------------------------------------------------------------------------------------- looks


def test_texts_and_legends_are_as_they_are_asked_for():
    look = Look(title="Another", labels=("n", "T [s]"), legend="none")
    axes = KINDS["few_lines"](look).axes[0]
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("Another", "n", "T [s]")
    assert axes.figure.legends == []
    bare = KINDS["waits"](Look(title="", legend="below", size=(5, 4)))
    assert bare.axes[0].get_title("left") == ""
    assert tuple(bare.get_size_inches()) == (5, 4)
    assert laid_out(bare).legends[0].get_window_extent().y1 < bare.axes[0].bbox.y0


def test_a_size_without_room_for_the_axes_is_refused():
    with pytest.raises(ConfigError, match="no room for the axes in 1 x 1 inches; use a larger size"):
        KINDS["lines"](Look(size=(1, 1)))


def test_one_look_over_another():
    study = Look(size=(7, 3), font="serif", legend="below")
    assert Look(columns=1).over(study) == Look(columns=1, font="serif", legend="below")
    assert Look(font="monospace").over(study) == Look(size=(7, 3), font="monospace", legend="below")
    assert Look().over(study) == study


def test_files_have_text_as_text_and_are_small(tmp_path: Path):
    figure = KINDS["few_lines"](Look(columns=1))
    for ending in ("png", "svg", "pdf"):
        save(figure, tmp_path / f"a.{ending}")
    assert ">message size</text>" in (tmp_path / "a.svg").read_text()
    assert b"/FontType 42" in (tmp_path / "a.pdf").read_bytes() or b"CIDFontType2" in (tmp_path / "a.pdf").read_bytes()
    with Image.open(tmp_path / "a.png") as image:
        assert image.mode == "P"
    assert (tmp_path / "a.png").stat().st_size < 20_000


def test_a_notebook_shows_a_figure():
    assert KINDS["few_lines"](Look())._repr_png_().startswith(b"\x89PNG")


def test_ticks_that_would_touch_are_dropped_and_names_are_turned():
    from xsim_py.report.figure import Names, fit

    figure = new_figure(1.5, 1.5)
    axes = figure.subplots()
    axes.set_xticks(range(0, 40_000, 1000))
    axes.set_xlim(0, 40_000)
    fit(figure, grows=False)
    places = [place for place, _ in visible_ticks(axes.xaxis)]
    assert 2 <= len(places) < 10
    assert len({right - left for left, right in pairwise(places)}) == 1
    axes.set_xticks(range(4))
    axes.xaxis.set_major_formatter(Names(["a long name", "another name", "a third name", "the last name"]))
    axes.set_xlim(-0.5, 3.5)
    fit(figure, grows=False)
    assert [label.get_text() for _, label in visible_ticks(axes.xaxis)][-1] == "the last name"
    assert axes.get_xticklabels()[0].get_rotation() in (30, 90)
