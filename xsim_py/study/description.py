"""The keys of a study: a dataclass per section, a field per key.

As for machines, this is the only list of the keys: the checker, the JSON Schema and the manual's table are generated
from it. A parameter of a run has its name and help in `xsim_py.parameters`.
"""

# ruff: noqa: RUF009 - `option` makes a dataclasses.field, as a default here must be

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xsim_py.config import value_kinds as kinds
from xsim_py.config.described import Described
from xsim_py.config.value_kinds import ListOf, Reading, Scalar, Section, choice, integer, option, options
from xsim_py.parameters import PARAMETERS
from xsim_py.report.result import ENDINGS
from xsim_py.report.style import Look
from xsim_py.study.commands import COMMANDS
from xsim_py.study.condition import Condition
from xsim_py.study.value_kinds import (
    ANY,
    CONDITION,
    KINDS,
    TEXT,
    Given,
    MachineEntry,
    Named,
    Swept,
    Templated,
    TemplatedList,
    TextOrList,
    Together,
    Values,
    look,
)

if TYPE_CHECKING:
    from xsim_py.config.entries import Entry

_LONGEST_PATTERN: Final = 10_000
_SCALES: Final = choice("linear", "log", "log2")


def _pattern(value: object) -> re.Pattern[str]:
    if not isinstance(value, str):
        raise ValueError(f"expected a regular expression, got {value!r}; put it in quotes")
    if len(value) > _LONGEST_PATTERN:
        raise ValueError(f"{value!r} is too long (at most {_LONGEST_PATTERN:,} characters)")
    try:
        with warnings.catch_warnings():  # [[a] may change its meaning in the future
            warnings.simplefilter("ignore")
            pattern = re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:  # a{10**9}, and ( 10,000 times
        raise ValueError(f"invalid regular expression {value!r}: {error}") from None
    if pattern.groups != 1:
        groups = f"{value!r} has {pattern.groups} groups"
        raise ValueError(f"{groups}; put only the captured value in ( )")
    return pattern


_PATTERN: Final = Scalar(_pattern, {"type": "string"}, "a regular expression with one group")
_COLUMN: Final = Scalar(TEXT.parse, {"type": "string"}, "a column of the runs")
_WIDTH: Final = look("width", "inches, from 1 to 60", type="number", minimum=1, maximum=60)
_SIZE: Final = look("size", "inches such as 7x3.5", type="string", pattern=r"^[0-9]+(\.[0-9]+)?x[0-9]+(\.[0-9]+)?$")
_POINTS: Final = look("font_size", "points, from 1 to 100", type="number", minimum=1, maximum=100)
_COLUMNS: Final = TextOrList(_COLUMN, "a column of the runs, or a list of columns")


@dataclass(frozen=True, kw_only=True)
class CaptureSpec:
    """One entry of ``capture``: a value printed by the program."""

    pattern: re.Pattern[str] = option(
        _PATTERN,
        "Regular expression that matches one line of output; its only group is the value.",
        default=re.compile("()"),
        required=True,
    )
    unit: str = option(TEXT, "The value's unit, for tables and plots.", shown="the suffix of the name: s in total_s")
    take: str = option(
        choice("last", "first", "min", "max", "mean", "sum", "count"),
        "How to obtain a single value if several lines match.",
        default="last",
    )


@dataclass(frozen=True)
class _Capture:
    """A capture: only a regular expression, or a section."""

    words: str = "a regular expression with one group, or a section {pattern: ..., unit: s}"

    def read(self, entry: Entry, path: str, reading: Reading) -> Any:
        """Return the section; a pattern without a section gets the defaults."""
        if isinstance(entry.value, dict):
            return Section(CaptureSpec).read(entry, path, reading)
        pattern = _PATTERN.read(entry, path, reading)
        return pattern if pattern is kinds.REFUSED else CaptureSpec(pattern=pattern)

    def schema(self) -> dict[str, Any]:
        """Return the schema of both forms."""
        return {"anyOf": [_PATTERN.schema(), Section(CaptureSpec).schema()]}


