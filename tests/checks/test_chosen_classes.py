"""Classes of findings are chosen by name, and left out at a line by a comment."""

import io
from pathlib import Path
from typing import Any

import pytest

from xsim_py import simulate
from xsim_py.errors import ConfigError
from xsim_py.findings import CATEGORIES, Checks, chosen

PROGRAM = """from mpi4py import MPI
comm = MPI.COMM_WORLD
comm.Dup()
comm.Split(0)  # xsim: ignore[ResourceLeak, MessageRace]
comm.Dup()  # xsim: ignore[MessageRace]
comm.isend(1, 1 - comm.rank)
comm.recv()
"""
LEAKS, LOST = [("ResourceLeak", 3), ("ResourceLeak", 5)], [("RequestLifecycle", 6)]


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (True, LEAKS + LOST),
        ("ResourceLeak", LEAKS),
        ("-ResourceLeak", LOST),
        (["RequestLifecycle", "MessageRace"], LOST),
        ("races,-ResourceLeak", LOST),
        ("EpochLifecycle", []),
    ],
)
def test_only_chosen_classes_are_found(tmp_path: Path, check: Any, expected: list[tuple[str, int]]) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    out: Any = io.StringIO()
    result: Any = simulate(tmp_path / "program.py", ranks=2, check=check, stdout=out, stderr=out)
    assert [(each.category, each.line) for each in result.findings] == expected
    assert result.exit_status == (5 if expected else 0)


def test_words_say_what_is_reported() -> None:
    assert chosen("races") == Checks(frozenset(CATEGORIES), races=True)
    assert chosen("MessageRace, ResourceLeak,-ResourceLeak") == Checks(frozenset(("MessageRace",)))


def test_an_unknown_class_is_bad_input() -> None:
    with pytest.raises(ConfigError, match="unknown class 'Leak'; the classes are CallOrdering"):
        simulate("pass", kind="code", ranks=1, check="-Leak")
