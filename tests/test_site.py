"""What the site adds to the pages, and the reference of the Python interface: every public name with an example."""

import importlib.util
import inspect
import re
from collections import Counter
from types import ModuleType
from typing import Any

import pytest

import xsim_py
from tests.doc_blocks import ROOT, blocks
from xsim_py import ftco, legio, report, simulate, study
from xsim_py.cli.commands import COMMANDS

PAGE = ROOT / "docs" / "reference" / "python.md"
TO_ASSEMBLE = {"set_findings", "set_origin", "set_trace"}
"""Methods of a result that only the simulator calls."""


def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_conf", ROOT / "docs" / "site" / "conf.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def own(kind: type) -> set[str]:
    """Return the public names of a class which it does not inherit from a built-in one."""
    inherited = {name for base in kind.__mro__ if base.__module__ == "builtins" for name in vars(base)}
    return {name for name in dir(kind) if not name.startswith("_")} - inherited - TO_ASSEMBLE


def public() -> set[str]:
    """Return the names that need an entry."""
    names = {name for name in xsim_py.__all__ if not name.startswith("_")}
    for module in (ftco, study):
        names |= {f"{module.__name__.removeprefix('xsim_py.')}.{name}" for name in module.__all__}
    calls = inspect.getmembers(legio, inspect.isfunction)
    names |= {f"legio.{name}" for name, _ in calls if not name.startswith("_") and name != "import_module"}
    for name in report.__all__:
        names |= {name, *(f"{name}.{each}" for each in own(getattr(report, name)))}
    return names


def entries() -> dict[str, str]:
    """Return the executed Python below each heading that is a name."""
    parts = re.split(r"^#{2,3} (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        heading.strip("`"): "".join(block.body for block in blocks(text) if block.language == "python")
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
        if re.fullmatch(r"`[\w.]+`", heading)
    }


def test_every_public_name_has_an_entry_with_an_example():
    found = entries()
    assert set(found) == public()
    assert not [name for name, example in found.items() if not re.search(rf"\b{name.split('.')[-1]}\b", example)]


def test_the_example_of_a_result_has_every_attribute():
    result: Any = simulate("pass", kind="code", ranks=1)
    names = {name for name in vars(result) if not name.startswith("_")}
    assert names <= set(re.findall(r"\bresult\.(\w+)", entries()["Result"]))


def test_every_entry_gets_the_docstring_of_its_name():
    made = site()
    source = [PAGE.read_text(encoding="utf-8")]
    made.read(None, made.PYTHON, source)
    assert len(re.findall(r"^\.\. (?:auto|py:data)", source[0], re.MULTILINE)) == len(entries())
    kinds = {name: made.described(name).split(".. ")[1].split(":: ")[0].removeprefix("auto") for name in entries()}
    assert kinds["simulate"] == kinds["legio.alive"] == "function"
    assert kinds["Result"] == kinds["ftco.Outcome"] == "class"
    assert kinds["Result.save"] == kinds["Result.load"] == "method"
    assert kinds["Table.columns"] == "property"
    assert kinds["ftco.RULES"] == "py:data"


def test_the_help_page_has_every_command_as_it_prints_its_help(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "100")
    made, source = site(), [""]
    made.read(None, made.HELP, source)
    headings = re.findall(r"^(xsim.*)\n([=~-])\2+$", source[0], re.MULTILINE)
    assert {f"xsim {name}" for name in COMMANDS} | {"xsim", "xsim models show"} <= {name for name, _ in headings}
    assert "--wall-limit TIME" in source[0]


def test_the_tree_has_every_page_once():
    tree = site().TREE
    placed = Counter(child for children in tree.values() for child, _ in children)
    pages = {str(page.relative_to(ROOT).with_suffix("")) for page in (ROOT / "docs").rglob("*.md")} - {"docs/index"}
    assert pages | {"README", "CHANGELOG", "CONTRIBUTING"} <= set(placed)
    assert set(placed.values()) == {1}
    assert [heading for heading in dict.fromkeys(heading for _, heading in tree["docs/index"]) if heading] == [
        "Start",
        "Guides",
        "Reference",
        "Background",
    ]


@pytest.mark.parametrize("kind", ["fixture", "mark", "option"])
def test_every_name_of_the_plugin_is_in_an_executed_example(kind: str, pytestconfig: pytest.Config):
    page = (ROOT / "docs" / "reference" / "pytest.md").read_text(encoding="utf-8")
    run = "".join(block.body for block in blocks(page) if block.language in ("python", "console"))
    parser = pytestconfig._parser
    (group,) = (each for each in parser._groups if each.name == "xsim")
    marks = [line.partition(":")[0].partition("(")[0] for line in pytestconfig.getini("markers")]
    names = {
        "fixture": ["comm", "mpi_ranks", "mpi_tmp_path", "mpi_tmpdir", "mpi_file_name"],
        "mark": [f"mark.{name}" for name in marks if name in ("ranks", "parallel") or name.startswith("mpi")],
        "option": [name.partition("=")[0] for option in group.options for name in option.names()],
    }[kind]
    assert len(names) >= 5
    assert not [name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", run)]
