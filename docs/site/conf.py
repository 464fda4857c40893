"""The site that ``make docs`` builds from the pages of the repository, the public docstrings and the parsers.

The pages stay plain Markdown. What a site needs besides is made here while Sphinx reads them: the tree of pages, from
the links between them, and the docstring of each name below its heading in docs/reference/python.md.
"""

import inspect
import os
import re
from argparse import ArgumentParser, _SubParsersAction
from importlib import import_module
from itertools import groupby
from pathlib import Path
from textwrap import indent
from typing import Any

import xsim_py
from xsim_py.cli.commands import whole_parser

os.environ["COLUMNS"] = "100"  # of the help
ROOT = Path(__file__).resolve().parents[2]
START = "docs/index"
GENERATED = {START: ["README"], "docs/reference/cli": ["docs/site/help"]}  # no page links to these
PYTHON = "docs/reference/python"
HELP = "docs/site/help"

project = "xsim_py"
version = release = xsim_py.__version__
project_copyright = "the xsim_py authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = START
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/*.md", "docs/**/*.md", "docs/site/*.rst"]
exclude_patterns = [".*", "build", "dist", "demo-out", "tests", "models", "apps", "xsim_py"]
html_theme = "furo"
html_title = f"xsim_py {release}"
html_show_sourcelink = False
myst_heading_anchors = 6
default_role = "py:obj"
autodoc_typehints = "none"  # docstrings and signatures name the types
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True


def linked(page: str) -> list[tuple[str, str]]:
    """Return the pages to which a page links, each with the heading above the first link to it."""
    found: dict[str, str] = {}
    folder, heading = (ROOT / page).parent, ""
    for line in (ROOT / f"{page}.md").read_text(encoding="utf-8").splitlines():
        heading = line[3:] if line.startswith("## ") else heading
        for target in re.findall(r"\]\(([\w./-]+\.md)(?:#[^)]*)?\)", line):
            path = (folder / target).resolve()
            if path.exists():
                found.setdefault(str(path.relative_to(ROOT).with_suffix("")), heading)
    return list(found.items())


def tree() -> dict[str, list[tuple[str, str]]]:
    """Return the children of each page, with headings: a page is placed below the index that links to it.

    From the first page on, the page with the most links to pages without a place is the next one to get children.
    """
    children: dict[str, list[tuple[str, str]]] = {}
    seen, todo = {START}, {START: linked(START)}
    while todo:
        page = max(todo, key=lambda each: sum(child not in seen for child, _ in todo[each]))
        below = [(child, heading) for child, heading in todo.pop(page) if child not in seen]
        seen.update(child for child, _ in below)
        todo |= {child: linked(child) for child, _ in below}
        children[page] = below + [(child, "") for child in GENERATED.get(page, ())]
    return children


TREE = tree()


def toctrees(page: str) -> str:
    """Return the directives for the children of a page: on the first page one per heading, on others one."""
    made = []
    for heading, children in groupby(TREE.get(page, ()), lambda child: child[1] if page == START else ""):
        names = "\n".join(f"/{child}" for child, _ in children)
        caption = f":caption: {heading}\n" * bool(heading)
        made.append(f"```{{toctree}}\n:hidden:\n{caption}\n{names}\n```\n")
    return "\n\n" + "\n".join(made)


def described(name: str) -> str:
    """Return the directive for the docstring of a name such as ``simulate``, ``Result.save`` or ``ftco.missing``."""
    first, *rest = name.split(".")
    where = "xsim_py" if first in xsim_py.__all__ else "xsim_py.report"
    if first in ("ftco", "legio", "study"):
        where, (first, *rest) = f"xsim_py.{first}", rest
    owner: Any = import_module(where)
    found: Any = getattr(owner, first)
    for each in rest:
        owner, found = found, inspect.getattr_static(found, each)
    kind = "autoclass" if inspect.isclass(found) else "autofunction"
    if inspect.isclass(owner):
        kind = "autoproperty" if isinstance(found, property) else "automethod"
    elif not callable(found):
        kind = "py:data"  # its docstring would be that of its type
    return f"\n```{{eval-rst}}\n.. {kind}:: {'.'.join([where, first, *rest])}\n```\n"


def helps(parser: ArgumentParser, level: str = "=-~") -> str:
    """Return the help of each command and sub-command below a heading, as it is printed."""
    title = f"{parser.prog}\n{level[0] * len(parser.prog)}"
    made = [title, ".. code-block:: text", indent(parser.format_help(), "   ")]
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            made += [helps(each, level[1:]) for each in action.choices.values()]
    return "\n\n".join(made)


def read(app: Any, page: str, source: list[str]) -> None:
    """Add to a page what the site needs; its file stays as it is."""
    if page == PYTHON:
        source[0] = re.sub(
            r"^### `(?P<name>[\w.]+)`$",
            lambda found: found[0] + described(found["name"]),
            source[0],
            flags=re.MULTILINE,
        )
    if page == HELP:
        source[0] += "\n" + helps(whole_parser())
    if page in TREE:
        source[0] += toctrees(page)


def setup(app: Any) -> None:
    """Let Sphinx read the pages by `read`."""
    app.connect("source-read", read)
