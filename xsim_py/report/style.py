"""The common style of all figures: size, text, colours, legends and ticks."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xsim_py.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from xsim_py.report.figure import Picture

# Okabe and Ito's palette, which is safe for colour-blind readers, without its yellow (too light for a line).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
# Further lines use colours closer to those, with different markers and dashes.
LINE_COLOURS = (*COLOURS, "#882255", "#332288", "#999933", "#8C564B", "#888888")
MARKERS = "osD^vPX<>p*d"
DASHES: tuple[Any, ...] = (
    "-",
    "--",
    ":",
    "-.",
    (0, (8, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (1, 3)),
    (0, (8, 2, 2, 2)),
    (0, (3, 3)),
    (0, (5, 1, 1, 1, 1, 1, 1, 1)),
    (0, (12, 3)),
    (0, (2, 1)),
)
INK = "#333333"

_MOST_TICKS = 9
_MOST_STEPS = 12  # between ticks at multiples of a rank step
_MOST_ROWS = 20  # of a legend to the right of a figure of the usual height
_MOST_COLUMNS = 6  # of a legend below
_BESIDE = 0.4  # of the figure's width, for a legend to the right by which it grows
_BESIDE_FIXED = 0.22  # the same if it cannot grow
_LOWEST = 2.4  # inches, for a narrow figure

_SIZES = ("size", "width", "columns")  # at most one of these is needed

COLUMNS = {1: 3.5, 2: 7.2}
"""The inches of one and of two columns of a journal."""
PICTURES = (".png", ".svg", ".pdf")
"""The possible suffixes of a figure's file name."""


