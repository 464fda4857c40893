"""The table of docs/reference/rank-state.md that says what is private to a rank: measured by a program.

Each rank changes a piece of state, waits for all, and looks whether it finds its own (see state.yaml).

python -m tests.process.state_table --write     puts what is measured now into the page
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml

from xsim_py import simulate

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "rank-state.md"
MARKS = ("<!-- the table is written by `python -m tests.process.state_table --write` -->\n", "<!-- end of table -->")
RANKS = 3
WAYS = {
    "greenlets": "`--isolation greenlets` (default)",
    "process": "`--isolation process`",
    "spawn": "`--isolation spawn`",
}
FILES = {
    "of_program.py": "value = None\n",
    "site-packages/common_package.py": "value = None\nentries = {}\n\nclass Config:\n    value = None\n",
    "site-packages/mpi_package.py": "from mpi4py import MPI\nvalue = None\n\nclass Config:\n    value = None\n",
}

State = list[dict[str, Any]]


def state() -> State:
    """Return the groups of rows."""
    groups: State = yaml.safe_load((HERE / "state.yaml").read_text(encoding="utf-8"))
    return groups


def rows(groups: State) -> list[dict[str, Any]]:
    """Return all rows, in order."""
    return [row for group in groups for row in group["rows"]]


def program(groups: State) -> str:
    """Return the program that goes through all rows and writes what it finds into its folder."""
    parts = [(HERE / "state_prelude.py").read_text(encoding="utf-8"), "answers = []\n"]
    for row in rows(groups):
        parts += [
            f"def change():\n{indent(row['change'], '    ')}\n",
            f"def is_own():\n    return {row['own']}\n",
            f"def undo():\n{indent(row.get('undo', 'pass'), '    ')}\n",
            "answers.append(found(change, is_own, undo))\n",
        ]
    parts.append("with open(f'{folder}/answers-{r}', 'w') as file:\n    json.dump(answers, file)\n")
    return "".join(parts)


def ways() -> list[str]:
    """Return the ways of isolation that there are."""
    return [way for way in WAYS if way == "greenlets" or "isolation" in inspect.signature(simulate).parameters]


def measured(way: str) -> list[str]:
    """Return what each row comes to in one way, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), PYTHONDONTWRITEBYTECODE="1")
        command = [sys.executable, "-m", "tests.process.state_table", "--in", folder, "--way", way]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        told = Path(folder, "told.json")
        assert told.exists(), done.stderr
        answers: list[str] = json.loads(told.read_text())
    return answers


def measure_here(folder: Path, way: str) -> None:
    """Simulate the program, and leave what its rows come to in the folder."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "prog.py").write_text(program(groups := state()))
    sys.path.append(str(folder / "site-packages"))
    isolation = {} if way == "greenlets" else {"isolation": way}
    with open(os.devnull, "w") as nowhere:
        result = simulate(
            folder / "prog.py", ranks=RANKS, args=[str(folder)], stdout=nowhere, wall_limit=60, **isolation
        )
    assert result.ended == "finished", result.report
    answers = [json.loads((folder / f"answers-{rank}").read_text()) for rank in range(RANKS)]
    told = [_told(row, list(each), result.warnings) for row, *each in zip(rows(groups), *answers, strict=True)]
    at_exit = [(folder / f"at-exit-{rank}").read_text() for rank in range(RANKS)]
    assert at_exit == [str(rank) for rank in range(RANKS)]
    (folder / "told.json").write_text(json.dumps(told))


def _told(row: dict[str, Any], answers: list[bool | str], warnings: list[str]) -> str:
    errors = [answer for answer in answers if isinstance(answer, str)]
    assert not errors, f"{row['name']}: {errors[0]}"
    if all(answers):
        return "private"
    is_warned = any(f": {row['warned']}," in warning for warning in warnings) if "warned" in row else False
    return "shared, warned" if is_warned else "shared"


def table(columns: dict[str, list[str]]) -> str:
    """Return the table for the page, with one column for each way."""
    lines = [f"| state | {' | '.join(WAYS[way] for way in columns)} |", f"| --- |{' --- |' * len(columns)}"]
    lines += [f"| {' | '.join(cells)} |" for cells in _cells(columns)]
    return "\n".join(lines) + "\n"


def _cells(columns: dict[str, list[str]]) -> Iterator[list[str]]:
    number = 0
    for group in state():
        yield [f"**{group['group']}**", *("" for _ in columns)]
        for row in group["rows"]:
            yield [row["name"], *(told[number] for told in columns.values())]
            number += 1


def split(page: str) -> tuple[str, str, str]:
    """Return a page up to the table, the table, and the rest."""
    before, _, rest = page.partition(MARKS[0])
    inside, _, after = rest.partition(MARKS[1])
    return before + MARKS[0], inside, MARKS[1] + after


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--way", default="greenlets", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder is not None:
        measure_here(arguments.folder, arguments.way)
        return
    found = table({way: measured(way) for way in ways()})
    if arguments.write:
        before, _, after = split(PAGE.read_text(encoding="utf-8"))
        PAGE.write_text(before + "\n" + found + "\n" + after, encoding="utf-8")
    else:
        print(found)


if __name__ == "__main__":
    main()
