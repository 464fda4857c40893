"""Contradictions in a study: exclusive keys, unknown names, and missing keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Final

from xsim_py.config.described import Contradiction
from xsim_py.config.loader import every_path
from xsim_py.errors import advice
from xsim_py.report.style import PICTURES
from xsim_py.study.columns import RESERVED, column_names, key_columns, metric_names
from xsim_py.study.commands import COMMANDS
from xsim_py.study.condition import Condition
from xsim_py.study.description import OPTIONS, StudySpec
from xsim_py.study.published import read_published
from xsim_py.study.template import text_of
from xsim_py.study.value_kinds import Given

ALWAYS_KNOWN: Final = ("repetition", "seed", "ranks", "machine", "folder", "apps")
"""Names available in templates besides the variables and the given options."""

_LONGEST_NAME: Final = 200
_SWEPT: Final = ("sweep", "cases", "zip")


def contradictions(spec: StudySpec) -> Iterator[Contradiction]:
    """Yield every key of ``spec`` that contradicts another, has an unknown name, or is missing."""
    for path, message, involved in _all(spec):
        yield path, message, (path, *involved)


def _all(spec: StudySpec) -> Iterator[Contradiction]:
    yield from _options(spec)
    if "/" in spec.name:
        yield "name", f"{spec.name!r} cannot be part of a directory name, as the results need; choose another name", ()
    if spec.command is None and spec.command_options:
        yield "options", f"missing key: command, one of {', '.join(COMMANDS)}", ("command",)
    yield from _published(spec)
    yield from _together(spec)
    yield from _variables(spec)
    yield from _templates(spec)
    yield from _captures(spec)
    yield from _conditions("only", spec.only, key_columns(spec))
    yield from _columns(spec)
    yield from plot_contradictions(spec)


def _options(spec: StudySpec) -> Iterator[Contradiction]:
    if spec.command is not None:
        yield from _command(spec)
    for key in ("program", "ranks") if spec.command is None else ():
        without = [case.path for case in spec.cases if key not in case.others]
        if spec.given(key) is None and key not in spec.variables and (without or not spec.cases):
            path = key if len(without) == len(spec.cases) else f"{without[0]}.{key}"
            yield path, f"missing key; give it here or in sweep; {OPTIONS[key].help}", _SWEPT
    for key, named in (("sweep", spec.sweep), ("zip", spec.zipped)):
        for name in named:
            fixed = name if name in OPTIONS and spec.given(name) is not None else f"set.{name}"
            if fixed == name or name in spec.overrides:
                yield f"{key}.{name}", f"cannot be combined with {fixed}; drop one", (fixed,)
    if "seed" in spec.variables and spec.repetitions > 1:
        yield "repetitions", "cannot be combined with a sweep over seeds; drop one", ("sweep",)


def _command(spec: StudySpec) -> Iterator[Contradiction]:
    """Yield keys that only a program and its machine have, and options unknown to the command."""
    own = ("seed", *COMMANDS[str(spec.command)].options)
    given = [key for key, each in OPTIONS.items() if getattr(spec, each.name) is not None and key != "seed"]
    others = {"set": spec.overrides, "capture": spec.capture}
    given += [key for key, value in others.items() if value]
    varied = [each.path for _, key, each in spec.swept() if key in OPTIONS and key not in own]
    for path in dict.fromkeys((*given, *varied)):
        yield path, f"cannot be combined with command {spec.command}: it needs a program on a machine", ("command",)
    for name in spec.command_options:
        if name not in _choices(spec):
            known = advice(name, _choices(spec))
            yield f"options.{name}", f"unknown option of {spec.command}; {known}", ("command",)
        if name in spec.variables:
            yield spec.variables[name][0].path, f"cannot be combined with options.{name}; drop one", ("options",)


def _choices(spec: StudySpec) -> tuple[str, ...]:
    """Return the options over which this study may sweep."""
    return tuple(OPTIONS) if spec.command is None else (*COMMANDS[spec.command].options, "seed")


def _published(spec: StudySpec) -> Iterator[Contradiction]:
    if spec.published is None:
        return
    try:
        read_published(spec)
    except ValueError as error:
        yield "published.file", str(error), (*_SWEPT, "capture", "options", "command")


def _together(spec: StudySpec) -> Iterator[Contradiction]:
    """Yield names with values from several places, lists of unequal length, and equal cases."""
    first: dict[str, tuple[str, str]] = {}
    for source, name, value in spec.swept():
        other, path = first.setdefault(name, (source, value.path))
        if source != other:
            yield value.path, f"cannot be combined with {path}; drop one", ()
    lengths = {name: len(values) for name, values in spec.zipped.items()}
    for name, length in lengths.items():
        one, expected = next(iter(lengths.items()))
        if length != expected:
            yield f"zip.{name}", f"expected {expected} values, as in zip.{one}, got {length}", ("zip",)
    labels: dict[str, str] = {}
    for case in spec.cases:
        label = text_of(case.label)
        if (same := labels.setdefault(label, case.path)) != case.path:
            yield case.path, f"duplicate {label!r}, as in {same}; give it a different label", ()
    rows: dict[tuple[str, ...], int] = {}
    for index, row in enumerate(zip(*spec.zipped.values(), strict=False)):
        texts = tuple(text_of(value.label) for value in row)
        if (equal := rows.setdefault(texts, index)) != index:
            yield "zip", f"values [{equal}] and [{index}] are equal ({', '.join(texts)}); drop one", ("zip",)


def _variables(spec: StudySpec) -> Iterator[Contradiction]:
    """Yield variables without an effect: their runs would be identical but look different."""
    used = {name for _, given in _all_given(spec) for _, name in given.names()}
    for path, name in dict.fromkeys((each.path, name) for source, name, each in spec.swept() if source != "cases"):
        if name in RESERVED or (spec.command is not None and name in COMMANDS[spec.command].metrics):
            yield path, "the results have a column of this name; choose another", ()
        elif "." in name and name not in every_path():
            yield path, f"unknown key of a machine; {advice(name, every_path())}", ()
        elif "." not in name and name not in _choices(spec) and name not in used:
            known = advice(name, _choices(spec))
            of = "a run" if spec.command is None else spec.command
            yield path, f"neither an option of {of} nor used in a template; {known}", tuple(OPTIONS)
    for name in spec.overrides:
        if name not in every_path():
            yield f"set.{name}", f"unknown key of a machine; {advice(name, every_path())}", ()


def _templates(spec: StudySpec) -> Iterator[Contradiction]:
    known = {
        *(name for _, name, _ in spec.swept()),
        *ALWAYS_KNOWN,
        *(key for key in OPTIONS if spec.given(key) is not None),
        *spec.command_options,
    }
    for path, given in _all_given(spec):
        for where, name in given.names():
            if name not in known:
                yield path + where, f"unknown variable {name}; {advice(name, sorted(known))}", _SWEPT


def _all_given(spec: StudySpec) -> Iterator[tuple[str, Given]]:
    """Yield everything that may be a template, with its path."""
    for key in OPTIONS:
        given = spec.given(key)
        if given is not None:
            yield key, given
    for name, given in spec.overrides.items():
        yield f"set.{name}", given
    for name, given in spec.command_options.items():
        yield f"options.{name}", given
    for source, _, value in spec.swept():
        if source != "cases":  # a label
            yield value.path, value.given


def _captures(spec: StudySpec) -> Iterator[Contradiction]:
    for name in spec.capture:
        if name in RESERVED or name in spec.variables or name in ALWAYS_KNOWN:
            yield f"capture.{name}", "the results have a column of this name already; choose another", _SWEPT


def _conditions(path: str, conditions: Iterable[Condition], columns: list[str]) -> Iterator[Contradiction]:
    for index, condition in enumerate(conditions):
        try:
            condition.check(columns)
        except ValueError as error:
            yield f"{path}[{index}]", str(error), _SWEPT


def _columns(spec: StudySpec) -> Iterator[Contradiction]:
    for name in spec.table or ():
        if name not in metric_names(spec):
            yield "table", f"unknown mean {name}; {advice(name, metric_names(spec))}", ("capture",)


def plot_contradictions(spec: StudySpec) -> Iterator[Contradiction]:
    """Yield the problems in the plots of a study."""
    files: list[str] = []
    for index, plot in enumerate(spec.plots):
        path = f"plots[{index}]"
        if PurePath(plot.file).name != plot.file or PurePath(plot.file).suffix not in PICTURES:
            yield f"{path}.file", f"expected the name of a {' or '.join(PICTURES)} file, got {plot.file!r}", ()
        if len(plot.file.encode()) > _LONGEST_NAME:
            yield f"{path}.file", f"the name is too long (at most {_LONGEST_NAME} bytes)", ()
        if plot.file in files:
            yield f"{path}.file", "a second plot with the same file; rename one", ()
        files.append(plot.file)
        yield from _plot_columns(spec, index)
        yield from _conditions(f"{path}.only", plot.only, key_columns(spec))


def _plot_columns(spec: StudySpec, index: int) -> Iterator[Contradiction]:
    plot, path = spec.plots[index], f"plots[{index}]"
    if plot.x in metric_names(spec) and plot.series is None:
        yield f"{path}.series", f"{plot.x} is measured; add series, the columns that distinguish the lines", _SWEPT
    if plot.show != "value" and plot.x != "ranks":
        yield f"{path}.show", f"{plot.show} needs x: ranks, got {plot.x!r}", ()
    if plot.panels is not None and plot.panels in (plot.x, *(plot.series or ())):
        yield f"{path}.panels", f"{plot.panels} is in x or series already; name another variable", ()
    choices = {
        "x": ((plot.x,), key_columns(spec) + metric_names(spec)),
        "y": (plot.y, metric_names(spec)),
        "series": (plot.series or (), key_columns(spec)),
        "panels": ((plot.panels,) if plot.panels else (), key_columns(spec)),
    }
    for key, (names, known) in choices.items():
        for name in names:
            if name not in known:
                there = "is not numeric" if name in column_names(spec) else "does not exist"
                yield f"{path}.{key}", f"the column {name!r} {there}; {advice(name, known)}", (*_SWEPT, "capture")
