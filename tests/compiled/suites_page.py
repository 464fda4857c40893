"""The page of the documentation with the outcomes of public test suites: docs/reference/compiled-suites.md."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "compiled-suites.md"
MARK = "<!-- the table is written by `python -m tests.compiled.suites --write` -->\n"

Outcomes = Mapping[str, Mapping[str, str]]


def table(outcomes: Outcomes) -> str:
    """Return a table of the directories, and a list of the tests that fail here but not with MPICH."""
    total, here, ran, real = (Counter[str]() for _ in range(4))
    for case, row in outcomes.items():
        directory = case.split()[0].rpartition("/")[0]
        if "not built" in row.values():
            continue
        total[directory] += 1
        here[directory] += row.get("xsim") == "passed"
        ran[directory] += "mpich" in row
        real[directory] += row.get("mpich") == "passed"
    lines = ["| directory | run by xsim | passed | run by MPICH | passed |", "| --- | ---: | ---: | ---: | ---: |"]
    lines += [f"| `{each}` | {total[each]} | {here[each]} | {ran[each]} | {real[each]} |" for each in sorted(total)]
    lines += [f"| all | {total.total()} | {here.total()} | {ran.total()} | {real.total()} |"]
    missed = [
        case
        for case, row in outcomes.items()
        if row.get("xsim", "not built") not in ("passed", "not built") and row.get("mpich", "passed") == "passed"
    ]
    return "\n".join([*lines, "", *(f"* `{case}`: {outcomes[case]['xsim']}" for case in missed)]) + "\n"


def write(outcomes: Outcomes) -> None:
    """Put the table below the text of the page."""
    text = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(f"{text}{MARK}\n{table(outcomes)}", encoding="utf-8")
