"""The documentation is true: blocks run and print what stands there, links lead somewhere, tables are complete."""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.campaign import CAMPAIGN
from tests.doc_blocks import PAGES, ROOT, blocks, comparable, rerun
from tests.notebooks import NOTEBOOKS, executed, told
from xsim_py.cli.commands import COMMANDS, COMPILING, whole_parser
from xsim_py.config.schema import markdown_table
from xsim_py.report.result import ENDINGS, SUMMARY
from xsim_py.report.table import every_table
from xsim_py.study.loader import markdown_table as study_table

DOCS = ROOT / "docs"
LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def anchors(page: Path) -> set[str]:
    """Return what the headings of a page are called in links, by GitHub's rule."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Return where the relative links of a page lead: a file, and a heading in it or nothing."""
    for target in LINK.findall(prose(page)):
        if not target.startswith(("https://", "http://")):
            path, _, anchor = target.partition("#")
            yield (page.parent / path if path else page), anchor


def rows(page: Path, heading: str) -> list[list[str]]:
    """Return the cells of the tables under a heading of a page, without their heads."""
    section = prose(page).split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines if "---" not in line]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page.read_text(encoding="utf-8"))], ids=named)
def test_a_page_shows_what_happens(page: Path, tmp_path: Path):
    assert comparable(rerun(page, tmp_path, long=CAMPAIGN)) == comparable(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=named)
def test_a_notebook_shows_what_happens(notebook: Path, tmp_path: Path):
    assert told(executed(notebook, tmp_path)) == told(json.loads(notebook.read_text(encoding="utf-8")))


def test_every_file_of_a_page_is_used_below_it():
    for page in PAGES:
        found = blocks(page.read_text(encoding="utf-8"))
        rest = [(block.file, found[at:]) for at, block in enumerate(found, 1) if block.file]
        assert [name for name, later in rest if not _is_used(name, later)] == [], page


def _is_used(name: str, later: list) -> bool:
    module = Path(name).stem if Path(name).parent.name else name  # one in a package is imported, or entered
    return any(module in block.body for block in later)


def test_every_link_leads_somewhere():
    lost = [
        f"{named(page)}: {path}#{anchor}"
        for page in [*PAGES, ROOT / "CHANGELOG.md"]
        for path, anchor in links(page)
        if not path.exists() or (anchor and anchor not in anchors(path.resolve()))
    ]
    assert not lost


def test_every_page_can_be_found_from_the_first():
    found, todo = set(), [DOCS / "index.md"]
    while todo:
        page = todo.pop().resolve()
        if page not in found and page.suffix == ".md":
            found.add(page)
            todo += [path for path, _ in links(page)]
    assert set(DOCS.rglob("*.md")) <= found


def options_of(command: str) -> set[str]:
    """Return the options of a command, those of its sub-commands too."""
    parsers = [whole_parser().commands.choices[command]]
    names: set[str] = set()
    while parsers:
        parser = parsers.pop()
        for action in parser._actions:
            names.update(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
    return names


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("mpiexec", *COMPILING)])
def test_the_reference_has_every_option_and_no_other(command: str):
    cells = [cell for row in rows(DOCS / "reference" / "cli.md", f"xsim {command}") for cell in row]
    written = {
        word
        for cell in cells
        for code in re.findall(r"`([^`]*)`", cell)
        for word in re.findall(r"^-[\w=,.\[\]-]+", code)
    }
    assert written | {"-h", "--help"} == options_of(command)


@pytest.mark.parametrize(("name", "table"), [("yaml.md", markdown_table), ("studies.md", study_table)])
def test_the_table_of_keys_is_the_generated_one(name: str, table: Callable[[], str]):
    page = (DOCS / "reference" / name).read_text(encoding="utf-8")
    assert page.split("<!-- table -->\n")[1].split("<!-- end of table -->")[0] == table() + "\n"


def test_the_reference_has_every_entry_of_the_summary_and_every_ending():
    table = rows(DOCS / "reference" / "result.md", "Summary")[1:]
    assert [row[0].strip("`") for row in table] == list(SUMMARY)
    (ended,) = (row[2] for row in table if row[0] == "`ended`")
    assert tuple(re.findall(r"`([^`]+)`", ended)) == ENDINGS


def test_the_reference_has_every_column_with_its_unit():
    for table, columns in every_table().items():
        units = {
            name: row[1]
            for row in rows(DOCS / "reference" / "result.md", f"Table `{table}`")[1:]
            for name in re.findall(r"`([^`]+)`", row[0])
        }
        shown = {name: "s" if unit == "ps" else unit for name, unit in columns.items()}
        assert list(units) == list(shown)
        assert table == "links" or units == shown  # its file has no units


@pytest.mark.parametrize("page", ["verification.md", "reference/papers.md"])
def test_every_test_that_a_page_names_is_there(page: str):
    text, lost = "", []
    for path, name in re.findall(r"\]\([./]*(tests/[\w/]+\.py)\)|`(test_\w+)`", prose(DOCS / page)):
        if path:
            text = (ROOT / path).read_text(encoding="utf-8")
        elif f"def {name}(" not in text:
            lost.append(name)
    assert not lost


def test_a_rank_takes_what_the_guide_says():
    said = {
        row[0]: int(row[1].replace(",", "")) for row in rows(DOCS / "guides/what-a-rank-costs.md", "Memory by kind")[1:]
    }
    if sys.version_info >= (3, 12):
        said["frames and the rest"] += 2000
        said["total"] += 2000
    ranks = "65536" if CAMPAIGN else "8192"
    command = [sys.executable, "-m", "tests.bench.rank_bytes", ranks]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout)
    assert said.keys() == found.keys()
    assert {kind: found[kind] for kind in said} == pytest.approx(said, rel=0.3)


def test_no_heading_or_long_row_is_there_twice():
    for page in PAGES:
        lines = prose(page).splitlines()
        lines = [line for line in lines if line.startswith("#") or (line.startswith("|") and len(line) > 150)]
        assert [line for line, times in Counter(lines).items() if times > 1] == [], page


def test_pictures_are_small():
    assert not [path for path in DOCS.rglob("*.png") if os.path.getsize(path) > 150_000]
