import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib import image
from matplotlib.figure import Figure

from xsim_py.errors import ConfigError
from xsim_py.report.chart import Chart, Series
from xsim_py.report.ruler import Ruler


def chart(*lines: Series, **changes: Any) -> Chart:
    return Chart(title="title", x_label="ranks", y_label="time [s]", lines=lines, **changes)


def line(x: list, y: list, number: int = 0, errors: list | None = None) -> Series:
    return Series(f"line {number}", x, y, errors or [0.0] * len(y), colour=number, dashes=number % 3)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("picture", "changes"),
    [
        ([line([1, 2, 4], [1.0, 2.0, 3.0])], {}),
        ([line([4, 8, 32768], [1.0, 2.0, 3000.0], errors=[0.1, 0.2, 3.0])], {"x_scale": "log2", "y_scale": "log"}),
        ([line([0, 8], [0.0, 2.0])], {"x_scale": "log2", "y_scale": "log"}),
        ([line(["small", "large"], [1.0, 2.0]), line(["large", 5], [2.0, 1.0], 1)], {"x_scale": "log"}),
        ([line([1], [1.0])], {"x_scale": "log", "y_scale": "log2"}),
    ],
)
def test_any_lines_make_a_picture(tmp_path, picture: list[Series], changes: dict[str, Any]):
    height, width = drawn(tmp_path, chart(*picture, **changes))
    assert height == 690
    assert (width == 1080) == (len(picture) == 1)


def drawn(folder: Path, picture: Chart) -> tuple[int, ...]:
    picture.draw(folder / "c.png")
    return image.imread(folder / "c.png").shape[:2]


def figure_of(picture: Chart) -> Figure:
    """Return what a chart would write."""
    figure = picture.draw()
    figure.draw_without_rendering()
    return figure


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("lines", "words", "beside"), [(2, 1, True), (12, 1, True), (12, 9, False), (40, 1, False), (3, 40, False)]
)
def test_a_legend_stands_outside_and_leaves_the_axes_their_room(lines, words, beside: bool):
    named = [Series(f"line {number} " * words, [1, 2], [1.0, 2.0], [0.0, 0.0], number, 0) for number in range(lines)]
    figure = figure_of(chart(*named, legend="width,\nheight"))
    axes, legend = figure.axes[0].get_window_extent(), figure.legends[0].get_window_extent()
    assert not axes.overlaps(legend)
    assert (axes.width > 0.8 * 1080, axes.height > 0.7 * 690) == (True, True)
    assert (legend.x0 > axes.x1) == beside
    assert figure.legends[0].get_title().get_text() == "width,\nheight"


@pytest.mark.parametrize("kinds", [(12, 1), (1, 12), (3, 4), (2, 6)])
def test_a_dozen_lines_are_told_apart_without_their_colours_where_one_thing_differs(kinds):
    colours, dashes = kinds
    lines = [Series("", [1, 2], [1.0, 2.0], [0, 0], c, d) for c in range(colours) for d in range(dashes)]
    axes = figure_of(chart(*lines)).axes[0]
    strokes = [(line.get_marker(), line._dash_pattern) for line in axes.lines if line.get_linestyle() != "None"]
    looks = [(line.get_color(), *stroke) for line, stroke in zip(axes.lines, strokes, strict=True)]
    assert len(set(map(str, looks))) == 12
    assert len({str(marker) for marker, _ in strokes}) == (dashes if dashes > 1 else 12)


@pytest.mark.parametrize(
    ("values", "scale", "ticks"),
    [
        (["0.5us", "1us", "2us", "5us"], "log", ["0.5 us", "1 us", "2 us", "5 us"]),
        (["0.5us", "1us", "2us", "5us"], "linear", ["0", "1 us", "2 us", "3 us", "4 us", "5 us", "6 us"]),
        (["64B", "1KiB", "64KiB", "1MiB"], "log2", ["64 B", "1 KiB", "64 KiB", "1 MiB"]),
        ([1, 10, 1000], "log", ["1", "10", "1,000"]),
    ],
)
def test_values_with_units_stand_at_their_places_with_ticks_in_these_units(values, scale, ticks):
    ruler = Ruler.of(values)
    assert ruler is not None
    x = [ruler.place(value) for value in values]
    axes = figure_of(chart(line(x, [1.0] * len(x)), x_scale=scale, ruler=ruler)).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ticks
    assert axes.get_xscale() == ("linear" if scale == "linear" else "log")


def test_ticks_of_a_logarithmic_axis_leave_room_for_each_other():
    axes = figure_of(chart(line([64, 65, 66, 128, 512], [1.0] * 5), x_scale="log2")).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["64", "128", "512"]


def test_zero_has_no_place_on_a_logarithmic_axis_and_is_counted():
    lost = chart(line([0, 1, 2], [1.0, 0.0, 2.0]), x_scale="log", y_scale="log")
    assert lost.omitted_values() == 2
    axes = figure_of(lost).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [list(drawn.get_xdata()) for drawn in axes.lines] == [[2]]
    assert chart(line(["a"], [0.0]), x_scale="log").omitted_values() == 0


def test_says_how_to_get_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xsim_py.report.figure", None)
    with pytest.raises(ConfigError, match=r"pip install 'xsim-py\[plot\]'"):
        chart(line([1], [1.0])).draw(tmp_path / "c.png")
