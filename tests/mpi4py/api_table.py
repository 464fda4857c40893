"""Compare the simulated `MPI` with the stub of mpi4py, and write docs/reference/api.md.

``python -m tests.mpi4py.api_table --write`` brings the page up to date.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType

from xsim_py.mpi4py.docstrings import _phrases

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"


@dataclass
class Interface:
    """What MPI.pyi says: functions, classes and constants by name."""

    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)
    constants: list[str] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)  # what the constants are, by their names

    @property
    def names(self) -> set[str]:
        return {*self.functions, *self.classes, *self.constants}


@dataclass
class Class:
    base: str | None
    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)
    overloaded: set[str] = field(default_factory=set)
    others: list[str] = field(default_factory=list)  # properties and aliases

    @property
    def names(self) -> set[str]:
        return {*self.methods, *self.others}


@cache
def contract() -> Interface:
    """Read the stub file that the installed mpi4py brings."""
    text = distribution("mpi4py").locate_file("mpi4py/MPI.pyi").read_text(encoding="utf-8")
    found = Interface()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found.functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found.classes[node.name] = read_class(node)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            found.constants.append(target(node))
            if isinstance(node, ast.AnnAssign):
                found.types[target(node)] = ast.unparse(node.annotation).removeprefix("Final[").removesuffix("]")
    return found


def read_class(node: ast.ClassDef) -> Class:
    found = Class(base=node.bases[0].id if node.bases else None)
    for item in flat(node.body):
        if isinstance(item, ast.FunctionDef):
            if any(isinstance(d, ast.Name) and d.id == "overload" for d in item.decorator_list):
                found.overloaded.add(item.name)
            found.methods.setdefault(item.name, item)
        elif isinstance(item, ast.AnnAssign | ast.Assign):
            found.others.append(target(item))
    return found


def flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a class; of those that depend on the version of Python, the ones for this one."""
    for node in body:
        if isinstance(node, ast.If):
            if eval(ast.unparse(node.test), {"sys": sys}):
                yield from node.body
        else:
            yield node


def target(node: ast.AnnAssign | ast.Assign) -> str:
    name = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    assert isinstance(name, ast.Name)
    return name.id


def face() -> ModuleType:
    return importlib.import_module("xsim_py.mpi4py.MPI")


def is_property(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)


# ------------------------------------------------------------------------------------------------ the page


PARTLY = {
    "Win.Allocate_shared": "all ranks of a node must be simulated by the same real process",
    "Register_datarep": "conversion functions are rejected, as in MPICH; a name without them is accepted",
    "Pcontrol": "levels up to 2 have no effect; a higher level declares a compute time of that number of nanoseconds",
    "Datatype.Pack_external": "`long double` is not converted on some processors",
    "Datatype.Unpack_external": "`long double` is not converted on some processors",
}
"""Names with a limit, and the limit."""


def status(name: str, value: object) -> str:
    """Return ``supported``, ``limited``, or ``missing`` for a name without an implementation."""
    if value is None:
        return "missing"
    return "limited" if name in PARTLY else "supported"


def rows(owner: str, names: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return name, status and description of the public names of a class or of the module."""
    holder = face() if owner == "functions" else getattr(face(), owner)
    found = []
    for name in sorted(names):
        full = name if owner == "functions" else f"{owner}.{name}"
        value = inspect.getattr_static(holder, name, None)
        phrase = _phrases().get(owner, {}).get(name)
        shown = getattr(holder, name, None) if not isinstance(value, property) else value
        said = f"{phrase[0].upper()}{phrase[1:]}." if phrase else sentence(shown)
        limit = PARTLY.get(full)
        found.append((name, status(full, value), f"{said} Limit: {limit}." if limit else said))
    return found


def sentence(value: object) -> str:
    """Return the last paragraph of a docstring."""
    text = "" if isinstance(value, int | str) else (getattr(value, "__doc__", None) or "")
    return text.rpartition("\n\n")[2].replace("\n", " ")


def render(interface: Interface) -> str:
    """The page, from what the contract lists and from the code."""
    owners: dict[str, set[str]] = {name: public(found.names) for name, found in interface.classes.items()}
    owners["functions"] = public(interface.functions)
    tables = {owner: rows(owner, names) for owner, names in owners.items() if names}
    lines = [
        "# The mpi4py interface",
        "",
        "This page lists all names of `mpi4py.MPI` with their status: *supported*, *limited* (with a limit in the",
        "description) or *missing*. Tests check that names, signatures, defaults and types of constants are those of",
        "mpi4py. [mpi4py's own tests](conformance.md) show that the calls work as with a real MPI library.",
        "",
        "`mpi4py.util`, `mpi4py.futures` and `mpi4py.bench` are the original modules of mpi4py, except for",
        "`mpi4py.util.dtlib`, which is replaced. They run on the simulated `MPI`.",
        "",
        "This page is generated from the stub of mpi4py 4.1 (`MPI.pyi`) and the code of xsim_py, by",
        "`python -m tests.mpi4py.api_table --write`.",
        "",
        "## Overview",
        "",
        "| class or group | supported | limited | missing |",
        "| --- | ---: | ---: | ---: |",
    ]
    for owner, table in tables.items():
        counts = Counter(row[1] for row in table)
        lines.append(f"| {title(owner)} | {counts['supported']} | {counts['limited']} | {counts['missing']} |")
    lines.append(f"| Constants and predefined objects | {len(public(interface.constants))} | 0 | 0 |")
    for owner, table in tables.items():
        lines += ["", f"## {title(owner)}", "", "| name | status | description |", "| --- | --- | --- |"]
        lines += [f"| `{name}` | {known} | {text} |" for name, known, text in table]
    lines += ["", "## Constants and predefined objects", ""]
    lines.append(", ".join(f"`{name}`" for name in sorted(public(interface.constants))))
    return "\n".join(lines) + "\n"


def public(names: object) -> set[str]:
    assert hasattr(names, "__iter__")
    return {name for name in names if not name.startswith("_")}


def title(owner: str) -> str:
    return "Functions" if owner == "functions" else f"`{owner}`"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.mpi4py.api_table --write")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(render(contract()), encoding="utf-8")