@dataclass(frozen=True, kw_only=True)
class PlotSpec:
    """One entry of ``plots``: a figure of means over repetitions, with standard errors."""

    file: str = option(TEXT, "File name of the figure: .png, .svg or .pdf.", default="plot.png", required=True)
    title: str = option(TEXT, "Title of the figure.", shown="the study's name")
    x: str = option(_COLUMN, "Column of the x axis.", default="", required=True)
    y: tuple[str, ...] = option(
        _COLUMNS, "Column of the y axis; several columns give several lines.", default=(), required=True
    )
    series: tuple[str, ...] | None = option(
        _COLUMNS,
        "Variables with one line per value: the first sets the colour of a line, the others set its marker.",
        shown="all variables except those of the x axis and the panels",
    )
    panels: str | None = option(
        _COLUMN, "Variable with one panel per value, with common axes and colours.", shown="one panel"
    )
    only: tuple[Condition, ...] = option(
        ListOf(CONDITION, "a list of conditions"), "Conditions on the plotted runs.", default=()
    )
    show: str = option(
        choice("value", "speedup", "efficiency", "weak efficiency"),
        "What to plot: the value, or, if the value is a time, the speed-up or efficiency relative to the smallest "
        "rank count of each line.",
        default="value",
    )
    x_scale: str = option(_SCALES, "Scale of the x axis.", default="linear")
    y_scale: str = option(_SCALES, "Scale of the y axis.", default="linear")
    x_label: str | None = option(TEXT, "Label of the x axis; its unit is added.", shown="the column")
    y_label: str | None = option(TEXT, "Label of the y axis; its unit is added.", shown="the columns")


@dataclass(frozen=True, kw_only=True)
class FigureSpec:
    """Section ``figure``: size, text and legend of all plots; ``--view`` has precedence."""

    columns: int | None = option(integer(1, 2), "Width in journal columns, with text of 8 points.", shown="none")
    width: float | None = option(_WIDTH, "Width in inches.", shown="7.2")
    size: tuple[float, float] | None = option(_SIZE, "Width and height in inches, as in 7x3.5.", shown="7.2x4.6")
    font: str | None = option(TEXT, "Name of a font, or serif, sans-serif or monospace.", shown="sans-serif")
    font_size: float | None = option(_POINTS, "Text size in points.", shown="10; 8 with columns")
    legend: str = option(
        choice("below", "right", "none"),
        "Position of the legend.",
        default="",
        shown="right if there is room, otherwise below",
    )

    def look(self) -> Look:
        """Return it as a `Look`."""
        return Look(**{each.name: getattr(self, each.name) for each in fields(self)})


@dataclass(frozen=True, kw_only=True)
class AcceptSpec:
    """Section ``accept``: criteria of successful runs; others are listed, but not averaged."""

    ended: tuple[str, ...] = option(
        TextOrList(choice(*ENDINGS), "one ending, or a list of them"),
        "Accepted endings of a run: finished, aborted, stalled or wall limit.",
        default=("finished",),
        shown="finished",
    )
    exit_status: tuple[int, ...] = option(
        TextOrList(integer(0, 255), "one exit status, or a list of them"),
        "Accepted exit statuses of a finished run.",
        default=(0,),
        shown="0",
    )


@dataclass(frozen=True, kw_only=True)
class PublishedSpec:
    """Section ``published``: published values, for comparison with those of the study."""

    file: str = option(
        TEXT,
        "CSV file next to the study, with columns for the study's variables and for the published means of each "
        "combination.",
        default="",
        required=True,
    )
    label: str = option(TEXT, "Name of the source.", default="published")


def _of_run(name: str, kind: Templated | TemplatedList | None = None) -> Any:
    """Return the field of a key that is a parameter of a run; by default, `KINDS` has its kind."""
    row = PARAMETERS[name]
    help, shown = row.study or ("", "")
    return option(kind or KINDS[row.read], help, shown=shown)


