"""The fenced blocks of the documentation: which kinds there are, how they run, and how transcripts get into a page.

========================  =============================================================================================
console                   commands after ``$ ``, run by bash in the page's folder; under each stands what it printed
python                    run; all of a page share one namespace
text output               what the Python block above it printed
yaml                      a whole machine description, which must be good
yaml study                a whole study, which must be good
python file=NAME          put into the page's folder under that name, for the blocks below; so is any other kind
console long, ...         takes seconds, and is run by `make campaign` and --write only; Python, too
anything else             left alone: ``sh`` is for commands that need a network or a while
========================  =============================================================================================

A page's folder is empty but for ``apps/``; its own path is left out of transcripts. What cannot be the same twice is
left out of the comparison: see `comparable`.

python -m tests.doc_blocks --write [PAGE ...]     puts what is printed now into the pages
python -m tests.doc_blocks --check [PAGE ...]     tells what `xsim run --check` finds in programs of the pages
"""

import argparse
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from tests.real_mpi import MPIEXEC
from tests.warm import client
from xsim_py.config import load_machine
from xsim_py.findings import CATEGORIES
from xsim_py.study import load_study, plan_runs

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^```(?P<kind>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_END = "\x1e"
_TIME_LIMIT_S = 300
_OF_THE_SERVICE = {"CI", "BUILD_NUMBER"}  # pytest writes its summary in full where it finds them
# Each command sees the exit status of the one before, as `echo $?` wants it.
_RUN = f"""
run() {{ (exit $status); eval "$1" 2>&1 </dev/null; status=$?; printf '\\n{_END}'; }}
status=0
"""
_PYTHON = """#!/bin/sh
case "$1 $2" in
    "-m pytest") shift 2; exec {1} "$@" ;;
    "-m xsim_py") [ ! -e xsim_py ] || {{ shift 2; exec {2} "$@"; }} ;;
esac
exec {0} "$@"
"""
# What is left behind is nobody's fault where processes have died: so a program with failures is run without them, too.
_CHECKED = """#!/bin/bash
checked() {{ {{ {0} "$@" 2>&1 >&3 | tee -a {1} >&2; }} 3>&1; return "${{PIPESTATUS[0]}}"; }}
case "$1" in
    run) shift ;;
    compare|compare-recovery|explore|failures|ftco|study) exit ;;  # they take long, and check nothing
    *) exec {0} "$@" ;;
esac
unharmed=()
for word in "$@"; do
    case "$dropped$word" in
        --fail) dropped=the-next- ;;
        the-next-*) dropped= ;;
        --fail=*) ;;
        *) unharmed+=("$word") ;;
    esac
done
[ "${{#unharmed[@]}}" = $# ] || checked run --check "${{unharmed[@]}}" >/dev/null 2>&1
checked run --check "$@"
"""
_FINDING = re.compile(rf"^(\S+):\d+: ({'|'.join(CATEGORIES)}): ", re.MULTILINE)
_VARYING = [
    (r"\b[0-9a-f]{32}\b", "<digest>"),
    (r"\b(config|configuration|config_hash\":) \"?[0-9a-f]{16}\b", r"\1 <hash>"),
    (r"\b(version|xsim_py|version\":) \"?[0-9]+\.[0-9]+\.[0-9]+\w*", r"\1 <version>"),
    (r"[0-9.e-]+ s CPU, [0-9.e-]+ s wall, [0-9.]+ \w+ memory", "<cost>"),
    (r"\([0-9.]+ s wall clock\)", "<cost>"),
    (r"(passed|failed|error|skipped|deselected) in [0-9.]+s(?: \(\S+\))?", r"\1 in <cost>"),
    (r"object at 0x[0-9a-f]+", "object at <address>"),
    (r"(\"(?:cpu_s|wall_s|peak_rss_bytes)\":) [0-9.e-]+", r"\1 <cost>"),
    (r" +[0-9.e-]+  (finished|aborted|stalled)$", r" <cost>  \1"),
    (r"^ [ ~]*[~^][ ~^]*\n", ""),  # marks below the lines of a traceback
    (r"^xsim: .*(?: of [\d,]+ runs  | events/s  ).*\n", ""),  # said every half minute, where that comes
    (r"\b[0-9](?:\.[0-9]+)?e-1[3-9]\b", "<rounding>"),  # numpy adds up in the order that suits the processor
    (r"-{3,}|  +", "  "),
]


class Block(NamedTuple):
    """A fenced block of a page."""

    kind: str
    body: str
    span: tuple[int, int]
    """Where its body stands in the page's text."""

    @property
    def language(self) -> str:
        """The first word after the fence."""
        return self.kind.split()[0] if self.kind.strip() else ""

    @property
    def file(self) -> str | None:
        """The name under which the body is to be found in the page's folder."""
        found = re.search(r"\bfile=(\S+)", self.kind)
        return found[1] if found else None

    @property
    def commands(self) -> list[str]:
        """The commands of a console block; a line that ends in a backslash goes on in the next."""
        return re.findall(r"^\$ ((?:.*\\\n)*.*)$", self.body, re.MULTILINE)


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    return [Block(match["kind"], match["body"], match.span("body")) for match in _FENCE.finditer(text)]


def comparable(text: str) -> list[str]:
    """Return the lines of a text without what may differ: fingerprints, versions, cost, and the room for these."""
    for pattern, replacement in _VARYING:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text.splitlines()


def rerun(page: Path, folder: Path, *, checked: bool = False, long: bool = True) -> str:
    """Return the text of a page with every transcript as it comes out now.

    Parameters
    ----------
    page
        A Markdown file.
    folder
        Where to run: an empty folder.
    checked
        Run what `xsim run` runs with its checks; see `findings`.
    long
        Run what takes long, too.
    """
    text = page.read_text(encoding="utf-8")
    environment = prepared(folder, checked=checked, copied="cp -a" in text and "python -m xsim_py" in text)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = ""
    pieces, done = [], 0
    for block in blocks(text):
        body = block.body
        if block.file is not None:
            (folder / block.file).write_text(body, encoding="utf-8")
        if block.language == "yaml":
            _check_yaml(block, folder)
        elif block.language in ("console", "python") and "long" in block.kind.split() and not long:
            printed = None
        elif block.language == "console" and not ("mpiexec" in body and not MPIEXEC.exists()):
            body = "".join(_transcript(block.commands, folder, environment))
        elif block.language == "python" and block.file is None:
            printed = _execute(block, folder, namespace)
        elif block.kind.strip() == "text output" and printed is not None:
            body = printed
        pieces += [text[done : block.span[0]], body]
        done = block.span[1]
    return "".join([*pieces, text[done:]])


def findings(page: Path, folder: Path) -> set[str]:
    """Return what the checks find in the programs that a page runs: each file, and the class of the finding."""
    rerun(page, folder, checked=True)
    told = _report(folder)
    lines = told.read_text(encoding="utf-8") if told.exists() else ""
    return {f"{file}: {category}" for file, category in _FINDING.findall(lines)}


def _report(folder: Path) -> Path:
    """Return where all that checked runs say is kept, whatever a command does with it."""
    return folder.parent / f"{folder.name}-report.txt"


def prepared(folder: Path, *, checked: bool = False, copied: bool = False) -> dict[str, str]:
    """Put `xsim`, `python` and `mpiexec` of this environment, and the example programs, where a page finds them.

    With `copied`, a page copies the package, and runs the copy.
    """
    shutil.copytree(ROOT / "apps", folder / "apps", ignore=shutil.ignore_patterns("__pycache__"))
    tools = folder.parent / f"{folder.name}-bin"
    tools.mkdir()
    commands = {"xsim": client()}
    if checked:
        quoted = shlex.quote(str(tools / "unchecked")), shlex.quote(str(_report(folder)))
        commands = {"unchecked": client(), "xsim": _CHECKED.format(*quoted)}
    commands |= {"pytest": client("pytest"), "copied": client("others") if copied else ""}
    programs = (sys.executable, str(tools / "pytest"), str(tools / "copied"))
    commands["python"] = _PYTHON.format(*map(shlex.quote, programs))
    for name, text in commands.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    surroundings = {name: value for name, value in os.environ.items() if name not in _OF_THE_SERVICE}
    return {
        **surroundings,
        "COLUMNS": "100",  # pytest's workers may say something else
        "PATH": os.pathsep.join([str(tools), str(MPIEXEC.parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",  # the order of a terminal, where lines of both streams come as they are written
        "OMP_NUM_THREADS": "1",
        "PYTEST_PLUGINS": "xsim_py.testing.plugin",  # as its entry point does it, also where that is of another folder
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }


def _transcript(commands: list[str], folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run commands in one shell, and give each with what it printed."""
    done = subprocess.run(
        ["bash", "-c", _RUN + "\n".join(f"run {shlex.quote(command)}" for command in commands)],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_TIME_LIMIT_S,
    )  # fmt: skip
    everything = done.stdout.decode().replace(f"{folder.resolve()}/", "")
    for command, printed in zip(commands, everything.split(_END), strict=False):
        shown = printed.removesuffix("\n")
        yield f"$ {command}\n{shown}" if not shown or shown.endswith("\n") else f"$ {command}\n{shown}\n"


def _execute(block: Block, folder: Path, namespace: dict[str, Any]) -> str:
    printed = io.StringIO()
    with chdir(folder), redirect_stdout(printed), redirect_stderr(printed):
        exec(compile(block.body, "block", "exec", dont_inherit=True), namespace)
    return printed.getvalue()


def _check_yaml(block: Block, folder: Path) -> None:
    path = folder / (block.file or "block.yaml")
    path.write_text(block.body, encoding="utf-8")
    if "study" in block.kind.split():
        plan_runs(load_study(path))
    else:
        load_machine(path)


def main() -> None:
    """Rewrite pages, or check their programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="default: all")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true")
    what.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for page in options.pages or PAGES:
        with tempfile.TemporaryDirectory() as name:
            (folder := Path(name) / "page").mkdir()
            if options.check:
                print("".join(f"{page}: {found}\n" for found in sorted(findings(page, folder))), end="", flush=True)
                continue
            new = rerun(page, folder)
        if comparable(new) != comparable(page.read_text(encoding="utf-8")):
            page.write_text(new, encoding="utf-8")
            print(f"wrote {page}")


if __name__ == "__main__":
    main()
