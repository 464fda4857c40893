"""The table "which recovery for which program" of docs/guides/recovery-patterns.md: what is in it, and how it is made.

Pattern and data lost are said here. The time lost is measured: each program runs with its default arguments on 12
ranks, once as it is and once with the death of a rank at half of that time, under each of its schemes, as by `xsim
compare-recovery --whole`. Lines of code are counted in the program's sections ``recovery``, from the header comment of
that name to the next one. A program that is not there is left out.

python -m tests.recovery_table --write     measures all programs, a second or two each, and puts the table into the page
"""

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.cases import ROOT
from xsim_py.study.recovery.comparison import RecoveryComparison
from xsim_py.study.recovery.experiment import Experiment, compare_recovery
from xsim_py.units import PS_PER_S, format_time

APPS = ROOT / "apps"
PAGE = ROOT / "docs" / "guides" / "recovery-patterns.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->"
RANKS, VICTIM = 12, 7
SHARED = re.compile(r"(`apps/(recovery|tryblock)\.py`,\s(?:with\s)?)(\d+)")

_HEADER = re.compile(r" *# -{3,} (.+)")
_SECTION = "recovery"
_NOT_CODE = (
    *(tokenize.ENCODING, tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
)


class Row(NamedTuple):
    """A program of the table."""

    pattern: str
    lost: str
    """Which data a failure costs."""
    args: tuple[str, ...] = ()
    """Besides the default ones."""
    page: str = ""
    """Where it is described, if not on a page of its own."""


ROWS = {
    "bag_of_tasks": Row(
        "Notification only: a master reassigns the tasks of failed ranks, and repairs nothing.",
        "none; everything if the master fails",
    ),
    "falanx": Row(
        "A resource manager reassigns the tasks of failed workers and forms new workers from survivors; data are"
        " replicated.",
        "none, unless all copies of an item are lost; everything if the master fails",
    ),
    "propagate": Row(
        "Propagation only: a rank that detects a failure revokes the communicator, which wakes all other ranks; the"
        " survivors continue without the failed rank.",
        "none",
    ),
    "fampi": Row(
        "Each transaction ends with an agreement on all errors. After a failure, survivors and new ranks roll back"
        " (`backward`), or the survivors continue (`forward`).",
        "`backward`: none; `forward`: the failed rank's part, interpolated and then corrected by iterations",
    ),
    "ft_replace": Row(
        "Failed ranks are replaced, and all ranks roll back to checkpoints in their neighbours' memory.",
        "none, unless a rank and its right neighbour fail together",
        page="failures-and-ulfm.md",
    ),
    "simplemd": Row(
        "Survivors redistribute the work, and roll back to checkpoints on disk (`ulfm`) or in their neighbours'"
        " memory (`buddy`); or the job is restarted (`restart`).",
        "`ulfm`, `restart`: none; `buddy`: none, unless a rank and its right neighbour fail together",
        args=("{apps}/simplemd.in",),
        page="checkpoint-restart.md",
    ),
    "ft_mlmc": Row(
        "The survivors continue with the remaining samples; no sample is repeated.",
        "samples: the error grows",
    ),
    "wang_landau": Row(
        "The processes of an energy window replace a failed process of the window, and roll back to checkpoints;"
        " other windows continue.",
        "none, unless a process and the next process of its window fail together",
    ),
    "sparse_grid": Row(
        "Lost sparse grids are copied from replicas (`rc`), omitted by alternate combination (`ac`), or recomputed"
        " from a checkpoint on disk (`cr`).",
        "`rc`, `cr`: none; `ac`: accuracy",
    ),
    "lattice_boltzmann": Row(
        "Lost parts of a smooth flow are approximated by averages of their surroundings (`average`), or restored from"
        " copies (`buddy`).",
        "`average`: the flow in the lost rows; `buddy`: none, unless neighbours fail together",
    ),
    "schwarz": Row(
        "Asynchronous iteration: a new process starts from the initial solution, without rollback of the others"
        " (`substitute`); for comparison, all ranks start from the beginning (`restart`).",
        "`substitute`: the failed process's iterations; `restart`: all iterations",
    ),
    "repartition": Row(
        "Failed ranks get weight 0: the survivors repartition the work, without rollback. Lost values are replaced by"
        " the means of their neighbours (`neighbours`) or by their initial values (`initial`).",
        "the failed rank's values, recovered by further iterations",
    ),
    "ft_qr": Row(
        "Checksums of columns stay valid throughout a factorisation, and restore lost blocks (`checksum`); or"
        " neighbours keep copies (`buddy`).",
        "`checksum`: none, unless two ranks fail together; `buddy`: none, unless neighbours fail together",
    ),
    "ft_cg": Row(
        "An iterative solver interpolates the lost part of the solution and continues (`li`, `lossy`), rolls back"
        " (`rollback`), or starts from the beginning (`restart`).",
        "`li`, `lossy`: the last digits of the lost part; `rollback`: none, unless neighbours fail together;"
        " `restart`: all iterations",
    ),
    "resilient_pde": Row(
        "Clients solve samples of subdomains, and servers combine the remaining samples (`ignore`), or have lost"
        " samples repeated (`again`).",
        "`ignore`: samples; `again`: none; both: everything if a server fails",
    ),
}


# ------------------------------------------------------------------------------------------------------ lines of code


def counted(path: Path, section: str | None = _SECTION) -> int:
    """Return how many lines of a file hold code, in the sections of a name or altogether.

    Blank lines, comments and docstrings are none.
    """
    text = path.read_text()
    docs = set(_docstrings(ast.parse(text)))
    with path.open("rb") as file:
        code = {
            line
            for token in tokenize.tokenize(file.readline)
            if token.type not in _NOT_CODE
            for line in range(token.start[0], token.end[0] + 1)
        }
    inside, lines = section is None, 0
    for number, line in enumerate(text.splitlines(), 1):
        if section is not None and (header := _HEADER.fullmatch(line)):
            inside = header[1].strip() == section
        lines += inside and number in code - docs
    return lines


def _docstrings(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def with_section() -> list[str]:
    """Return the programs that have a section of recovery, by name."""
    texts = {path.stem: path.read_text() for path in sorted(APPS.glob("*.py"))}
    return [
        name
        for name, text in texts.items()
        if '__name__ == "__main__"' in text
        and any((header := _HEADER.fullmatch(line)) and header[1] == _SECTION for line in text.splitlines())
    ]


# ------------------------------------------------------------------------------------------------------------- times


def measured(name: str) -> RecoveryComparison:
    """Run a program without a failure and with one, under each of its schemes."""
    program = APPS / f"{name}.py"
    told = Experiment(program=str(program), args=[word.replace("{apps}", str(APPS)) for word in ROWS[name].args])
    experiment = Experiment(
        program=told.program,
        args=told.args,
        ranks=(RANKS,),
        failures=("none", f"{VICTIM}@half"),
        schemes=() if told.own_schemes else ("ulfm",),
        timeout_ps=PS_PER_S // 1000,
        whole=True,
    )
    return compare_recovery(experiment, jobs=2)


def times(name: str) -> tuple[str, str, str]:
    """Return cells of a row: the time without a failure, the time lost, and how much of that is new processes."""
    comparison = measured(name)
    without, lost, repair = [], [], []
    count = len(comparison.schemes)
    for before, after in zip(comparison.runs[:count], comparison.runs[count:], strict=True):
        assert before.case.scheme == after.case.scheme
        which = f"`{before.case.scheme}` " if count > 1 else ""
        if not (before.is_good and after.is_good and before.virtual_time_ps and after.lost_ps is not None):
            raise RuntimeError(f"{after.case}: {after.ended}, {after.said or after.data_lost}")
        share = after.lost_ps / before.virtual_time_ps
        spent_ps = after.phases.times_ps() if after.phases is not None else {}
        without.append(f"{which}{format_time(before.virtual_time_ps, digits=3)}")
        lost.append(f"{which}{format_time(after.lost_ps, digits=3)} ({float(f'{share:.2g}'):,g})")
        new_ps = spent_ps.get("repair", 0) + spent_ps.get("restart delay", 0)
        repair.append(f"{which}{format_time(new_ps, digits=3)}")
    return "<br>".join(without), "<br>".join(lost), "<br>".join(repair)


# --------------------------------------------------------------------------------------------------------- the table


def names() -> list[str]:
    """Return the programs of the table that are there, in its order."""
    return [name for name in ROWS if (APPS / f"{name}.py").is_file()]


def rows() -> dict[str, list[str]]:
    """Return the cells of the page's table, by program."""
    text = PAGE.read_text().split(BEGIN)[1].split(END)[0]
    cells = [[cell.strip() for cell in line.strip("|\n").split(" | ")] for line in text.splitlines()[2:]]
    return {re.sub(r"\W*(\w+)\.py.*", r"\1", row[0]): row for row in cells}


def table() -> str:
    """Measure, and return the table."""
    head = ("program", "pattern", "data lost", "time without failure", "time lost", "of which repair", "lines of code")
    lines = ["| " + " | ".join(head) + " |", "| --- | --- | --- | --- | --- | --- | ---: |"]
    for name in names():
        row = ROWS[name]
        page = row.page or f"../recovery/{name}.md"
        link = f"[{name}.py]({page})" if (PAGE.parent / page).is_file() else f"{name}.py"
        lines.append("| " + " | ".join((link, row.pattern, row.lost, *times(name), f"{lines_of(name)}")) + " |")
    return "\n".join(lines) + "\n"


def lines_of(name: str) -> int:
    """Return how many lines of code the recovery of a program takes."""
    return counted(APPS / f"{name}.py")


def with_shared_lines(page: str) -> str:
    """Return the page with how many lines the shared modules have."""
    return SHARED.sub(lambda found: f"{found[1]}{counted(APPS / f'{found[2]}.py', section=None)}", page)


if __name__ == "__main__":
    made = table()
    if sys.argv[1:] == ["--write"]:
        page = PAGE.read_text()
        PAGE.write_text(with_shared_lines(page.split(BEGIN)[0] + BEGIN + made + END + page.split(END)[1]))
    print(made, end="")
