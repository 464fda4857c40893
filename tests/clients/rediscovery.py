"""``python -m tests.clients.rediscovery``: run public packages in a version with a known bug, and in one without.

Each bug of ``bugs/bugs.yaml`` has a program of ours that uses the package. What it says must be reported of the faulty
version, and not of the fixed one; else the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.clients.description import Client
from tests.clients.environment import ROOT, CannotRun, Environment

BUGS = Path(__file__).resolve().parent / "bugs"
PAGE = ROOT / "docs" / "reference" / "public-bugs.md"
MARK = "<!-- what follows is written by `python -m tests.clients.rediscovery --write` -->"
# Some are built from their sources, against what was usual at their time.
REQUIRES = (
    "numpy==1.26.4",
    "scipy==1.13.1",
    "cython==0.29.37",
    "setuptools==69.5.1",
    "setuptools-scm==8.1.0",
    "wheel==0.45.1",
    "dill==0.4.1",
    "multiprocess==0.70.19",
    "six==1.17.0",
    "tqdm==4.67.1",
)
LIMIT_S = 300
SIDES = ("faulty", "fixed")
# What a report says of where packages lie, and of when something happened, is not the same everywhere.
_FOUND = re.compile(r"^\S+:\d+: [A-Z]\w+: |^ +\|? +rank|^ *cycle: |^points |^a deadlock|^as usual")


@dataclass(frozen=True)
class Side:
    """A version of a package, what is changed of it, and what a program is told."""

    package: str = ""
    sdist: str = ""
    arguments: str = ""
    file: str = ""
    replace: str = ""
    by: str = ""

    def __str__(self) -> str:
        """Return what tells it from the other side."""
        name = (self.package or self.sdist).replace("==", " ") or f"arguments: {self.arguments or 'none'}"
        return f"{name}, with `{self.by}` for `{self.replace}`" if self.file else name


@dataclass(frozen=True)
class Bug:
    """A public bug, and the program that meets it."""

    name: str
    issue: str
    about: str
    fix: str
    program: str
    faulty: Side
    fixed: Side
    command: str
    reported: str
    instead: str
    arguments: str = ""


@dataclass
class Shown:
    """What was said of both versions of a package."""

    bug: Bug
    said: dict[str, str] = field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        """Whether the bug is reported where it is, and the fixed version does what it should."""
        faulty, fixed = self.said["faulty"], self.said["fixed"]
        clean = not re.search(self.bug.reported, fixed) and re.search(self.bug.instead, fixed, re.MULTILINE)
        return bool(re.search(self.bug.reported, faulty) and clean)


def bugs(names: Sequence[str] = ()) -> Iterator[Bug]:
    """The bugs of these names; all, if none is named."""
    for said in yaml.safe_load((BUGS / "bugs.yaml").read_text(encoding="utf-8")):
        if not names or said["name"] in names:
            yield Bug(**{**said, "faulty": Side(**said["faulty"]), "fixed": Side(**said["fixed"])})


class Workshop:
    """The folder with all versions of the packages."""

    def __init__(self, folder: Path):
        client = Client("bugs", REQUIRES, ())
        self._environment = Environment(client, folder)
        self.folder = self._environment.folder

    def make(self) -> None:
        """Install what all need, and put the programs where they run."""
        self._environment.make()
        for program in BUGS.glob("*.py"):
            shutil.copy(program, self.folder)

    def run(self, bug: Bug, side: Side) -> str:
        """Run the bug's program with one version of the package; return all that is said."""
        path, arguments = "", f"{bug.arguments} {side.arguments}"
        if side.sdist:
            sources = self._environment.fetched(side.sdist).relative_to(self.folder)
            arguments = arguments.replace("{sdist}", str(sources))
        if side.package:
            path = self._installed(side)
        command = [str(self._environment.bin / "xsim"), *shlex.split(bug.command), bug.program, *shlex.split(arguments)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=kept | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return done.stdout.replace(f"{self.folder}{os.sep}", "")

    def _installed(self, side: Side) -> str:
        """Install a version into a folder of its own, which is the entry of the path that is returned."""
        name = f"{side.package}-changed" if side.file else side.package
        folder = self.folder / name
        if not folder.is_dir():
            fresh = self.folder / f"{name}.part"
            shutil.rmtree(fresh, ignore_errors=True)
            self._environment.pip(
                "install", "--no-deps", "--no-build-isolation", "--no-compile", "--target", str(fresh), side.package
            )
            if side.file:
                text = (fresh / side.file).read_text(encoding="utf-8")
                (fresh / side.file).write_text(text.replace(side.replace, side.by), encoding="utf-8")
            fresh.rename(folder)
        return name


def text(shown: Sequence[Shown]) -> Iterator[str]:
    """The lines of the page: a table, and each bug with what was said."""
    yield from ("## Reported bugs", "")
    yield "| package | public report | faulty version | fixed version | finding |"
    yield "| --- | --- | --- | --- | --- |"
    for each in shown:
        bug = each.bug
        found = re.search(bug.reported, each.said["faulty"])
        line = found[0] if found else "not found"
        known = f"[{_short(bug.issue)}]({bug.issue})"
        yield f"| [{bug.name}](#{bug.name}) | {known} | {bug.faulty} | {bug.fixed} | `{line}` |"
    for each in shown:
        bug = each.bug
        yield from ("", f"### {bug.name}", "", *_wrapped(bug.about), "", *_wrapped(f"Fix: {bug.fix}"), "")
        yield "```text"
        for side in SIDES:
            version = getattr(bug, side)
            arguments = f"{bug.arguments} {version.arguments}".replace("{sdist}", version.sdist).split()
            yield f"$ xsim {' '.join([bug.command, bug.program, *arguments])}  # {version}"
            yield from _told(each.said[side])
        yield "```"


def _short(issue: str) -> str:
    return "{} {}".format(*issue.split("/")[-2:]).replace("pull", "pull request").replace("issues", "issue")


def _wrapped(said: str) -> list[str]:
    lines, words = [""], said.split()
    for word in words:
        if len(lines[-1]) + len(word) >= 120:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _told(said: str) -> list[str]:
    """Return the lines of a report that say what was found, once each."""
    return list(dict.fromkeys(line for line in said.splitlines() if _FOUND.search(line)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients.rediscovery", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="bugs (default: all)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".clients", help="where to install")
    parser.add_argument("--write", action="store_true", help="write the page of the documentation, too")
    options = parser.parse_args(arguments)
    workshop = Workshop(options.folder.resolve())
    shown, failed = list[Shown](), 0
    try:
        workshop.make()
    except CannotRun as problem:
        print(problem)
        return 1
    for bug in bugs(options.names):
        each = Shown(bug)
        try:
            each.said = {side: workshop.run(bug, getattr(bug, side)) for side in SIDES}
        except (CannotRun, subprocess.TimeoutExpired) as problem:
            print(f"{bug.name}: {problem}", flush=True)
            failed += 1
            continue
        print(f"{bug.name}: {'found' if each.is_right else 'NOT AS EXPECTED'}", flush=True)
        if not each.is_right:
            failed += 1
            print(*(f"  {side}: {said}" for side, said in each.said.items()), sep="\n")
        shown.append(each)
    if options.write:
        above = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
        PAGE.write_text(above + MARK + "\n\n" + "\n".join(text(shown)) + "\n", encoding="utf-8")
    print(f"{len(shown)} bugs, {failed} not as expected")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
