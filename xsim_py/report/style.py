"""The common style of all pictures: colours, legends, ticks, and how they are saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xsim_py.atomic_files import atomic_path
from xsim_py.errors import ConfigError

from . import shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which the colour-blind tell apart, without its yellow (too light for a line).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
# Lines go on with colours that are nearer to those; their markers and dashes tell them apart, too.
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
_MOST_STEPS = 12  # between ticks at every so many ranks
_MOST_ROWS = 20  # of a legend beside a picture of the usual height
_BESIDE = 0.4  # of the picture's width, for a legend that stands beside it


@dataclass(frozen=True)
class Look:
    """The size and the font of a picture, where they are not the usual ones."""

    size: tuple[float, float] | None = None
    """Width and height in inches."""
    font: str | None = None
    """The name of a font that matplotlib finds, or of a family: ``serif``, ``sans-serif``, ``monospace``."""
    font_size: float = 10.0
    """The size of the text in points; that of titles and legends follows from it."""

    def applied(self) -> AbstractContextManager[None]:
        """Return a context in which pictures are made and saved with this font.

        Raises
        ------
        ConfigError
            When matplotlib is not installed, or has no such font.
        """
        new_figure(1, 1)  # says what is missing
        from matplotlib import rc_context
        from matplotlib.font_manager import FontProperties, findfont

        settings: Any = {"font.size": self.font_size, "legend.fontsize": 0.9 * self.font_size}
        if self.font is not None:
            try:
                findfont(FontProperties(family=self.font), fallback_to_default=False)
            except ValueError as error:
                raise ConfigError(f"font {self.font!r}: matplotlib finds no such font on this computer") from error
            settings["font.family"] = self.font
        return rc_context(settings)

    def figure(self, width: float, height: float) -> Figure:
        """Return an empty picture of the size that is wanted, or else of that many inches."""
        return new_figure(*(self.size or (width, height)))


def new_figure(width: float, height: float) -> Figure:
    """Return an empty picture of that many inches.

    Raises
    ------
    ConfigError
        When matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("a picture needs matplotlib; install it with: pip install 'xsim-py[plot]'") from error
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def save(figure: Figure, target: str | Path) -> None:
    """Write a picture, whole or not at all; the name's suffix says how, and a PNG file says what it shows."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    metadata = {shown.KEY: shown.digest_of(figure)} if str(target).lower().endswith(".png") else None

    for text in figure.findobj(Text):  # names may have dollars in them, which would begin a formula
        text.set_parse_math(False)
    with atomic_path(target) as path, rc_context({"text.parse_math": False}):
        figure.savefig(path, metadata=metadata)


def time_scale(time_s: float) -> tuple[float, str]:
    """Return the factor from seconds, and its unit, that makes a time at least 1."""
    steps = ((1.0, "s"), (1e3, "ms"), (1e6, "us"), (1e9, "ns"))
    return next(((factor, unit) for factor, unit in steps if time_s * factor >= 1), (1.0, "s"))


def add_legend(figure: Figure, handles: Sequence[Artist], *, title: str = "") -> None:
    """Explain the lines beside them, or below where that takes much room; one line needs no explanation.

    The picture grows by the legend, and its axes keep their size.
    """
    if len(handles) < 2:
        return
    width, height = figure.get_size_inches()
    look: dict[str, Any] = {"handles": handles, "title": title or None, "frameon": False, "fontsize": 9}
    look |= {"title_fontsize": 9, "alignment": "left", "handlelength": 3}
    legend = figure.legend(loc="outside right upper", **look)
    wide = legend.get_window_extent().width / figure.dpi
    if wide <= _BESIDE * width and len(handles) <= _MOST_ROWS:
        figure.set_size_inches(width + wide, height)
        return
    legend.remove()
    legend = figure.legend(loc="outside lower center", ncols=max(1, int(width / wide)), **look)
    figure.set_size_inches(max(width, wide), height + legend.get_window_extent().height / figure.dpi)


def spaced(values: Sequence[float]) -> list[float]:
    """Return which of ascending values are far enough apart on a logarithmic axis for a label each."""
    least = (values[-1] / values[0]) ** (1 / (_MOST_TICKS - 1)) * (1 - 1e-9)
    kept = [values[0]]
    for value in values[1:]:
        if value >= kept[-1] * least:
            kept.append(value)
    return kept


def rank_step(ranks: int) -> int:
    """Return how far apart the ticks of an axis of ranks are: a power of two if their number is one, else tens."""
    if ranks & (ranks - 1) == 0:
        return max(ranks // (_MOST_TICKS - 1), 1)
    step = 1
    while step * _MOST_STEPS < ranks:
        step = 5 * step // 2 if str(step)[0] == "2" else 2 * step
    return step


def tidy(axes: Axes, *, grid: str) -> None:
    """Leave of the frame what carries meaning."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color="#dddddd", linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK)
