"""Loading of studies: from a preset's name, a file or a mapping to a validated `StudySpec`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from xsim_py.config import schema
from xsim_py.config.described import read_description
from xsim_py.config.document import read_yaml_file
from xsim_py.config.entries import Entry, Location, Problem, from_python, raise_all
from xsim_py.config.loader import bundled, files_by_name
from xsim_py.config.value_kinds import Reading, Section
from xsim_py.errors import ConfigError, advice
from xsim_py.input_files import is_file
from xsim_py.study.contradictions import contradictions, plot_contradictions
from xsim_py.study.description import CaptureSpec, PlotSpec, StudySpec

_PYTHON: Final = Location.in_file("study")


def presets() -> Mapping[str, Path]:
    """Return the files of the included studies, by name."""
    return files_by_name(bundled("models") / "studies")


def load_study(source: str | Path | Mapping[str, Any]) -> StudySpec:
    """Read and validate a study.

    Parameters
    ----------
    source
        The path of a YAML file, the name of a preset (``"xsim-fig1"``), or the same as a mapping.

    Raises
    ------
    ConfigError
        With every problem on a separate line: ``file:line:column: path: message``.
    """
    reading = Reading()
    root, name, folder = _root(source, reading.problems)
    return read_description(StudySpec, "study", root, reading, contradictions, name=name, folder=folder)


def plot_of(spec: StudySpec, keys: Mapping[str, Any]) -> PlotSpec:
    """Return a plot with these keys, as an entry of ``plots`` of a study."""
    reading = Reading()
    entry = from_python({"file": "plot.png", **keys}, place=Location.in_file("plot"))
    plot: PlotSpec = Section(PlotSpec).read(entry, "", reading)
    raise_all(reading.problems)
    found = plot_contradictions(replace(spec, plots=(plot,)))
    problems = [f"plot: {path.removeprefix('plots[0].')}: {message}" for path, message, _ in found]
    if problems:
        raise ConfigError(*problems)
    return plot


def _root(source: str | Path | Mapping[str, Any], problems: list[Problem]) -> tuple[Entry, str, Path]:
    if isinstance(source, Mapping):
        return from_python(source, place=_PYTHON), "study", Path.cwd()
    path = Path(source)
    if isinstance(source, str) and not is_file(path):
        path = _preset(source)
    return read_yaml_file(path, what="study", problems=problems), path.stem, path.absolute().parent


def _preset(name: str) -> Path:
    """Return the preset with that name, or with that file name: ``studies/xsim-fig1.yaml``."""
    short = name.removeprefix("studies/").removesuffix(".yaml")
    found = presets().get(short)
    if found is None:
        said = f"unknown file or preset study {name!r}: {advice(short, presets())}"
        raise ConfigError(f"{said}\npresets: {', '.join(presets())}")
    return found


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a study; `load_study` rejects even more."""
    return schema.json_schema(StudySpec, "study")


def markdown_table() -> str:
    """Return a Markdown table of every key of a study, its values and its default."""
    return "\n".join(
        [*schema.TABLE_HEAD, *schema.table_rows(StudySpec, ""), *schema.table_rows(CaptureSpec, "capture.NAME.")]
    )
