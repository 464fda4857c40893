"""Small mpi4py programs with a known mistake, each with a mended twin, made from the templates in the text files here.

A template begins with `## name: ranks 2 3` and may go on with `@ call = Send | Ssend`: each `$call` in what follows is
replaced by each of these in turn, in all combinations (`take 8` in the first line: eight of them). `@ a; b = 1 ; 2 | 3
; 4` chooses two at a time, and `\\n` begins a line. The variants go through the numbers of ranks and the ways to write
a program (`STYLES`). The end of a line says to which of the two programs it belongs:

    #!   the line of the mistake, in both           #!-  the line of the mistake, not in the mended program
    #-   not in the mended program                  #+   only in the mended program

`inputs 1 2 3` in the first line runs the program with each of these as its argument, `sizes 2 3 4` on each of these
numbers of ranks: what is wrong with some of them only is an InputHazard.

Where several lines are marked, a finding may name any of them. The class of the mistake is the first word of the file;
a template that two classes would fit has `or` and the other one in its first line. Programs without a mistake stand in
the files whose first word is "Correct".
"""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from string import Template
from typing import NamedTuple

HERE = Path(__file__).parent
STYLES = ("script", "main", "files", "class", "dup")
MAIN = "main.py"
_MARK = re.compile(r"\s*#(!-|!|-|\+)$")
_OPTIONS = ("ranks", "take", "styles", "or", "fail", "inputs", "sizes")
_IMPORTS = ["import numpy as np", "from mpi4py import MPI", ""]
_NAMES = ["rank = comm.Get_rank()", "size = comm.Get_size()"]


class Program(NamedTuple):
    """A program in one or more files; of a mistake it has its classes, and the file and line where it may be named."""

    name: str
    ranks: int
    files: dict[str, str]
    classes: tuple[str, ...] = ()
    lines: frozenset[tuple[str, int]] = frozenset()
    fail: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def is_correct(self) -> bool:
        return not self.classes

    def write(self, folder: Path) -> Path:
        """Write the files, and return the one to run."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        return folder / MAIN


def all_programs(category: str | None = None) -> Iterator[Program]:
    """Make the programs of one class, or of all."""
    for path in sorted(HERE.glob("*.txt")):
        title, *templates = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        of = title.split()[0]
        if category in (None, of):
            for template in templates:
                yield from _variants(of, template)


def _option(words: list[str], name: str) -> list[str]:
    """Return the words after one of a template's options."""
    if name not in words:
        return []
    rest = words[words.index(name) + 1 :]
    ends = (i for i, word in enumerate(rest) if word in _OPTIONS)
    return rest[: next(ends, len(rest))]


def _variants(category: str, template: str) -> Iterator[Program]:
    head, *lines = template.rstrip().split("\n")
    name, _, options = head.partition(":")
    words = options.split()
    ranks = [int(word) for word in _option(words, "ranks")] or [2]
    styles = _option(words, "styles") or STYLES
    choices, body = _choices(lines)
    combinations = [{k: v for each in chosen for k, v in each.items()} for chosen in product(*choices)]
    wanted = int((_option(words, "take") or [max(len(combinations), len(ranks))])[0])
    for i in range(wanted):
        at = i * len(combinations) // wanted if wanted < len(combinations) else i % len(combinations)
        chosen = combinations[at]
        n, style = ranks[i % len(ranks)], styles[(i + len(name)) % len(styles)]
        title = f"{category}-{name}-{i + 1}"
        filled = _fill(body, chosen)
        how = {
            "fail": tuple(word.replace("_", " ") for word in _option(words, "fail")),
            "inputs": tuple(_option(words, "inputs")),
            "sizes": tuple(map(int, _option(words, "sizes"))),
        }
        if category == "Correct":
            yield _program(title, n, style, filled, mended=True)._replace(**how)
        else:
            classes = (category, *_option(words, "or"))
            yield _program(title, n, style, filled, mended=False)._replace(classes=classes, **how)
            yield _program(f"{title}-mended", n, style, filled, mended=True)._replace(lines=frozenset(), **how)


def _choices(lines: list[str]) -> tuple[list[list[dict[str, str]]], list[str]]:
    choices = []
    while lines and lines[0].startswith("@"):
        names, _, values = lines.pop(0)[1:].partition(" = ")
        keys = [name.strip() for name in names.split(";")]
        alternatives = [[part.strip() for part in value.split(" ; ")] for value in values.split(" | ")]
        choices.append([dict(zip(keys, value, strict=True)) for value in alternatives])
    return choices, lines


def _fill(body: list[str], chosen: dict[str, str]) -> list[str]:
    """Put what was chosen in its places; a line break in it keeps the indentation."""
    filled = []
    for line in body:
        indent = line[: len(line) - len(line.lstrip())]
        values = {name: value.replace("\\n", f"\n{indent}") for name, value in chosen.items()}
        once = Template(line).safe_substitute(values)
        filled += Template(once).safe_substitute(values).split("\n")
    return filled


def _program(title: str, ranks: int, style: str, body: list[str], *, mended: bool) -> Program:
    kept, marked = [], []
    for line in body:
        mark = _MARK.search(line)
        sign = mark[1] if mark else ""
        if sign in (("-", "!-") if mended else ("+",)):
            continue
        if sign in ("!", "!-"):
            marked.append(len(kept))
        kept.append(_MARK.sub("", line))
    before, depth, after, others = _WAYS[style]
    file = next(iter(others), MAIN)
    text = [*before, *("    " * depth + line if line else line for line in kept), *after]
    files = {MAIN: "\n".join(text) + "\n"}
    if others:
        files = {MAIN: others[file], file: files[MAIN]}
    lines = frozenset((file, len(before) + 1 + at) for at in marked)
    return Program(title, ranks, files, (), lines)


def _inside(*opening: str) -> list[str]:
    depth = "    " * sum(line.rstrip().endswith(":") for line in opening)
    return [*_IMPORTS, "", *opening, *(depth + line for line in _NAMES)]


_WAYS: dict[str, tuple[list[str], int, list[str], dict[str, str]]] = {
    "script": ([*_IMPORTS, "comm = MPI.COMM_WORLD", *_NAMES, ""], 0, [], {}),
    "main": (
        [*_inside("def main():", "    comm = MPI.COMM_WORLD")],
        1,
        ["", "", 'if __name__ == "__main__":', "    main()"],
        {},
    ),
    "class": (
        [
            *_IMPORTS,
            "",
            "class Work:",
            "    def __init__(self, comm):",
            "        self.comm = comm",
            "",
            *_inside("    def run(self):", "        comm = self.comm")[4:-2],
            *("        " + line for line in _NAMES),
        ],
        2,
        ["", "", "Work(MPI.COMM_WORLD).run()"],
        {},
    ),
    "dup": (
        [*_IMPORTS, "comm = MPI.COMM_WORLD.Dup()", *_NAMES, ""],
        0,
        ["", "comm.Free()"],
        {},
    ),
    "files": (
        _inside("def run(comm):"),
        1,
        [],
        {"work.py": "from mpi4py import MPI\n\nfrom work import run\n\nrun(MPI.COMM_WORLD)\n"},
    ),
}
"""Of each way to write a program: what is before its body, how far it is indented, what follows, and other files."""
