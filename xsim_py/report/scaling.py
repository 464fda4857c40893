"""Speed-up and parallel efficiency, from times over rank counts.

With the time T(p) on p ranks, and the fewest ranks q of a line (q = 1 gives the definitions of Amdahl, AFIPS 1967, and
Gustafson, Communications of the ACM 31(5), 1988):

===============  ================  =====================================================
speedup          q T(q) / T(p)     for a fixed problem; ideally p
efficiency       q T(q) / (p T(p))  the same divided by p; ideally 1
weak efficiency  T(q) / T(p)       for a problem that grows with p; ideally 1
===============  ================  =====================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from xsim_py.report.chart import Series
from xsim_py.report.table import Table

LABELS: Final = {
    "speedup": "speed-up",
    "efficiency": "parallel efficiency",
    "weak efficiency": "parallel efficiency (weak scaling)",
}
"""The labels of the y axis, by quantity."""


def against_fewest(lines: Sequence[Series], show: str) -> list[Series]:
    """Return times as speed-ups or efficiencies over the fewest ranks, then the ideal line.

    Each line has times in any common unit over ascending rank counts; times of 0 are omitted. `show` is a key of
    `LABELS`. A standard error is that of the quotient of two independent means; that of the first point is 0.
    """
    scaled = [_scaled(line, show) for line in lines]
    ranks = sorted({x for line in scaled for x in line.x})
    if not ranks:
        return []
    ideal = [float(p) if show == "speedup" else 1.0 for p in ranks]
    return [*scaled, Series("ideal", ranks, ideal, [0.0] * len(ranks), 0, 0, reference=True, panel=lines[0].panel)]


def scaling_table(lines: Sequence[Series], show: str) -> Table:
    """Return the lines of `against_fewest` as a table: a row per point, without the ideal line.

    `show` is a key of `LABELS`, and with underscores the name of the column.
    """
    rows = [
        (", ".join(filter(None, (line.panel, line.label))), *point)
        for line in lines
        if not line.reference
        for point in zip(line.x, line.y, line.errors, strict=True)
    ]
    names = ("line", "ranks", show.replace(" ", "_"), "stderr")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    if not any(columns["stderr"]):
        del columns["stderr"]
    if not any(columns["line"]):
        del columns["line"]
    return Table(show, columns)


def _scaled(line: Series, show: str) -> Series:
    errors = line.errors or [0.0] * len(line.x)
    points = [(p, t, e) for p, t, e in zip(line.x, line.y, errors, strict=True) if t > 0]
    if not points:
        return replace(line, x=[], y=[], errors=[])
    fewest, first, first_error = points[0]
    values, spreads = [], []
    for number, (p, t, error) in enumerate(points):
        value = first / t
        if show != "weak efficiency":
            value *= fewest
        if show == "efficiency":
            value /= p
        values.append(value)
        spreads.append(value * math.hypot(error / t, first_error / first) if number else 0.0)
    return replace(line, x=[p for p, _, _ in points], y=values, errors=spreads)
