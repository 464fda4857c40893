"""Judges the checks by programs whose mistakes are known: what is found, what is missed, and what is a false alarm.

python -m tests.checks.suite [--class CLASS] [--jobs 2] [--list] [--write FOLDER] [NAME ...]
"""

import argparse
import contextlib
import io
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.checks.suite.programs import Program, all_programs
from xsim_py import simulate
from xsim_py.explore import inputs

WALL_LIMIT_S = 10
_MORE = ("class", "line", "others", "crash", "late")


class Verdict(NamedTuple):
    """What a checked run has made of a program."""

    program: Program
    found: tuple[tuple[str, str, int, str], ...]
    crash: str
    late: bool
    ended: str

    @property
    def right_class(self) -> bool:
        return any(category in self.program.classes for category, *_ in self.found)

    @property
    def right_line(self) -> bool:
        return any(
            category in self.program.classes and (Path(file).name, line) in self.program.lines
            for category, file, line, _ in self.found
        )

    @property
    def other_classes(self) -> bool:
        return bool(self.found) and any(category not in self.program.classes for category, *_ in self.found)

    @property
    def kind(self) -> str:
        if self.program.is_correct:
            return "FP" if self.found else "TN"
        return "TP" if self.found else "FN"

    @property
    def is_right(self) -> bool:
        if self.crash or self.late:
            return False
        if self.program.is_correct:
            return not self.found and self.ended == "finished"
        return self.right_class and self.right_line

    def told(self) -> str:
        """Return what is to be said of a wrong verdict."""
        expected = ""
        if not self.program.is_correct:
            lines = sorted(f"{file}:{line}" for file, line in self.program.lines)
            expected = f" expected {' or '.join(self.program.classes)} at {', '.join(lines)}"
        got = [f"    got {file}:{line}: {category}: {text}" for category, file, line, text in self.found]
        ended = self.crash or ("time-out" if self.late else self.ended)
        return "\n".join([f"{self.kind} {self.program.name} ({self.program.ranks} ranks, {ended}){expected}", *got])


def judge(program: Program) -> Verdict:
    """Run a program, checked, in a folder of its own."""
    before = os.getcwd()
    out = io.StringIO()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            path = program.write(Path(folder))
            if program.inputs or program.sizes:
                return _with_inputs(program, path.name)
            result = simulate(
                path.name,
                ranks=program.ranks,
                check=True,
                fail=list(program.fail),
                wall_limit=WALL_LIMIT_S,
                stdout=out,
                stderr=out,
            )
        except Exception as error:
            return Verdict(program, (), f"{type(error).__name__}: {error}", late=False, ended="crash")
        finally:
            os.chdir(before)
    found = tuple((each.category, each.file, each.line, each.text) for each in result.findings)
    late = time.monotonic() - began >= WALL_LIMIT_S
    return Verdict(program, found, "", late, result.ended)


def _with_inputs(program: Program, path: str) -> Verdict:
    values = {"n": program.inputs} if program.inputs else {}
    ranks = program.sizes or (program.ranks,)
    found = inputs(path, ranks=ranks, args=["{n}"] * len(values), values=values, jobs=0, folder=".")
    told = tuple((each.category, each.file, each.line, each.text) for each in found.findings)
    return Verdict(program, told, "", late=False, ended="finished")


def judged(programs: Iterable[Program], jobs: int = 1) -> list[Verdict]:
    """Run programs, each core its share in one process."""
    programs = list(programs)
    if jobs == 1:
        return [judge(program) for program in programs]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        return pool.map(judge, programs, chunksize=10)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def table(verdicts: list[Verdict]) -> str:
    """Return the figures of all verdicts, and of each class."""
    groups: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        groups[verdict.program.name.split("-")[0]].append(verdict)
        groups["all"].append(verdict)
    rows = [["", "TP", "FN", "FP", "TN", "recall", "specificity", "precision", "F1", *_MORE]]
    for group in [*sorted(groups.keys() - {"all"}), "all"]:
        of = groups[group]
        n = Counter(verdict.kind for verdict in of)
        tp, fn, fp, tn = n["TP"], n["FN"], n["FP"], n["TN"]
        rows.append(
            [
                group,
                *map(str, (tp, fn, fp, tn)),
                _share(tp, tp + fn),
                _share(tn, tn + fp),
                _share(tp, tp + fp),
                _share(2 * tp, 2 * tp + fp + fn),
                _share(sum(verdict.right_class for verdict in of), tp),
                _share(sum(verdict.right_line for verdict in of), tp),
                str(sum(verdict.other_classes for verdict in of if not verdict.program.is_correct)),
                str(sum(bool(verdict.crash) for verdict in of)),
                str(sum(verdict.late for verdict in of)),
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if not i else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def main() -> int:
    """Run the programs, and say how good the checks are; the status is 1 where a verdict is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.checks.suite", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="only programs whose names contain one of these")
    parser.add_argument("--class", dest="category", help="only programs of this class")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes share the work")
    parser.add_argument("--list", action="store_true", help="only print the names and the text of the programs")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the programs to folders in this one")
    arguments = parser.parse_args()
    names = arguments.names
    programs = [each for each in all_programs(arguments.category) if not names or any(n in each.name for n in names)]
    if arguments.list or arguments.write:
        for program in programs:
            if arguments.write:
                program.write(arguments.write / program.name)
            if arguments.list:
                _show(program)
        return 0
    began = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt):
        verdicts = judged(programs, arguments.jobs)
        wrong = [verdict for verdict in verdicts if not verdict.is_right]
        for verdict in wrong:
            print(verdict.told())
        print(table(verdicts))
        print(f"{len(verdicts)} programs, {len(wrong)} verdicts wrong, {time.monotonic() - began:.1f} s")
        return bool(wrong)
    return 130


def _show(program: Program) -> None:
    print(f"==== {program.name}: {program.ranks} ranks {' or '.join(program.classes)}")
    for file, text in program.files.items():
        print(f"-- {file}")
        for i, line in enumerate(text.splitlines(), 1):
            print(f"{'>' if (file, i) in program.lines else ' '} {i:3} {line}")


if __name__ == "__main__":
    sys.exit(main())
