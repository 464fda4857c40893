"""The content of a figure as text (data, names, colours, but not pixels), and its digest.

Two figures with equal digests show the same, whatever font or version of matplotlib drew them. PNG files contain the
digest, so a figure of the documentation can be compared with a newly drawn one.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KEY: Final = "xsim: shown"
"""The keyword of the digest in a PNG file."""
_DIGITS: Final = 6  # further digits depend on the computer


def digest_of(figure: Figure) -> str:
    """Return the digest of a figure's content."""
    return hashlib.sha256(json.dumps(list(described(figure))).encode()).hexdigest()[:16]


def digest_in(path: Path) -> str | None:
    """Return the digest in a PNG file, or None."""
    return digest_of_png(path.read_bytes())


def digest_of_png(data: bytes) -> str | None:
    """Return the digest in a PNG image, or None."""
    at = 8
    while at < len(data):
        size, kind = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        if kind == b"tEXt":
            key, _, text = data[at + 8 : at + 8 + size].partition(b"\0")
            if key.decode("latin-1") == KEY:
                return text.decode("latin-1")
        at += size + 12
    return None


def described(figure: Figure) -> Iterator[Any]:
    """Yield the content of a figure, in drawing order."""
    yield [_whole(text.get_text()) for text in figure.texts]
    for legend in figure.legends:
        yield [legend.get_title().get_text(), *(_whole(text.get_text()) for text in legend.get_texts())]
    for axes in figure.axes:
        yield from _axes(axes)


def _axes(axes: Axes) -> Iterator[Any]:
    yield [_whole(axes.get_title(loc)) for loc in ("left", "center", "right")]
    for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        yield [_whole(axis.get_label_text()), axis.get_scale(), _numbers(limits)]
    yield [text.get_text() for text in axes.texts]
    legend = axes.get_legend()
    if legend is not None:
        yield [text.get_text() for text in legend.get_texts()]
    for line in axes.lines:
        yield [str(line.get_label()), _colour(line.get_color()), str(line.get_marker()), _numbers(line.get_xydata())]
    for patch in axes.patches:
        vertices = patch.get_patch_transform().transform(patch.get_path().vertices)
        yield [_colour(patch.get_facecolor()), patch.get_hatch(), _numbers(vertices)]
    for collection in axes.collections:
        paths = [_numbers(path.vertices) for path in collection.get_paths()]
        yield [*map(_colour, collection.get_facecolor()), paths, _numbers(collection.get_offsets())]
    for image in axes.images:
        yield [_numbers(image.get_extent()), _numbers(image.get_array())]


def _whole(text: str) -> str:
    """Return a text without line breaks, which depend on the size of the figure."""
    return text.replace("\n", " ")


def _numbers(values: object) -> list[str]:
    """Return numbers as text, with the digits that are the same on all computers."""
    numbers: list[float] = np.ma.filled(np.ma.asarray(values, float), np.nan).ravel().tolist()
    return [f"{number:.{_DIGITS}g}" for number in numbers]


def _colour(colour: Any) -> str:
    from matplotlib.colors import to_hex

    return to_hex(colour, keep_alpha=True)