@dataclass(frozen=True, kw_only=True)
class StudySpec(Described):
    """A validated study."""

    name: str = option(
        TEXT, "Short name; the default results directory is NAME-results.", default="", shown="the file's name"
    )
    description: str = option(TEXT, "One-line description.", default="")
    source: str = option(TEXT, "Source of the experiment.", default="")
    command: str | None = option(
        choice(*COMMANDS),
        "The xsim command to run instead of a program on a machine. ftco: the formal model of FTCO; compare-recovery: "
        "a program under one recovery scheme.",
        shown="none: the study runs a program",
    )
    command_options: Mapping[str, Given] = option(
        Named(Templated(ANY), "options of the command such as {nodes: 1024, tree: 'knomial:auto'}"),
        "Options of the command, by their names on the command line; each may be a variable of sweep or a template.",
        default=dict,
        key="options",
    )
    program: Given | None = option(
        Templated(TEXT),
        "The program: a file next to the study or included in xsim_py (apps/ring.py), a module name, or Python "
        "code, depending on kind.",
    )
    kind: Given | None = _of_run("kind", Templated(choice("script", "module", "code")))
    args: Given | None = _of_run("args", TemplatedList(ANY, "a list of words such as [--steps, 10]"))
    ranks: Given | None = _of_run("ranks")
    machine: Given | None = _of_run("machine", Templated(TEXT))
    overrides: Mapping[str, Given] = option(
        Named(MachineEntry(), "machine keys such as {network.latency: 5us}"),
        "Machine keys to change, by dotted path.",
        default=dict,
        key="set",
    )
    seed: Given | None = _of_run("seed")
    shards: Given | None = _of_run("shards")
    isolation: Given | None = _of_run("isolation")
    compute: Given | None = _of_run("compute")
    fail: Given | None = _of_run("fail", TemplatedList(TEXT, "a list of failures such as ['rank=5@1.2ms']"))
    ft: Given | None = _of_run("ft")
    restart: Given | None = _of_run("restart")
    private: Given | None = _of_run("private")
    share: Given | None = _of_run("share")
    wall_limit_ps: Given | None = _of_run("wall_limit")
    sweep: Mapping[str, tuple[Swept, ...]] = option(
        Named(Values(), "variables and their values such as {ranks: [4, 8]}"),
        "The variables; every combination of their values is run. A variable named after an option sets this option, "
        "and a variable named after a machine key (network.latency) sets this key. Templates may use all variables, "
        "as in {ranks}.",
        default=dict,
    )
    cases: tuple[Swept, ...] = option(
        ListOf(Together(), "a list of cases such as [{program: apps/ring.py, args: [--rounds, 2], label: ring}]"),
        "Cases, each of which sets several values that belong together. Each case is combined with all values of the "
        "other variables. A case may contain set, label (its text in the column case), and all names that sweep "
        "accepts.",
        default=(),
    )
    zipped: Mapping[str, tuple[Swept, ...]] = option(
        Named(Values(are_different=False), "lists of equal length such as {ranks: [4, 8], size: [100, 200]}"),
        "Variables that change together: all have their first values, then all have their second values, and so on.",
        default=dict,
        key="zip",
    )
    only: tuple[Condition, ...] = option(
        ListOf(CONDITION, "a list of conditions"),
        "Conditions; combinations that violate one of them are not run.",
        default=(),
    )
    repetitions: int = option(integer(1, 10**6), "Runs per combination, each with a different seed.", default=1)
    run_in: str = option(
        choice("scratch", "study"),
        "Working directory. scratch: an empty temporary directory per run; study: the directory of the study, for all "
        "runs.",
        default="scratch",
    )
    accept: AcceptSpec = option(Section(AcceptSpec), "Criteria of a successful run.", default=AcceptSpec)
    capture: Mapping[str, CaptureSpec] = option(
        Named(_Capture(), "names and regular expressions such as {time_us: 'time: ([0-9.]+) us'}"),
        "Values to extract from the output of the program, by column name.",
        default=dict,
    )
    table: tuple[str, ...] | None = option(
        _COLUMNS, "Columns of the printed table of means.", shown="virtual_time_s and all captured values"
    )
    published: PublishedSpec | None = option(
        Section(PublishedSpec),
        "Published means, which are added to the table and to every plot of the same columns.",
        shown="none",
    )
    figure: FigureSpec = option(Section(FigureSpec), "Size, text and legend of plots.", default=FigureSpec)
    plots: tuple[PlotSpec, ...] = option(ListOf(Section(PlotSpec), "a list of plots", least=0), "Figures.", default=())
    folder: Path = Path()
    """The directory of the study's file."""

    @cached_property
    def variables(self) -> dict[str, tuple[Swept, ...]]:
        """The values of ``cases``, ``sweep`` and ``zip`` by their columns, in order."""
        return {**({"case": self.cases} if self.cases else {}), **self.sweep, **self.zipped}

    @cached_property
    def dimensions(self) -> list[list[dict[str, Swept]]]:
        """The choices whose combinations are run: each sets some names."""
        free = [name for name in self.variables if name not in self.zipped]
        choices = [[{name: value, **value.others} for value in self.variables[name]] for name in free]
        rows = [
            {
                name: value
                for one, swept in zip(self.zipped, row, strict=True)
                for name, value in ((one, swept), *swept.others.items())
            }
            for row in zip(*self.zipped.values(), strict=True)
        ]
        return [*choices, rows] if rows else choices

    def swept(self) -> Iterator[tuple[str, str, Swept]]:
        """Yield the source of each value, ``sweep`` or ``sweep machine``, its name, and the value."""
        for key, named in (("cases", {"case": self.cases}), ("sweep", self.sweep), ("zip", self.zipped)):
            for name, values in named.items():
                for value in values:
                    yield key, name, value
                    yield from ((f"{key} {name}", other, each) for other, each in value.others.items())

    def given(self, key: str) -> Given | None:
        """Return the value of an option of the run or of the command, apart from a sweep over it."""
        if key in self.command_options:
            return self.command_options[key]
        found: Given | None = getattr(self, OPTIONS[key].name) if key in OPTIONS else None
        return found


OPTIONS: Final = {each.key: each for each in options(StudySpec) if isinstance(each.kind, Templated | TemplatedList)}
"""The options of a run by key; they may be swept over and be templates."""


def option_kind(key: str) -> kinds.Kind:
    """Return the kind of an option's value, after substitution."""
    kind = OPTIONS[key].kind
    return TextOrList(kind.items, kind.words) if isinstance(kind, TemplatedList) else kind.kind