@dataclass(frozen=True)
class Look:
    """Size, text and legend of a figure, where they differ from the default."""

    size: tuple[float, float] | None = None
    """Width and height in inches."""
    width: float | None = None
    """The width in inches; the height follows from the content."""
    columns: int | None = None
    """A width in columns of a journal, 1 or 2 (3.5 or 7.2 inches), with text of 8 points."""
    font: str | None = None
    """The name of a font that matplotlib finds, or of a family: ``serif``, ``sans-serif``, ``monospace``."""
    font_size: float | None = None
    """The size of the text in points: 10 by default, 8 for `columns`."""
    title: str | None = None
    """Replaces the title; an empty one removes it."""
    labels: tuple[str, str] = ("", "")
    """Replace the labels of the x and the y axis, if not empty."""
    legend: str = ""
    """``below``, ``right`` or ``none``; by default to the right if there is room, else below."""

    @property
    def points(self) -> float:
        """The size of the text."""
        return self.font_size or (10.0 if self.columns is None else 8.0)

    @property
    def small(self) -> float:
        """The size of secondary text: at least 8 points, unless the text itself is smaller."""
        return max(0.9 * self.points, min(self.points, 8.0))

    @property
    def scale(self) -> float:
        """The size of markers and lines, relative to text of 10 points."""
        return self.points / 10

    @property
    def inches(self) -> float | None:
        """The required width, if any."""
        if self.size is not None:
            return self.size[0]
        return self.width or (None if self.columns is None else COLUMNS[self.columns])

    def applied(self) -> AbstractContextManager[None]:
        """Return a context in which figures use this font.

        Raise ConfigError if matplotlib is not installed, or has no such font.
        """
        new_figure(1, 1)  # reports a missing matplotlib
        from matplotlib import rc_context
        from matplotlib.font_manager import FontProperties, findfont

        settings: dict[Any, Any] = {f"{part}.labelsize": "medium" for part in ("axes", "xtick", "ytick")}
        settings |= {"font.size": self.points, "axes.titlesize": "medium", "figure.titlesize": "medium"}
        settings |= {"legend.fontsize": self.small, "legend.title_fontsize": self.small, "legend.frameon": False}
        settings |= {f"{part}.major.size": 3.5 * self.scale for part in ("xtick", "ytick")}
        settings |= {"lines.linewidth": 1.6 * self.scale, "lines.markersize": 5.5 * self.scale}
        settings |= {"axes.linewidth": 0.8 * self.scale, "axes.titlepad": 6 * self.scale}
        settings |= {"axes.formatter.useoffset": False, "axes.formatter.limits": (-4, 7), "text.parse_math": False}
        if self.font is not None:
            try:
                findfont(FontProperties(family=[self.font]), fallback_to_default=False)  # a bare name is a pattern
            except ValueError as error:
                raise ConfigError(f"font {self.font!r}: matplotlib cannot find this font") from error
            settings["font.family"] = self.font
        return rc_context(settings)

    def figure(self, width: float, height: float, *, rows: bool) -> Picture:
        """Return an empty figure of the required size, or else of the given one in inches.

        `rows` fixes the height. Other figures keep their aspect ratio in a different width, unless they would become
        too flat.
        """
        if self.size is None and self.inches is not None:
            height = height * self.scale if rows else max(height * min(self.inches / width, 1), min(height, _LOWEST))
            width = self.inches
        return new_figure(*(self.size or (width, height)))

    def over(self, other: Look) -> Look:
        """Return the other look with this one's settings; any size replaces any other."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) != each.default}
        sizes = dict.fromkeys(_SIZES) if own.keys() & set(_SIZES) else {}
        return replace(other, **{**sizes, **own})

    def describe(self, axes: Axes, *, title: str = "", x: str = "", y: str = "", **style: object) -> None:
        """Write the title (in a `style`) and axis labels, unless this look overrides them."""
        self.set_title(axes.set_title, title, **{"loc": "left", **style})
        axes.set_xlabel(self.labels[0] or x, color=INK)
        axes.set_ylabel(self.labels[1] or y, color=INK)
        axes.tick_params(colors=INK)

    def set_title(self, put: Callable[..., Any], title: str, **style: object) -> None:
        """Write the title of the whole figure, with a method of its axes or of the figure."""
        if text := title if self.title is None else self.title:
            put(text, color=INK, **style)


def drawn(
    compose: Callable[[Figure, Look], None],
    target: str | Path | None,
    look: Look | None,
    width: float,
    height: float,
    *,
    rows: bool = False,
) -> Picture:
    """Return a figure that fits its size, and save it if there is a target.

    `compose` draws the content into an empty figure, of a size in inches that the look may change. With `rows`, the
    height is needed for rows of text, whatever the width. Raise ConfigError if the target does not end with one of
    `PICTURES`, matplotlib is not installed, or has no such font.
    """
    if target is not None:
        check_picture(target)
    look = look or Look()
    with look.applied():
        from xsim_py.report.figure import fit, save

        figure = look.figure(width, height, rows=rows)
        compose(figure, look)
        fit(figure, grows=look.size is None)
        if target is not None:
            save(figure, target)
    return figure


def check_picture(target: str | Path, *, besides: str = "") -> None:
    """Raise ConfigError if a figure cannot be drawn under a name.

    The message also lists the accepted names `besides` figures.
    """
    if Path(target).suffix.lower() not in PICTURES:
        endings = f"{', '.join(PICTURES[:-1])} or {PICTURES[-1]}"
        raise ConfigError(f"{target}: the name of a figure ends with {endings}{besides}")
    new_figure(1, 1)  # now rather than after an hour's run


def new_figure(width: float, height: float) -> Picture:
    """Return an empty figure of a size in inches; raise ConfigError without matplotlib."""
    try:
        from xsim_py.report.figure import Picture
    except ImportError as error:
        raise ConfigError("a figure needs matplotlib; install it with: pip install 'xsim-py[plot]'") from error
    return Picture(figsize=(width, height), dpi=150, layout="constrained")


def time_scale(time_s: float) -> tuple[float, str]:
    """Return a unit in which a time is at least 1, as factor from seconds and name."""
    steps = ((1.0, "s"), (1e3, "ms"), (1e6, "us"), (1e9, "ns"))
    return next(((factor, unit) for factor, unit in steps if time_s * factor >= 1), (1.0, "s"))


def add_legend(
    figure: Figure, handles: Sequence[Artist], look: Look, *, title: str = "", least: int = 2, long: float = 3
) -> None:
    """Add a legend to the right of the axes, or below if it takes much room.

    The figure grows by the legend, so that the axes keep their size, in each direction that the look leaves free.
    `least` is the minimum number of entries: a single line needs no explanation, a single colour does. `long` is the
    length of each sample, in font sizes.
    """
    if len(handles) < least or look.legend == "none":
        return
    from xsim_py.report.figure import wrap

    width, height = figure.get_size_inches()
    style: dict[str, Any] = {"handles": handles, "title": title or None, "alignment": "left", "handlelength": long}
    if look.legend != "below":
        legend = figure.legend(loc="outside right upper", **style)
        wide = legend.get_window_extent().width / figure.dpi
        share = _BESIDE if look.inches is None else _BESIDE_FIXED
        if look.legend == "right" or (wide <= share * width and len(handles) <= _MOST_ROWS):
            if look.inches is None:
                figure.set_size_inches(width + wide, height)
            return
        legend.remove()
    for most in range(min(len(handles), _MOST_COLUMNS), 0, -1):
        columns = -(-len(handles) // -(-len(handles) // most))  # equally long columns
        legend = figure.legend(loc="outside lower center", ncols=columns, columnspacing=1.5, **style)
        if columns == 1:
            for text in legend.get_texts():
                wrap(text, (width - (long + 3) * look.small / 72) * figure.dpi)
        wide, high = (each / figure.dpi for each in legend.get_window_extent().size)
        if wide <= width or columns == 1:
            break
        legend.remove()
    if look.size is None:
        figure.set_size_inches(width, height + high)


def spaced(values: Sequence[float]) -> list[float]:
    """Return the ascending values far enough apart on a logarithmic axis to be labelled."""
    least = (values[-1] / values[0]) ** (1 / (_MOST_TICKS - 1)) * (1 - 1e-9)
    kept = [values[0]]
    for value in values[1:]:
        if value >= kept[-1] * least:
            kept.append(value)
    return kept


def log_steps(low: float, high: float) -> tuple[int, ...]:
    """Return the leading digits of ticks on a logarithmic axis: more of them in a small range."""
    span = high / low
    return tuple(range(1, 10)) if span < 10 else (1, 2, 5) if span < 300 else (1,)


def rank_step(ranks: int) -> int:
    """Return the distance between rank ticks: a power of two if the rank count is, else tens."""
    if ranks & (ranks - 1) == 0:
        return max(ranks // (_MOST_TICKS - 1), 1)
    step = 1
    while step * _MOST_STEPS < ranks:
        step = 5 * step // 2 if str(step)[0] == "2" else 2 * step
    return step


def tidy(axes: Axes, *, grid: str) -> None:
    """Remove the parts of the frame without information."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color="#dddddd", linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
