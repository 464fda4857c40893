"""A self-contained HTML page, with its style, its script and the plotting library.

Figures are drawn by plotly.js, which the Python package plotly includes; it makes no connection. All data of a run are
escaped, in HTML, in JSON and in the texts of figures, which interpret some tags. The same content gives the same bytes.
"""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xsim_py.atomic_files import atomic_file
from xsim_py.errors import ConfigError
from xsim_py.report.style import INK, time_scale
from xsim_py.report.table import Table, html_facts, html_row
from xsim_py.units import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


ENDINGS: Final = (".html", ".htm")
"""The possible suffixes of a report's file name."""

MOST_ROWS: Final = 4_096
"""The maximum number of rows per table in a report."""

_AXIS: Final = {"automargin": True, "linecolor": "#999999", "ticks": "outside", "tickcolor": "#999999"}
_AXIS_GRID: Final = {**_AXIS, "gridcolor": "#e3e6ea", "zeroline": False}
_FONT: Final = {"family": 'system-ui, "DejaVu Sans", Arial, sans-serif', "size": 13, "color": INK}
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
_WITHOUT_SCRIPT: Final = "JavaScript is off: figures are not drawn and tables cannot be sorted."


def check_page(target: str | Path) -> None:
    """Raise ConfigError if a name has none of the `ENDINGS`, or plotly is not installed."""
    if str(target) == "-":
        raise ConfigError("-: an HTML report cannot be written to standard output; name a file that ends with .html")
    if Path(target).suffix.lower() not in ENDINGS:
        raise ConfigError(f"{target}: the name of an HTML report ends with {' or '.join(ENDINGS)}")
    _plotly_js()


