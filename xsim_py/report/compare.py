"""One program on several machines and rank counts: a table, and a figure.

The figure has a panel that compares the machines (bars, at the largest rank count) and, with several rank counts, one
for scaling (lines, both axes logarithmic). A machine has the same colour, marker and position in both, so neither panel
depends on colour vision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xsim_py.errors import ConfigError
from xsim_py.report.style import (
    DASHES,
    INK,
    LINE_COLOURS,
    MARKERS,
    Look,
    add_legend,
    drawn,
    log_steps,
    spaced,
    tidy,
    time_scale,
)
from xsim_py.report.table import Table
from xsim_py.units import PS_PER_S, format_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from xsim_py.report.result import Result

_SIDE_BY_SIDE = 6.0  # minimum inches for two panels
_UNITS = {"bytes": "B", "cpu_s": "s"}


class Comparison:
    """Results of one program, by machine and rank count.

    Parameters
    ----------
    results : mapping of (str, int) to Result
        The results by machine name and rank count, in display order.
    title : str, optional
        The title of the figure.
    """

    def __init__(self, results: Mapping[tuple[str, int], Result], *, title: str = "") -> None:
        if not results:
            raise ConfigError("nothing to compare; name at least one machine and one rank count")
        self.results = dict(results)
        self.title = title
        self.machines = list(dict.fromkeys(machine for machine, _ in results))
        self.sizes = sorted({ranks for _, ranks in results})

    def __str__(self) -> str:
        """Return the table for a terminal: virtual times in a common unit, without hashes."""
        table = self.table()
        scale, unit = time_scale(max(table["virtual_time_s"]))
        shown = {"ranks": table["ranks"], "machine": table["machine"]}
        shown["virtual time"] = [float(f"{time_s * scale:.4g}") for time_s in table["virtual_time_s"]]
        shown |= {name: table[name] for name in ("relative", "messages", "bytes", "cpu_s", "ended")}
        return Table(table.name, shown, {**_UNITS, "virtual time": unit}).to_text(max_rows=None)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def table(self) -> Table:
        """Return one row per result, grouped by rank count.

        ``relative`` is the virtual time divided by that of the fastest machine with the same rank count.
        """
        rows = [
            self._row(machine, ranks) for ranks in self.sizes for machine in self.machines if self._has(machine, ranks)
        ]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        return Table("comparison", columns, _UNITS, exact=("virtual_time_s",))

    def _has(self, machine: str, ranks: int) -> bool:
        return (machine, ranks) in self.results

    def _row(self, machine: str, ranks: int) -> dict[str, Any]:
        result = self.results[machine, ranks]
        fastest_ps = min(other.virtual_time_ps for (_, size), other in self.results.items() if size == ranks)
        return {
            "ranks": ranks,
            "machine": machine,
            "virtual_time_s": result.virtual_time_ps,
            "relative": round(result.virtual_time_ps / fastest_ps, 3) if fastest_ps else None,
            "messages": result.messages,
            "bytes": result.bytes,
            "events": result.events,
            "cpu_s": round(result.cpu_s, 3),
            "ended": result.ended,
            "config_hash": result.config_hash,
            "digest": result.digest,
        }

    def to_html(self, target: str | Path, *, command: str = "") -> None:
        """Write a self-contained HTML report; see `report.page.comparison_pages`.

        Raises
        ------
        ConfigError
            When the name does not end with ``.html``, or plotly is not installed.
        OSError
            When the file cannot be written.
        """
        from xsim_py.report.page.comparison_pages import write_comparison_page
        from xsim_py.report.page.document import check_page

        check_page(target)
        write_comparison_page(self, target, command=command)

    def draw(self, target: str | Path | None = None, *, look: Look | None = None) -> Figure:
        """Return the figure, and write it if there is a target.

        Raises
        ------
        ConfigError
            When the name does not end with the format of a figure, or matplotlib is not installed.
        """
        narrow = look is not None and look.inches is not None and look.inches < _SIDE_BY_SIDE
        panels = 1 if len(self.sizes) == 1 else 2
        return drawn(self._compose, target, look, 5.6 * (1 if narrow else panels), 4.2 * (panels if narrow else 1))

    def _compose(self, figure: Figure, look: Look) -> None:
        panels = 1 if len(self.sizes) == 1 else 2
        stacked = panels == 2 and figure.get_size_inches()[0] < _SIDE_BY_SIDE
        axes = figure.subplots(*((panels, 1) if stacked else (1, panels)), squeeze=False).ravel()
        self._draw_bars(axes[0], look)
        if panels == 2:
            self._draw_lines(axes[1], look)
            add_legend(figure, axes[1].get_legend_handles_labels()[0], look)
        look.set_title(figure.suptitle, self.title, fontweight="bold")

    def _draw_bars(self, axes: Axes, look: Look) -> None:
        """Draw the virtual times at the largest rank count, with the value next to each bar."""
        ranks = self.sizes[-1]
        machines = [machine for machine in self.machines if self._has(machine, ranks)]
        times_s = [self.results[machine, ranks].virtual_time_s for machine in machines]
        scale, unit = time_scale(max(times_s))
        bars = axes.barh(machines, [time_s * scale for time_s in times_s], color=self._colours(machines), height=0.6)
        axes.bar_label(
            bars, [_label(time_s, min(times_s)) for time_s in times_s], padding=4, color=INK, fontsize=look.small
        )
        axes.invert_yaxis()
        axes.margins(x=0.3)
        axes.set_xlabel(look.labels[1] or f"virtual time [{unit}]", color=INK)
        axes.set_title(f"{ranks:,} ranks", color=INK)
        tidy(axes, grid="x")

    def _draw_lines(self, axes: Axes, look: Look) -> None:
        """Draw virtual time over rank count."""
        from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

        scale, unit = time_scale(max(result.virtual_time_s for result in self.results.values()))
        for machine, colour in zip(self.machines, self._colours(self.machines), strict=True):
            sizes = [ranks for ranks in self.sizes if self._has(machine, ranks)]
            times = [self.results[machine, ranks].virtual_time_s * scale for ranks in sizes]
            number = self.machines.index(machine)
            marker, dashes = MARKERS[number % len(MARKERS)], DASHES[number % len(DASHES)]
            axes.plot(sizes, times, color=colour, linestyle=dashes, marker=marker, label=machine)
        axes.set_xscale("log", base=2)
        axes.set_xticks(spaced(self.sizes), [f"{ranks:,}" for ranks in spaced(self.sizes)])
        axes.xaxis.set_minor_locator(NullLocator())
        least, most = (choose(result.virtual_time_s for result in self.results.values()) for choose in (min, max))
        if least > 0:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=log_steps(least, most)))
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axes.yaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(look.labels[0] or "ranks", color=INK)
        axes.set_ylabel(look.labels[1] or f"virtual time [{unit}]", color=INK)
        axes.set_title("over the number of ranks", color=INK)
        tidy(axes, grid="both")

    def _colours(self, machines: Sequence[str]) -> list[str]:
        return [LINE_COLOURS[self.machines.index(machine) % len(LINE_COLOURS)] for machine in machines]


def _label(time_s: float, fastest_s: float) -> str:
    """Return a bar's label: its time, and the ratio to the fastest."""
    text = format_time(round(time_s * PS_PER_S))
    return text if time_s == fastest_s or not fastest_s else f"{text} ({time_s / fastest_s:.2g} x)"
