"""The description's keys for other readers: JSON Schema for editors, and a table for the manual."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xsim_py.config.description import MachineSpec
from xsim_py.config.kinds import ListOf, OneOf, Section, options

__all__ = ["json_schema", "markdown_table"]


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a machine description.

    It accepts whatever `load_machine` accepts. `load_machine` also refuses what JSON Schema cannot see: keys that
    contradict each other, files that are not there, times below a picosecond, and sizes with half a byte.
    """
    schema = Section(MachineSpec).schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "xsim_py machine description",
        **schema,
    }


def markdown_table() -> str:
    """A Markdown table of every key, its values and its default."""
    rows = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    return "\n".join([*rows, *_rows(MachineSpec, "")])


def _rows(cls: type[Any], prefix: str) -> Iterator[str]:
    for field in options(cls):
        told = field.metadata
        kind = told["kind"]
        default = "required" if told["required"] else told["shown"] or told["default"] or ""
        default = "" if isinstance(kind, Section) and isinstance(told["default"], type) else default
        yield f"| `{prefix}{told['key']}` | {kind.words} | {default} | {told['help']} |"
        inside = f"{prefix}{told['key']}"
        if isinstance(kind, OneOf):
            kind = kind.other
        if isinstance(kind, ListOf):
            kind, inside = kind.items, f"{inside}[]"
        if isinstance(kind, Section):
            yield from _rows(kind.type, f"{inside}.")