class HtmlPage:
    """A page that grows section by section."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        self._title = title
        self._subtitle = subtitle
        self._sections: list[tuple[str, str]] = []
        self._drawn = 0

    def add(self, heading: str, *parts: str) -> None:
        """Add a section of HTML; a section without parts is omitted."""
        if any(parts):
            self._sections.append((heading, "\n".join(parts)))

    def figure(self, content: object, kind: str = "plain") -> str:
        """Return the HTML of a figure, with its data.

        The content of a ``plain`` figure is that of `new_figure`. The page's script draws a ``timeline`` or ``matrix``.
        """
        self._drawn += 1
        data = json.dumps(content, separators=(",", ":"), allow_nan=False).replace(
            "<", "\\u003c"
        )  # an end tag anywhere ends a script
        place = f'<div class="figure {kind}" id="figure-{self._drawn}"></div>'
        return f'{place}<script type="application/json">{data}</script>'

    def write(self, target: str | Path) -> None:
        """Write the page atomically."""
        here = files(__package__)
        style, script = ((here / f"page.{end}").read_text(encoding="utf-8") for end in ("css", "js"))
        library = _plotly_js()
        names = [f"section-{number}" for number, _ in enumerate(self._sections, 1)]
        links = [
            f'<a href="#{name}">{escape(heading)}</a>' for name, (heading, _) in zip(names, self._sections, strict=True)
        ]
        body = [
            f'<section id="{name}"><h2>{escape(heading)}</h2>\n{inside}\n</section>'
            for name, (heading, inside) in zip(names, self._sections, strict=True)
        ]
        with atomic_file(target) as file:
            file.write(
                '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
                f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
                '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
                f"<title>{escape(self._title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
                f"<header><h1>{escape(self._title)}</h1><p>{escape(self._subtitle)}</p><nav>{' '.join(links)}</nav>"
                f"</header>\n<main>\n<noscript>{note(_WITHOUT_SCRIPT)}</noscript>\n"
            )
            file.write("\n".join(body))
            file.write(f"\n</main>\n<script>{library}</script>\n<script>\n{script}</script>\n</body>\n</html>\n")


def _plotly_js() -> str:
    """Return plotly.js; raise an error with instructions if plotly is not installed."""
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError as error:
        raise ConfigError("an HTML report needs plotly; install it with: pip install 'xsim-py[report]'") from error
    return str(get_plotlyjs()).replace("</script", "<\\/script")


# ------------------------------------------------------------------------------------------------- parts of a page


def note(text: str) -> str:
    """Return an explanatory paragraph."""
    return f'<p class="note">{escape(text)}</p>'


def warning(text: str) -> str:
    """Return a highlighted paragraph."""
    return f'<p class="warning">{escape(text)}</p>'


def verbatim(text: str) -> str:
    """Return preformatted text; empty for an empty text."""
    return f"<pre>{escape(text)}</pre>" if text else ""


def subheading(text: str) -> str:
    """Return a heading inside a section."""
    return f"<h3>{escape(text)}</h3>"


def cards(facts: Mapping[str, str]) -> str:
    """Return the main values, side by side."""
    return (
        '<dl class="cards">'
        + "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
        + "</dl>"
    )


def facts_table(facts: Mapping[str, str]) -> str:
    """Return a table of names and values, without empty values."""
    return f'<table class="facts">{html_facts({name: value for name, value in facts.items() if value})}</table>'


def folded(summary: str, *parts: str) -> str:
    """Return parts that are shown after a click on their summary."""
    return f"<details><summary>{escape(summary)}</summary>{''.join(parts)}</details>"


def data_table(table: Table, *, by: str | None = None, whole: bool = False) -> str:
    """Return a table that a click on a heading sorts; times are in a suitable unit per column.

    A table longer than `MOST_ROWS` is cut, with a note; the rows with the largest values in the column `by` stay. Other
    tables than a `whole` one scroll in a box, except in print.
    """
    chosen: Sequence[int] = range(len(table))
    said = ""
    if len(table) > MOST_ROWS:
        which = "first ones"
        if by is not None:
            cells = table[by]
            chosen = sorted(chosen, key=lambda row: -(cells[row] or 0))
            which = f"ones with the most {by.replace('_', ' ')}"
        chosen = sorted(chosen[:MOST_ROWS])
        said = note(f"Of {len(table):,} rows these are {MOST_ROWS:,}: the {which}. Files of --out have all of them.")
    columns = [_column(table, name, chosen) for name in table]
    aligned = [' class="n"' if right else "" for _, right, _ in columns]
    head = html_row("th", [name for name, *_ in columns], aligned)
    lines = [html_row("td", row, aligned) + "\n" for row in zip(*(cells for *_, cells in columns), strict=True)]
    rows = f'<table class="data"><thead>{head}</thead><tbody>{"".join(lines)}</tbody></table>'
    return f'{said}<div class="scroll{" whole" if whole else ""}">{rows}</div>'


def _column(table: Table, name: str, chosen: Iterable[int]) -> tuple[str, bool, list[str]]:
    """Return the heading of a column, whether it holds numbers, and its cells as text."""
    unit = table.units.get(name, "s" if name.endswith("_s") else "")
    cells = [table[name][row] for row in chosen]
    numeric = any(cell is not None for cell in cells) and all(
        cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool)) for cell in cells
    )
    bare = name.removesuffix(f"_{unit}").replace("_", " ") if unit else name.replace("_", " ")
    if unit == "s" and numeric:
        scale, unit = time_scale(max(cell for cell in cells if cell is not None))
        if name in table.picoseconds:
            factor = scale / PS_PER_S
            cells = [None if (ps := table.picoseconds[name][row]) is None else ps * factor for row in chosen]
        else:
            cells = [None if cell is None else cell * scale for cell in cells]
    return f"{bare} [{unit}]" if unit else bare, numeric, [_text(cell) for cell in cells]


def _text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:,.6f}".rstrip("0").rstrip(".") if 1e-3 <= abs(cell) < 1e9 else f"{cell:.6g}"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


# ---------------------------------------------------------------------------------------------------------- figures


def plain_text(text: str) -> str:
    """Return a text for a figure, escaped because plotly interprets some tags."""
    return escape(text, quote=False)


def new_figure(traces: Sequence[Any], *, x: str, y: str, height: int = 420, **layout: Any) -> dict[str, Any]:
    """Return a plotly.js figure as plain data, in the style of the page.

    The axis labels include units. The height is in pixels. ``xaxis`` and ``yaxis`` in `layout` are merged with the
    defaults.
    """
    axes = {
        name: {**_AXIS_GRID, "title": {"text": plain_text(text).replace("\n", "<br>")}, **layout.pop(name, {})}
        for name, text in (("xaxis", x), ("yaxis", y))
    }
    usual = {
        "height": height,
        "font": _FONT,
        "margin": {"l": 70, "r": 20, "t": 20, "b": 60},
        "hovermode": "closest",
        "legend": {"x": 1.01, "y": 1, "itemclick": "toggle"},
    }
    return {"data": list(traces), "layout": {**usual, **axes, **layout}}
