"""A figure that fits its size: wrapped titles, spaced ticks, and text as text in files.

matplotlib's constrained layout makes room for axes, ticks and legends, but neither shortens a title nor drops a tick.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter, FixedLocator, LogLocator

from xsim_py.atomic_files import atomic_path
from xsim_py.errors import ConfigError
from xsim_py.report import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axis import Axis

_SAVED: Final[dict[Any, Any]] = {
    "pdf.fonttype": 42,  # text that can be searched and edited, as publishers require
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "text.parse_math": False,
}
_UNDATED: Final[dict[str, dict[str, None]]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
_ROOM: Final = 0.98  # of the figure, for a line of text
_FEWEST_LETTERS: Final = 8  # of a wrapped line
_LINE: Final = 1.25  # from one line of text to the next, in font sizes
_GAP: Final = 0.4  # between two tick labels, in font sizes
_ANGLES: Final = (0, 30, 90)  # of names along the x axis


class Names(FixedFormatter):
    """Tick labels that cannot be dropped, because each is a name."""


class Picture(Figure):
    """A figure that notebooks display, and that `save` writes."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        FigureCanvasAgg(self)  # otherwise each layout prepares a file

    def savefig(self, fname: Any, **settings: Any) -> None:
        """Save the figure; PDF and SVG files contain text as text."""
        with rc_context(_SAVED):
            super().savefig(fname, **settings)

    def _repr_png_(self) -> bytes:
        return _png(self)


def save(figure: Figure, target: str | Path) -> None:
    """Write a figure atomically, in the format of the suffix; a PNG file contains its digest."""
    suffix = Path(target).suffix.lower()
    without_formulas(figure)
    with atomic_path(target) as path:
        if suffix == ".png":
            path.write_bytes(_png(figure))
        else:
            with rc_context(_SAVED):
                figure.savefig(path, metadata=_UNDATED.get(suffix))


def without_formulas(figure: Figure) -> None:
    """Show texts as they are: names may contain dollar signs, which would start a formula."""
    for text in figure.findobj(Text):
        text.set_parse_math(False)


