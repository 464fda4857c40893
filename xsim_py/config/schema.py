"""The keys of a description: JSON Schema for editors, and a table for the manual."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from xsim_py.config.description import MachineSpec
from xsim_py.config.value_kinds import ListOf, ListOrSection, OneOf, Section, SectionsOf, options


def json_schema(cls: type[Any] = MachineSpec, what: str = "machine description") -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a description.

    It accepts all valid descriptions. Loading also refuses errors that JSON Schema cannot express: contradicting keys,
    missing files, times below a picosecond, and sizes with half a byte.
    """
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"xsim_py {what}"}
    return head | Section(cls).schema()


def markdown_table() -> str:
    """Return a Markdown table of all keys with their values and defaults."""
    return "\n".join([*TABLE_HEAD, *table_rows(MachineSpec, "")])


TABLE_HEAD: Final = ("| key | value | default | meaning |", "| --- | --- | --- | --- |")


def table_rows(cls: type[Any], prefix: str) -> Iterator[str]:
    """Yield the table rows of the keys of one section, and of the sections in it."""
    for _, key, kind, help, default, shown, required in options(cls):
        usual = "" if isinstance(default, type) else default or ""
        inside = f"{prefix}{key}"
        yield f"| `{inside}` | {kind.words} | {'required' if required else shown or usual} | {help} |"
        if isinstance(kind, OneOf):
            kind = kind.other
        if isinstance(kind, ListOf):
            kind, inside = kind.items, f"{inside}[]"
        if isinstance(kind, SectionsOf):
            kind, inside = kind.items, f"{inside}.LAYER"
        if isinstance(kind, ListOrSection):
            kind = kind.section
        if isinstance(kind, Section):
            yield from table_rows(kind.cls, f"{inside}.")