def _png(figure: Figure) -> bytes:
    """Return a small PNG image: one byte per pixel, which the colours of our figures allow."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    canvas: Any = FigureCanvasAgg(figure)
    with rc_context(_SAVED):
        canvas.draw()
    drawn = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
    image = drawn.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    info = PngInfo()
    info.add_text(shown.KEY, shown.digest_of(figure))
    small = io.BytesIO()
    image.save(small, "png", pnginfo=info, dpi=(figure.dpi, figure.dpi))
    return small.getvalue()


# ------------------------------------------------------------------------------------------------- what has to fit


def fit(figure: Figure, *, grows: bool) -> None:
    """Wrap titles and labels, and thin out ticks, until nothing overlaps or is cut off.

    The figure is complete, with constrained layout. If it `grows`, its height increases for each further line of a
    title, so that the axes keep theirs. Raise ConfigError if the size leaves no room for the axes.
    """
    without_formulas(figure)
    _lay_out(figure)
    lines = [wrap(text, room, least=_FEWEST_LETTERS) for text, room in _texts(figure)]
    if grows and any(lines):
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + max(lines))
    for _ in range(4):
        _lay_out(figure)
        if not [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) if _give_room(axis)]:
            break
    without_formulas(figure)


def _lay_out(figure: Figure) -> None:
    engine = figure.get_layout_engine()
    if engine is not None:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "constrained_layout not applied")
            try:
                engine.execute(figure)
            except UserWarning:
                width, height = figure.get_size_inches()
                advice = "use a larger size, a smaller font_size, or legend=none"
                raise ConfigError(f"no room for the axes in {width:g} x {height:g} inches; {advice}") from None
    for axes in figure.axes:
        axes.apply_aspect()


def _texts(figure: Figure) -> Iterator[tuple[Text, float]]:
    """Yield titles and labels with the available pixels, up to a legend to the right."""
    width, height = figure.bbox.width, figure.bbox.height
    ends = [axes.get_window_extent().x1 for axes in figure.axes]
    legends = [legend.get_window_extent().x0 for legend in figure.legends]
    width = min([width, *(left for left in legends if left >= max(ends, default=width) - 1)])
    if figure.get_suptitle():
        yield figure._suptitle, _ROOM * width  # type: ignore[attr-defined]
    for axes in figure.axes:
        for parent in (axes, *axes.child_axes):  # colour bars
            yield from _axes_texts(parent, width, height)


def _axes_texts(axes: Any, width: float, height: float) -> Iterator[tuple[Text, float]]:
    box, spec = axes.get_window_extent(), axes.get_subplotspec()
    middle = (box.x0 + box.x1) / 2
    across = 2 * min(middle, width - middle)
    several = spec is not None and spec.get_gridspec().ncols > 1
    yield axes.title, box.width if several else _ROOM * across
    yield axes._left_title, box.width if several else _ROOM * width - box.x0
    yield axes.xaxis.label, box.width if several else _ROOM * across
    middle = (box.y0 + box.y1) / 2
    yield axes.yaxis.label, _ROOM * 2 * min(middle, height - middle)


def wrap(text: Text, room: float, *, least: int = 1) -> float:
    """Wrap a text to the available pixels, and return its growth across in inches."""
    whole = text.get_text()
    letters = max(map(len, whole.split("\n")), default=0)
    while letters > least and (long := _length(text)) > room:
        letters = max(min(int(letters * room / long), letters - 1), least)
        text.set_text("\n".join(textwrap.fill(line, letters) for line in whole.split("\n")))
    return (text.get_text().count("\n") - whole.count("\n")) * _LINE * float(text.get_fontsize()) / 72


def _length(text: Text) -> float:
    box = text.get_window_extent()
    return box.height if text.get_rotation() % 180 == 90 else box.width


# ------------------------------------------------------------------------------------------------------------ ticks


def crowded(axis: Axis) -> bool:
    """Return True if two tick labels of an axis overlap, or nearly touch."""
    along = 0 if _is_x(axis) else 1
    labels = [label for _, label in visible_ticks(axis) if label.get_text()]
    if len(labels) < 2:
        return False
    em = float(labels[0].get_fontsize()) * axis.figure.dpi / 72
    boxes = [label.get_window_extent() for label in labels]
    if along == 0 and labels[0].get_rotation() % 90:
        ends = sorted(box.x1 for box in boxes)
        return any(right - left < 2 * em for left, right in pairwise(ends))  # 1 / sin(30 degrees)
    spans = sorted((box.x0, box.x1) if along == 0 else (box.y0, box.y1) for box in boxes)
    gap = 0.0 if along or labels[0].get_rotation() else _GAP * em
    return any(end + gap > start for (_, end), (start, _) in pairwise(spans))


def visible_ticks(axis: Axis) -> list[tuple[float, Text]]:
    """Return the locations and labels of the visible major ticks."""
    low, high = sorted(axis.get_view_interval())
    margin = 1e-9 * (high - low)
    found = []
    for tick in axis.get_major_ticks(len(axis.get_majorticklocs())):
        label = next((each for each in (tick.label1, tick.label2) if each.get_visible()), None)
        if label is not None and low - margin <= tick.get_loc() <= high + margin:
            found.append((float(tick.get_loc()), label))
    return found


def _give_room(axis: Axis) -> bool:
    """Rotate names, or drop labels of numbers, if they overlap; return True if anything changed."""
    axis.get_majorticklabels()  # updates the ticks
    if not axis.get_visible() or not crowded(axis):
        return False
    ticks = visible_ticks(axis)
    if isinstance(axis.get_major_formatter(), Names):
        return _is_x(axis) and _turn(axis)
    powers = [tick for tick in ticks if f"{tick[0]:e}".startswith("1.000000e")]
    kept = powers if isinstance(axis.get_major_locator(), LogLocator) and 2 <= len(powers) < len(ticks) else ticks[::2]
    axis.set_major_locator(FixedLocator([place for place, _ in kept]))
    return len(kept) < len(ticks)


def _is_x(axis: Axis) -> bool:
    return axis is axis.axes.xaxis


def _turn(axis: Axis) -> bool:
    """Rotate the names along an x axis to the next angle."""
    labels = axis.get_majorticklabels()
    further = [angle for angle in _ANGLES if angle > labels[0].get_rotation()]
    for label in labels if further else ():
        label.set(rotation=further[0], ha="right", rotation_mode="anchor", va="center" if further[0] == 90 else "top")
    return bool(further)
